/*
 * ops/dropout.c - dropout, of elements and of rows
 *
 * Mirrors native/Dropout.cpp: on CUDA, with 0 < p < 1 and not in place, the fused kernel, which keeps a mask of one byte
 * an element; otherwise noise of the input's type that is multiplied on.
 */
#include "ghost/kernels.h"
#include "ops/pointwise.h"
#include "ops/shapes.h"

/* masked_scale: empty_like(grad, grad.suggest_memory_format()) */
static void dropout_apply(struct ghost *g,
                          struct node *n,
                          struct tensor *const *grads,
                          struct tensor **ret)
{
    struct tensor *grad = grads[0];
    TENSOR_AUTO *mask = node_saved(n, 0);
    int64_t strides[TENSOR_DIMS];

    if (!mask)
        return;
    if (tensor_suggests_channels_last(grad))
        tensor_channels_last_strides(grad->dims, grad->sizes, strides);
    else
        tensor_contiguous_strides(grad->dims, grad->sizes, strides);
    ret[0] = tensor_new_strided(g, grad->dtype, grad->dims, grad->sizes, strides);
}

static const struct backward dropout_backward = { "NativeDropoutBackward0", dropout_apply };

static bool check_dropout(struct ghost *g, const struct tensor *x, double p)
{
    if (!x)
        return false;
    if (!(p >= 0 && p <= 1))
        ghost_fail(g, PLM_E_MODEL, "'p' is %g; a probability is between 0 and 1", p);
    else if (!tensor_is_floating(x))
        ghost_fail(g, PLM_E_MODEL, "dropout of %s; a floating-point type is needed",
                   dtype_defs[x->dtype].name);
    return !g->halt;
}

static bool is_identity(const struct tensor *x, double p)
{
    return p == 0 || !x->ghost->training || tensor_numel(x) == 0;
}

struct tensor *pointwise_dropout(struct tensor *x, double p)
{
    if (!x || !check_dropout(x->ghost, x, p))
        return NULL;
    struct ghost *g = x->ghost;

    if (is_identity(x, p))
        return tensor_ref(x);
    if (p == 1) {
        TENSOR_AUTO *zero = tensor_new_scalar(g, x->dtype);

        return pointwise_mul(x, zero);
    }
    struct node *n = node_new(g, &dropout_backward, &x, 1, 1, 0);
    TENSOR_AUTO *mask = tensor_like(g, x, DTYPE_BOOL);
    struct tensor *y = tensor_like(g, x, x->dtype);

    node_save_output(n, 0, mask);
    return node_attach(n, y);
}

void op_dropout(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *x = args->in[0];
    double p = op_real(args, KEY_P);

    if (!op_int(args, KEY_INPLACE)) {
        ret[0] = pointwise_dropout(x, p);
        return;
    }
    if (!check_dropout(g, x, p))
        return;
    if (is_identity(x, p)) {
        ret[0] = tensor_ref(x);
        return;
    }
    TENSOR_AUTO *noise = p == 1 ? tensor_new_scalar(g, x->dtype) : tensor_like(g, x, x->dtype);

    ret[0] = pointwise_mul_inplace(x, noise);
}

/* torchvision's ops/stochastic_depth.py, mode "row": input * empty([n, 1, …]).bernoulli_(1 - p).div_(1 - p) */
void op_stochastic_depth(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *x = args->in[0];
    double p = op_real(args, KEY_P);

    if (!check_dropout(g, x, p))
        return;
    if (p == 0 || !g->training) {
        ret[0] = tensor_ref(x);
        return;
    }
    int64_t sizes[TENSOR_DIMS];

    for (unsigned i = 0; i < x->dims; i++)
        sizes[i] = i == 0 ? x->sizes[0] : 1;
    TENSOR_AUTO *noise = tensor_new(g, x->dtype, x->dims, sizes);

    ret[0] = pointwise_mul(x, noise);
}
