/*
 * ops/conv_slow.c - convolutions that cuDNN does not have: bfloat16 below compute capability 8.0
 *
 * Mirrors aten/src/ATen/native/Convolution.cpp (_convolution_nogroup_backend() and its backward, once for each group) with
 * cuda/ConvolutionMM2d.cu, NaiveDilatedConvolution.cu and NaiveConvolutionTranspose2d.cu of PyTorch 2.15. The columns of a
 * sample, [channels * window, positions], are written to memory; each product asks cuBLAS for its workspace.
 */
#include <string.h>

#include "ghost/kernels.h"
#include "ops/blas.h"
#include "ops/conv_slow.h"
#include "ops/layout.h"

enum { CC_BFLOAT16 = 80 };

bool conv_slow_takes(const struct ghost *g, enum dtype dtype)
{
    return dtype == DTYPE_BFLOAT16 && g->around.cc < CC_BFLOAT16;
}

/* columns_new() - of a sample of @image with the windows of @weight at the positions of @places */
static struct tensor *columns_new(const struct tensor *image,
                                  const struct tensor *weight,
                                  const struct tensor *places)
{
    int64_t sizes[1 + 2 * SPATIAL_MOST] = { image->sizes[1] };
    unsigned spatial = image->dims - 2;

    memcpy(sizes + 1, weight->sizes + 2, spatial * sizeof *sizes);
    memcpy(sizes + 1 + spatial, places->sizes + 2, spatial * sizeof *sizes);
    return scratch_new(image->ghost, image->dtype, 1 + 2 * spatial, sizes);
}

/* is_pointwise() - windows of one element: the image is its own columns */
static bool is_pointwise(const struct slow_conv *c, const struct tensor *weight)
{
    for (unsigned i = 0; i < weight->dims - 2; i++)
        if (weight->sizes[2 + i] != 1 || c->windows->stride[i] != 1 || c->windows->padding[i] != 0)
            return false;
    return true;
}

/* is_dilated() - is it the kernel that has all gradients of a sample made before the next? It is that of volumes, too. */
static bool is_dilated(const struct slow_conv *c, const struct tensor *weight)
{
    bool dilated = weight->dims == 5;

    for (unsigned i = 0; i < weight->dims - 2; i++)
        dilated = dilated || c->windows->dilation[i] != 1;
    return dilated;
}

/* bias_of_sample() - grad[i].sum(), added to what is there */
static void bias_of_sample(const struct tensor *grad)
{
    struct tensor *sample =
        tensor_view((struct tensor *)grad, grad->dims - 1, grad->sizes + 1, grad->strides + 1);

    tensor_drop(kernel_reduce(sample, ~UINT32_C(1), false, grad->dtype));
    tensor_drop(sample);
}

/* ------------------------------------------------------------------ one group */

static struct tensor *forward(const struct slow_conv *c,
                              struct tensor *x,
                              struct tensor *weight,
                              bool bias,
                              const int64_t *sizes)
{
    struct ghost *g = x->ghost;
    struct tensor *y = tensor_new(g, x->dtype, x->dims, sizes);
    bool direct = !c->transposed && !is_dilated(c, weight) && is_pointwise(c, weight);

    if (!y)
        return NULL;
    TENSOR_AUTO *columns = direct          ? NULL
                           : c->transposed ? columns_new(y, weight, x)
                                           : columns_new(x, weight, y);
    /* a transposed one adds the bias by a product with ones */
    TENSOR_AUTO *ones =
        c->transposed && bias ? scratch_new(g, x->dtype, x->dims - 2, sizes + 2) : NULL;

    blas_calls(g, x->sizes[0] * (ones ? 2 : 1));
    return y;
}

static void backward_plain(const struct slow_conv *c,
                           struct tensor *x,
                           struct tensor *weight,
                           struct tensor *grad,
                           const bool wanted[3],
                           struct tensor *ret[3])
{
    struct ghost *g = x->ghost;
    TENSOR_AUTO *dense = scratch_copy(grad, false);
    TENSOR_AUTO *columns = NULL;

    if (!dense)
        return;
    if (wanted[0]) {
        ret[0] = tensor_new(g, x->dtype, x->dims, x->sizes);
        columns = columns_new(x, weight, grad);
        blas_calls(g, x->sizes[0]);
    }
    if (wanted[2])
        ret[2] = kernel_reduce(dense, ~UINT32_C(2), false, grad->dtype);
    if (wanted[1]) {
        ret[1] = tensor_new(g, weight->dtype, weight->dims, weight->sizes);
        if (!columns)
            columns = columns_new(x, weight, grad);
        blas_calls(g, x->sizes[0]);
    }
}

static void backward_dilated(struct tensor *x,
                             struct tensor *weight,
                             struct tensor *grad,
                             const bool wanted[3],
                             struct tensor *ret[3])
{
    struct ghost *g = x->ghost;
    TENSOR_AUTO *dense = scratch_copy(grad, false);

    if (wanted[0])
        ret[0] = tensor_new(g, x->dtype, x->dims, x->sizes);
    if (wanted[1])
        ret[1] = tensor_new(g, weight->dtype, weight->dims, weight->sizes);
    if (wanted[2])
        ret[2] = tensor_new(g, grad->dtype, 1, &grad->sizes[1]);
    TENSOR_AUTO *columns = wanted[0] || wanted[1] ? columns_new(x, weight, grad) : NULL;

    for (int64_t i = 0; i < x->sizes[0] && dense && !g->halt; i++) {
        blas_calls(g, wanted[0] + wanted[1]);
        if (wanted[2])
            bias_of_sample(dense);
    }
}

static void backward_transposed(const struct slow_conv *c,
                                struct tensor *x,
                                struct tensor *weight,
                                struct tensor *grad,
                                const bool wanted[3],
                                struct tensor *ret[3])
{
    struct ghost *g = x->ghost;
    bool direct = is_pointwise(c, weight);

    if (wanted[0]) {
        TENSOR_AUTO *dense = scratch_copy(grad, false);

        ret[0] = tensor_new(g, x->dtype, x->dims, x->sizes);
        TENSOR_AUTO *columns = direct ? NULL : columns_new(grad, weight, x);

        blas_calls(g, x->sizes[0]);
    }
    if (!wanted[1] && !wanted[2])
        return;
    if (wanted[1])
        ret[1] = tensor_new(g, weight->dtype, weight->dims, weight->sizes);
    if (wanted[2])
        ret[2] = tensor_new(g, grad->dtype, 1, &grad->sizes[1]);
    TENSOR_AUTO *dense = scratch_copy(grad, false);
    TENSOR_AUTO *columns = direct ? NULL : columns_new(grad, weight, x);

    if (wanted[1])
        blas_calls(g, x->sizes[0]);
}

static void backward(const struct slow_conv *c,
                     struct tensor *x,
                     struct tensor *weight,
                     struct tensor *grad,
                     const bool wanted[3],
                     struct tensor *ret[3])
{
    if (c->transposed)
        backward_transposed(c, x, weight, grad, wanted, ret);
    else if (is_dilated(c, weight))
        backward_dilated(x, weight, grad, wanted, ret);
    else
        backward_plain(c, x, weight, grad, wanted, ret);
}

/* ------------------------------------------------------------------ all groups */

/* part_of() - one of @groups of dimension @dim, as a view; all look alike */
static struct tensor *part_of(struct tensor *x, unsigned dim, int64_t groups)
{
    int64_t sizes[TENSOR_DIMS];

    memcpy(sizes, x->sizes, x->dims * sizeof *sizes);
    sizes[dim] /= groups;
    return tensor_view(x, x->dims, sizes, x->strides);
}

/* dense_part() - subtensor(): a group's channels, in the format of the whole */
static struct tensor *dense_part(struct tensor *x, int64_t groups)
{
    TENSOR_AUTO *part = part_of(x, 1, groups);

    return scratch_copy(part, tensor_suggests_channels_last(x));
}

static void drop_parts(struct ghost *g, struct tensor **parts, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        tensor_drop(parts[i]);
    pool_free(&g->pool, parts, (size_t)count * sizeof *parts);
}

struct tensor *conv_slow_forward(const struct slow_conv *c,
                                 struct tensor *x,
                                 struct tensor *weight,
                                 bool bias,
                                 const int64_t *sizes)
{
    struct ghost *g = x->ghost;
    int64_t sizes_of_part[TENSOR_DIMS];

    if (c->groups == 1)
        return forward(c, x, weight, bias, sizes);
    struct tensor **parts = pool_alloc(&g->pool, (size_t)c->groups * sizeof *parts);
    TENSOR_AUTO *weights = part_of(weight, 0, c->groups);

    memcpy(sizes_of_part, sizes, x->dims * sizeof *sizes);
    sizes_of_part[1] /= c->groups;
    for (int64_t i = 0; i < c->groups && !g->halt; i++) {
        TENSOR_AUTO *part = dense_part(x, c->groups);

        if (part && weights)
            parts[i] = forward(c, part, weights, bias, sizes_of_part);
    }
    struct tensor *y = tensor_new(g, x->dtype, x->dims, sizes);

    drop_parts(g, parts, c->groups);
    return y;
}

void conv_slow_backward(const struct slow_conv *c,
                        struct tensor *x,
                        struct tensor *weight,
                        struct tensor *grad,
                        const bool wanted[3],
                        struct tensor *ret[3])
{
    struct ghost *g = x->ghost;

    if (c->groups == 1) {
        backward(c, x, weight, grad, wanted, ret);
        return;
    }
    struct tensor **parts = pool_alloc(&g->pool, 3 * (size_t)c->groups * sizeof *parts);
    TENSOR_AUTO *weights = part_of(weight, 0, c->groups);

    for (int64_t i = 0; i < c->groups && !g->halt; i++) {
        TENSOR_AUTO *grad_part = dense_part(grad, c->groups);
        TENSOR_AUTO *part = dense_part(x, c->groups);

        if (part && grad_part && weights)
            backward(c, part, weights, grad_part, wanted, &parts[3 * i]);
    }
    if (wanted[0])
        ret[0] = tensor_new(g, x->dtype, x->dims, x->sizes);
    if (wanted[1])
        ret[1] = tensor_new(g, weight->dtype, weight->dims, weight->sizes);
    if (wanted[2])
        ret[2] = tensor_new(g, grad->dtype, 1, &grad->sizes[1]);
    drop_parts(g, parts, 3 * c->groups);
}
