/*
 * ops/masked_select.c - the elements that a mask has
 *
 * Mirrors native/cuda/IndexKernel.cpp (masked_select: the places are listed by nonzero, then indexed) and masked_select_backward of
 * torch/csrc/autograd/FunctionsManual.cpp (PyTorch 2.15). How many elements there are depends on values, so the model says.
 */
#include "ghost/kernels.h"
#include "ops/ops.h"
#include "ops/sort.h"

enum { SAVED_SELF, SAVED_MASK, SAVED_COUNT };

/* new_zeros(sizes).masked_scatter_(mask, grad), by a running sum of the mask */
static void masked_select_apply(struct ghost *g,
                                struct node *n,
                                struct tensor *const *grads,
                                struct tensor **ret)
{
    const struct output *in = node_input(n, 0);
    TENSOR_AUTO *self = node_saved(n, SAVED_SELF);
    TENSOR_AUTO *mask = node_saved(n, SAVED_MASK);

    if (!self || !mask)
        return;
    ret[0] = tensor_new(g, grads[0]->dtype, in->dims, in->sizes);
    TENSOR_AUTO *sums = tensor_like(g, mask, DTYPE_INT64);

    if (sums)
        ghost_scratch(g, scan_scratch(g, (uint64_t)tensor_numel(mask), DTYPE_INT64));
}

static const struct backward masked_select_backward = { "MaskedSelectBackward0",
                                                        masked_select_apply };

void op_masked_select(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *x = args->in[0], *mask = args->in[1];
    int64_t rows = op_int(args, KEY_ROWS);

    if (!x || !mask)
        return;
    if (mask->dtype != DTYPE_BOOL || tensor_numel(mask) != tensor_numel(x) || rows < 0 ||
        rows > tensor_numel(x)) {
        char a[TENSOR_TEXT], b[TENSOR_TEXT];

        ghost_fail(g, PLM_E_MODEL, "%lld elements of %s by a mask %s, which must be as large",
                   (long long)rows, tensor_text(x, a), tensor_text(mask, b));
        return;
    }
    struct node *n = node_new(g, &masked_select_backward, &x, 1, SAVED_COUNT, 0);

    node_save(n, SAVED_SELF, x);
    node_save(n, SAVED_MASK, mask);
    TENSOR_AUTO *places = tensor_new(g, DTYPE_INT64, 2, (int64_t[]){ x->dims, rows });

    if (places)
        ret[0] = node_attach(n, tensor_new_sizes(g, x->dtype, rows));
}
