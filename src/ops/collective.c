/*
 * ops/collective.c - collectives between the ranks of tensor parallelism
 *
 * Mirrors what DTensor does around a parallel linear layer (torch/distributed/tensor/_redistribute.py, _api.py,
 * _functional_collectives.py, 2.15): all_reduce is functional, so that it copies its input, and the input goes when nobody else
 * holds it.
 */
#include "ops/collective.h"
#include "ghost/kernels.h"

static struct tensor *all_reduce(struct tensor *x)
{
    struct ghost *g = x->ghost;
    enum category outer = g->category;

    g->category = CATEGORY_COMMUNICATION;
    struct tensor *reduced = tensor_new(g, x->dtype, x->dims, x->sizes);

    g->category = outer;
    return reduced;
}

static void enter_apply(struct ghost *g,
                        struct node *n,
                        struct tensor *const *grads,
                        struct tensor **ret)
{
    if (node_needs(n, 0))
        ret[0] = all_reduce(grads[0]);
}

static void pass_apply(struct ghost *g,
                       struct node *n,
                       struct tensor *const *grads,
                       struct tensor **ret)
{
    if (node_needs(n, 0))
        ret[0] = tensor_ref(grads[0]);
}

static const struct backward enter_backward = { "_FromTorchTensorBackward", enter_apply };
static const struct backward reduce_backward = { "RedistributeBackward", pass_apply };

struct tensor *collective_enter(struct tensor *x)
{
    if (!x)
        return NULL;
    return node_attach(node_new(x->ghost, &enter_backward, &x, 1, 0, 0),
                       tensor_view(x, x->dims, x->sizes, x->strides));
}

struct tensor *collective_reduce(struct tensor *x)
{
    if (!x)
        return NULL;
    return node_attach(node_new(x->ghost, &reduce_backward, &x, 1, 0, 0), all_reduce(x));
}
