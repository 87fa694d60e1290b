/* ops/index.c - elements by index tensors: index_select, index, gather */
#include <inttypes.h>
#include <string.h>

#include "ghost/kernels.h"
#include "ops/pointwise.h"
#include "ops/shapes.h"
#include "ops/sort.h"
#include "ops/views.h"

static bool is_index(struct ghost *g, const struct tensor *index)
{
    if (!index || index->dtype == DTYPE_INT64 || index->dtype == DTYPE_INT32)
        return index;
    ghost_fail(g, PLM_E_MODEL, "the index is %s; it must be int64 or int32",
               dtype_defs[index->dtype].name);
    return false;
}

/* index_select_backward, gather_backward: new_zeros(input sizes), and a scattered addition */
static void zeros_apply(struct ghost *g,
                        struct node *n,
                        struct tensor *const *grads,
                        struct tensor **ret)
{
    const struct output *in = node_input(n, 0);
    TENSOR_AUTO *index = node_saved(n, 0);
    TENSOR_AUTO *self = n->saved_count > 1 ? node_saved(n, 1) : NULL;

    if (index && (self || n->saved_count == 1))
        ret[0] = tensor_new(g, grads[0]->dtype, in->dims, in->sizes);
}

static const struct backward index_select_backward = { "IndexSelectBackward0", zeros_apply };
static const struct backward gather_backward = { "GatherBackward0", zeros_apply };

void op_index_select(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *x = args->in[0], *index = args->in[1];
    int64_t sizes[TENSOR_DIMS];
    char text[TENSOR_TEXT];

    if (!x || !is_index(g, index))
        return;
    unsigned dim = tensor_dim(g, x, op_int(args, KEY_DIM));

    if (index->dims > 1) {
        ghost_fail(g, PLM_E_MODEL, "the index has sizes %s; it must have one dimension",
                   tensor_text(index, text));
        return;
    }
    memcpy(sizes, x->sizes, sizeof sizes);
    if (x->dims > 0)
        sizes[dim] = tensor_numel(index);
    struct node *n = node_new(g, &index_select_backward, &x, 1, 1, 0);

    node_save(n, 0, index);
    ret[0] = node_attach(n, tensor_new(g, x->dtype, x->dims, sizes));
}

void op_gather(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *x = args->in[0], *index = args->in[1];
    char a[TENSOR_TEXT], b[TENSOR_TEXT];

    if (!x || !is_index(g, index))
        return;
    unsigned dim = tensor_dim(g, x, op_int(args, KEY_DIM));
    /* a scalar counts as one dimension of size 1 */
    bool good = (x->dims ? x->dims : 1) == (index->dims ? index->dims : 1);

    for (unsigned i = 0; i < x->dims && i < index->dims && good; i++)
        good = i == dim || index->sizes[i] <= x->sizes[i];
    if (!good) {
        ghost_fail(g, PLM_E_MODEL,
                   "the index has sizes %s and the tensor %s; it may not be larger, except in "
                   "dimension %u",
                   tensor_text(index, a), tensor_text(x, b), dim);
        return;
    }
    struct node *n = node_new(g, &gather_backward, &x, 1, 2, 0);

    node_save(n, 0, index);
    node_save(n, 1, x);
    ret[0] = node_attach(n, tensor_new(g, x->dtype, index->dims, index->sizes));
}

/*
 * index_put_scratch() - native/cuda/Indexing.cu, index_put_with_sort_kernel
 *
 * The index as int64, wrapped, multiplied by the stride, contiguous; then the gradient, contiguous; sorted and original
 * positions; the sort.
 */
static void index_put_scratch(struct ghost *g,
                              struct tensor *index,
                              struct tensor *grad,
                              int64_t rows)
{
    TENSOR_AUTO *linear = NULL;
    {
        TENSOR_AUTO *wide = kernel_cast(index, DTYPE_INT64);
        TENSOR_AUTO *wrapped =
            wide ? kernel_pointwise(g, DTYPE_INT64, (struct tensor *[]){ wide }, 1) : NULL;

        linear =
            wrapped ? kernel_pointwise(g, DTYPE_INT64, (struct tensor *[]){ wrapped }, 1) : NULL;
    }
    struct tensor *dense = kernel_contiguous(linear);

    tensor_drop(linear);
    linear = dense;
    if (!linear)
        return;
    TENSOR_AUTO *values = kernel_contiguous(grad);
    int64_t count = tensor_numel(linear);
    TENSOR_AUTO *sorted = tensor_new_sizes(g, DTYPE_INT64, count);
    TENSOR_AUTO *original = tensor_new_sizes(g, DTYPE_INT64, count);
    TENSOR_AUTO *range = tensor_new_sizes(g, DTYPE_INT64, count);

    if (values && sorted && original && range)
        ghost_scratch(g, sort_scratch(g, (uint64_t)count, rows > 1 ? (uint64_t)rows - 1 : 0));
}

static void index_apply(struct ghost *g,
                        struct node *n,
                        struct tensor *const *grads,
                        struct tensor **ret)
{
    const struct output *in = node_input(n, 0);
    TENSOR_AUTO *index = node_saved(n, 0);

    ret[0] = tensor_new(g, grads[0]->dtype, in->dims, in->sizes);
    if (ret[0] && index && tensor_numel(index) > 0)
        index_put_scratch(g, index, grads[0], in->sizes[0]);
}

static const struct backward index_backward = { "IndexBackward0", index_apply };

/*
 * indexed() - the result of x[index]: an element-wise kernel over the index and the rows that it picks, both with
 * stride 0 where they do not vary, so that the layout follows the index first and the row then
 */
static struct tensor *indexed(struct ghost *g, struct tensor *x, struct tensor *index)
{
    int64_t sizes[TENSOR_DIMS], of_x[TENSOR_DIMS] = { 0 }, of_index[TENSOR_DIMS] = { 0 };
    unsigned dims = index->dims + x->dims - 1;
    char text[TENSOR_TEXT];

    if (dims > TENSOR_DIMS)
        return ghost_fail(g, PLM_E_MODEL, "indexing %s gives %u dimensions; %d are supported",
                          tensor_text(x, text), dims, TENSOR_DIMS);
    for (unsigned i = 0; i < index->dims; i++) {
        sizes[i] = index->sizes[i];
        of_index[i] = index->strides[i];
    }
    for (unsigned i = 1; i < x->dims; i++) {
        sizes[index->dims + i - 1] = x->sizes[i];
        of_x[index->dims + i - 1] = x->strides[i];
    }
    int64_t numel;

    if (!shape_numel(dims, sizes, &numel))
        return ghost_fail(g, PLM_E_RANGE, "the result has more than 2^63 elements");
    TENSOR_AUTO *rows = tensor_view(x, dims, sizes, of_x);
    TENSOR_AUTO *picks = tensor_view(index, dims, sizes, of_index);

    return kernel_pointwise(g, x->dtype, (struct tensor *[]){ rows, picks }, 2);
}

/* index_put_backward(): the values' gradient is indexed; what was overwritten gets a copy with zeros there */
static void put_apply(struct ghost *g,
                      struct node *n,
                      struct tensor *const *grads,
                      struct tensor **ret)
{
    TENSOR_AUTO *index = node_saved(n, 0);

    if (!index)
        return;
    if (node_needs(n, 0)) {
        TENSOR_AUTO *zeros = tensor_new_scalar(g, grads[0]->dtype);

        ret[0] = kernel_clone(grads[0]);
    }
    if (node_needs(n, 1))
        ret[1] = indexed(g, grads[0], index);
}

static const struct backward put_backward = { "IndexPutBackward0", put_apply };

void op_index_put(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *x = args->in[0], *index = args->in[1], *values = args->in[2];

    if (!x || !values || !is_index(g, index))
        return;
    struct node *n = node_new(g, &put_backward, (struct tensor *[]){ x, values }, 2, 1, 0);

    if (!pointwise_may_overwrite(x, n))
        return;
    node_save(n, 0, index);
    ret[0] = pointwise_overwrite(x, n);
}

void op_index(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *x = args->in[0], *index = args->in[1];

    if (index && index->dtype == DTYPE_BOOL) {
        ghost_fail(g, PLM_E_MODEL, "the size of x[mask] depends on values; it cannot be known");
        return;
    }
    if (!x || !is_index(g, index))
        return;
    if (x->dims == 0) {
        ghost_fail(g, PLM_E_MODEL, "a scalar cannot be indexed");
        return;
    }
    if (index->dims == 0) { /* Python's indexing reads the number and selects */
        ret[0] = view_select(x, 0, 0);
        return;
    }
    struct node *n = node_new(g, &index_backward, &x, 1, 1, 0);

    node_save(n, 0, index);
    TENSOR_AUTO *wide = kernel_cast(index, DTYPE_INT64);

    ret[0] = node_attach(n, wide ? indexed(g, x, wide) : NULL);
}
