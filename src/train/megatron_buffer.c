/*
 * train/megatron_buffer.c - Megatron's DistributedDataParallel: one buffer of gradients, and with the distributed optimizer one of parameters
 *
 * Mirrors megatron/core/distributed/distributed_data_parallel.py and param_and_grad_buffer.py (megatron-core 0.16.1). A
 * gradient is added to its place in the buffer when it is ready, and goes. Reductions and gathers are in place.
 */
#include <stdlib.h>

#include "train/megatron.h"
#include "train/mesh.h"

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

static void lay_out(struct run *run, struct megatron *m)
{
    const struct plm_parallel *p = &run->strategy->parallel;
    size_t count = run->trained_count;
    int64_t *numels = arena_array(run->arena, int64_t, count);
    bool *alone = arena_array(run->arena, bool, count);
    struct buffer_shape shape = {
        .numels = numels,
        .alone = alone,
        .param_count = count,
        .ranks = p->megatron,
        .sharded = p->distributed_optimizer,
    };

    for (size_t i = 0; i < count; i++) {
        numels[i] = tensor_numel(run->trained[i]->param->tensor);
        alone[i] = is_shared(run, run->trained[i]->param);
    }
    /* stages after the first have one bucket */
    if (p->overlap_grad_reduce && mesh_place(p, p->rank).pipeline == 0)
        shape.bucket_size = BUCKET_LEAST > BUCKET_PER_RANK * p->megatron
                                ? BUCKET_LEAST
                                : BUCKET_PER_RANK * p->megatron;
    buffer_layout(&shape, run->arena, &m->layout);
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

void megatron_buffers(struct run *run, struct megatron *m)
{
    struct ghost *g = &run->ghost;

    lay_out(run, m);
    if (run->strategy->parallel.distributed_optimizer) {
        g->category = CATEGORY_PARAMETER;
        m->params = tensor_new_sizes(g, g->precision, m->layout.numel);
    }
    g->category = CATEGORY_GRADIENT;
    m->grads = tensor_new_sizes(g, grad_dtype(run), m->layout.numel);
    g->category = CATEGORY_ACTIVATION;
    for (size_t i = run->trained_count; m->params && i-- > 0;)
        remap(run->trained[i]->param, m->params);
    m->leaves = arena_array(run->arena, struct tensor *, run->trained_count);
    for (size_t i = 0; i < run->trained_count; i++)
        m->leaves[i] = run->trained[i]->param->tensor;
    qsort(m->leaves, run->trained_count, sizeof *m->leaves, by_address);
    g->accumulated = hook;
    g->accumulated_context = run;
}
