/*
 * ops/order.c - topk, sort, histc
 *
 * Mirrors native/cuda/TensorTopK.cpp, Sort.cpp and Summary.cu of PyTorch 2.15. topk of rows that one block handles takes no
 * memory of its own; those of more than some ten thousand elements are not modelled.
 */
#include <string.h>

#include "ghost/kernels.h"
#include "ops/ops.h"
#include "ops/sort.h"

enum { SORT_BLOCK = 4096 }; /* elements that one block sorts */

/* value_selecting_reduction_backward(): zeros(sizes).scatter_(dim, indices, grad) */
static void topk_apply(struct ghost *g,
                       struct node *n,
                       struct tensor *const *grads,
                       struct tensor **ret)
{
    const struct output *in = node_input(n, 0);
    TENSOR_AUTO *indices = node_saved(n, 0);

    if (indices && grads[0])
        ret[0] = tensor_new(g, grads[0]->dtype, in->dims, in->sizes);
}

static const struct backward topk_backward = { "TopkBackward0", topk_apply };

void op_topk(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *x = args->in[0];
    int64_t k = op_int(args, KEY_K), sizes[TENSOR_DIMS];

    if (!x)
        return;
    if (x->dims == 0 || k < 0 || k > x->sizes[x->dims - 1]) {
        char text[TENSOR_TEXT];

        ghost_fail(g, PLM_E_MODEL, "'k' is %lld; the tensor %s has not that many in a row",
                   (long long)k, tensor_text(x, text));
        return;
    }
    memcpy(sizes, x->sizes, sizeof sizes);
    sizes[x->dims - 1] = k;
    struct node *n = tensor_is_floating(x) ? node_new(g, &topk_backward, &x, 1, 1, 0) : NULL;

    ret[0] = tensor_new(g, x->dtype, x->dims, sizes);
    ret[1] = tensor_new(g, DTYPE_INT64, x->dims, sizes);
    node_save_output(n, 0, ret[1]);
    node_attach(n, ret[0]);
}

/*
 * sort_rows() - sort_stable_kernel of many rows: within a block up to 4096 elements, from one range of positions for all;
 * else by cub, of all rows at once and then by row, from positions of each
 */
static void sort_rows(struct ghost *g, struct tensor *x)
{
    bool long_rows = x->sizes[1] > SORT_BLOCK;
    int64_t rows = long_rows ? x->sizes[0] : 1;
    TENSOR_AUTO *range = tensor_new(g, DTYPE_INT64, 2, (int64_t[]){ rows, x->sizes[1] });

    if (!long_rows)
        return;
    TENSOR_AUTO *order = tensor_new(g, DTYPE_INT64, x->dims, x->sizes);
    {
        TENSOR_AUTO *keys = tensor_like(g, x, x->dtype);
    }
    if (range && order)
        ghost_scratch(g, sort_scratch(g, (uint64_t)tensor_numel(x), (uint64_t)rows - 1));
}

/* sort_stable_kernel: within a block up to 4096 elements, else by cub, from a range of positions */
void op_sort(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *x = args->in[0];

    if (!x)
        return;
    if ((x->dims != 1 || x->dtype != DTYPE_INT64) &&
        (x->dims != 2 || dtype_defs[x->dtype].floating)) {
        char text[TENSOR_TEXT];

        ghost_fail(g, PLM_E_MODEL,
                   "of %s %s; a list of int64, or a matrix of integers, was expected",
                   dtype_defs[x->dtype].name, tensor_text(x, text));
        return;
    }
    int64_t count = x->sizes[0];

    ret[0] = tensor_like(g, x, x->dtype);
    ret[1] = tensor_new(g, DTYPE_INT64, x->dims, x->sizes);
    if (x->dims == 2) {
        sort_rows(g, x);
        return;
    }
    TENSOR_AUTO *range = count > 1 ? tensor_new_sizes(g, DTYPE_INT64, count) : NULL;

    if (range && count > SORT_BLOCK)
        ghost_scratch(g, sort_scratch(g, (uint64_t)count, INT64_MAX));
}

void op_histc(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *x = args->in[0];
    int64_t bins = op_int(args, KEY_BINS);

    if (!x)
        return;
    if (bins < 1)
        ghost_fail(g, PLM_E_MODEL, "'bins' is %lld; it must be at least 1", (long long)bins);
    else
        ret[0] = tensor_new_sizes(g, x->dtype, bins);
    if (bins != 1 || !ret[0])
        return;
    /* from 0 to bins - 1: an empty range is taken from the input, by aminmax() */
    TENSOR_AUTO *least = tensor_new_scalar(g, x->dtype);
    TENSOR_AUTO *most = tensor_new_scalar(g, x->dtype);

    kernel_reduce_scratch(g, x, (1U << x->dims) - 1, 2 * tensor_itemsize(x));
}
