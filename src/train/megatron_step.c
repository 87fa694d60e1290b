/*
 * train/megatron_step.c - one step of Megatron-LM's training loop, with the references that its Python names hold
 *
 * Mirrors train_step() of megatron/training/training.py and forward_backward_no_pipelining() of
 * core/pipeline_parallel/schedules.py (megatron-core 0.16.1). A micro-batch is moved to the device by itself. What the loss
 * function reports is kept for each until the step ends; loss and number of tokens until their names are bound again.
 */
#include "ops/pointwise.h"
#include "train/megatron.h"
#include "train/pipeline.h"

/* scale_loss() and backward(): of the loss that main has divided already */
static void backward(struct run *run, struct megatron *m)
{
    struct tensor *loss = m->loss.kind == VALUE_TENSOR ? m->loss.as.tensor : NULL;

    if (!loss || tensor_numel(loss) != 1) {
        ghost_fail(&run->ghost, PLM_E_MODEL,
                   "the first output of main must be the loss, one number");
        return;
    }
    TENSOR_AUTO *scaled = pointwise_mul(m->optimizers[0].scale, loss);

    autograd_backward(&run->ghost, scaled, NULL);
}

/* is_number() - what is reported, and not a model's output, which is dropped */
static bool is_number(struct value v)
{
    return v.kind == VALUE_TENSOR && tensor_numel(v.as.tensor) <= 2;
}

/* grad_scale_func(ones(1)) * cp / num_microbatches: the first one stays, into which the others are copied */
void megatron_scale_losses(struct run *run, struct megatron *m)
{
    struct ghost *g = &run->ghost;

    if (!m->mixture || g->halt)
        return;
    TENSOR_AUTO *scale = NULL;
    {
        TENSOR_AUTO *ones = tensor_new_sizes(g, DTYPE_FLOAT32, 1);

        scale = tensor_new_sizes(g, DTYPE_FLOAT32, 1);
    }
    TENSOR_AUTO *of_ranks = tensor_new_sizes(g, DTYPE_FLOAT32, 1);
    TENSOR_AUTO *of_micro = tensor_new_sizes(g, DTYPE_FLOAT32, 1);

    tensor_drop(tensor_take(&of_ranks));
    if (!m->aux_scale)
        m->aux_scale = tensor_take(&of_micro);
}

void megatron_bind_outputs(struct run *run, struct megatron *m, struct value *ret)
{
    struct ghost *g = &run->ghost;
    uint32_t count = run->graph->main->out_count;

    megatron_scale_losses(run, m);
    value_set(g, &m->loss, ret[0]);
    for (uint32_t i = 1; i < count; i++)
        if (!is_number(ret[i]))
            value_drop(g, ret[i]);
        else if (i == 1)
            value_set(g, &m->count, ret[i]);
        else
            arena_push(run->arena, m->reports, m->report_count, m->report_capacity, ret[i]);
}

static void micro_batch(struct run *run, struct megatron *m, uint32_t micro, struct value *ret)
{
    run->micro = micro;
    batch_make(run);
    loop_forward(run, ret);
    megatron_bind_outputs(run, m, ret);
    run_mark(run, "fwd", micro);
    if (run->ghost.halt)
        return;
    backward(run, m);
    region_release(run);
    run_mark(run, "bwd", micro);
}

/*
 * _allreduce_non_tensor_model_parallel_grads(): gradients of what is not split, of each rank's part of the
 * sequence, are flattened and summed
 */
void megatron_finish_gradients(struct run *run, const struct megatron *m)
{
    const struct plm_parallel *p = &run->strategy->parallel;
    struct ghost *g = &run->ghost;
    int64_t numel = 0;

    if (p->tp <= 1 || !p->sequence_parallel)
        return;
    for (size_t i = 0; i < run->trained_count; i++)
        if (run->trained[i]->param->sequence)
            numel += tensor_numel(run->trained[i]->param->tensor);
    g->category = CATEGORY_COMMUNICATION;
    if (numel > 0 && m->buffers[0].grads)
        tensor_drop(tensor_new_sizes(g, m->buffers[0].grads->dtype, numel));
    g->category = CATEGORY_ACTIVATION;
}

static void forward_backward(struct run *run, struct megatron *m)
{
    struct ghost *g = &run->ghost;
    size_t size = (run->graph->main->out_count + 1) * sizeof(struct value);
    struct value *ret = pool_alloc(&g->pool, size);
    int64_t micros = run->strategy->accumulate > 1 ? run->strategy->accumulate : 1;
    TENSOR_AUTO *total = tensor_new_scalar(g, DTYPE_INT32); /* tokens of all micro-batches */

    for (uint32_t micro = 0; micro < micros && !g->halt; micro++)
        micro_batch(run, m, micro, ret);
    if (!g->halt)
        megatron_finish_gradients(run, m);
    tensor_drop(tensor_take(&total));
    value_set(g, &m->loss, (struct value){ 0 });
    value_set(g, &m->count, (struct value){ 0 });
    pool_free(&g->pool, ret, size);
}

void megatron_step(struct run *run)
{
    struct megatron *m = run->wrapper_state;
    struct ghost *g = &run->ghost;

    megatron_zero(run, m);
    if (run->pipeline && run->pipeline->shape.local > 1)
        megatron_interleaved(run, m);
    else if (run->pipeline)
        megatron_pipeline(run, m);
    else
        forward_backward(run, m);
    if (!g->halt && optimizer_exists(run))
        megatron_optimize(run, m);
    run_mark(run, "opt", 0);
    while (m->report_count > 0)
        value_drop(g, m->reports[--m->report_count]);
    run_mark(run, "end", 0);
}
