/*
 * ops/linear_zero3.c - F.linear as DeepSpeed replaces it under deepspeed.zero.Init
 *
 * Mirrors LinearFunctionForZeroStage3 of deepspeed/runtime/zero/linear.py (0.19.8). It saves the weight itself, whose memory
 * comes and goes; PyTorch's saves a transposed view, which would hold the gathered memory until the backward.
 */
#include "ghost/kernels.h"
#include "ops/blas.h"
#include "ops/dense.h"
#include "ops/views.h"

enum { INPUT, WEIGHT, BIAS };

/* rows() - x.reshape(-1, x.shape[-1]) */
static struct tensor *rows(struct tensor *x)
{
    int64_t last = x->sizes[x->dims - 1];

    return view_reshape(x, 2, (int64_t[]){ last ? tensor_numel(x) / last : 0, last });
}

static void zero3_backward(struct ghost *g,
                           struct node *n,
                           struct tensor *const *grads,
                           struct tensor **ret)
{
    TENSOR_AUTO *x = node_saved(n, INPUT);
    TENSOR_AUTO *weight = node_saved(n, WEIGHT);

    if (!grads[0] || !x || !weight)
        return;
    if (node_needs(n, INPUT)) {
        TENSOR_AUTO *flat = rows(grads[0]);
        TENSOR_AUTO *product = flat ? blas_product(flat, weight, false) : NULL;

        ret[INPUT] = product ? view_unsafe(product, x->dims, x->sizes) : NULL;
    }
    if (node_needs(n, WEIGHT)) {
        TENSOR_AUTO *flat = rows(grads[0]);
        TENSOR_AUTO *turned = flat ? blas_turned(flat) : NULL;
        TENSOR_AUTO *inputs = rows(x);

        ret[WEIGHT] = turned && inputs ? blas_product(turned, inputs, false) : NULL;
    }
    if (n->edge_count > BIAS && node_needs(n, BIAS))
        ret[BIAS] =
            kernel_reduce(grads[0], (1u << (grads[0]->dims - 1)) - 1, false, grads[0]->dtype);
}

static const struct backward zero3 = { "LinearFunctionForZeroStage3Backward", zero3_backward };

struct tensor *dense_linear_zero3(struct tensor *x, struct tensor *weight, struct tensor *bias)
{
    struct ghost *g = x->ghost;
    struct node *n =
        node_new(g, &zero3, (struct tensor *[]){ x, weight, bias }, bias ? 3 : 2, 2, 0);
    bool outer = g->grad_enabled;

    node_save(n, INPUT, x);
    node_save(n, WEIGHT, weight);
    g->grad_enabled = false;
    TENSOR_AUTO *weight_t = view_t(weight);
    struct tensor *y =
        x->dims == 2 && bias ? dense_addmm(bias, x, weight_t) : dense_matmul(x, weight_t);

    g->grad_enabled = outer; /* output += bias is in place */
    return node_attach(n, y);
}
