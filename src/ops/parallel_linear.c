/*
 * ops/parallel_linear.c - Megatron's linear layers, whose weights are split over ranks, and the regions between them
 *
 * Mirrors megatron/core/tensor_parallel/layers.py (LinearWithGradAccumulationAndAsyncCommunication, LinearWithFrozenWeight,
 * ColumnParallelLinear, RowParallelLinear) and mappings.py (megatron-core 0.16.1), without gradient_accumulation_fusion. Only
 * the input is kept for the backward: under sequence parallelism that is this rank's part of the sequence, gathered anew into
 * the global memory buffer when the weight's gradient is made. All-reduces are in place.
 */
#include <string.h>

#include "ghost/kernels.h"
#include "ops/blas.h"
#include "ops/dense.h"
#include "ops/memory_buffer.h"
#include "ops/ops.h"
#include "ops/parallel.h"
#include "ops/pointwise.h"

/* ------------------------------------------------------------------ along the sequence, the first dimension */

static bool splits(struct tensor *x, int64_t ranks)
{
    if (x->dims > 0 && x->sizes[0] % ranks == 0)
        return true;
    ghost_fail(x->ghost, PLM_E_USAGE, "a sequence of %lld cannot be split evenly over %lld ranks",
               x->dims ? (long long)x->sizes[0] : 0, (long long)ranks);
    return false;
}

/* resized() - an uninitialised tensor like @x whose first size is @times, or one @times-th, of x's */
static struct tensor *resized(struct tensor *x, int64_t times, bool gathered)
{
    struct ghost *g = x->ghost;
    int64_t sizes[TENSOR_DIMS];

    if (!gathered && !splits(x, times))
        return NULL;
    memcpy(sizes, x->sizes, sizeof sizes);
    sizes[0] = gathered ? sizes[0] * times : sizes[0] / times;
    enum category outer = g->category;

    g->category = CATEGORY_COMMUNICATION;
    struct tensor *y = tensor_new(g, x->dtype, x->dims, sizes);

    g->category = outer;
    return y;
}

/* numbers: [0] the ranks */
static void gather_apply(struct ghost *g,
                         struct node *n,
                         struct tensor *const *grads,
                         struct tensor **ret)
{
    if (node_needs(n, 0))
        ret[0] = resized(grads[0], n->numbers[0], true);
}

static const struct backward scatter_backward = { "_ScatterToSequenceParallelRegionBackward",
                                                  gather_apply };
static const struct backward reduce_scatter_backward = {
    "_ReduceScatterToSequenceParallelRegionBackward", gather_apply
};

static void pass_apply(struct ghost *g,
                       struct node *n,
                       struct tensor *const *grads,
                       struct tensor **ret)
{
    if (node_needs(n, 0))
        ret[0] = tensor_ref(grads[0]);
}

static const struct backward reduce_backward = { "_ReduceFromModelParallelRegionBackward",
                                                 pass_apply };

/* region_node() - @backward gathers the gradient of this rank's part of @x */
static struct node *region_node(struct tensor *x, const struct backward *backward, int64_t ranks)
{
    struct node *n = node_new(x->ghost, backward, &x, 1, 0, 1);

    if (n)
        n->numbers[0] = ranks;
    return n;
}

struct tensor *parallel_reduced(struct tensor *x, int64_t ranks, bool scatters)
{
    if (!x)
        return NULL;
    if (scatters)
        return node_attach(region_node(x, &reduce_scatter_backward, ranks),
                           resized(x, ranks, false));
    return node_attach(node_new(x->ghost, &reduce_backward, &x, 1, 0, 0),
                       tensor_view(x, x->dims, x->sizes, x->strides));
}

/* own_part() - input_[offset:offset + part].contiguous(), which is a view of what is contiguous */
static struct tensor *own_part(struct tensor *x, int64_t ranks)
{
    int64_t sizes[TENSOR_DIMS];

    if (!splits(x, ranks))
        return NULL;
    memcpy(sizes, x->sizes, sizeof sizes);
    sizes[0] /= ranks;
    TENSOR_AUTO *view = tensor_view(x, x->dims, sizes, x->strides);

    return view ? kernel_contiguous(view) : NULL;
}

void op_sequence_scatter(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *x = args->in[0];

    if (!x || !args->sequence_parallel)
        ret[0] = tensor_ref(x);
    else
        ret[0] =
            node_attach(region_node(x, &scatter_backward, args->ranks), own_part(x, args->ranks));
}

/* ------------------------------------------------------------------ the linear layer */

enum { EDGE_INPUT, EDGE_WEIGHT, EDGE_BIAS };
enum {
    NUMBER_GATHERED /* ranks whose parts of the sequence make the input; 1: it is whole */,
    NUMBERS
};

/* total_input() - what the product is made of: owned */
static struct tensor *total_input(struct tensor *input, int64_t gathered)
{
    int64_t sizes[TENSOR_DIMS];

    if (!input || gathered <= 1)
        return tensor_ref(input);
    memcpy(sizes, input->sizes, sizeof sizes);
    sizes[0] *= gathered;
    return memory_buffer(input->ghost, input->dtype, input->dims, sizes);
}

/* as_matrix() - view(-1, last size), owned; a copy of what is not contiguous */
static struct tensor *as_matrix(struct tensor *x)
{
    TENSOR_AUTO *dense = x ? kernel_contiguous(x) : NULL;

    if (!dense)
        return NULL;
    int64_t columns = dense->sizes[dense->dims - 1];
    int64_t sizes[] = { columns > 0 ? tensor_numel(dense) / columns : 0, columns };

    return tensor_view(dense, 2, sizes, (int64_t[]){ columns, 1 });
}

/* input_gradient() - grad_output.matmul(weight) */
static struct tensor *input_gradient(struct tensor *grad, struct tensor *weight)
{
    TENSOR_AUTO *flat = as_matrix(grad);
    TENSOR_AUTO *product = flat && weight ? blas_product(flat, weight, false) : NULL;
    int64_t sizes[TENSOR_DIMS], strides[TENSOR_DIMS];

    if (!product)
        return NULL;
    memcpy(sizes, grad->sizes, sizeof sizes);
    sizes[grad->dims - 1] = weight->sizes[1];
    tensor_contiguous_strides(grad->dims, sizes, strides);
    return tensor_view(product, grad->dims, sizes, strides);
}

/* weight_gradient() - grad_output.t().matmul(total_input) */
static struct tensor *weight_gradient(struct tensor *flat, struct tensor *total)
{
    TENSOR_AUTO *flat_t = flat ? blas_turned(flat) : NULL;
    TENSOR_AUTO *flat_total = as_matrix(total);

    return flat_t && flat_total ? blas_product(flat_t, flat_total, false) : NULL;
}

static void linear_apply(struct ghost *g,
                         struct node *n,
                         struct tensor *const *grads,
                         struct tensor **ret)
{
    TENSOR_AUTO *input = node_saved(n, EDGE_INPUT);
    TENSOR_AUTO *weight = node_saved(n, EDGE_WEIGHT);
    bool trained = node_needs(n, EDGE_WEIGHT), has_bias = n->edge_count > EDGE_BIAS;
    int64_t gathered = n->numbers[NUMBER_GATHERED];
    TENSOR_AUTO *total = trained ? total_input(input, gathered) : NULL;
    TENSOR_AUTO *grad_input = input_gradient(grads[0], weight);
    TENSOR_AUTO *flat = trained ? as_matrix(grads[0]) : NULL;

    if (!grad_input)
        return;
    if (gathered > 1)
        ret[EDGE_INPUT] = resized(grad_input, gathered, false);
    if (trained)
        ret[EDGE_WEIGHT] = weight_gradient(flat, total);
    if (has_bias && node_needs(n, EDGE_BIAS))
        ret[EDGE_BIAS] = kernel_reduce(flat ? flat : grads[0], 1, false, grads[0]->dtype);
    if (gathered <= 1)
        ret[EDGE_INPUT] = tensor_take(&grad_input);
    if (!node_needs(n, EDGE_INPUT)) {
        tensor_drop(ret[EDGE_INPUT]);
        ret[EDGE_INPUT] = NULL;
    }
}

static const struct backward linear_backward = {
    "LinearWithGradAccumulationAndAsyncCommunicationBackward", linear_apply
};

/* product() - torch.matmul(total_input, weight.t()), plus the bias, outside of autograd */
static struct tensor *product(struct tensor *total, struct tensor *weight, struct tensor *bias)
{
    struct ghost *g = total->ghost;
    bool grad_enabled = g->grad_enabled;

    g->grad_enabled = false;
    TENSOR_AUTO *y = dense_linear(total, weight, NULL);
    struct tensor *out = bias && y ? pointwise_add(y, bias) : tensor_take(&y);

    g->grad_enabled = grad_enabled;
    return out;
}

static struct tensor *linear(const struct op_args *args,
                             struct tensor *input,
                             struct tensor *weight,
                             struct tensor *bias)
{
    struct ghost *g = input->ghost;
    bool gathers = args->shard == SHARD_COLUMN && args->sequence_parallel;
    struct node *n = node_new(g, &linear_backward, (struct tensor *[]){ input, weight, bias },
                              bias ? 3 : 2, 2, NUMBERS);

    if (n) {
        n->numbers[NUMBER_GATHERED] = gathers ? args->ranks : 1;
        if (node_needs(n, EDGE_WEIGHT))
            node_save(n, EDGE_INPUT, input);
        node_save(n, EDGE_WEIGHT, weight);
    }
    TENSOR_AUTO *total = total_input(input, gathers ? args->ranks : 1);

    return node_attach(n, total ? product(total, weight, bias) : NULL);
}

void op_parallel_linear(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *input = args->in[0], *weight = args->in[1];
    struct tensor *bias = args->in_count > 2 ? args->in[2] : NULL;
    char xt[TENSOR_TEXT], wt[TENSOR_TEXT];

    if (!input || !weight)
        return;
    if (input->dims == 0 || weight->dims != 2 ||
        weight->sizes[1] != input->sizes[input->dims - 1]) {
        ret[0] =
            ghost_fail(g, PLM_E_MODEL,
                       "an input %s does not go with a weight %s; the last sizes must be equal",
                       tensor_text(input, xt), tensor_text(weight, wt));
        return;
    }
    TENSOR_AUTO *y = linear(args, input, weight, bias);

    ret[0] = args->shard == SHARD_ROW ? parallel_reduced(y, args->ranks, args->sequence_parallel)
                                      : tensor_take(&y);
}
