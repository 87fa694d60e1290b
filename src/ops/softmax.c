/*
 * ops/softmax.c - softmax and log_softmax
 *
 * Mirrors native/cuda/SoftMax.cu and native/SoftMax.cpp. The output is always contiguous and is saved. With dtype
 * float32 a float16 input is read as it is (half_to_float); any other input is cast first.
 */
#include "ghost/kernels.h"
#include "ops/pointwise.h"
#include "ops/shapes.h"
#include "ops/views.h"

/* numbers: [0] the type of the input */
static void apply(struct ghost *g,
                  struct node *n,
                  struct tensor *const *grads,
                  struct tensor **ret,
                  bool has_product)
{
    TENSOR_AUTO *result = node_saved(n, 0);

    if (!result)
        return;
    ret[0] = tensor_new(g, (enum dtype)n->numbers[0], grads[0]->dims, grads[0]->sizes);
    /* softmax_backward_cuda_out: grad * output, as large as the output; what the kernel reads is made contiguous */
    TENSOR_AUTO *factor = has_product ? kernel_pointwise(g, kernel_promote(grads[0], result),
                                                         (struct tensor *[]){ grads[0], result }, 2)
                                      : tensor_ref(grads[0]);

    tensor_drop(kernel_contiguous(factor));
}

static void softmax_apply(struct ghost *g,
                          struct node *n,
                          struct tensor *const *grads,
                          struct tensor **ret)
{
    apply(g, n, grads, ret, true);
}

static void log_softmax_apply(struct ghost *g,
                              struct node *n,
                              struct tensor *const *grads,
                              struct tensor **ret)
{
    apply(g, n, grads, ret, false);
}

static const struct backward softmax_backward = { "SoftmaxBackward0", softmax_apply };
static const struct backward log_softmax_backward = { "LogSoftmaxBackward0", log_softmax_apply };

static struct tensor *softmax(struct tensor *x,
                              const struct backward *backward,
                              int64_t dim,
                              enum dtype dtype)
{
    if (!x)
        return NULL;
    struct ghost *g = x->ghost;

    if (dtype == DTYPE_COUNT)
        dtype = x->dtype;
    tensor_dim(g, x, dim);
    if (!dtype_defs[dtype].floating)
        return ghost_fail(g, PLM_E_MODEL, "%s has no softmax; a floating-point type is needed",
                          dtype_defs[dtype].name);
    bool half_to_float = x->dtype == DTYPE_FLOAT16 && dtype == DTYPE_FLOAT32;
    TENSOR_AUTO *in = half_to_float ? tensor_ref(x) : view_to(x, dtype);
    struct node *n = node_new(g, backward, &in, 1, 1, 1);

    if (n)
        n->numbers[0] = (int64_t)in->dtype;
    struct tensor *y = in ? tensor_new(g, dtype, in->dims, in->sizes) : NULL;

    if (y)
        tensor_drop(kernel_contiguous(in));
    node_save_output(n, 0, y);
    return node_attach(n, y);
}

/* scaled_upper_triang_masked_softmax_cuda.cu of Apex: the backward overwrites the gradient that it is given */
static void scaled_masked_softmax_apply(struct ghost *g,
                                        struct node *n,
                                        struct tensor *const *grads,
                                        struct tensor **ret)
{
    TENSOR_AUTO *result = node_saved(n, 0);

    if (result)
        ret[0] = kernel_contiguous(grads[0]);
}

static const struct backward scaled_masked_softmax_backward = {
    "ScaledUpperTriangMaskedSoftmaxBackward", scaled_masked_softmax_apply
};

void op_scaled_masked_softmax(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *x = args->in[0];

    if (!x)
        return;
    struct node *n = node_new(g, &scaled_masked_softmax_backward, &x, 1, 1, 0);
    struct tensor *y = tensor_new(g, x->dtype, x->dims, x->sizes);

    node_save_output(n, 0, y);
    ret[0] = node_attach(n, y);
}

struct tensor *pointwise_softmax(struct tensor *x, int64_t dim, enum dtype dtype)
{
    return softmax(x, &softmax_backward, dim, dtype);
}

struct tensor *pointwise_log_softmax(struct tensor *x, int64_t dim, enum dtype dtype)
{
    return softmax(x, &log_softmax_backward, dim, dtype);
}

void op_softmax(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    ret[0] = pointwise_softmax(args->in[0], op_int(args, KEY_DIM), op_dtype(g, args));
}

void op_log_softmax(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    ret[0] = pointwise_log_softmax(args->in[0], op_int(args, KEY_DIM), op_dtype(g, args));
}
