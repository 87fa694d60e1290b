/* ops/scan.c - cumsum (native/cuda/ScanKernels.cpp) */
#include "ghost/kernels.h"
#include "ops/shapes.h"
#include "ops/sort.h"

/* scan() - the output, the input in its type, and contiguous; along the only dimension cub scans it, with its storage */
static struct tensor *scan(struct ghost *g, struct tensor *x, unsigned dim, enum dtype dtype)
{
    struct tensor *y = tensor_new(g, dtype, x->dims, x->sizes);

    if (!y || tensor_numel(x) == 0)
        return y;
    TENSOR_AUTO *cast = kernel_cast(x, dtype);
    TENSOR_AUTO *in = kernel_contiguous(cast);

    if (in && x->dims > 0 && tensor_numel(x) == x->sizes[dim])
        ghost_scratch(g, scan_scratch(g, (uint64_t)x->sizes[dim], dtype));
    return y;
}

/* cumsum_backward: grad.to(type of the input).flip(dim).cumsum(dim).flip(dim) */
static void cumsum_apply(struct ghost *g,
                         struct node *n,
                         struct tensor *const *grads,
                         struct tensor **ret)
{
    unsigned dim = (unsigned)n->numbers[0];
    TENSOR_AUTO *grad = kernel_cast(grads[0], (enum dtype)n->numbers[1]);

    if (!grad)
        return;
    if (tensor_numel(grad) <= 1 || grad->sizes[dim] == 1) {
        ret[0] = tensor_take(&grad);
        return;
    }
    TENSOR_AUTO *flipped = tensor_like(g, grad, grad->dtype);
    TENSOR_AUTO *sum = flipped ? scan(g, flipped, dim, grad->dtype) : NULL;

    ret[0] = sum ? tensor_like(g, sum, sum->dtype) : NULL;
}

static const struct backward cumsum_backward = { "CumsumBackward0", cumsum_apply };

void op_cumsum(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *x = args->in[0];
    enum dtype dtype = op_dtype(g, args);

    if (!x)
        return;
    unsigned dim = tensor_dim(g, x, op_int(args, KEY_DIM));
    if (dtype == DTYPE_COUNT)
        dtype = tensor_is_floating(x) ? x->dtype : DTYPE_INT64;
    struct node *n = dtype_defs[dtype].floating ? node_new(g, &cumsum_backward, &x, 1, 0, 2) : NULL;

    if (n) {
        n->numbers[0] = dim;
        n->numbers[1] = (int64_t)x->dtype;
    }
    ret[0] = node_attach(n, g->halt ? NULL : scan(g, x, dim, dtype));
}
