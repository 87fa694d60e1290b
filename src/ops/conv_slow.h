/*
 * ops/conv_slow.h - convolutions without cuDNN: columns of one sample at a time, and a product
 *
 * Tensors are images of 4 or 5 dimensions; a weight is [out, in / groups, …], of a transposed convolution
 * [in, out / groups, …]. Nothing here is told to autograd.
 */
#ifndef PLM_OPS_CONV_SLOW_H
#define PLM_OPS_CONV_SLOW_H

#include "ghost/tensor.h"

enum { SPATIAL_MOST = 3 };

/* struct windows - how a weight moves over an image, in the order of its dimensions */
struct windows {
    int64_t padding[SPATIAL_MOST], stride[SPATIAL_MOST], dilation[SPATIAL_MOST];
};

/* struct slow_conv - one of them */
struct slow_conv {
    const struct windows *windows;
    bool transposed;
    int64_t groups;
};

/* conv_slow_takes() - has cuDNN no convolution of this type on this device? */
bool conv_slow_takes(const struct ghost *g, enum dtype dtype);

/* conv_slow_forward() - the output, of @sizes; @x and @weight are contiguous */
struct tensor *conv_slow_forward(const struct slow_conv *c,
                                 struct tensor *x,
                                 struct tensor *weight,
                                 bool bias,
                                 const int64_t *sizes);

/* conv_slow_backward() - the gradients of input, weight and bias that @wanted names; @x and @weight are contiguous */
void conv_slow_backward(const struct slow_conv *c,
                        struct tensor *x,
                        struct tensor *weight,
                        struct tensor *grad,
                        const bool wanted[3],
                        struct tensor *ret[3]);

#endif
