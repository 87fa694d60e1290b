/*
 * ghost/ghost.h - the state of a ghost run
 *
 * One struct ghost is what PyTorch keeps for a process: grad mode, autocast, the autograd engine, and here also
 * the schedule being written. A run without a schedule is mute: shapes are worked out, nothing is recorded.
 *
 * Failure: a ghost function that cannot go on calls ghost_fail() and returns NULL. From then on the run is halted:
 * nothing is allocated or recorded, every function takes and returns NULL, and whoever drives the run looks at
 * @halt. So operators need no error paths. An early stop of checkpoint recomputation halts in the same way.
 */
#ifndef PLM_GHOST_GHOST_H
#define PLM_GHOST_GHOST_H

#include "base/error.h"
#include "base/names.h"
#include "base/pool.h"
#include "ghost/framework.h"
#include "ghost/library.h"
#include "opdef/opdef.h"
#include "schedule/schedule.h"

struct tensor;
struct node;
struct frame;
struct callback;

enum category {
    CATEGORY_PARAMETER,
    CATEGORY_BUFFER,
    CATEGORY_INPUT,
    CATEGORY_ACTIVATION,
    CATEGORY_GRADIENT,            /* of parameters: what .grad holds */
    CATEGORY_ACTIVATION_GRADIENT, /* every other result of the backward */
    CATEGORY_STATE,               /* of the optimizer */
    CATEGORY_TEMPORARY,           /* of a kernel or of the optimizer's step */
    CATEGORY_WORKSPACE,           /* of cuBLAS, cuBLASLt and cuDNN */
    CATEGORY_COMMUNICATION,
    CATEGORY_COUNT,
};

/* struct record - what an allocation of the schedule means; by the allocation's number */
struct record {
    plm_bytes bytes;
    name_id path; /* module path, "transformer.h.0.attn" */
    uint16_t op;  /* enum op_kind; OP_COUNT when no operator made it */
    uint8_t category;
    bool backward;
    bool unverified; /* a rule behind it has no reference yet */
};

enum workspace_mode { WORKSPACE_AUTO, WORKSPACE_NONE, WORKSPACE_BYTES };

/* struct surroundings - what a run finds around it: the device, the version, what libraries ask for */
struct surroundings {
    const struct framework *framework;
    int cc;             /* compute capability, 80 for 8.0 */
    int sm_count;       /* streaming multiprocessors */
    int threads_per_sm; /* resident threads of one */
    bool ghostgpu;      /* assume what the reference instrument does where a GPU differs */
    enum workspace_mode workspace_mode; /* of cuDNN */
    plm_bytes workspace_bytes;          /* with WORKSPACE_BYTES */
    struct library library;             /* with WORKSPACE_AUTO: who knows them */
};

enum halt { HALT_NO, HALT_STOP, HALT_FAILED };

struct autocast {
    enum dtype dtype; /* FLOAT16 or BFLOAT16 */
    bool enabled;   /* are we inside a context, and not inside an operator that has already cast */
    unsigned depth; /* of nested contexts; the cache is cleared when the outermost ends */
    struct tensor **cache; /* pairs: weight, its copy; both owned */
    size_t cache_count, cache_capacity;
};

enum { GHOST_BUFFERS = 4 };
enum { GHOST_THREADS = 2 }; /* the main thread and the autograd engine's */

struct ghost {
    struct arena *arena;
    struct pool pool;
    struct schedule *schedule; /* NULL: mute */
    struct surroundings around;
    struct names *names;

    /* what allocations mean, by number: records[0] is unused */
    struct record *records;
    size_t record_count, record_capacity;
    enum category category; /* of what is allocated now */
    enum op_kind op;        /* what runs now */
    name_id path;
    struct source at;

    enum dtype precision; /* of parameters: what `dtype: precision` means */
    bool training, grad_enabled, backward;
    bool needs_gradient_of_parameters; /* the run has a backward */
    unsigned thread;                   /* 0 forward, 1 backward */
    uint16_t stream;                   /* on which memory is allocated now; 0 is the default one */
    struct autocast autocast;
    struct frame *frame; /* the innermost checkpoint whose hooks are active */
    struct tensor *blas_workspace[GHOST_THREADS], *lt_workspace[GHOST_THREADS]; /* where cached */

    struct tensor
        *memory_buffer[GHOST_BUFFERS][DTYPE_COUNT]; /* lent again and again (ops/memory_buffer.h) */

    /* called after a leaf has accumulated a gradient (post-hook of AccumulateGrad); NULL: nobody listens */
    void (*accumulated)(void *context, struct tensor *leaf);
    void *accumulated_context;
    struct callback *callbacks; /* for the end of the backward that runs now, first queued first */

    /* what F.linear has been replaced by; NULL: it is PyTorch's */
    struct tensor *(*linear)(struct tensor *x, struct tensor *weight, struct tensor *bias);

    uint64_t sequence; /* of autograd nodes */
    uint32_t visit;    /* stamp of the engine's passes over the graph */
    uint32_t selects;  /* the stamp of the nodes that may run now; 0: all */
    struct node *dead; /* nodes to be torn down: a list, so that long chains need no stack */
    bool burying;

    uint64_t
        unknown_workspaces; /* calls whose workspace could not be known: the estimate is without it */
    plm_bytes
        operands_most; /* of the largest call whose workspace is unknown: bytes that it reads and writes */
    uint64_t op_count; /* operator calls, for benchmarks */
    enum halt halt;
    enum plm_status status;
    struct plm_error error;
};

/* ghost_init() - a run that has not begun; @schedule may be NULL */
void ghost_init(struct ghost *g,
                struct arena *arena,
                struct names *names,
                struct schedule *schedule,
                const struct surroundings *around);

/* ghost_reserve() - room in the schedule for the events of a run, before it begins; more may come */
void ghost_reserve(struct ghost *g, size_t events);

/* ghost_fail() - halt the run; the message is put behind the operator's name and place. Returns NULL */
struct tensor *ghost_fail(struct ghost *g, enum plm_status status, const char *format, ...)
    PLM_PRINTF(3, 4);

/* ghost_alloc() - append an allocation to the schedule, and its record; 0 when mute, halted or @bytes is 0 */
uint32_t ghost_alloc(struct ghost *g, plm_bytes bytes);

/* ghost_free() - append the release of what ghost_alloc() returned */
void ghost_free(struct ghost *g, uint32_t allocation);

/* ghost_scratch() - memory that a kernel takes and gives back at once */
void ghost_scratch(struct ghost *g, plm_bytes bytes);

/* ghost_unknown_workspace() - a call whose workspace only its library knows; @operands are the bytes that it reads and writes */
void ghost_unknown_workspace(struct ghost *g, plm_bytes operands);

/*
 * ghost_library_asked() - a call of a library, with the workspace that it takes; false, and nothing taken, when nobody knows that
 *
 * Without a schedule nobody is asked, which is no failure.
 */
bool ghost_library_asked(struct ghost *g, const struct library_call *call);

/*
 * ghost_library() - the same, where nobody knows of an unknown workspace
 *
 * @operands are the bytes that it reads and writes, for where the workspace is not known.
 */
void ghost_library(struct ghost *g, const struct library_call *call, plm_bytes operands);

/* ghost_workspace() - the same as ghost_scratch(), counted as a library's workspace */
void ghost_workspace(struct ghost *g, plm_bytes bytes);

#endif
