/*
 * ops/all_to_all.c - rows exchanged between ranks, as many as each sends and gets
 *
 * Mirrors all_to_all_single_autograd of torch/distributed/_functional_collectives.py (2.15): what comes is a tensor of its own, and the
 * gradient goes back the same way. How many rows come depends on the other ranks, so the model says.
 */
#include <string.h>

#include "ghost/kernels.h"
#include "ops/ops.h"

static struct tensor *exchanged(struct tensor *x, int64_t rows)
{
    struct ghost *g = x->ghost;
    enum category outer = g->category;
    int64_t sizes[TENSOR_DIMS];

    memcpy(sizes, x->sizes, sizeof sizes);
    sizes[0] = rows;
    g->category = CATEGORY_COMMUNICATION;
    struct tensor *made = tensor_new(g, x->dtype, x->dims, sizes);

    g->category = outer;
    return made;
}

static void exchange_apply(struct ghost *g,
                           struct node *n,
                           struct tensor *const *grads,
                           struct tensor **ret)
{
    (void)g;
    TENSOR_AUTO *grad = kernel_contiguous(grads[0]);

    if (grad && node_needs(n, 0))
        ret[0] = exchanged(grad, node_input(n, 0)->sizes[0]);
}

static const struct backward exchange_backward = { "AllToAllSingleBackward", exchange_apply };

void op_all_to_all(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *x = args->in[0];

    if (!x)
        return;
    if (x->dims == 0) {
        ghost_fail(g, PLM_E_MODEL, "a scalar has no rows");
        return;
    }
    struct node *n = node_new(g, &exchange_backward, &x, 1, 0, 0);

    ret[0] = node_attach(n, exchanged(x, op_int(args, KEY_ROWS)));
}
