/*
 * train/deepspeed.c - DeepSpeed's engine: its configuration, the loss, the backward, the step
 *
 * Mirrors DeepSpeedEngine.backward() and step() of deepspeed/runtime/engine.py (0.19.8), called as
 *
 *     loss = engine(batch); engine.backward(loss); engine.step()
 *
 * in every micro-batch. The engine divides the loss by the number of micro-batches, also by 1, and then scales it, also by 1.
 */
#include "train/deepspeed.h"
#include "ghost/kernels.h"
#include "train/mesh.h"
#include "train/zero3.h"

/* Defaults of deepspeed/runtime/zero/config.py */
enum {
    REDUCE_BUCKET_SIZE = 500000000,
    PREFETCH_BUCKET_SIZE = 50000000,
    PARAM_PERSISTENCE_THRESHOLD = 100000,
    MAX_LIVE_PARAMETERS = 1000000000,
    MAX_REUSE_DISTANCE = 1000000000,
    SUB_GROUP_SIZE = 1000000000,
};

/* each rank pads each small parameter with a tensor of its own (stage 3) */
enum { RANKS_MOST = 4096 };

/* elements; more than any GPU holds */
#define SIZE_MOST 0x1p48

static struct deepspeed *deepspeed_of(struct run *run)
{
    return run->wrapper_state;
}

/* ------------------------------------------------------------------ the configuration */

static int64_t size_or(int64_t given, int64_t otherwise)
{
    return given == 0 ? otherwise : given < 0 ? 0 : given;
}

/* trainer_size() - @parts of a hidden size, to the power of @power, where the Trainer works a size out */
static void trainer_size(int64_t *size, double parts, int64_t hidden, unsigned power)
{
    double value = parts;

    if (*size != PLM_DEEPSPEED_AUTO)
        return;
    for (unsigned i = 0; i < power; i++)
        value *= (double)hidden;
    *size = value < SIZE_MOST ? (int64_t)value : (int64_t)SIZE_MOST;
}

/* fill_in() - trainer_config_finalize() of transformers/integrations/deepspeed.py (5.24) */
static struct plm_deepspeed fill_in(struct plm_deepspeed d, int64_t hidden)
{
    trainer_size(&d.reduce_bucket_size, 1, hidden, 2);
    trainer_size(&d.prefetch_bucket_size, 0.9, hidden, 2);
    trainer_size(&d.param_persistence_threshold, 10, hidden, 1);
    return d;
}

static bool asks_trainer(const struct plm_deepspeed *d)
{
    return d->reduce_bucket_size == PLM_DEEPSPEED_AUTO ||
           d->prefetch_bucket_size == PLM_DEEPSPEED_AUTO ||
           d->param_persistence_threshold == PLM_DEEPSPEED_AUTO;
}

static bool switch_or(enum plm_switch given, bool otherwise)
{
    switch (given) {
    case PLM_SWITCH_TRUE:
        return true;
    case PLM_SWITCH_FALSE:
        return false;
    case PLM_SWITCH_DEFAULT:
        break;
    }
    return otherwise;
}

static enum dtype communication_dtype(enum plm_reduced given, enum dtype otherwise)
{
    switch (given) {
    case PLM_REDUCED_FP32:
        return DTYPE_FLOAT32;
    case PLM_REDUCED_BF16:
        return DTYPE_BFLOAT16;
    case PLM_REDUCED_FP16:
        return DTYPE_FLOAT16;
    case PLM_REDUCED_DEFAULT:
        break;
    }
    return otherwise;
}

static struct deepspeed_settings settings_of(const struct run *run)
{
    const struct plm_parallel *p = &run->strategy->parallel;
    const struct plm_deepspeed filled = fill_in(p->deepspeed, run->graph->hidden_size),
                               *d = &filled;
    enum plm_precision precision = run->strategy->precision;
    bool clips = !d->no_clipping;

    return (struct deepspeed_settings){
        .stage = p->zero,
        .reduce_bucket_size = size_or(d->reduce_bucket_size, REDUCE_BUCKET_SIZE),
        .prefetch_bucket_size = size_or(d->prefetch_bucket_size, PREFETCH_BUCKET_SIZE),
        .param_persistence_threshold =
            size_or(d->param_persistence_threshold, PARAM_PERSISTENCE_THRESHOLD),
        .model_persistence_threshold = size_or(d->model_persistence_threshold, INT64_MAX),
        .max_live_parameters = size_or(d->max_live_parameters, MAX_LIVE_PARAMETERS),
        .max_reuse_distance = size_or(d->max_reuse_distance, MAX_REUSE_DISTANCE),
        .sub_group_size = size_or(d->sub_group_size, SUB_GROUP_SIZE),
        .overlap_comm = switch_or(d->overlap_comm, p->zero == 3),
        .contiguous_gradients =
            switch_or(d->contiguous_gradients, true) || d->offload != PLM_OFFLOAD_NONE,
        .reduce_scatter = switch_or(d->reduce_scatter, true),
        .multi_rank_allreduce = switch_or(d->multi_rank_allreduce, true),
        .round_robin = d->round_robin_gradients,
        .checks_overflow =
            precision == PLM_PRECISION_FP16 ||
            (precision == PLM_PRECISION_BF16 && switch_or(d->check_grad_overflow, true)),
        .clips = clips,
        .offload_optimizer = d->offload != PLM_OFFLOAD_NONE,
        .offload_params = d->offload == PLM_OFFLOAD_ALL,
        .communication_dtype = communication_dtype(d->communication_dtype, params_dtype(run)),
    };
}

/* check_settings() - what DeepSpeed itself refuses, or what makes no sense */
static enum plm_status check_settings(const struct deepspeed_settings *s, struct plm_error *reterr)
{
    if (s->stage > 3)
        return plm_fail(reterr, PLM_E_USAGE, "zero: the stage is 1, 2 or 3");
    if (s->reduce_bucket_size < 1)
        return plm_fail(reterr, PLM_E_USAGE, "reduce_bucket_size: above 0");
    if (s->offload_params && s->stage < 3)
        return plm_fail(reterr, PLM_E_USAGE,
                        "zero-offload: parameters stay on the device before stage 3");
    if (s->stage < 3 && s->overlap_comm && !s->contiguous_gradients)
        return plm_fail(reterr, PLM_E_USAGE,
                        "overlap_comm without contiguous_gradients: DeepSpeed 0.19.8 keeps one "
                        "buffer more with every backward");
    return PLM_OK;
}

static enum plm_status check_strategy(const struct plm_strategy *s, struct plm_error *reterr)
{
    const struct plm_parallel *p = &s->parallel;

    if (p->gpus < 1)
        return plm_fail(reterr, PLM_E_USAGE, "zero: needs --gpus N, the number of ranks");
    if (p->gpus > RANKS_MOST)
        return plm_fail(reterr, PLM_E_USAGE, "zero: at most %d ranks", RANKS_MOST);
    if (p->pp > 1)
        return plm_fail(reterr, PLM_E_USAGE,
                        "zero: the pipeline of --pp is PyTorch's, which DeepSpeed cannot wrap");
    if (p->cp > 1)
        return plm_fail(reterr, PLM_E_USAGE,
                        "zero: --cp is PyTorch's; DeepSpeed divides sequences in a way of its own");
    if (s->eval)
        return plm_fail(reterr, PLM_E_USAGE, "zero: DeepSpeed's engine trains; leave out --eval");
    if (s->precision == PLM_PRECISION_AMP_BF16 || s->precision == PLM_PRECISION_AMP_FP16)
        return plm_fail(reterr, PLM_E_USAGE,
                        "zero: DeepSpeed casts the parameters itself; give --precision bf16, fp16 "
                        "or fp32");
    if (s->optimizer == PLM_OPTIMIZER_NONE)
        return plm_fail(reterr, PLM_E_USAGE, "zero: there is no optimizer to share");
    if (s->optimizer == PLM_OPTIMIZER_ADAFACTOR)
        return plm_fail(reterr, PLM_E_USAGE,
                        "zero: adafactor needs the parameters' shapes, and gets flat ones");
    if (s->optimizer == PLM_OPTIMIZER_ADAGRAD)
        return plm_fail(reterr, PLM_E_USAGE,
                        "zero: adagrad is made twice by DeepSpeed, which keeps the first one's "
                        "states; that is not modelled");
    if (s->channels_last)
        return plm_fail(reterr, PLM_E_USAGE,
                        "zero: DeepSpeed flattens parameters, which loses --channels-last");
    if (s->zero_grad != PLM_ZERO_GRAD_SET_TO_NONE || s->zero_grad_at != PLM_ZERO_GRAD_AT_END)
        return plm_fail(
            reterr, PLM_E_USAGE,
            "zero: engine.step() lets go of gradients itself; --zero-grad has no place");
    return PLM_OK;
}

static enum plm_status check_hidden_size(const struct run *run, struct plm_error *reterr)
{
    if (!asks_trainer(&run->strategy->parallel.deepspeed) || run->graph->hidden_size > 0)
        return PLM_OK;
    return plm_fail(
        reterr, PLM_E_USAGE,
        "zero: \"auto\" sizes are worked out from transformers' hidden_size, and model '%s' "
        "has none; write numbers in their place",
        run->graph->model_name);
}

static enum plm_status create(struct run *run, struct plm_error *reterr)
{
    const struct plm_parallel *p = &run->strategy->parallel;
    struct deepspeed *ds = arena_new(run->arena, struct deepspeed);
    enum plm_status status = check_strategy(run->strategy, reterr);

    if (!status)
        status = check_hidden_size(run, reterr);
    if (status)
        return status;
    *ds = (struct deepspeed){
        .run = run,
        .settings = settings_of(run),
        .world = mesh_sizes(p).data,
        .rank = mesh_place(p, p->rank).data,
        .dtype = params_dtype(run),
        .norm_dtype = p->zero == 3 ? DTYPE_FLOAT64 : DTYPE_FLOAT32,
    };
    run->wrapper_state = ds;
    if (p->zero == 3)
        zero3_create(ds);
    return check_settings(&ds->settings, reterr);
}

/* ------------------------------------------------------------------ the loop */

/* is_boundary() - is_gradient_accumulation_boundary() */
static bool is_boundary(const struct run *run)
{
    return (int64_t)run->micro + 1 >= run->strategy->accumulate;
}

static void gradient_ready(void *context, struct tensor *leaf)
{
    struct run *run = context;

    struct deepspeed *ds = deepspeed_of(run);

    if (ds->zero3)
        zero3_ready(ds, leaf, is_boundary(run));
    else
        deepspeed_flat_ready(ds, leaf, is_boundary(run));
}

static void wrap(struct run *run)
{
    if (run->trained_count == 0) {
        ghost_fail(&run->ghost, PLM_E_USAGE, "zero: no parameter requires a gradient");
        return;
    }
    if (deepspeed_of(run)->zero3)
        zero3_wrap(deepspeed_of(run));
    else
        deepspeed_flatten(deepspeed_of(run));
    run->ghost.accumulated = gradient_ready;
    run->ghost.accumulated_context = run;
}

/* by_number() - @op of a tensor and a number */
static struct tensor *by_number(struct run *run, enum op_kind op, struct tensor *x, double number)
{
    const struct attr attrs[] = {
        { .key = KEY_VALUE, .type = ATTR_REAL, .value.real = number },
        { .key = KEY_INPLACE, .type = ATTR_BOOL },
    };

    return op_apply(&run->ghost, op, &x, 1, attrs, 2);
}

static void backward(struct run *run, struct tensor *loss)
{
    int64_t micro_count = run->strategy->accumulate;
    TENSOR_AUTO *mean = by_number(run, OP_DIV, loss, micro_count > 0 ? (double)micro_count : 1);
    TENSOR_AUTO *scaled = by_number(run, OP_MUL, mean, 1);

    autograd_backward(&run->ghost, scaled, NULL);
    if (deepspeed_of(run)->zero3)
        zero3_reduced(deepspeed_of(run), is_boundary(run));
    else
        deepspeed_flat_reduced(deepspeed_of(run), is_boundary(run));
}

static void optimize(struct run *run)
{
    struct deepspeed *ds = deepspeed_of(run);

    if (ds->zero3)
        zero3_step(ds);
    else
        deepspeed_flat_step(ds);
    tensor_drop(ds->reported_norm);
    ds->reported_norm = ds->global_norm;
    ds->global_norm = NULL;
    run->ghost.category = CATEGORY_ACTIVATION;
}

/* Hooks of stage 3 around modules; earlier stages have none. */

static void before_forward(struct run *run, struct wrapped_call *call)
{
    if (deepspeed_of(run)->zero3)
        zero3_before_forward(run, call);
}

static void after_forward(struct run *run, struct wrapped_call *call)
{
    if (deepspeed_of(run)->zero3)
        zero3_after_forward(run, call);
}

static void before_operator(struct run *run,
                            const struct graph_step *step,
                            struct tensor **inputs,
                            uint32_t count)
{
    if (deepspeed_of(run)->zero3)
        zero3_before_operator(run, step, inputs, count);
}

static void after_operator(struct run *run, const struct graph_step *step, struct tensor **outputs)
{
    if (deepspeed_of(run)->zero3)
        zero3_after_operator(run, step, outputs);
}

static void load_parameter(struct run *run, size_t param)
{
    struct param *p = &run->params[param];

    if (deepspeed_of(run)->zero3)
        zero3_load_parameter(run, param);
    else
        p->tensor = tensor_new(&run->ghost, p->dtype, p->dims, p->sizes);
}

const struct wrapper wrapper_deepspeed = {
    .mark = "deepspeed_init",
    .every_module = true,
    .create = create,
    .wrap = wrap,
    .load_parameter = load_parameter,
    .before_forward = before_forward,
    .after_forward = after_forward,
    .before_operator = before_operator,
    .after_operator = after_operator,
    .backward = backward,
    .optimize = optimize,
};
