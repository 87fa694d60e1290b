/*
 * train/internal.h - what the files of src/train share: values, regions, the run
 */
#ifndef PLM_TRAIN_INTERNAL_H
#define PLM_TRAIN_INTERNAL_H

#include "ghost/autograd.h"
#include "ops/ops.h"
#include "train/train.h"

/* ------------------------------------------------------------------ values */

enum value_kind { VALUE_NONE, VALUE_TENSOR, VALUE_LIST, VALUE_RECORD };

/* struct value - what a name holds; whoever holds one owns a reference to what it points to */
struct value {
    enum value_kind kind;
    union {
        struct tensor *tensor;
        struct object *object; /* LIST, RECORD: shared by every name that was given it */
    } as;
};

struct object {
    uint32_t refs, count, capacity;
    struct value *items;  /* [capacity], from the run's pool */
    const name_id *names; /* [count], the fields of a record; the graph's */
};

/* value_ref() - one more owner; value_drop() one less: what a list holds goes from the last to the first */
struct value value_ref(struct value v);
void value_drop(struct ghost *g, struct value v);

/* value_set() - bind a slot: takes @v over, drops what the slot held */
void value_set(struct ghost *g, struct value *slot, struct value v);

/* value_tensor() - @tensor, which is taken over, as a value */
struct value value_tensor(struct tensor *tensor);

/* value_list() - a list of tensors, which are taken over */
struct value value_list(struct ghost *g, struct tensor **tensors, uint32_t count);

/*
 * value_operator - one of the operators that work on values and not on tensors (list, append, …)
 *
 * @in is borrowed, [step->in_count]; the result is owned.
 */
typedef struct value value_operator(struct ghost *g,
                                    const struct graph_step *step,
                                    const struct value *in);

/* value_operators - by enum op_kind; NULL for the others */
extern value_operator *const value_operators[OP_COUNT];

/* value_field() - the name of the field that a step of OP_FIELD reads */
name_id value_field(const struct graph_step *step);

/* ------------------------------------------------------------------ checkpoint regions */

/*
 * struct region - consecutive steps of one body that are checkpointed together
 *
 * It runs in a frame of its own, like a function that was handed the slots in @in and returns those in @out.
 */
struct region {
    const struct graph_step *steps;
    uint32_t step_count, slot_count; /* slots of the frame around it */
    uint32_t in_count, out_count;
    const uint32_t *in;  /* [in_count] slots that it reads and that were bound before it */
    const bool *keyword; /* [in_count]: given by keyword alone */
    const uint32_t *out; /* [out_count] slots that it binds */
};

/* ------------------------------------------------------------------ the run */

struct run;
struct wrapper;
struct pipeline;
struct module;
struct micro_batch;

/* struct list - a Python list of tensors */
struct list {
    struct tensor **items; /* [capacity] */
    size_t count, capacity;
};

/* struct tie - a module that has another's parameter */
struct tie {
    name_id module, param;
};

/* struct owner - gives the operator that runs now its parameters */
struct owner {
    struct op_owner base; /* first, so that a struct op_owner * is one of these */
    struct run *run;
    const struct graph_step *step;
};

enum { OWNED_MOST = 5 }; /* parameters of one operator: batch norm */

/* struct leaf - what the run knows of a parameter beside struct param */
struct leaf {
    struct param *param;
    name_id module; /* "transformer.wte" */
    size_t rank;    /* in the order of Module._apply(): children before their parents' own */
    /* the optimizer's, as long as the run */
    struct tensor *step;     /* where it is kept on the device */
    struct tensor *state[4]; /* in the order in which they are made */
};

struct scaler {
    struct tensor *scale, *growth_tracker, *found_inf;
};

/* struct step_extent - the event and the last allocation before a step, or a micro-batch */
struct step_extent {
    size_t event;
    uint32_t allocation;
};

struct run {
    struct ghost ghost; /* first: a ghost's run is found from it */
    const struct graph *graph;
    const struct plm_strategy *strategy;
    struct arena *arena;

    /* parameters and buffers, in order of registration */
    struct param *params;
    struct leaf *leaves; /* [param_count] */
    size_t param_count, param_capacity, loaded_count;
    uint32_t (*owned)[OWNED_MOST]; /* [node_count]: which parameter is the node's i-th, from 1 */
    struct value *held_by_modules; /* [node_count]: what each `keep` kept last */
    uint32_t *by_name; /* [by_name_count]: parameter of a name, from 1; while they are found */
    size_t by_name_count;
    struct module *modules; /* modules.h: the model itself */
    struct tie *ties;       /* [tie_count], in the order of the forward */
    size_t tie_count, tie_capacity;
    struct list twins;     /* of tied parameters, while a model is made anew */
    struct leaf **trained; /* [trained_count] parameters that want a gradient */
    size_t trained_count;
    struct leaf *
        *updated; /* [updated_count] what the optimizer of this rank updates; NULL: all trained */
    size_t updated_count;
    size_t
        group_end; /* where the optimizer's second group begins among the trained; 0: one group */

    /* context parallelism; context is NULL where there is none */
    struct context_ring ring;
    struct context *context;

    /* executor */
    struct owner owner;
    const struct graph_step *model_call; /* first call in main: its return is the forward's */
    struct tensor **inputs, **outputs;   /* of the operator that runs now */
    size_t input_capacity, output_capacity;
    const struct region *
        *regions; /* [place_count + 1]: the region that a place begins; NULL: none */

    /* parallelism: hooks around the loop (wrapper.h); NULL when there is none */
    const struct wrapper *wrapper;
    void *wrapper_state;
    /* gradients are shards: dimensions of the mesh over which their norms are reduced */
    unsigned partial_norms;

    struct pipeline
        *pipeline;  /* pipeline.h: this rank's stages take the place of main; NULL: none */
    uint32_t stage; /* of them, the one that runs now; 0 without a pipeline */

    /* loop */
    struct step_extent last_step; /* where its events and allocations begin; event 0: no step yet */
    bool repeated;                /* is the last step a copy of the one before? */
    const struct micro_batch
        *first_micro; /* the first of all, for the first of later steps; NULL: they are run */
    int32_t step;
    int64_t batch_multiple;         /* micro-batches that are moved to the device at once; 0 is 1 */
    uint32_t micro;                 /* micro-batch of the step that runs now */
    unsigned (*period)(void *user); /* see train_watch(); NULL: every micro-batch is run */
    void *period_user;
    struct value *batch; /* [input_count] */
    bool hands_over;     /* no name of the script's keeps the batch while main runs */
    struct value
        *kept; /* [kept_count] of main's outputs, until the next forward returns or the step ends */
    size_t kept_count;
    struct scaler scaler;
    struct tensor *tables[2]; /* of 8-bit states: qmap1 and qmap2 */
    struct held *held;        /* values that a reentrant checkpoint keeps for its backward */

    const char **warnings;
    size_t warning_count, warning_capacity;
};

/* run_warn() - add a warning */
void run_warn(struct run *run, const char *format, ...) PLM_PRINTF(2, 3);

/* run_mark() - a phase named @name has just ended */
void run_mark(struct run *run, const char *name, uint32_t micro);

/* ------------------------------------------------------------------ loop.c */

/* forget_outputs() - those that --keep-outputs and --keep-outputs-in-step hold */
void forget_outputs(struct run *run);

/* batch_make() - move a batch to the device, in place of the last; batch_drop() lets go of it */
void batch_make(struct run *run);
void batch_drop(struct run *run);

/* loop_autocast_dtype() - of `torch.autocast`; DTYPE_COUNT without one */
enum dtype loop_autocast_dtype(const struct run *run);

/* loop_forward() - the model and the loss, under autocast when the strategy says so; ret[main->out_count], owned */
void loop_forward(struct run *run, struct value *ret);

/* step_run() - one step of the training script */
void step_run(struct run *run);

/* ------------------------------------------------------------------ repeat.c */

/* step_repeat() - append the last step once more when it must be the same; false when it has to be run */
bool step_repeat(struct run *run);

/* micro_batch_remember() - the first micro-batch of the first step, which began at @start, has just ended */
void micro_batch_remember(struct run *run, struct step_extent start);
/* micro_batch_repeat() - append it once more as the first of another step; false when that one has to be run */
bool micro_batch_repeat(struct run *run);

/* ------------------------------------------------------------------ execute.c */

/* execute_main() - the forward with the loss: main, given run->batch; ret[main->out_count], owned */
void execute_main(struct run *run, struct value *ret);

/* execute_steps() - @count steps in @frame */
void execute_steps(struct run *run,
                   const struct graph_step *steps,
                   size_t count,
                   struct value *frame);

/* execute_call() - a step that calls a module, given and giving its values in @frame */
void execute_call(struct run *run, const struct graph_step *step, struct value *frame);

/* execute_region() - a region's steps in @frame, without asking whether they are to be checkpointed */
void execute_region(struct run *run, const struct region *region, struct value *frame);

/* ------------------------------------------------------------------ pipeline.c */

/* pipeline_create() - cut the model when the strategy asks for stages; run->pipeline stays NULL otherwise */
PLM_MUST_CHECK enum plm_status pipeline_create(struct run *run, struct plm_error *reterr);
/* pipeline_load() - after the model is loaded */
void pipeline_load(struct run *run);
/* pipeline_step() - the batch, and forward and backward of all its micro-batches */
void pipeline_step(struct run *run);
/* pipeline_about() - what this rank has, for people; NULL without a pipeline */
const char *pipeline_about(const struct run *run);

/* ------------------------------------------------------------------ context_parallel.c */

/* context_create() - this rank's place in the ring; checks that the model can share out its sequence */
PLM_MUST_CHECK enum plm_status context_create(struct run *run, struct plm_error *reterr);
/* context_shard() - the operator context_parallel: enter the context with these buffers */
value_operator context_shard;
/* context_batch() - under Megatron: what has come is cut to this rank's part of the sequence */
void context_batch(struct run *run);
/* context_exit() - the context is left; context_forget() its buffers' names are bound again, or die */
void context_exit(struct run *run);
void context_forget(struct run *run);

/* ------------------------------------------------------------------ regions.c, checkpoint.c */

/* struct slot_use - what steps do with one slot of the frame around them: read first, bind, drop in the end */
struct slot_use {
    bool in, bound, dropped;
};

/* slots_used() - add what @count steps do; @use is by slot */
void slots_used(struct slot_use *use, const struct graph_step *steps, size_t count);

/* regions_build() - cut the graph as the strategy says; NULL entries where nothing is checkpointed */
PLM_MUST_CHECK enum plm_status regions_build(struct run *run, struct plm_error *reterr);

/* region_run() - run a region as a checkpoint; its results are bound in @frame */
void region_run(struct run *run, const struct region *region, struct value *frame);

/* region_release() - what reentrant checkpoints still hold, when a step has ended */
void region_release(struct run *run);

/* ------------------------------------------------------------------ params.c, load.c */

/* params_find() - register every parameter by a mute forward */
PLM_MUST_CHECK enum plm_status params_find(struct run *run, struct plm_error *reterr);

/* params_borrow() - memory-less parameters for another mute forward; params_return() - as if it had not been; @schedule goes back */
void params_borrow(struct run *run);
void params_return(struct run *run, struct schedule *schedule);

/* param_shard() - memory for what this rank of tensor or expert parallelism has of a parameter */
struct tensor *param_shard(struct run *run, const struct param *param, enum dtype dtype);

/* params_load() - Module.to(device), to(channels_last), requires_grad_(False); or the model stays where it is until it is split */
PLM_MUST_CHECK enum plm_status params_load(struct run *run, struct plm_error *reterr);

/* params_off_device() - what is made from here on takes no memory of the device, until params_on_device() gets the answer */
struct schedule *params_off_device(struct run *run);
void params_on_device(struct run *run, struct schedule *schedule);

/* params_move() - param.data = param.to(device), unless it is there; params_place() the same, or to_empty(), of all */
void params_move(struct run *run, size_t param);
void params_place(struct run *run);

/* params_set_place() - the parameter's category and module are what is allocated for from here on */
void params_set_place(struct run *run, size_t param);

/* params_dtype() - the type of parameters under the strategy's precision; params_cast_dtype() of inputs, or DTYPE_COUNT */
enum dtype params_dtype(const struct run *run);
enum dtype params_cast_dtype(const struct run *run);

/* channels_last_copy() - x.to(memory_format=channels_last): owned; @x itself when it has that layout already */
struct tensor *channels_last_copy(struct ghost *g, struct tensor *x);

/* ------------------------------------------------------------------ the optimizer's side of a step */

/* list_push() - append @x, which is taken over; list_drop() lets go from the last to the first */
void list_push(struct run *run, struct list *list, struct tensor *x);
void list_drop(struct run *run, struct list *list);

/* optimizer_create() - torch.optim.X(params); optimizer_step() opt.step() */
void optimizer_create(struct run *run);
void optimizer_step(struct run *run);
/* optimizer_zero_grad() - opt.zero_grad(set_to_none=…) */
void optimizer_zero_grad(struct run *run);
/* optimizer_exists() - false for none and in evaluation */
bool optimizer_exists(const struct run *run);
/* optimizer_takes_scale() - does its step() unscale by itself (_step_supports_amp_scaling)? */
bool optimizer_takes_scale(const struct run *run);

/* clip_gradients() - torch.nn.utils.clip_grad_norm_ */
void clip_gradients(struct run *run);

/* scaler_scale() - scaler.scale(loss), owned; scaler_unscale() unscale_(opt); scaler_step() step(opt) and update() */
struct tensor *scaler_scale(struct run *run, struct tensor *loss);
void scaler_unscale(struct run *run);
void scaler_step(struct run *run);

#endif
