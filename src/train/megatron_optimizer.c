/*
 * train/megatron_optimizer.c - Megatron's optimizers: float32 copies of the parameters, or of this rank's part of them
 *
 * Mirrors megatron/core/optimizer/optimizer.py (Float16OptimizerWithFloat16Params, FP32Optimizer), distrib_optimizer.py and
 * clip_grads.py with the fallbacks of core/utils.py (megatron-core 0.16.1). The inner optimizer is PyTorch's own over the
 * copies; its gradients are views of the buffer when that is float32, and copies otherwise.
 */
#include "ghost/kernels.h"
#include "train/megatron.h"
#include "train/mesh.h"
#include "train/optimizer.h"

bool megatron_scales(const struct run *run)
{
    return run->ghost.precision == DTYPE_FLOAT16;
}

static struct tensor *one_number(struct run *run, enum dtype dtype, enum category category)
{
    struct ghost *g = &run->ghost;
    enum category outer = g->category;

    g->category = category;
    struct tensor *x = tensor_new_sizes(g, dtype, 1);

    g->category = outer;
    return x;
}

/* scale_loss() needs a scale, of 1 when it is not fp16; a DynamicGradScaler's are made first */
static void make_scaler(struct run *run, struct part_optimizer *o)
{
    if (!megatron_scales(run)) {
        if (run->ghost.precision == DTYPE_FLOAT32 &&
            run->strategy->parallel.distributed_optimizer) /* _dummy_overflow_buf */
            o->scaler[0] = one_number(run, DTYPE_INT32, CATEGORY_STATE);
        o->scale = one_number(run, DTYPE_FLOAT32, CATEGORY_STATE);
        return;
    }
    o->scale = one_number(run, DTYPE_FLOAT32, CATEGORY_STATE);
    /* min_scale, growth_factor, backoff_factor; found_inf; _dummy_overflow_buf */
    for (size_t i = 0; i < sizeof o->scaler / sizeof o->scaler[0]; i++)
        o->scaler[i] = one_number(run, i < 4 ? DTYPE_FLOAT32 : DTYPE_INT32, CATEGORY_STATE);
}

/* ------------------------------------------------------------------ the copies */

/* part_of() - this rank's part of the buffer's @i-th parameter, as the distributed optimizer has it: a view, owned; NULL: none */
static struct tensor *part_of(struct run *run, const struct model_buffer *b, size_t i)
{
    struct buffer_range part = buffer_part(&b->layout, i, b->rank, b->ranks);
    int64_t numel = part.end - part.begin;

    if (numel <= 0)
        return NULL;
    return tensor_view(run->trained[b->trained[i]]->param->tensor, 1, &numel, (int64_t[]){ 1 });
}

/* add_main() - the copy of @x, which is taken over: x.clone().float() of what is not float32 */
static void add_main(struct run *run,
                     struct megatron *m,
                     const struct model_buffer *b,
                     struct leaf *model,
                     struct tensor *x)
{
    struct ghost *g = &run->ghost;
    struct main_param *main = &m->mains[m->main_count++];

    g->path = model->module;
    g->category = CATEGORY_STATE;
    main->param = *model->param;
    main->model = model;
    main->buffer = b;
    if (x && x->dtype == DTYPE_FLOAT32) {
        main->param.tensor = tensor_detach(x);
    } else {
        TENSOR_AUTO *clone = x ? kernel_clone(x) : NULL;

        main->param.tensor = clone ? kernel_cast(clone, DTYPE_FLOAT32) : NULL;
    }
    tensor_drop(x);
    main->leaf = (struct leaf){ .param = &main->param, .module = model->module };
}

/* decays() - neither biases nor what has one dimension has weight decay: a group of its own */
static bool decays(const struct leaf *leaf)
{
    return leaf->param->dims != 1;
}

/* add_mains() - of the buffer's parameters that have weight decay, or that have none */
static void add_mains(struct run *run, struct megatron *m, const struct model_buffer *b, bool decay)
{
    bool sharded = run->strategy->parallel.distributed_optimizer;

    for (size_t k = 0; k < b->count; k++) {
        /* the distributed optimizer looks at the buffer, where the last parameter is first */
        size_t i = sharded ? b->count - 1 - k : k;
        struct leaf *leaf = run->trained[b->trained[i]];

        if (decays(leaf) != decay)
            continue;
        struct tensor *x = sharded ? part_of(run, b, i) : tensor_ref(leaf->param->tensor);

        if (x)
            add_main(run, m, b, leaf, x);
    }
}

/* make_optimizer() - of the buffers of experts that are shared out, or of the others */
static void make_optimizer(struct run *run, struct megatron *m, bool experts)
{
    struct part_optimizer *o = &m->optimizers[m->optimizer_count];
    bool any = false;

    for (size_t i = 0; i < m->buffer_count; i++)
        any = any || m->buffers[i].experts == experts;
    if (!any)
        return;
    m->optimizer_count++;
    make_scaler(run, o);
    o->first = m->main_count;
    for (int decay = 1; decay >= 0; decay--) {
        for (size_t i = 0; i < m->buffer_count; i++)
            if (m->buffers[i].experts == experts)
                add_mains(run, m, &m->buffers[i], decay);
        if (decay)
            o->decay_end = m->main_count;
    }
    o->end = m->main_count;
}

/* use() - @o is the optimizer that optimizer_step() means */
static void use(struct run *run, const struct megatron *m, const struct part_optimizer *o)
{
    run->updated = &m->leaves_of_mains[o->first];
    run->updated_count = o->end - o->first;
    run->group_end = o->decay_end - o->first;
}

void megatron_mains(struct run *run, struct megatron *m)
{
    m->mains = arena_array(run->arena, struct main_param, run->trained_count);
    make_optimizer(run, m, false);
    make_optimizer(run, m, true);
    m->leaves_of_mains = arena_array(run->arena, struct leaf *, m->main_count);
    for (size_t i = 0; i < m->main_count; i++)
        m->leaves_of_mains[i] = &m->mains[i].leaf;
    use(run, m, &m->optimizers[0]);
    run->ghost.category = CATEGORY_ACTIVATION;
    run->ghost.path = 0;
}

/* ------------------------------------------------------------------ a step */

void megatron_zero(struct run *run, struct megatron *m)
{
    for (size_t i = 0; i < m->main_count; i++) {
        struct tensor *main = m->mains[i].param.tensor;

        if (!main)
            continue;
        tensor_drop(main->grad);
        main->grad = NULL;
    }
}

/* copy_grads() - main_param.grad = model_param.main_grad.float() */
static void copy_grads(struct run *run, struct megatron *m, const struct part_optimizer *o)
{
    struct ghost *g = &run->ghost;

    g->category = CATEGORY_GRADIENT;
    for (size_t i = o->first; i < o->end && !g->halt; i++) {
        struct tensor *main = m->mains[i].param.tensor;
        TENSOR_AUTO *view =
            tensor_view(m->mains[i].buffer->grads, main->dims, main->sizes, main->strides);

        g->path = m->mains[i].leaf.module;
        main->grad = view ? kernel_cast(view, DTYPE_FLOAT32) : NULL;
    }
    g->path = 0;
    g->category = CATEGORY_TEMPORARY;
}

/* unscale() - inv_scale = scale.double().reciprocal().float(); gradients are multiplied in place */
static void unscale(struct run *run)
{
    TENSOR_AUTO *wide = one_number(run, DTYPE_FLOAT64, CATEGORY_TEMPORARY);
    TENSOR_AUTO *reciprocal = one_number(run, DTYPE_FLOAT64, CATEGORY_TEMPORARY);

    tensor_drop(tensor_take(&wide));
    TENSOR_AUTO *inverse = one_number(run, DTYPE_FLOAT32, CATEGORY_TEMPORARY);

    tensor_drop(tensor_take(&reciprocal));
}

/* is_copy() - param_is_not_shared(): the embedding counts on the first stage of a pipeline, not on the last */
static bool is_copy(const struct run *run, const struct param *p)
{
    const struct plm_parallel *parallel = &run->strategy->parallel;

    return p->tied && run->pipeline && mesh_place(parallel, parallel->rank).pipeline > 0;
}

/* find_norm() - get_grad_norm_fp32(): the norm of each gradient by itself (local_multi_tensor_l2_norm), and of the norms */
static void find_norm(struct run *run, struct megatron *m, size_t first, size_t end)
{
    struct ghost *g = &run->ghost;
    struct list norms = { 0 };
    TENSOR_AUTO *total = NULL;
    TENSOR_AUTO *norm = NULL;
    TENSOR_AUTO *overflow = tensor_new_sizes(g, DTYPE_INT32, 1);

    for (size_t i = first; i < end && !g->halt; i++) {
        struct tensor *grad = m->mains[i].param.tensor->grad;

        if (is_copy(run, &m->mains[i].param))
            continue;
        list_push(run, &norms, kernel_reduce(grad, (1U << grad->dims) - 1, false, DTYPE_FLOAT32));
    }
    norm = tensor_new_sizes(g, DTYPE_FLOAT32, 1);
    list_drop(run, &norms);
    total = tensor_new_sizes(g, DTYPE_FLOAT32, 1);
    tensor_drop(tensor_take(&total));
    tensor_drop(tensor_take(&overflow));
    tensor_drop(tensor_take(&norm));
}

/*
 * clip() - clip_grad_by_total_norm_fp32()
 *
 * Where the norm is too large, gradients are scaled (local_multi_tensor_scale): src * scale, copied into place one by one.
 */
static void clip(struct run *run, struct megatron *m, const struct part_optimizer *o)
{
    struct ghost *g = &run->ghost;

    if (g->around.ghostgpu)
        return; /* its norms read as zero */
    TENSOR_AUTO *overflow = tensor_new_sizes(g, DTYPE_INT32, 1);

    for (size_t i = o->first; i < o->end && !g->halt; i++)
        tensor_drop(tensor_like(g, m->mains[i].param.tensor->grad, DTYPE_FLOAT32));
}

/* clip_all() - one norm where all of ChainedOptimizer's share a group for it, as distributed ones do */
static void clip_all(struct run *run, struct megatron *m)
{
    bool together = run->strategy->parallel.distributed_optimizer;

    for (size_t i = 0; i < m->optimizer_count && !together; i++)
        find_norm(run, m, m->optimizers[i].first, m->optimizers[i].end);
    if (together)
        find_norm(run, m, 0, m->main_count);
    for (size_t i = 0; i < m->optimizer_count; i++)
        clip(run, m, &m->optimizers[i]);
}

/* copy_params() - with an overflow buffer, which only fp16 has, as main * 1.0, copied into place (local_multi_tensor_scale) */
static void copy_params(struct run *run, struct megatron *m, const struct part_optimizer *o)
{
    if (!megatron_scales(run) || run->strategy->parallel.distributed_optimizer)
        return;
    for (size_t i = o->first; i < o->end && !run->ghost.halt; i++) {
        struct tensor *main = m->mains[i].param.tensor;

        tensor_drop(tensor_like(&run->ghost, main, main->dtype));
    }
}

/* is_fused() - Transformer Engine's or Apex's: kernels over lists of tensors, whose temporaries are a few numbers */
static bool is_fused(const struct run *run)
{
    return run->strategy->optimizer == PLM_OPTIMIZER_ADAMW_FUSED ||
           run->strategy->optimizer == PLM_OPTIMIZER_ADAM_FUSED;
}

/* fused_adam() - FusedAdam.step(): two states for each copy, made when they are missing; `step` is a number of the group */
static void fused_adam(struct run *run, struct megatron *m)
{
    for (size_t i = 0; i < m->main_count && !run->ghost.halt; i++) {
        struct leaf *leaf = &m->mains[i].leaf;

        run->ghost.path = leaf->module;
        optimizer_state(run, &leaf->state[0], leaf->param->tensor, DTYPE_FLOAT32);
        optimizer_state(run, &leaf->state[1], leaf->param->tensor, DTYPE_FLOAT32);
    }
    run->ghost.path = 0;
}

static bool is_sgd(const struct run *run)
{
    return run->strategy->optimizer == PLM_OPTIMIZER_SGD ||
           run->strategy->optimizer == PLM_OPTIMIZER_SGD_MOMENTUM;
}

/*
 * sgd() - torch/optim/sgd.py, _multi_tensor_sgd: weight decay, which Megatron has for its first group, makes other gradients,
 * and momentum begins as their copy
 */
static void sgd(struct run *run, struct megatron *m, const struct part_optimizer *o)
{
    for (size_t first = o->first; first < o->end && !run->ghost.halt;) {
        size_t end = first < o->decay_end ? o->decay_end : o->end;
        struct list decayed = { 0 };

        for (size_t i = first; i < end && first < o->decay_end; i++) {
            struct tensor *main = m->mains[i].param.tensor;

            list_push(run, &decayed, tensor_like(&run->ghost, main, main->dtype));
        }
        for (size_t i = first; i < end && run->strategy->optimizer != PLM_OPTIMIZER_SGD; i++)
            optimizer_state(run, &m->mains[i].leaf.state[0], m->mains[i].param.tensor,
                            DTYPE_FLOAT32);
        list_drop(run, &decayed);
        first = end;
    }
}

/* step_with_ready_grads() - the inner optimizer's step, then parameters from their copies */
static void step(struct run *run, struct megatron *m, const struct part_optimizer *o)
{
    struct ghost *g = &run->ghost;

    use(run, m, o);
    if (is_sgd(run))
        sgd(run, m, o);
    else if (!g->halt)
        optimizer_step(run);
    g->category = CATEGORY_TEMPORARY;
    if (!g->halt)
        copy_params(run, m, o);
}

void megatron_optimize(struct run *run, struct megatron *m)
{
    struct ghost *g = &run->ghost;

    g->op = OP_COUNT;
    for (size_t i = 0; i < m->optimizer_count; i++) {
        copy_grads(run, m, &m->optimizers[i]);
        if (megatron_scales(run))
            unscale(run);
    }
    if (is_fused(run)) {
        fused_adam(run, m);
        g->category = CATEGORY_ACTIVATION;
        return;
    }
    if (run->strategy->clip_grad_norm > 0 && !g->halt)
        clip_all(run, m);
    for (size_t i = 0; i < m->optimizer_count; i++)
        step(run, m, &m->optimizers[i]);
    g->category = CATEGORY_ACTIVATION;
}
