/*
 * ops/overwrite.c - the history of a tensor that an operator has overwritten
 *
 * Mirrors torch/csrc/autograd/functions/tensor.cpp (CopySlices) and as_strided_backward of PyTorch 2.15. A view's new
 * history is its base's: the operator's node becomes a CopySlices between the base's old history and the
 * view, whose gradient reaches it through AsStridedBackward. The base is not told, so nobody else may hold it.
 */
#include <string.h>

#include "ops/pointwise.h"

/* the view's sizes, kept behind the numbers of the operator's own node */
enum { SHAPE_DIMS, SHAPE_SIZES, SHAPE_COUNT = SHAPE_SIZES + TENSOR_DIMS };

/* is_view_of_all() - does @base, which a view was made of, stand for the whole storage? */
static bool is_view_of_all(const struct tensor *x, const struct output *base)
{
    plm_bytes bytes = dtype_defs[x->dtype].bytes;

    for (unsigned i = 0; i < base->dims; i++)
        bytes *= (plm_bytes)base->sizes[i];
    return bytes == x->storage->bytes;
}

bool pointwise_may_overwrite(const struct tensor *x, const struct node *n)
{
    if (!x || x->ghost->halt)
        return false;
    if (x->requires_grad && !x->grad_fn && x->ghost->grad_enabled) {
        ghost_fail(x->ghost, PLM_E_MODEL,
                   "a parameter cannot be overwritten while gradients are recorded");
    } else if (n && x->view) {
        const struct output *base =
            x->grad_fn && x->grad_fn->edge_count > 0 ? node_input(x->grad_fn, 0) : NULL;

        if (!base || x->storage->refs > 1 || !is_view_of_all(x, base))
            ghost_fail(x->ghost, PLM_E_MODEL,
                       "a view of a tensor that others may read cannot be overwritten while "
                       "gradients are recorded; leave out 'inplace'");
    }
    return !x->ghost->halt;
}

/* CopySlices::apply_impl(): the gradient of the base, with the operator's written over the view's part of it */
static void copy_slices_apply(struct ghost *g,
                              struct node *n,
                              struct tensor *const *grads,
                              struct tensor **ret)
{
    const struct tensor *grad = grads[0];
    const int64_t *shape = n->numbers + n->number_count - SHAPE_COUNT;
    TENSOR_AUTO *result = tensor_new(g, grad->dtype, grad->dims, grad->sizes);
    TENSOR_AUTO *slice =
        tensor_new(g, grad->dtype, (unsigned)shape[SHAPE_DIMS], shape + SHAPE_SIZES);

    if (!slice)
        return;
    n->sliced->apply(g, n, &slice, ret);
    if (ret[0] && ret[0] != slice)
        tensor_drop(ret[0]);
    ret[0] = node_needs(n, 0) ? tensor_take(&result) : NULL;
}

static const struct backward copy_slices = { "CopySlices", copy_slices_apply };

/* as_strided_backward(): zeros as large as the base, into which the gradient is written */
static void as_strided_apply(struct ghost *g,
                             struct node *n,
                             struct tensor *const *grads,
                             struct tensor **ret)
{
    const struct output *base = node_input(n, 0);

    ret[0] = tensor_new(g, grads[0]->dtype, base->dims, base->sizes);
}

static const struct backward as_strided = { "AsStridedBackward0", as_strided_apply };

/* slice_node() - @n, taken over, as a CopySlices: the gradient of the first input goes where the base came from */
static struct node *slice_node(struct tensor *x, struct node *n)
{
    struct tensor *inputs[] = { x, x };
    const struct edge *base = &x->grad_fn->edges[0];
    struct node *slices = node_new(x->ghost, &copy_slices, inputs, n->edge_count, n->saved_count,
                                   n->number_count + SHAPE_COUNT);

    for (uint32_t i = 0; i < n->edge_count; i++) {
        struct edge made = slices->edges[i];

        slices->edges[i] =
            i == 0 ? (struct edge){ node_ref(base->node), base->input_nr } : n->edges[i];
        if (i > 0)
            n->edges[i] = made;
        else
            node_drop(made.node);
    }
    for (uint32_t i = 0; i < n->saved_count; i++) {
        slices->saved[i] = n->saved[i];
        n->saved[i] = (struct saved){ 0 };
    }
    int64_t *shape = slices->numbers + n->number_count;

    if (n->number_count > 0)
        memcpy(slices->numbers, n->numbers, n->number_count * sizeof *n->numbers);
    shape[SHAPE_DIMS] = x->dims;
    memcpy(shape + SHAPE_SIZES, x->sizes, sizeof x->sizes);
    slices->sliced = n->backward;
    node_drop(n);
    return slices;
}

struct tensor *pointwise_overwrite(struct tensor *x, struct node *n)
{
    if (!n || !x->view)
        return tensor_ref(node_attach_inplace(n, x));
    struct output base = *node_input(x->grad_fn, 0);
    struct node *slices = slice_node(x, n);

    base.gradient = NULL;
    node_attach_inplace(slices, x);
    x->grad_fn->outputs[0] = base;
    return tensor_ref(node_attach(node_new(x->ghost, &as_strided, &x, 1, 0, 0), x));
}
