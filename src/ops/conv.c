/*
 * ops/conv.c - convolutions, by cuDNN and by PyTorch's kernel for depthwise ones
 *
 * Mirrors aten/src/ATen/native/Convolution.cpp, cudnn/ConvShared.cpp, cuda/DepthwiseConv2d.cu and DepthwiseConv3d.cu of
 * PyTorch 2.15 (2.11 takes the same memory). One input or weight in channels-last format makes everything so. What cuDNN asks
 * for as a workspace only cuDNN knows: it is asked (ghost_library()). A convolution over one dimension is one over two, of height 1.
 */
#include <string.h>

#include "base/num.h"
#include "ghost/autocast.h"
#include "ghost/kernels.h"
#include "ops/conv_slow.h"
#include "ops/layout.h"
#include "ops/ops.h"
#include "ops/views.h"

enum { SAVED_INPUT, SAVED_WEIGHT, SAVED_COUNT };
/* of a node: the backend, transposed or not, then the windows as images have them */
enum { NUMBER_BACKEND, NUMBER_TRANSPOSED, NUMBER_WINDOWS, WINDOW_NUMBERS = 3 * SPATIAL_MOST };
enum { NUMBER_COUNT = NUMBER_WINDOWS + WINDOW_NUMBERS };
enum backend { BACKEND_CUDNN, BACKEND_DEPTHWISE2D, BACKEND_DEPTHWISE3D, BACKEND_SLOW };

struct conv {
    unsigned spatial; /* dimensions */
    bool transposed;
    int64_t channels, groups;
    int64_t kernel[SPATIAL_MOST], stride[SPATIAL_MOST], padding[SPATIAL_MOST];
    int64_t dilation[SPATIAL_MOST], output_padding[SPATIAL_MOST];
};

/* cudnn_conv_suggest_memory_format() */
static bool suggests_channels_last(const struct tensor *a, const struct tensor *b)
{
    return a->dtype != DTYPE_FLOAT64 &&
           (tensor_suggests_channels_last(a) || tensor_suggests_channels_last(b));
}

/* image_windows() - those of a line are those of an image of height 1 */
static struct windows image_windows(const struct conv *c)
{
    struct windows w = { .stride = { 1 }, .dilation = { 1 } };
    unsigned first = c->spatial == 1;

    for (unsigned i = 0; i < c->spatial; i++) {
        w.padding[first + i] = c->padding[i];
        w.stride[first + i] = c->stride[i];
        w.dilation[first + i] = c->dilation[i];
    }
    return w;
}

/* cudnn_workspace() - of the call that makes one of the three tensors from the others */
static void cudnn_workspace(struct ghost *g,
                            enum library_op op,
                            const struct windows *w,
                            bool channels_last,
                            const struct tensor *input,
                            const struct tensor *weight,
                            const struct tensor *output)
{
    struct library_call call = { .op = op, .channels_last = channels_last };

    if (!input || !weight || !output)
        return;
    switch (g->around.workspace_mode) {
    case WORKSPACE_AUTO:
        if (conv_slow_takes(g, input->dtype)) {
            g->unknown_workspaces++; /* PyTorch asks cuDNN for a depthwise one, and fails */
            break;
        }
        call.dtype = input->dtype;
        call.spatial = input->dims - 2;
        memcpy(call.input, input->sizes, input->dims * sizeof *call.input);
        memcpy(call.weight, weight->sizes, input->dims * sizeof *call.weight);
        for (unsigned i = 0; i < call.spatial; i++) {
            call.padding[i] = w->padding[i];
            call.stride[i] = w->stride[i];
            call.dilation[i] = w->dilation[i];
        }
        ghost_library(g, &call, tensor_bytes(input) + tensor_bytes(weight) + tensor_bytes(output));
        break;
    case WORKSPACE_NONE:
        break;
    case WORKSPACE_BYTES:
        ghost_workspace(g, g->around.workspace_bytes);
        break;
    }
}

/* as_image() - view4d(): [n, c, length] as [n, c, 1, length]; a new reference for other tensors */
static struct tensor *as_image(struct tensor *x)
{
    if (!x || x->dims != 3)
        return tensor_ref(x);
    return tensor_view(
        x, 4, (int64_t[]){ x->sizes[0], x->sizes[1], 1, x->sizes[2] },
        (int64_t[]){ x->strides[0], x->strides[1], x->sizes[2] * x->strides[2], x->strides[2] });
}

/* as_line() - the way back, for a tensor that the caller owns */
static struct tensor *as_line(struct tensor *x)
{
    if (!x)
        return NULL;
    struct tensor *y = tensor_view(x, 3, (int64_t[]){ x->sizes[0], x->sizes[1], x->sizes[3] },
                                   (int64_t[]){ x->strides[0], x->strides[1], x->strides[3] });

    if (y)
        y->view = false;
    tensor_drop(x);
    return y;
}

/* ------------------------------------------------------------------ what cuDNN is asked for */

/*
 * cudnn_data() - an output of @sizes from @x and the weight: the forward, or the gradient of the input
 *
 * To cuDNN a transposed convolution is the gradient of another's input, and its own input's gradient a convolution.
 */
static struct tensor *cudnn_data(struct ghost *g,
                                 enum library_op op,
                                 const struct windows *w,
                                 struct tensor *x,
                                 struct tensor *weight,
                                 const int64_t *sizes)
{
    bool channels_last = suggests_channels_last(x, weight);
    struct tensor *y = layout_new(g, x->dtype, x->dims, sizes, channels_last);
    TENSOR_AUTO *dense_weight = scratch_copy(weight, channels_last);
    TENSOR_AUTO *dense = scratch_copy(x, channels_last);

    if (op == LIBRARY_CONV_FORWARD)
        cudnn_workspace(g, op, w, channels_last, x, weight, y);
    else
        cudnn_workspace(g, op, w, channels_last, y, weight, x);
    return y;
}

/* cudnn_filter() - cudnn_convolution_backward_weight() */
static struct tensor *cudnn_filter(struct ghost *g,
                                   const struct windows *w,
                                   struct tensor *x,
                                   struct tensor *grad,
                                   struct tensor *weight)
{
    bool channels_last = suggests_channels_last(x, grad);
    TENSOR_AUTO *dense_grad = scratch_copy(grad, channels_last);
    TENSOR_AUTO *dense = scratch_copy(x, channels_last);
    struct tensor *y = layout_new(g, weight->dtype, weight->dims, weight->sizes, channels_last);

    cudnn_workspace(g, LIBRARY_CONV_FILTER, w, channels_last, x, y, grad);
    return y;
}

/* ------------------------------------------------------------------ backward */

/* scratch_to() - x.to(memory_format): a copy when that is not what x suggests, be it in that format, too */
static struct tensor *scratch_to(struct tensor *x, bool channels_last)
{
    if (tensor_suggests_channels_last(x) == channels_last)
        return tensor_ref(x);
    enum category outer = x->ghost->category;

    x->ghost->category = CATEGORY_TEMPORARY;
    struct tensor *y = layout_new(x->ghost, x->dtype, x->dims, x->sizes, channels_last);

    x->ghost->category = outer;
    return y;
}

static void cudnn_backward(struct ghost *g,
                           struct node *n,
                           struct tensor *grad_output,
                           struct tensor *x,
                           struct tensor *weight,
                           struct tensor **ret)
{
    bool transposed = n->numbers[NUMBER_TRANSPOSED];
    struct windows w;

    memcpy(&w, &n->numbers[NUMBER_WINDOWS], sizeof w);
    TENSOR_AUTO *input = node_needs(n, SAVED_WEIGHT)
                             ? scratch_copy(x, suggests_channels_last(x, weight))
                             : tensor_ref(x);

    if (!input || (!node_needs(n, 0) && !node_needs(n, 1)))
        return;
    bool channels_last = tensor_suggests_channels_last(input);
    TENSOR_AUTO *grad = transposed ? scratch_copy(grad_output, channels_last)
                                   : scratch_to(grad_output, channels_last);

    if (grad && node_needs(n, 0))
        ret[0] = cudnn_data(g, transposed ? LIBRARY_CONV_FORWARD : LIBRARY_CONV_DATA, &w, grad,
                            weight, x->sizes);
    if (grad && node_needs(n, 1))
        ret[1] = transposed ? cudnn_filter(g, &w, grad, input, weight)
                            : cudnn_filter(g, &w, input, grad, weight);
}

static void depthwise2d_backward(struct ghost *g,
                                 struct node *n,
                                 struct tensor *grad,
                                 struct tensor *x,
                                 struct tensor *weight,
                                 struct tensor **ret)
{
    TENSOR_AUTO *dense_grad = scratch_copy(grad, false);

    if (node_needs(n, 1)) {
        TENSOR_AUTO *dense = scratch_copy(x, false);

        ret[1] = tensor_new(g, weight->dtype, weight->dims, weight->sizes);
    }
    if (node_needs(n, 0))
        ret[0] = tensor_new(g, x->dtype, x->dims, x->sizes);
}

/* depthwise3d_backward() - returns the copy of the gradient, which lives a little longer */
static struct tensor *depthwise3d_backward(struct ghost *g,
                                           struct node *n,
                                           struct tensor *grad,
                                           struct tensor *x,
                                           struct tensor *weight,
                                           struct tensor **ret)
{
    if (node_needs(n, 0))
        ret[0] = tensor_new(g, x->dtype, x->dims, x->sizes);
    if (node_needs(n, 1))
        ret[1] = tensor_new(g, weight->dtype, weight->dims, weight->sizes);
    struct tensor *dense_grad = scratch_copy(grad, false);

    if (node_needs(n, 1))
        tensor_drop(scratch_copy(x, false));
    return dense_grad;
}

/* slow_backward() - without cuDNN; its kernel makes the bias's gradient, too */
static void slow_backward(struct node *n,
                          struct tensor *grad,
                          struct tensor *x,
                          struct tensor *weight,
                          struct tensor **ret)
{
    bool transposed = n->numbers[NUMBER_TRANSPOSED];
    const bool wanted[] = { node_needs(n, 0), node_needs(n, 1), node_needs(n, 2) };
    struct windows w;

    memcpy(&w, &n->numbers[NUMBER_WINDOWS], sizeof w);
    struct slow_conv c = {
        .windows = &w,
        .transposed = transposed,
        .groups = (transposed ? grad : x)->sizes[1] / weight->sizes[1],
    };
    TENSOR_AUTO *dense = scratch_copy(x, false);
    TENSOR_AUTO *dense_weight = scratch_copy(weight, false);

    if (dense && dense_weight)
        conv_slow_backward(&c, dense, dense_weight, grad, wanted, ret);
}

/* convolution_backward(): the kernel's order, then the bias */
static void conv_apply(struct ghost *g,
                       struct node *n,
                       struct tensor *const *grads,
                       struct tensor **ret)
{
    TENSOR_AUTO *saved = node_saved(n, SAVED_INPUT);
    TENSOR_AUTO *saved_weight = node_saved(n, SAVED_WEIGHT);

    if (g->halt)
        return;
    bool line = saved->dims == 3;
    TENSOR_AUTO *dense = line ? scratch_copy(saved, false) : tensor_ref(saved);
    TENSOR_AUTO *x = as_image(dense);
    TENSOR_AUTO *weight = as_image(saved_weight);
    TENSOR_AUTO *grad = as_image(grads[0]);
    TENSOR_AUTO *late = NULL;

    if (!x || !weight || !grad)
        return;
    switch ((enum backend)n->numbers[NUMBER_BACKEND]) {
    case BACKEND_CUDNN:
        cudnn_backward(g, n, grad, x, weight, ret);
        break;
    case BACKEND_DEPTHWISE2D:
        depthwise2d_backward(g, n, grad, x, weight, ret);
        break;
    case BACKEND_DEPTHWISE3D:
        late = depthwise3d_backward(g, n, grad, x, weight, ret);
        break;
    case BACKEND_SLOW:
        slow_backward(n, grad, x, weight, ret);
        break;
    }
    for (uint32_t i = 0; line && i < 2; i++)
        ret[i] = as_line(ret[i]);
    if (node_needs(n, 2) && !ret[2])
        ret[2] = kernel_reduce(grad, ~UINT32_C(2), false, grad->dtype);
}

static const struct backward conv_backward = { "ConvolutionBackward0", conv_apply };

/* ------------------------------------------------------------------ forward */

/* check_cudnn_depthwise_workload_with_filter(): where cuDNN is faster for float16 */
static bool cudnn_likes_depthwise(const struct conv *c,
                                  const struct tensor *x,
                                  const struct tensor *weight)
{
    int64_t n = x->sizes[0], channels = x->sizes[1], width = x->sizes[3];
    int64_t stride = c->stride[c->spatial - 1], filter = weight->sizes[3];

    if (x->sizes[2] == 1 && stride == 1)
        return true;
    if (weight->sizes[2] != filter || (filter != 1 && filter != 3 && filter != 5) || width < 7)
        return false;
    if (stride == 1)
        return true;
    if (stride != 2)
        return false;
    if (n == 1)
        return filter != 1 || width <= 28;
    if (filter == 1)
        return n <= 16 && channels >= 128 && width <= 7;
    return channels >= 512 || (channels >= 256 && width >= 28);
}

/* ConvParams::use_cudnn_depthwise(); @x and @weight as images */
static bool depthwise_by_cudnn(const struct conv *c,
                               const struct tensor *x,
                               const struct tensor *weight)
{
    bool dilated = false;

    if (suggests_channels_last(x, weight))
        return true;
    for (unsigned i = 0; i < c->spatial; i++)
        dilated = dilated || c->dilation[i] != 1;
    return x->dtype == DTYPE_FLOAT16 && x->dims == 4 && !dilated && x->sizes[1] >= 32 &&
           (c->stride[0] == c->stride[c->spatial - 1] || x->sizes[2] == 1) &&
           cudnn_likes_depthwise(c, x, weight);
}

/* _select_conv_backend() */
static enum backend select_backend(const struct conv *c,
                                   const struct tensor *x,
                                   const struct tensor *weight)
{
    int64_t channels = x->sizes[1];

    if (!c->transposed && channels == c->groups && c->groups > 1 && c->channels % channels == 0) {
        if (depthwise_by_cudnn(c, x, weight))
            return BACKEND_CUDNN;
        return x->dims == 4 ? BACKEND_DEPTHWISE2D : BACKEND_DEPTHWISE3D;
    }
    return conv_slow_takes(x->ghost, x->dtype) ? BACKEND_SLOW : BACKEND_CUDNN;
}

/* output_size() - of one dimension; false when it does not fit */
static bool output_size(const struct conv *c, unsigned i, int64_t in, int64_t *ret)
{
    int64_t window, padding, size;

    if (!num_mul(c->kernel[i] - 1, c->dilation[i], &window) || !num_add(window, 1, &window) ||
        !num_mul(2, c->padding[i], &padding))
        return false;
    if (c->transposed)
        return num_mul(in - 1, c->stride[i], &size) && num_sub(size, padding, &size) &&
               num_add(size, window, &size) && num_add(size, c->output_padding[i], ret);
    if (!num_add(in, padding, &size) || !num_sub(size, window, &size))
        return false;
    *ret = size < 0 ? 0 : size / c->stride[i] + 1;
    return true;
}

/* compute() - the output, by the backend that was chosen */
static struct tensor *compute(const struct conv *c,
                              enum backend backend,
                              const struct windows *w,
                              struct tensor *image,
                              struct tensor *filter,
                              const struct tensor *bias,
                              const int64_t *sizes)
{
    const struct slow_conv slow = { w, c->transposed, c->groups };
    bool cudnn = backend == BACKEND_CUDNN;
    TENSOR_AUTO *dense = scratch_copy(image, cudnn && suggests_channels_last(image, filter));
    TENSOR_AUTO *dense_filter = NULL;

    if (!dense)
        return NULL;
    switch (backend) {
    case BACKEND_CUDNN:
        return cudnn_data(image->ghost, c->transposed ? LIBRARY_CONV_DATA : LIBRARY_CONV_FORWARD, w,
                          dense, filter, sizes);
    case BACKEND_SLOW:
        dense_filter = scratch_copy(filter, false);
        return dense_filter ? conv_slow_forward(&slow, dense, dense_filter, bias, sizes) : NULL;
    case BACKEND_DEPTHWISE2D:
    case BACKEND_DEPTHWISE3D:
        break;
    }
    return tensor_new(image->ghost, image->dtype, image->dims, sizes);
}

/* convolve() - one call of convolution(); @x is a batch, bias may be NULL */
static struct tensor *convolve(struct ghost *g,
                               const struct conv *c,
                               struct tensor *x,
                               struct tensor *weight,
                               struct tensor *bias)
{
    bool line = x->dims == 3;
    struct tensor *inputs[] = { x, weight, bias };
    char text[TENSOR_TEXT];
    int64_t sizes[2 + SPATIAL_MOST] = { x->sizes[0], c->channels, 1 };

    for (unsigned i = 0; i < c->spatial; i++) {
        int64_t *size = &sizes[2 + i + line];

        if (!output_size(c, i, x->sizes[2 + i], size))
            return ghost_fail(g, PLM_E_RANGE, "the output's size does not fit in 63 bits");
        if (*size < 1)
            return ghost_fail(
                g, PLM_E_MODEL, "the input %s is too small for a kernel of %lld with padding %lld",
                tensor_text(x, text), (long long)c->kernel[i], (long long)c->padding[i]);
    }
    struct node *n = node_new(g, &conv_backward, inputs, 3, SAVED_COUNT, NUMBER_COUNT);

    node_save(n, SAVED_INPUT, x);
    node_save(n, SAVED_WEIGHT, weight);
    TENSOR_AUTO *dense_line = line ? scratch_copy(x, false) : tensor_ref(x);
    TENSOR_AUTO *image = as_image(dense_line);
    TENSOR_AUTO *filter = as_image(weight);
    struct tensor *y = NULL;

    if (image && filter) {
        enum backend backend = select_backend(c, image, filter);
        struct windows w = image_windows(c);

        if (n) {
            n->numbers[NUMBER_BACKEND] = backend;
            n->numbers[NUMBER_TRANSPOSED] = c->transposed;
            memcpy(&n->numbers[NUMBER_WINDOWS], &w, sizeof w);
        }
        y = compute(c, backend, &w, image, filter, bias, sizes);
        if (line)
            y = as_line(y);
    }
    return node_attach(n, y);
}

/* conv_read() - the attributes, checked; false after a failure */
static bool conv_read(struct ghost *g,
                      const struct op_args *args,
                      const struct tensor *x,
                      struct conv *c)
{
    char text[TENSOR_TEXT];

    c->channels = op_int(args, KEY_CHANNELS);
    c->groups = op_int(args, KEY_GROUPS);
    op_ints(g, args, KEY_KERNEL, c->spatial, c->kernel);
    op_ints(g, args, KEY_STRIDE, c->spatial, c->stride);
    op_ints(g, args, KEY_PADDING, c->spatial, c->padding);
    op_ints(g, args, KEY_DILATION, c->spatial, c->dilation);
    if (c->transposed)
        op_ints(g, args, KEY_OUTPUT_PADDING, c->spatial, c->output_padding);
    if (g->halt)
        return false;
    if ((x->dims != c->spatial + 1 && x->dims != c->spatial + 2) || !tensor_is_floating(x)) {
        ghost_fail(g, PLM_E_MODEL,
                   "the input is %s %s; [batch, channels] and %u more dimensions were expected",
                   dtype_defs[x->dtype].name, tensor_text(x, text), c->spatial);
        return false;
    }
    int64_t channels = x->sizes[x->dims - c->spatial - 1];

    if (c->groups < 1 || c->channels < 1 || c->channels % c->groups != 0 ||
        channels % c->groups != 0) {
        ghost_fail(
            g, PLM_E_MODEL,
            "'groups' is %lld; it must divide the input's %lld and the output's %lld channels",
            (long long)c->groups, (long long)channels, (long long)c->channels);
        return false;
    }
    for (unsigned i = 0; i < c->spatial; i++)
        if (c->kernel[i] < 1 || c->stride[i] < 1 || c->dilation[i] < 1 || c->padding[i] < 0 ||
            c->output_padding[i] < 0) {
            ghost_fail(g, PLM_E_MODEL,
                       "kernel, stride and dilation must be at least 1, and padding at least 0");
            return false;
        }
    return true;
}

static void conv(struct ghost *g,
                 const struct op_args *args,
                 unsigned spatial,
                 bool transposed,
                 struct tensor **ret)
{
    struct tensor *x = args->in[0];
    struct conv c = { .spatial = spatial, .transposed = transposed };

    if (!x || g->halt || !conv_read(g, args, x, &c))
        return;
    int64_t channels = x->sizes[x->dims - spatial - 1];
    int64_t sizes[2 + SPATIAL_MOST] = { transposed ? channels : c.channels,
                                        (transposed ? c.channels : channels) / c.groups };

    for (unsigned i = 0; i < spatial; i++)
        sizes[2 + i] = c.kernel[i];
    struct tensor *tensors[] = { x, op_own_parameter(args, 0, "weight", spatial + 2, sizes), NULL };

    if (op_int(args, KEY_BIAS))
        tensors[2] = op_own_parameter(args, 1, "bias", 1, &c.channels);
    bool was_active = autocast_cast(g, op_defs[args->op].cast, tensors, 3);

    if (!g->halt && tensors[0] && tensors[1]) {
        if (tensors[0]->dtype != tensors[1]->dtype) {
            ghost_fail(g, PLM_E_MODEL, "the input is %s and the weight %s; one type was expected",
                       dtype_defs[tensors[0]->dtype].name, dtype_defs[tensors[1]->dtype].name);
        } else if (x->dims == spatial + 2) {
            ret[0] = convolve(g, &c, tensors[0], tensors[1], tensors[2]);
        } else {
            TENSOR_AUTO *batch = view_unsqueeze(tensors[0], 0);
            TENSOR_AUTO *y = batch ? convolve(g, &c, batch, tensors[1], tensors[2]) : NULL;

            ret[0] = view_squeeze(y, 0);
        }
    }
    autocast_restore(g, was_active, tensors, 3);
}

void op_conv1d(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    conv(g, args, 1, false, ret);
}

void op_conv2d(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    conv(g, args, 2, false, ret);
}

void op_conv3d(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    conv(g, args, 3, false, ret);
}

void op_conv_transpose2d(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    conv(g, args, 2, true, ret);
}
