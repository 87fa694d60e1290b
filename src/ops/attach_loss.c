/*
 * ops/attach_loss.c - a loss whose backward begins where that of a tensor passes
 *
 * Mirrors MoEAuxLossAutoScaler of megatron/core/transformer/moe/moe_utils.py (megatron-core 0.16.1): the tensor itself comes
 * back, and the loss's gradient is ones_like(loss) * scale.
 */
#include "ops/ops.h"
#include "ops/pointwise.h"

enum { TENSOR, LOSS };

static void attach_apply(struct ghost *g,
                         struct node *n,
                         struct tensor *const *grads,
                         struct tensor **ret)
{
    TENSOR_AUTO *loss = node_saved(n, 0);

    if (!loss)
        return;
    if (node_needs(n, TENSOR))
        ret[TENSOR] = tensor_ref(grads[0]);
    TENSOR_AUTO *scaled = NULL;
    {
        TENSOR_AUTO *ones = tensor_like(g, loss, loss->dtype);

        scaled = tensor_new_sizes(g, loss->dtype, 1); /* the scale is a list of one number */
    }
    if (node_needs(n, LOSS)) /* sum_to_size() */
        ret[LOSS] = tensor_like(g, loss, loss->dtype);
}

static const struct backward attach_backward = { "MoEAuxLossAutoScalerBackward", attach_apply };

void op_attach_loss(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *x = args->in[0], *loss = args->in[1];

    if (!x || !loss)
        return;
    struct node *n = node_new(g, &attach_backward, (struct tensor *[]){ x, loss }, 2, 1, 0);

    node_save(n, 0, loss);
    ret[0] = node_attach(n, tensor_view(x, x->dims, x->sizes, x->strides));
}
