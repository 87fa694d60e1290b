/*
 * ops/pool.c - maxima and means over windows of an image
 *
 * Mirrors aten/src/ATen/native/Pool.h, AdaptiveAveragePooling.cpp, cuda/DilatedMaxPool2d.cu, cuda/AveragePool2d.cu,
 * cuda/AdaptiveAveragePooling.cu and cuda/AdaptiveMaxPooling2d.cu of PyTorch 2.15 (2.11 takes the same memory). Every pool saves its
 * input, also where only its sizes are used.
 */
#include "base/num.h"
#include "ghost/kernels.h"
#include "ops/layout.h"
#include "ops/ops.h"

enum { SAVED_INPUT, SAVED_INDICES, SAVED_COUNT };

/* is_image() - [channels, height, width] or a batch of them; false after a failure */
static bool is_image(struct ghost *g, const struct tensor *x)
{
    char text[TENSOR_TEXT];

    if (!x || g->halt)
        return false;
    if ((x->dims == 3 || x->dims == 4) && tensor_is_floating(x))
        return true;
    ghost_fail(g, PLM_E_MODEL, "the input is %s %s; [batch, channels, height, width] was expected",
               dtype_defs[x->dtype].name, tensor_text(x, text));
    return false;
}

/* pooled_size() - pooling_output_shape(); false when it does not fit or nothing is left */
static bool pooled_size(int64_t in,
                        int64_t kernel,
                        int64_t stride,
                        int64_t padding,
                        int64_t dilation,
                        bool ceil_mode,
                        int64_t *ret)
{
    int64_t window, size, start;

    if (!num_mul(kernel - 1, dilation, &window) || !num_mul(2, padding, &size) ||
        !num_add(size, in, &size) || !num_sub(size, window, &size) || !num_sub(size, 1, &size) ||
        (ceil_mode && !num_add(size, stride - 1, &size)) || size < 0)
        return false;
    size = size / stride + 1;
    if (ceil_mode && num_mul(size - 1, stride, &start) && start >= in + padding)
        size--;
    *ret = size;
    return size > 0;
}

/* window_sizes() - the sizes of max_pool2d's and avg_pool2d's output; false after a failure */
static bool window_sizes(struct ghost *g,
                         const struct op_args *args,
                         const struct tensor *x,
                         int64_t *ret)
{
    int64_t kernel[2], stride[2], padding[2], dilation[2] = { 1, 1 };
    char text[TENSOR_TEXT];

    op_ints(g, args, KEY_KERNEL, 2, kernel);
    op_ints(g, args, op_attr(args, KEY_STRIDE) ? KEY_STRIDE : KEY_KERNEL, 2, stride);
    op_ints(g, args, KEY_PADDING, 2, padding);
    if (op_attr(args, KEY_DILATION))
        op_ints(g, args, KEY_DILATION, 2, dilation);
    if (g->halt)
        return false;
    for (unsigned i = 0; i < x->dims; i++)
        ret[i] = x->sizes[i];
    for (unsigned i = 0; i < 2; i++) {
        int64_t *size = &ret[x->dims - 2 + i];

        if (kernel[i] < 1 || stride[i] < 1 || dilation[i] < 1 || padding[i] < 0 ||
            padding[i] > kernel[i] / 2) {
            ghost_fail(
                g, PLM_E_MODEL,
                "kernel, stride and dilation must be at least 1, and padding at most half of "
                "the kernel");
            return false;
        }
        if (!pooled_size(*size, kernel[i], stride[i], padding[i], dilation[i],
                         op_int(args, KEY_CEIL_MODE), size)) {
            ghost_fail(g, PLM_E_MODEL, "the input %s is too small for a window of %lld",
                       tensor_text(x, text), (long long)kernel[i]);
            return false;
        }
    }
    return true;
}

/* ------------------------------------------------------------------ max_pool2d, avg_pool2d */

static void window_apply(struct ghost *g,
                         struct node *n,
                         struct tensor *const *grads,
                         struct tensor **ret)
{
    TENSOR_AUTO *indices = node_saved(n, SAVED_INDICES);
    TENSOR_AUTO *x = node_saved(n, SAVED_INPUT);

    if (g->halt)
        return;
    bool channels_last = tensor_suggests_channels_last(x);

    ret[0] = layout_new(g, x->dtype, x->dims, x->sizes, channels_last);
    TENSOR_AUTO *dense = scratch_copy(x, channels_last);
    TENSOR_AUTO *grad = scratch_copy(grads[0], channels_last);
}

static const struct backward max_pool_backward = { "MaxPool2DWithIndicesBackward0", window_apply };
static const struct backward avg_pool_backward = { "AvgPool2DBackward0", window_apply };

static void window_pool(struct ghost *g,
                        const struct op_args *args,
                        const struct backward *backward,
                        struct tensor **ret)
{
    struct tensor *x = args->in[0];
    int64_t sizes[TENSOR_DIMS];

    if (!is_image(g, x) || !window_sizes(g, args, x, sizes))
        return;
    bool channels_last = tensor_suggests_channels_last(x);
    struct node *n = node_new(g, backward, &x, 1, SAVED_COUNT, 0);

    node_save(n, SAVED_INPUT, x);
    struct tensor *y = layout_new(g, x->dtype, x->dims, sizes, channels_last);
    TENSOR_AUTO *indices = NULL;

    if (backward == &max_pool_backward)
        indices = layout_new(g, DTYPE_INT64, x->dims, sizes, channels_last);
    tensor_drop(scratch_copy(x, channels_last));
    node_save_output(n, SAVED_INDICES, indices);
    ret[0] = node_attach(n, y);
}

void op_max_pool2d(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    window_pool(g, args, &max_pool_backward, ret);
}

void op_avg_pool2d(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    window_pool(g, args, &avg_pool_backward, ret);
}

/* ------------------------------------------------------------------ adaptive_avg_pool2d */

/* adaptive_sizes() - false after a failure */
static bool adaptive_sizes(struct ghost *g,
                           const struct op_args *args,
                           const struct tensor *x,
                           int64_t *ret)
{
    for (unsigned i = 0; i < x->dims; i++)
        ret[i] = x->sizes[i];
    op_ints(g, args, KEY_OUTPUT, 2, ret + x->dims - 2);
    if (!g->halt && (ret[x->dims - 2] < 1 || ret[x->dims - 1] < 1))
        ghost_fail(g, PLM_E_MODEL, "'output' is [%lld, %lld]; at least 1 was expected",
                   (long long)ret[x->dims - 2], (long long)ret[x->dims - 1]);
    return !g->halt;
}

/* as_strided_backward(): the gradient goes into memory of the base's layout, of which a view is returned */
static void as_strided_apply(struct ghost *g,
                             struct node *n,
                             struct tensor *const *grads,
                             struct tensor **ret)
{
    const struct output *in = node_input(n, 0);

    ret[0] = tensor_new(g, grads[0]->dtype, in->dims, in->sizes);
    if (ret[0])
        ret[0]->view = true;
}

static const struct backward as_strided_backward = { "AsStridedBackward1", as_strided_apply };

/* image_mean() - adaptive_avg_pool2d(x, 1): a mean, whose strides are then set to channels last where x has that format */
static struct tensor *image_mean(struct ghost *g, struct tensor *x)
{
    static const int64_t dims[] = { -1, -2 };
    static const struct attr attrs[] = {
        { .key = KEY_DIM, .type = ATTR_INTS, .count = 2, .value.items = dims },
        { .key = KEY_KEEPDIM, .type = ATTR_BOOL, .value.i = 1 },
    };
    struct tensor *y = op_apply(g, OP_MEAN, &x, 1, attrs, 2);

    if (!y || !tensor_suggests_channels_last(x))
        return y;
    struct node *n = node_new(g, &as_strided_backward, &y, 1, 0, 0);

    tensor_channels_last_strides(y->dims, y->sizes, y->strides);
    return node_attach_inplace(n, y);
}

static void adaptive_avg_apply(struct ghost *g,
                               struct node *n,
                               struct tensor *const *grads,
                               struct tensor **ret)
{
    TENSOR_AUTO *x = node_saved(n, SAVED_INPUT);

    if (g->halt)
        return;
    bool channels_last = tensor_suggests_channels_last(x);

    ret[0] = layout_new(g, x->dtype, x->dims, x->sizes, channels_last);
    if (!channels_last)
        tensor_drop(scratch_copy(grads[0], false));
}

static const struct backward adaptive_avg_backward = { "AdaptiveAvgPool2DBackward0",
                                                       adaptive_avg_apply };

void op_adaptive_avg_pool2d(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *x = args->in[0];
    int64_t sizes[TENSOR_DIMS];

    if (!is_image(g, x) || !adaptive_sizes(g, args, x, sizes))
        return;
    if (sizes[x->dims - 2] == 1 && sizes[x->dims - 1] == 1) {
        ret[0] = image_mean(g, x);
        return;
    }
    bool channels_last = tensor_suggests_channels_last(x);
    struct node *n = node_new(g, &adaptive_avg_backward, &x, 1, SAVED_COUNT, 0);

    node_save(n, SAVED_INPUT, x);
    TENSOR_AUTO *dense = channels_last ? NULL : scratch_copy(x, false);

    ret[0] = node_attach(n, layout_new(g, x->dtype, x->dims, sizes, channels_last));
}

/* ------------------------------------------------------------------ adaptive_max_pool2d */

/* plain_copy() - room for a contiguous result that is copied into one in channels-last format */
static struct tensor *plain_copy(struct tensor *x)
{
    return scratch_copy(x, false);
}

/* The kernels know contiguous tensors only. */
static void adaptive_max_apply(struct ghost *g,
                               struct node *n,
                               struct tensor *const *grads,
                               struct tensor **ret)
{
    TENSOR_AUTO *x = node_saved(n, SAVED_INPUT);
    TENSOR_AUTO *indices = node_saved(n, SAVED_INDICES);

    if (g->halt)
        return;
    ret[0] = layout_new(g, x->dtype, x->dims, x->sizes, tensor_suggests_channels_last(x));
    TENSOR_AUTO *grad = scratch_copy(grads[0], false);
    TENSOR_AUTO *dense_indices = scratch_copy(indices, false);
    TENSOR_AUTO *result = plain_copy(ret[0]);
}

static const struct backward adaptive_max_backward = { "AdaptiveMaxPool2DBackward0",
                                                       adaptive_max_apply };

void op_adaptive_max_pool2d(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *x = args->in[0];
    int64_t sizes[TENSOR_DIMS];

    if (!is_image(g, x) || !adaptive_sizes(g, args, x, sizes))
        return;
    bool channels_last = tensor_suggests_channels_last(x);
    struct node *n = node_new(g, &adaptive_max_backward, &x, 1, SAVED_COUNT, 0);

    node_save(n, SAVED_INPUT, x);
    struct tensor *y = layout_new(g, x->dtype, x->dims, sizes, channels_last);
    TENSOR_AUTO *indices = layout_new(g, DTYPE_INT64, x->dims, sizes, channels_last);

    {
        TENSOR_AUTO *plain = plain_copy(y);
        TENSOR_AUTO *plain_indices = plain_copy(indices);
        TENSOR_AUTO *dense = scratch_copy(x, false);
    }
    node_save_output(n, SAVED_INDICES, indices);
    ret[0] = node_attach(n, y);
}
