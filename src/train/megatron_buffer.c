/*
 * train/megatron_buffer.c - Megatron's DistributedDataParallel: a buffer of gradients, and with the distributed optimizer one of parameters
 *
 * Mirrors megatron/core/distributed/distributed_data_parallel.py and param_and_grad_buffer.py (megatron-core 0.16.1). A
 * gradient is added to its place in the buffer when it is ready, and goes. Reductions and gathers are in place.
 */
#include <stdlib.h>

#include "train/megatron.h"
#include "train/mesh.h"
#include "train/pipeline_cut.h"

/* the bucket of overlap_grad_reduce: max(40000000, 1000000 * ranks) elements (distributed_data_parallel.py) */
enum { BUCKET_LEAST = 40000000, BUCKET_PER_RANK = 1000000 };

/* grad_dtype() - grad_reduce_in_fp32 is what bf16 requires (arguments.py), and what fp32 is; not fp16 */
static enum dtype grad_dtype(const struct run *run)
{
    return run->ghost.precision == DTYPE_FLOAT16 ? DTYPE_FLOAT16 : DTYPE_FLOAT32;
}

/* is_shared() - the embedding that the first and the last stage of a pipeline both have */
static bool is_shared(const struct run *run, const struct param *p)
{
    return run->pipeline && p->tied;
}

/* is_shared_out() - param.allreduce is False: experts that other ranks do not have */
static bool is_shared_out(const struct run *run, const struct param *p)
{
    return p->experts && run->strategy->parallel.ep > 1;
}

/* take() - the buffer is of the parameters that are @here, all when that is NULL, and of its kind; does it have any? */
static bool take(struct run *run, const bool *here, struct model_buffer *b)
{
    b->trained = arena_array(run->arena, size_t, run->trained_count);
    for (size_t i = 0; i < run->trained_count; i++) {
        const struct param *p = run->trained[i]->param;

        if ((!here || here[p - run->params]) && is_shared_out(run, p) == b->experts)
            b->trained[b->count++] = i;
    }
    return b->count > 0;
}

/* find_buffers() - each of this rank's stages is a module of its own; the experts' buffer comes after the other */
static void find_buffers(struct run *run, struct megatron *m)
{
    const struct plm_parallel *parallel = &run->strategy->parallel;
    struct pipeline *p = run->pipeline;
    uint32_t stage_count = p ? (uint32_t)p->shape.local : 1;
    int64_t place = mesh_reduced_place(parallel);

    m->buffers = arena_array(run->arena, struct model_buffer, 2 * (size_t)stage_count);
    for (uint32_t i = 0; i < stage_count; i++) {
        bool *here = p ? arena_array(run->arena, bool, run->param_count) : NULL;

        if (p)
            stage_mark(run, &p->stages[i], here);
        for (int experts = 0; experts <= 1; experts++) {
            int64_t shares = experts ? parallel->ep : 1; /* neighbours in data have other experts */
            struct model_buffer *b = &m->buffers[m->buffer_count];

            *b = (struct model_buffer){ .stage = i, .experts = experts };
            if (!take(run, here, b))
                continue;
            b->ranks = mesh_reduced(parallel, parallel->megatron) / shares;
            b->rank = place / shares;
            m->buffer_count++;
        }
    }
}

/* bucket_size() - of all but the first stage's modules: one bucket (disable_bucketing) */
static int64_t bucket_size(const struct run *run, const struct model_buffer *b)
{
    const struct plm_parallel *p = &run->strategy->parallel;

    if (!p->overlap_grad_reduce || mesh_place(p, p->rank).pipeline > 0 || b->stage > 0)
        return 0;
    int64_t least = BUCKET_PER_RANK * mesh_reduced(p, p->megatron);

    return BUCKET_LEAST > least ? BUCKET_LEAST : least;
}

static void lay_out(struct run *run, struct model_buffer *b)
{
    const struct plm_parallel *p = &run->strategy->parallel;
    int64_t *numels = arena_array(run->arena, int64_t, b->count);
    bool *alone = arena_array(run->arena, bool, b->count);
    const struct buffer_shape shape = {
        .numels = numels,
        .alone = alone,
        .param_count = b->count,
        .ranks = b->ranks,
        .bucket_size = bucket_size(run, b),
        .sharded = p->distributed_optimizer,
    };

    for (size_t i = 0; i < b->count; i++) {
        const struct param *param = run->trained[b->trained[i]]->param;

        numels[i] = tensor_numel(param->tensor);
        alone[i] = is_shared(run, param);
    }
    buffer_layout(&shape, run->arena, &b->layout);
}

/* remap() - param.data becomes a view of the buffer; its own memory goes */
static void remap(struct param *p, struct tensor *buffer)
{
    struct tensor *old = p->tensor;
    struct tensor *view = tensor_view(buffer, old->dims, old->sizes, old->strides);

    if (!view)
        return;
    view->view = false; /* not to autograd */
    autograd_leaf(view);
    p->tensor = view;
    tensor_drop(old);
}

static int by_address(const void *a, const void *b)
{
    const struct tensor *x = *(struct tensor *const *)a, *y = *(struct tensor *const *)b;

    return x < y ? -1 : x > y;
}

/* hook() - of a parameter: param.main_grad.add_(param.grad); param.grad = None. Others are inputs of a recomputed layer */
static void hook(void *context, struct tensor *leaf)
{
    const struct run *run = context;
    const struct megatron *m = run->wrapper_state;

    if (!bsearch(&leaf, m->leaves, run->trained_count, sizeof *m->leaves, by_address))
        return;
    tensor_drop(leaf->grad);
    leaf->grad = NULL;
}

/* make() - the memory, and parameters in it */
static void make(struct run *run, struct model_buffer *b)
{
    struct ghost *g = &run->ghost;

    lay_out(run, b);
    if (run->strategy->parallel.distributed_optimizer) {
        g->category = CATEGORY_PARAMETER;
        b->params = tensor_new_sizes(g, g->precision, b->layout.numel);
    }
    g->category = CATEGORY_GRADIENT;
    b->grads = tensor_new_sizes(g, grad_dtype(run), b->layout.numel);
    g->category = CATEGORY_ACTIVATION;
    for (size_t i = b->count; b->params && i-- > 0;)
        remap(run->trained[b->trained[i]]->param, b->params);
}

void megatron_buffers(struct run *run, struct megatron *m)
{
    find_buffers(run, m);
    for (size_t i = 0; i < m->buffer_count; i++)
        make(run, &m->buffers[i]);
    m->leaves = arena_array(run->arena, struct tensor *, run->trained_count);
    for (size_t i = 0; i < run->trained_count; i++)
        m->leaves[i] = run->trained[i]->param->tensor;
    qsort(m->leaves, run->trained_count, sizeof *m->leaves, by_address);
    run->ghost.accumulated = hook;
    run->ghost.accumulated_context = run;
}
