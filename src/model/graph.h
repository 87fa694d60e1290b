/*
 * model/graph.h - a model with all its numbers filled in: what the ghost run executes
 *
 * A graph is a model under given dims, options and batch: every expression is a number, every repeat is
 * spelled out, every condition that does not change while it runs has been decided. Names have become slots:
 * a body (a block that was called) has a frame of slots, and a step reads and writes them.
 */
#ifndef PLM_MODEL_GRAPH_H
#define PLM_MODEL_GRAPH_H

#include "base/error.h"
#include "base/names.h"
#include "opdef/opdef.h"

enum step_kind {
    STEP_OP,
    STEP_CALL,   /* call: a module, whose arguments stay alive until it returns */
    STEP_INLINE, /* inline: a function, whose arguments live only as long as a name holds them */
    STEP_SCOPE,  /* nodes under no_grad or without autocast, in the frame of the enclosing body */
    STEP_DROP,   /* only the @drop list: `{del: [a, b]}` */
};

enum step_scope { SCOPE_NO_GRAD, SCOPE_ENABLE_GRAD, SCOPE_AUTOCAST_OFF, SCOPE_COUNT };
extern const char *const scope_names[SCOPE_COUNT]; /* "no_grad" */

enum { GRAPH_NO_SLOT = UINT32_MAX };

/* When a step runs, by whether gradients are recorded at that moment; a bit mask. */
enum { STEP_WHEN_NO_GRAD = 1, STEP_WHEN_GRAD = 2 };

struct graph_step {
    enum step_kind kind;
    enum op_kind op;       /* STEP_OP */
    enum step_scope scope; /* STEP_SCOPE */
    unsigned when;         /* mask of STEP_WHEN_*; a step that never runs is not in the graph */
    uint32_t in_count, out_count, drop_count, attr_count;
    const uint32_t *in;        /* [in_count] slots; GRAPH_NO_SLOT for `none` */
    uint32_t positional_count; /* STEP_CALL: of in_count; the others are keyword arguments */
    /* [out_count] slots, bound after the step ran; the old values are dropped then. A result for
       GRAPH_NO_SLOT, and every result when the count is 0, is dropped at once. */
    const uint32_t *out;
    const uint32_t *drop;     /* [drop_count] slots, dropped last */
    const struct attr *attrs; /* [attr_count] */
    const name_id *in_names;  /* STEP_OP record: [in_count] the fields' names; otherwise NULL */
    const struct graph_body *body; /* STEP_CALL, STEP_INLINE, STEP_SCOPE */
    name_id path;    /* full module path, "transformer.h.0.attn"; parameters append ".weight" */
    name_id tie;     /* full name of a parameter to use instead of an own weight; 0 is none */
    bool shared;     /* may use the same path as an earlier step, and then its parameters */
    uint32_t node;   /* STEP_OP: counts the graph's operator steps from 0 */
    uint32_t place;  /* STEP_CALL with `checkpoint: true`: counts these from 1; 0 is none */
    bool wrap;       /* STEP_CALL: a unit that FSDP shards as a group */
    uint32_t repeat; /* steps of one `repeat:` share this number, from 1; 0 is none */
    uint32_t repeat_index, repeat_count;
    enum shard shard; /* STEP_OP: `tensor_parallel:` */
    bool experts;     /* STEP_OP: `expert_parallel:` */
    struct source at;
};

struct graph_body {
    name_id name; /* of the block; of the enclosing one for a scope */
    uint32_t
        slot_count; /* the first in_count are the arguments; a scope has 0 and uses the enclosing frame */
    uint32_t in_count, out_count;
    /* [out_count] slots that are returned, GRAPH_NO_SLOT for none; every other is dropped at the end */
    const uint32_t *out;
    const name_id *slot_names; /* [slot_count], for dumps and messages */
    size_t step_count;
    const struct graph_step *steps; /* [step_count] */
};

/* struct graph_input - a tensor of the batch: moved to the device before the forward */
struct graph_input {
    name_id name;
    enum dtype
        dtype; /* floating-point inputs follow --precision bf16 and fp16, as the reference loop does */
    uint32_t dim_count;
    const int64_t *sizes; /* [dim_count] */
};

struct graph {
    const char *model_name;
    const struct names *names;
    const struct graph_body *main; /* its arguments are the inputs, in order; out[0] is the loss */
    size_t input_count;
    const struct graph_input *inputs;
    uint32_t node_count;       /* operator steps */
    uint32_t place_count;      /* places where activation checkpointing may cut */
    bool recomputes_attention; /* places are said of Megatron's selective recomputation too */
    size_t order_count;
    /* [order_count] parameter names or prefixes of names (at a dot) that are registered first */
    const name_id *order;
    int64_t batch, seq;
    bool reads_seq; /* is seq in an expression of the model? */
    int64_t
        hidden_size; /* config.hidden_size of transformers; 0: the model has no such configuration */
};

#endif
