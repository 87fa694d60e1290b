/*
 * train/loop.c - one step of the training script, with the references that its Python names hold
 *
 * Mirrors the loop that the reference measurements were taken with:
 *
 *     batch to the device; forward and loss (under autocast); the output is dropped unless kept; backward (of the loss
 *     divided by the number of micro-batches when there are several, scaled when a scaler is used); the loss is dropped;
 *     [unscale, clip,] optimizer step; zero_grad
 *
 * A mark is put where that script takes a measurement: the phase that it names has just ended. The batch lives until
 * its name is bound again or the step's function returns.
 */
#include <string.h>

#include "ghost/autocast.h"
#include "ghost/kernels.h"
#include "train/wrapper.h"

void run_mark(struct run *run, const char *name, uint32_t micro)
{
    if (run->ghost.schedule && run->ghost.halt != HALT_FAILED)
        schedule_mark(run->ghost.schedule, name, run->step, micro);
}

/* ------------------------------------------------------------------ the batch */

/* map_batch() - batch = tuple(fn(t) for t in batch): the old tuple is let go when the new one is complete */
static void map_batch(struct run *run,
                      struct tensor *(*fn)(struct run *run, size_t input, struct tensor *old))
{
    struct ghost *g = &run->ghost;
    size_t count = run->graph->input_count;
    struct value *made = count ? pool_alloc(&g->pool, count * sizeof *made) : NULL;

    g->category = CATEGORY_INPUT;
    for (size_t i = 0; i < count; i++) {
        bool had = run->batch[i].kind == VALUE_TENSOR;

        made[i] = value_tensor(fn(run, i, had ? run->batch[i].as.tensor : NULL));
    }
    context_forget(run);
    for (size_t i = count; i-- > 0;)
        value_set(g, &run->batch[i], made[i]);
    if (made)
        pool_free(&g->pool, made, count * sizeof *made);
    g->category = CATEGORY_ACTIVATION;
}

static struct tensor *to_device(struct run *run, size_t i, struct tensor *old)
{
    const struct graph_input *input = &run->graph->inputs[i];
    enum dtype dtype = input->dtype == DTYPE_PRECISION ? DTYPE_FLOAT32 : input->dtype;

    int64_t sizes[TENSOR_DIMS];

    if (run->batch_multiple <= 1 || input->dim_count == 0 || input->dim_count > TENSOR_DIMS)
        return tensor_new(&run->ghost, dtype, input->dim_count, input->sizes);
    memcpy(sizes, input->sizes, input->dim_count * sizeof *sizes);
    if (__builtin_mul_overflow(sizes[0], run->batch_multiple, &sizes[0]))
        sizes[0] = INT64_MAX; /* too large, as tensor_new() will say */
    return tensor_new(&run->ghost, dtype, input->dim_count, sizes);
}

static struct tensor *to_precision(struct run *run, size_t i, struct tensor *old)
{
    bool casts = old && tensor_is_floating(old);

    return casts ? kernel_cast(old, params_cast_dtype(run)) : tensor_ref(old);
}

static struct tensor *to_channels_last(struct run *run, size_t i, struct tensor *old)
{
    return old && old->dims == 4 ? channels_last_copy(&run->ghost, old) : tensor_ref(old);
}

void batch_make(struct run *run)
{
    run->ghost.op = OP_COUNT;
    run->ghost.path = 0;
    map_batch(run, to_device);
    context_batch(run);
    /* Megatron casts what the model is given, not the batch; no wrapper does while the model is looked at */
    if (params_cast_dtype(run) != DTYPE_COUNT && !(run->hands_over && run->wrapper))
        map_batch(run, to_precision);
    if (run->strategy->channels_last)
        map_batch(run, to_channels_last);
}

void batch_drop(struct run *run)
{
    context_forget(run);
    for (size_t i = run->graph->input_count; i-- > 0;)
        value_set(&run->ghost, &run->batch[i], (struct value){ 0 });
}

/* ------------------------------------------------------------------ forward and backward */

enum dtype loop_autocast_dtype(const struct run *run)
{
    switch (run->strategy->precision) {
    case PLM_PRECISION_AMP_BF16:
        return DTYPE_BFLOAT16;
    case PLM_PRECISION_AMP_FP16:
        return DTYPE_FLOAT16;
    case PLM_PRECISION_FP32:
    case PLM_PRECISION_BF16:
    case PLM_PRECISION_FP16:
        break;
    }
    return DTYPE_COUNT;
}

void loop_forward(struct run *run, struct value *ret)
{
    struct ghost *g = &run->ghost;
    enum dtype dtype = loop_autocast_dtype(run);

    g->category = CATEGORY_ACTIVATION;
    g->grad_enabled = !run->strategy->eval;
    if (dtype != DTYPE_COUNT)
        autocast_enter(g, dtype);
    execute_main(run, ret);
    if (dtype != DTYPE_COUNT)
        autocast_leave(g);
    g->grad_enabled = true;
    g->op = OP_COUNT;
    g->path = 0;
}

/* keep_outputs() - loss and output get names that live on, or the output is dropped when compute_loss returns */
static void keep_outputs(struct run *run, struct value *ret)
{
    struct ghost *g = &run->ghost;

    for (uint32_t i = run->graph->main->out_count; i-- > 0;) {
        if (run->kept)
            value_set(g, &run->kept[i], value_ref(ret[i]));
        else if (i > 0)
            value_set(g, &ret[i], (struct value){ 0 });
    }
}

void forget_outputs(struct run *run)
{
    for (size_t i = 0; i < run->kept_count; i++)
        value_set(&run->ghost, &run->kept[i], (struct value){ 0 });
}

static struct tensor *divided(struct run *run, struct tensor *loss, int64_t by)
{
    const struct attr attrs[] = {
        { .key = KEY_VALUE, .type = ATTR_REAL, .value.real = (double)by },
        { .key = KEY_INPLACE, .type = ATTR_BOOL },
    };

    return op_apply(&run->ghost, OP_DIV, &loss, 1, attrs, 2);
}

static void backward(struct run *run, struct value loss)
{
    struct ghost *g = &run->ghost;
    int64_t micro_count = run->strategy->accumulate;

    if (loss.kind != VALUE_TENSOR || tensor_numel(loss.as.tensor) != 1) {
        ghost_fail(g, PLM_E_MODEL, "the first output of main must be the loss, one number");
        return;
    }
    if (run->wrapper && run->wrapper->backward) {
        run->wrapper->backward(run, loss.as.tensor);
        return;
    }
    TENSOR_AUTO *l =
        micro_count > 1 ? divided(run, loss.as.tensor, micro_count) : tensor_ref(loss.as.tensor);
    TENSOR_AUTO *scaled =
        run->strategy->precision == PLM_PRECISION_AMP_FP16 ? scaler_scale(run, l) : tensor_ref(l);

    autograd_backward(g, scaled, NULL);
}

/* micro_batch() - returns false when the step ends here, as an evaluation's does */
static bool micro_batch(struct run *run, uint32_t micro, struct value *ret)
{
    const struct plm_strategy *s = run->strategy;
    struct ghost *g = &run->ghost;

    run->micro = micro;
    batch_make(run);
    loop_forward(run, ret);
    keep_outputs(run, ret);
    run_mark(run, "fwd", micro);
    if (s->eval || g->halt) {
        context_exit(run);
        return false;
    }
    if (s->zero_grad_at == PLM_ZERO_GRAD_AT_BEFORE_BACKWARD)
        optimizer_zero_grad(run);
    if (run->wrapper && run->wrapper->before_backward)
        run->wrapper->before_backward(run, micro);
    backward(run, ret[0]);
    region_release(run);
    if (run->wrapper && run->wrapper->after_backward)
        run->wrapper->after_backward(run, micro);
    context_exit(run);
    for (uint32_t i = 0; i < run->graph->main->out_count; i++)
        value_set(g, &ret[i], (struct value){ 0 });
    run_mark(run, "bwd", micro);
    return !g->halt;
}

/* first_micro_batch() - of a step: run, or the one of the first step once more */
static bool first_micro_batch(struct run *run, struct value *ret)
{
    const struct schedule *s = run->ghost.schedule;

    if (micro_batch_repeat(run))
        return true;
    struct step_extent start = { s->event_count, s->allocation_count };
    bool goes_on = micro_batch(run, 0, ret);

    if (goes_on && run->step == 0)
        micro_batch_remember(run, start);
    return goes_on;
}

static void optimize(struct run *run)
{
    const struct plm_strategy *s = run->strategy;
    bool scales = s->precision == PLM_PRECISION_AMP_FP16;

    if (run->wrapper && run->wrapper->optimize) {
        run->wrapper->optimize(run);
        run_mark(run, "opt", 0);
        return;
    }
    if (run->wrapper && run->wrapper->before_step)
        run->wrapper->before_step(run);
    if (s->clip_grad_norm > 0) {
        if (scales)
            scaler_unscale(run);
        clip_gradients(run);
    }
    if (scales)
        scaler_step(run);
    else
        optimizer_step(run);
    if (run->wrapper && run->wrapper->after_step)
        run->wrapper->after_step(run);
    run_mark(run, "opt", 0);
    if (s->zero_grad_at == PLM_ZERO_GRAD_AT_END)
        optimizer_zero_grad(run);
}

/* repeated_micro_batches() - how many after @micro need not be run, since they come in whole cycles */
static uint32_t repeated_micro_batches(struct run *run, uint32_t micro)
{
    int64_t left = run->strategy->accumulate - micro - 1;
    unsigned period = run->period && left > 1 ? run->period(run->period_user) : 0;

    return period > 0 ? (uint32_t)((left - 1) / period * period) : 0;
}

void step_run(struct run *run)
{
    const struct plm_strategy *s = run->strategy;

    if (run->wrapper && run->wrapper->step) {
        run->wrapper->step(run);
        return;
    }
    uint32_t out_count = run->graph->main->out_count;
    size_t size = (out_count + 1) * sizeof(struct value);
    struct value *ret = pool_alloc(&run->ghost.pool, size);
    bool goes_on = true;

    if (s->zero_grad_at == PLM_ZERO_GRAD_AT_BEGIN)
        optimizer_zero_grad(run);
    if (run->pipeline) {
        pipeline_step(run);
        goes_on = !run->ghost.halt;
    }
    for (uint32_t micro = 0; !run->pipeline && goes_on && (micro == 0 || micro < s->accumulate);
         micro++) {
        goes_on = micro == 0 ? first_micro_batch(run, ret) : micro_batch(run, micro, ret);
        if (goes_on)
            micro += repeated_micro_batches(run, micro);
    }
    if (goes_on && optimizer_exists(run))
        optimize(run);
    if (goes_on)
        run_mark(run, "end", 0);
    for (uint32_t i = 0; i < out_count; i++)
        value_drop(&run->ghost, ret[i]);
    batch_drop(run);
    if (s->keep_outputs_in_step)
        forget_outputs(run);
    pool_free(&run->ghost.pool, ret, size);
}
