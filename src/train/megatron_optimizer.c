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
static void make_scaler(struct run *run, struct megatron *m)
{
    if (!megatron_scales(run)) {
        if (run->ghost.precision == DTYPE_FLOAT32 &&
            run->strategy->parallel.distributed_optimizer) /* _dummy_overflow_buf */
            m->scaler[0] = one_number(run, DTYPE_INT32, CATEGORY_STATE);
        m->scale = one_number(run, DTYPE_FLOAT32, CATEGORY_STATE);
        return;
    }
    m->scale = one_number(run, DTYPE_FLOAT32, CATEGORY_STATE);
    /* min_scale, growth_factor, backoff_factor; found_inf; _dummy_overflow_buf */
    for (size_t i = 0; i < sizeof m->scaler / sizeof m->scaler[0]; i++)
        m->scaler[i] = one_number(run, i < 4 ? DTYPE_FLOAT32 : DTYPE_INT32, CATEGORY_STATE);
}

/* ------------------------------------------------------------------ the copies */

/* part_of() - this rank's part of the buffer's @i-th parameter, as the distributed optimizer has it: a view, owned; NULL: none */
static struct tensor *part_of(struct run *run, const struct model_buffer *b, size_t i)
{
    const struct plm_parallel *p = &run->strategy->parallel;
    struct buffer_range part = buffer_part(&b->layout, i, mesh_place(p, p->rank).data, p->megatron);
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

void megatron_mains(struct run *run, struct megatron *m)
{
    make_scaler(run, m);
    m->mains = arena_array(run->arena, struct main_param, run->trained_count);
    for (int decay = 1; decay >= 0; decay--) {
        for (size_t i = 0; i < m->buffer_count; i++)
            add_mains(run, m, &m->buffers[i], decay);
        if (decay)
            run->group_end = m->main_count;
    }
    run->updated = arena_array(run->arena, struct leaf *, m->main_count);
    run->updated_count = m->main_count;
    for (size_t i = 0; i < m->main_count; i++)
        run->updated[i] = &m->mains[i].leaf;
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
static void copy_grads(struct run *run, struct megatron *m)
{
    struct ghost *g = &run->ghost;

    g->category = CATEGORY_GRADIENT;
    for (size_t i = 0; i < m->main_count && !g->halt; i++) {
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

/*
 * clip() - clip_grad_norm(): the norm of each gradient by itself (local_multi_tensor_l2_norm), and of the norms
 *
 * Where the norm is too large, gradients are scaled (local_multi_tensor_scale): src * scale, copied into place one by one.
 */
static void clip(struct run *run, struct megatron *m)
{
    struct ghost *g = &run->ghost;
    struct list norms = { 0 };
    TENSOR_AUTO *total = NULL;
    TENSOR_AUTO *norm = NULL;
    TENSOR_AUTO *overflow = tensor_new_sizes(g, DTYPE_INT32, 1);

    for (size_t i = 0; i < m->main_count && !g->halt; i++) {
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
    if (g->around.ghostgpu)
        return; /* its norms read as zero */
    overflow = tensor_new_sizes(g, DTYPE_INT32, 1);
    for (size_t i = 0; i < m->main_count && !g->halt; i++) {
        struct tensor *grad = m->mains[i].param.tensor->grad;

        tensor_drop(tensor_like(g, grad, DTYPE_FLOAT32));
    }
}

/* copy_params() - with an overflow buffer, which only fp16 has, as main * 1.0, copied into place (local_multi_tensor_scale) */
static void copy_params(struct run *run, struct megatron *m)
{
    if (!megatron_scales(run) || run->strategy->parallel.distributed_optimizer)
        return;
    for (size_t i = 0; i < m->main_count && !run->ghost.halt; i++) {
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
static void sgd(struct run *run, struct megatron *m)
{
    for (size_t first = 0; first < m->main_count && !run->ghost.halt;) {
        size_t end = first < run->group_end ? run->group_end : m->main_count;
        struct list decayed = { 0 };

        for (size_t i = first; i < end && first < run->group_end; i++) {
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

void megatron_optimize(struct run *run, struct megatron *m)
{
    struct ghost *g = &run->ghost;

    g->op = OP_COUNT;
    copy_grads(run, m);
    if (megatron_scales(run))
        unscale(run);
    if (is_fused(run)) {
        fused_adam(run, m);
        g->category = CATEGORY_ACTIVATION;
        return;
    }
    if (run->strategy->clip_grad_norm > 0 && !g->halt)
        clip(run, m);
    if (is_sgd(run))
        sgd(run, m);
    else if (!g->halt)
        optimizer_step(run);
    g->category = CATEGORY_TEMPORARY;
    if (!g->halt)
        copy_params(run, m);
    g->category = CATEGORY_ACTIVATION;
}
