/*
 * ops/matmul.c - torch.matmul: products with any number of leading dimensions
 *
 * Mirrors aten/src/ATen/native/LinearAlgebra.cpp, _matmul_impl() and should_fold() (2.15).
 */
#include <string.h>

#include "base/num.h"
#include "ops/dense.h"
#include "ops/ops.h"
#include "ops/views.h"

/* wants_gradient() - Tensor.requires_grad, which a view made under no_grad has from its base */
static bool wants_gradient(const struct tensor *x)
{
    return x->requires_grad || x->base_requires_grad;
}

/* should_fold(): one matrix product in place of a batch of them */
static bool should_fold(const struct tensor *a, const struct tensor *b)
{
    bool a_larger = a->dims >= b->dims;
    const struct tensor *large = a_larger ? a : b, *small = a_larger ? b : a;
    int64_t sizes[TENSOR_DIMS], strides[TENSOR_DIMS];

    if (large->dims < 3 || small->dims > 2)
        return false;
    if (wants_gradient(small))
        return true;
    if (a->dims == 2)
        return false;
    if (tensor_numel(large) == 0)
        return true;
    memcpy(sizes, large->sizes, sizeof sizes);
    memcpy(strides, large->strides, sizeof strides);
    if (!a_larger) { /* mT() */
        unsigned d = large->dims - 2;

        sizes[d] = large->sizes[d + 1];
        strides[d] = large->strides[d + 1];
    }
    for (unsigned i = 0; i + 2 < large->dims; i++)
        if (strides[i] != strides[i + 1] * sizes[i + 1])
            return false;
    return true;
}

static struct tensor *fold(struct tensor *a, struct tensor *b)
{
    bool transpose = b->dims > a->dims;
    TENSOR_AUTO *large = transpose ? view_transpose(b, -2, -1) : tensor_ref(a);
    TENSOR_AUTO *small = !transpose ? tensor_ref(b) : a->dims == 2 ? view_t(a) : tensor_ref(a);

    if (!large || !small)
        return NULL;
    unsigned dims = large->dims;
    int64_t sizes[TENSOR_DIMS], rows = 1;

    for (unsigned i = 0; i + 1 < dims; i++) {
        sizes[i] = large->sizes[i];
        rows *= sizes[i];
    }
    TENSOR_AUTO *folded = view_reshape(large, 2, (int64_t[]){ rows, large->sizes[dims - 1] });

    if (!folded)
        return NULL;
    if (small->dims == 1) {
        TENSOR_AUTO *out = dense_mv(folded, small);

        return view_unsafe(out, dims - 1, sizes);
    }
    sizes[dims - 1] = small->sizes[1];
    TENSOR_AUTO *out = dense_mm(folded, small);
    TENSOR_AUTO *shaped = view_unsafe(out, dims, sizes);

    if (!transpose)
        return tensor_take(&shaped);
    TENSOR_AUTO *back = view_transpose(shaped, -2, -1);

    return view_contiguous(back);
}

/* batches() - expand the leading dimensions to @shape and flatten them: [product, rows, columns] */
static struct tensor *batches(struct tensor *x, unsigned dims, const int64_t *shape, int64_t count)
{
    int64_t sizes[TENSOR_DIMS];
    int64_t rows = x->dims > 1 ? x->sizes[x->dims - 2] : 1, columns = x->sizes[x->dims - 1];

    if (dims + 2 > TENSOR_DIMS)
        return ghost_fail(x->ghost, PLM_E_MODEL, "too many dimensions to multiply");
    if (dims > 0)
        memcpy(sizes, shape, dims * sizeof *sizes);
    sizes[dims] = rows;
    sizes[dims + 1] = columns;
    TENSOR_AUTO *expanded = view_expand(x, dims + 2, sizes);

    return view_reshape(expanded, 3, (int64_t[]){ count, rows, columns });
}

static struct tensor *broadcast_bmm(struct tensor *a, struct tensor *b)
{
    struct ghost *g = a->ghost;
    unsigned a_lead = a->dims > 2 ? a->dims - 2 : 0, b_lead = b->dims > 2 ? b->dims - 2 : 0;
    unsigned dims = a_lead > b_lead ? a_lead : b_lead;
    int64_t shape[TENSOR_DIMS], count = 1;

    for (unsigned i = 0; i < dims; i++) {
        int64_t x = i + a_lead >= dims ? a->sizes[i + a_lead - dims] : 1;
        int64_t y = i + b_lead >= dims ? b->sizes[i + b_lead - dims] : 1;

        if (x != y && x != 1 && y != 1) {
            char at[TENSOR_TEXT], bt[TENSOR_TEXT];

            return ghost_fail(g, PLM_E_MODEL, "the leading sizes of %s and %s do not go together",
                              tensor_text(a, at), tensor_text(b, bt));
        }
        shape[i] = x == 1 ? y : x;
        if (!num_mul(count, shape[i], &count))
            return ghost_fail(g, PLM_E_RANGE, "a tensor has more than 2^60 elements");
    }
    TENSOR_AUTO *left = batches(a, dims, shape, count);
    TENSOR_AUTO *column = b->dims == 1 ? view_unsqueeze(b, 1) : tensor_ref(b);
    TENSOR_AUTO *right = column ? batches(column, dims, shape, count) : NULL;
    TENSOR_AUTO *out = dense_bmm(left, right);

    if (a->dims > 1)
        shape[dims++] = a->sizes[a->dims - 2];
    if (b->dims > 1)
        shape[dims++] = b->sizes[b->dims - 1];
    return view_unsafe(out, dims, shape);
}

struct tensor *dense_matmul(struct tensor *a, struct tensor *b)
{
    if (!a || !b)
        return NULL;
    if (a->dims == 0 || b->dims == 0)
        return ghost_fail(a->ghost, PLM_E_MODEL,
                          "a scalar cannot be multiplied as a matrix; use mul");
    if (a->dims == 1 && b->dims == 1)
        return dense_dot(a, b);
    if (a->dims == 2 && b->dims == 1)
        return dense_mv(a, b);
    if (a->dims == 1 && b->dims == 2) {
        TENSOR_AUTO *row = view_unsqueeze(a, 0);
        TENSOR_AUTO *out = dense_mm(row, b);

        return view_squeeze(out, 0);
    }
    if (a->dims == 2 && b->dims == 2)
        return dense_mm(a, b);
    if (should_fold(a, b))
        return fold(a, b);
    if (a->dims == 3 && b->dims == 3 && a->sizes[0] != b->sizes[0]) {
        /* broadcasting one of them would make its gradient as large as the other's batch */
        if (a->sizes[0] == 1 && wants_gradient(a)) {
            TENSOR_AUTO *matrix = view_squeeze(a, 0);

            return dense_matmul(matrix, b);
        }
        if (b->sizes[0] == 1 && wants_gradient(b)) {
            TENSOR_AUTO *matrix = view_squeeze(b, 0);

            return dense_matmul(a, matrix);
        }
    }
    return broadcast_bmm(a, b);
}

void op_matmul(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    ret[0] = dense_matmul(args->in[0], args->in[1]);
}
