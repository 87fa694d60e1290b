/*
 * train/clip.c - torch.nn.utils.clip_grad_norm_ with foreach, as on CUDA
 *
 * Mirrors torch/nn/utils/clip_grad.py and aten/src/ATen/native/cuda/ForeachReduceOp.cu (2.15 and 2.11).
 */
#include "base/num.h"
#include "ghost/kernels.h"
#include "train/wrapper.h"

enum { CHUNK = 65536 }; /* elements that one block takes; MultiTensorApply.cuh, kChunkSize */

void list_push(struct run *run, struct list *list, struct tensor *x)
{
    struct pool *pool = &run->ghost.pool;

    if (!list->items) { /* as long as any list of parameters can be */
        list->capacity = run->param_count + 1;
        list->items = pool_alloc(pool, list->capacity * sizeof *list->items);
    }
    list->items[list->count++] = x;
}

void list_drop(struct run *run, struct list *list)
{
    while (list->count > 0)
        tensor_drop(list->items[--list->count]);
    if (list->items)
        pool_free(&run->ghost.pool, list->items, list->capacity * sizeof *list->items);
    *list = (struct list){ 0 };
}

static uint64_t chunks_of(const struct tensor *x)
{
    return num_ceil_div((uint64_t)tensor_numel(x), CHUNK);
}

/* partials() - the kernels' memory: one number per chunk, or (2.11) per tensor and chunk of the largest */
static void partials(
    struct run *run, struct list *buffers, uint64_t count, uint64_t sum, uint64_t most)
{
    struct ghost *g = &run->ghost;

    if (g->around.framework->clip_partials) {
        list_push(run, buffers, tensor_new_sizes(g, DTYPE_INT64, (int64_t)count + 1));
        list_push(run, buffers, tensor_new_sizes(g, DTYPE_FLOAT32, (int64_t)sum));
    } else {
        list_push(run, buffers, tensor_new_sizes(g, DTYPE_FLOAT32, (int64_t)(count * most)));
    }
}

/* foreach_norm() - torch._foreach_norm(grads): a scalar each */
static void foreach_norm(struct run *run, struct list *norms)
{
    struct list buffers = { 0 };
    uint64_t count = 0, sum = 0, most = 0;

    for (size_t i = 0; i < run->trained_count; i++) {
        const struct tensor *grad = run->trained[i]->param->tensor->grad;

        if (!grad)
            continue;
        count++;
        sum += chunks_of(grad);
        most = num_max(most, chunks_of(grad));
    }
    if (count == 0)
        return;
    partials(run, &buffers, count, sum, most);
    for (size_t i = 0; i < run->trained_count; i++) {
        const struct tensor *grad = run->trained[i]->param->tensor->grad;

        if (grad)
            list_push(run, norms, tensor_new_scalar(&run->ghost, grad->dtype));
    }
    list_drop(run, &buffers);
}

/* coefficient() - clamp(max_norm / (total_norm + 1e-6), max=1.0), which multiplies the gradients in place */
static void coefficient(struct run *run, enum dtype dtype)
{
    struct ghost *g = &run->ghost;
    struct tensor *sum = tensor_new_scalar(g, dtype);
    struct tensor *reciprocal =
        tensor_new_scalar(g, dtype); /* max_norm / x is x.reciprocal() * max_norm */
    struct tensor *clip_coef = tensor_new_scalar(g, dtype);

    tensor_drop(reciprocal);
    tensor_drop(sum);
    tensor_drop(tensor_new_scalar(g, dtype)); /* clamped */
    tensor_drop(clip_coef);
}

/*
 * reduce_norms() - norms of the shards of DTensors become those of whole gradients: squared, summed over the ranks, rooted
 *
 * torch/distributed/tensor/_ops/_math_ops.py (2.15), _NormPartial; the functional all-reduce returns a tensor of its own.
 * The result, owned.
 */
static struct tensor *reduce_norms(struct run *run, struct tensor *norms)
{
    struct ghost *g = &run->ghost;

    if (!run->partial_norms)
        return tensor_ref(norms);
    TENSOR_AUTO *squares = tensor_like(g, norms, norms->dtype);
    TENSOR_AUTO *sums = tensor_like(g, norms, norms->dtype);

    return tensor_like(g, norms, norms->dtype);
}

void clip_gradients(struct run *run)
{
    struct ghost *g = &run->ghost;
    struct list norms = { 0 };

    if (run->wrapper && run->wrapper->clip) {
        run->wrapper->clip(run);
        return;
    }
    g->category = CATEGORY_TEMPORARY;
    g->op = OP_COUNT;
    g->path = 0;
    foreach_norm(run, &norms);
    if (norms.count > 0 && norms.items[0]) {
        enum dtype dtype = norms.items[0]->dtype;
        struct tensor *stack = tensor_new_sizes(g, dtype, (int64_t)norms.count);
        struct tensor *whole = stack ? reduce_norms(run, stack) : NULL;
        struct tensor *total_norm = whole ? kernel_reduce(whole, 1, false, dtype) : NULL;

        tensor_drop(whole);
        tensor_drop(stack);
        list_drop(run, &norms);
        coefficient(run, dtype);
        tensor_drop(total_norm);
    }
    list_drop(run, &norms);
    g->category = CATEGORY_ACTIVATION;
}
