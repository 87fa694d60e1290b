/*
 * ops/batchnorm.c - batch norm, by cuDNN or by PyTorch's own kernels
 *
 * Mirrors aten/src/ATen/native/Normalization.cpp, cudnn/BatchNorm.cpp and cuda/Normalization.cu(h) of PyTorch 2.15
 * (2.11 takes the same memory). cuDNN is asked for float32 (and float16 with a float32 weight) of at least three dimensions.
 * On the reference instrument cuDNN's workspace and reserve are 0 bytes; on a GPU only cuDNN knows them.
 */
#include "base/num.h"
#include "ghost/kernels.h"
#include "ops/layout.h"
#include "ops/ops.h"
#include "ops/views.h"

/* struct stats - the parameters and buffers of one batch norm; NULL where it has none */
struct stats {
    struct tensor *weight, *bias, *mean, *var;
};

enum { SAVED_INPUT, SAVED_WEIGHT, SAVED_RUNNING_MEAN, SAVED_RUNNING_VAR, SAVED_MEAN, SAVED_INVSTD };
enum { SAVED_COUNT = SAVED_INVSTD + 1 };
enum { NUMBER_TRAINING, NUMBER_COUNT };

/* enum impl - which of the own kernels: batch_norm_choose_impl() */
enum impl { IMPL_CONTIGUOUS, IMPL_CHANNELS_LAST, IMPL_GENERAL };

static bool fits_32_bits(const struct tensor *x)
{
    int64_t last = 0;

    for (unsigned i = 0; i < x->dims; i++)
        if (x->sizes[i] > 0)
            last += (x->sizes[i] - 1) * x->strides[i];
    return tensor_numel(x) <= INT32_MAX && last <= INT32_MAX;
}

static enum impl choose_impl(const struct tensor *x)
{
    if (!fits_32_bits(x))
        return IMPL_GENERAL;
    if (tensor_is_contiguous(x))
        return x->strides[1] == 1 ? IMPL_CHANNELS_LAST : IMPL_CONTIGUOUS;
    return tensor_is_channels_last(x) ? IMPL_CHANNELS_LAST : IMPL_GENERAL;
}

/* batch_norm_use_channels_last_kernels() */
static bool use_channels_last(const struct tensor *x)
{
    return tensor_is_channels_last(x) || (tensor_is_contiguous(x) && x->strides[1] == 1);
}

/* cudnn_workspace() - what one call of cuDNN takes beside tensors */
static void cudnn_workspace(struct ghost *g)
{
    if (g->around.ghostgpu)
        return;
    switch (g->around.workspace_mode) {
    case WORKSPACE_AUTO:
        g->unknown_workspaces++;
        break;
    case WORKSPACE_NONE:
        break;
    case WORKSPACE_BYTES:
        ghost_workspace(g, g->around.workspace_bytes);
        break;
    }
}

/*
 * channels_last_scratch() - flexible_launch_configs(): where several blocks work on one channel, they meet in a
 * staging buffer of @values floats for each of them, guarded by semaphores
 */
static void channels_last_scratch(struct ghost *g, const struct tensor *x, unsigned values)
{
    enum { TILE = 32, THREADS = 512, ELEMENTS = 16, MOST_BLOCKS = 128, LEAST_BLOCKS = 8 };
    uint64_t channels = (uint64_t)x->sizes[1];
    uint64_t rows = channels ? (uint64_t)tensor_numel(x) / channels : 0;
    uint64_t width = num_min(num_floor_power2(channels), TILE);
    uint64_t height =
        num_min(num_floor_power2(num_ceil_div(rows, ELEMENTS)), (uint64_t)THREADS / width);

    if (width * height != THREADS)
        width = num_min(num_floor_power2(channels), THREADS / height);
    uint64_t columns = num_ceil_div(channels, width);
    uint64_t blocks = num_min(num_ceil_div(rows, height * ELEMENTS), MOST_BLOCKS);

    if (blocks < LEAST_BLOCKS)
        return;
    enum dtype wide = layout_accumulate(x->dtype);
    TENSOR_AUTO *staging = scratch_sizes(g, wide, (int64_t)(values * channels * blocks));
    TENSOR_AUTO *semaphores = scratch_sizes(g, DTYPE_INT32, (int64_t)columns);
}

/* ------------------------------------------------------------------ backward */

/* flat_copy() - x.reshape({n, c, -1}): a copy when the image's dimensions do not merge */
static struct tensor *flat_copy(struct tensor *x)
{
    return layout_merges(x, 2) ? tensor_ref(x) : scratch_copy(x, false);
}

static void parameter_gradients(struct ghost *g,
                                const struct node *n,
                                const struct tensor *weight,
                                int64_t channels,
                                struct tensor **ret)
{
    for (uint32_t i = 1; i < 3; i++)
        if (node_needs(n, i))
            ret[i] = tensor_new_sizes(g, weight->dtype, channels);
}

/* batch_norm_backward_reduce_cuda(): sums of the gradient over all but the channels */
static void reduce_backward(struct ghost *g,
                            struct node *n,
                            struct tensor *grad,
                            struct tensor *x,
                            struct tensor *weight,
                            struct tensor **sums,
                            struct tensor **ret)
{
    enum dtype wide = layout_accumulate(x->dtype);
    int64_t channels = x->sizes[1];

    if (fits_32_bits(grad) && use_channels_last(grad) && use_channels_last(x)) {
        sums[0] = scratch_sizes(g, wide, channels);
        sums[1] = scratch_sizes(g, wide, channels);
        struct tensor *made[2] = { NULL, NULL };

        for (uint32_t i = 0; weight && i < 2; i++)
            made[i] = tensor_new_sizes(g, weight->dtype, channels);
        channels_last_scratch(g, x, 2);
        for (uint32_t i = 0; i < 2; i++) {
            if (node_needs(n, i + 1))
                ret[i + 1] = made[i];
            else
                sums[i + 2] = made[i];
        }
        return;
    }
    TENSOR_AUTO *flat = flat_copy(x);
    TENSOR_AUTO *flat_grad = flat_copy(grad);

    if (node_needs(n, 0)) {
        sums[0] = scratch_sizes(g, wide, channels);
        sums[1] = scratch_sizes(g, wide, channels);
    }
    parameter_gradients(g, n, weight, channels, ret);
}

/* batch_norm_backward_cuda(): of the own kernels, and of cuDNN's forward outside of training */
static void native_backward(struct ghost *g,
                            struct node *n,
                            struct tensor *grad,
                            struct tensor *x,
                            struct tensor *weight,
                            bool has_invstd,
                            struct tensor **ret)
{
    bool training = n->numbers[NUMBER_TRAINING];
    bool reduces = training || node_needs(n, 1) || node_needs(n, 2);
    TENSOR_AUTO *invstd = NULL;
    struct tensor *sums[4] = { NULL, NULL, NULL, NULL };

    if (reduces && node_needs(n, 0) && !use_channels_last(x) && fits_32_bits(x) &&
        fits_32_bits(grad)) {
        TENSOR_AUTO *flat = flat_copy(x);
        TENSOR_AUTO *flat_grad = flat_copy(grad);

        ret[0] = tensor_new(g, x->dtype, x->dims, x->sizes);
        parameter_gradients(g, n, weight, x->sizes[1], ret);
        return;
    }
    if (!has_invstd)
        invstd = scratch_sizes(g, layout_accumulate(x->dtype), x->sizes[1]);
    if (reduces)
        reduce_backward(g, n, grad, x, weight, sums, ret);
    /* layouts that do not agree: an element-wise kernel, for which a missing weight is a scalar 1 */
    bool mixed = choose_impl(x) != choose_impl(grad) || choose_impl(x) == IMPL_GENERAL;
    TENSOR_AUTO *one = NULL;

    if (training && mixed && !weight && node_needs(n, 0))
        one = scratch_new(g, layout_accumulate(x->dtype), 0, NULL);
    if (node_needs(n, 0))
        ret[0] = layout_new(g, x->dtype, x->dims, x->sizes,
                            training && tensor_suggests_channels_last(x));
    for (unsigned i = 0; i < 4; i++)
        tensor_drop(sums[i]);
}

/* cudnn_batch_norm_backward(): all three gradients, wanted or not */
static void cudnn_backward(struct ghost *g,
                           struct node *n,
                           struct tensor *grad,
                           struct tensor *x,
                           struct tensor *weight,
                           struct tensor **ret)
{
    bool channels_last = tensor_suggests_channels_last(x);
    TENSOR_AUTO *dense = scratch_copy(grad, channels_last);
    struct tensor *made[3] = { layout_new(g, x->dtype, x->dims, x->sizes, channels_last), NULL,
                               NULL };

    for (uint32_t i = 1; i < 3; i++)
        made[i] = tensor_new_sizes(g, weight->dtype, x->sizes[1]);
    cudnn_workspace(g);
    for (uint32_t i = 0; i < 3; i++) {
        if (node_needs(n, i))
            ret[i] = made[i];
        else
            tensor_drop(made[i]);
    }
}

static void apply(
    struct ghost *g, struct node *n, bool cudnn, struct tensor *const *grads, struct tensor **ret)
{
    TENSOR_AUTO *x = node_saved(n, SAVED_INPUT);
    TENSOR_AUTO *mean = node_saved(n, SAVED_MEAN);
    TENSOR_AUTO *invstd = node_saved(n, SAVED_INVSTD);
    TENSOR_AUTO *running_mean = node_saved(n, SAVED_RUNNING_MEAN);
    TENSOR_AUTO *running_var = node_saved(n, SAVED_RUNNING_VAR);
    TENSOR_AUTO *weight = node_saved(n, SAVED_WEIGHT);

    if (g->halt)
        return;
    if (cudnn && n->numbers[NUMBER_TRAINING])
        cudnn_backward(g, n, grads[0], x, weight, ret);
    else
        native_backward(g, n, grads[0], x, weight, !cudnn, ret);
}

static void cudnn_apply(struct ghost *g,
                        struct node *n,
                        struct tensor *const *grads,
                        struct tensor **ret)
{
    apply(g, n, true, grads, ret);
}

static void native_apply(struct ghost *g,
                         struct node *n,
                         struct tensor *const *grads,
                         struct tensor **ret)
{
    apply(g, n, false, grads, ret);
}

static const struct backward cudnn_node = { "CudnnBatchNormBackward0", cudnn_apply };
static const struct backward native_node = { "NativeBatchNormBackward0", native_apply };

/* ------------------------------------------------------------------ forward */

/* _select_batch_norm_backend() */
static bool takes_cudnn(const struct tensor *x, const struct stats *s, bool training)
{
    enum { MOST_TRAINING = 880801, MOST_EVAL = 65535 };

    if (!s->weight || !s->bias || x->dims < 3 || x->dtype == DTYPE_BFLOAT16 ||
        s->weight->dtype == DTYPE_BFLOAT16)
        return false;
    if (x->dtype == DTYPE_FLOAT16 && s->weight->dtype != DTYPE_FLOAT32)
        return false;
    return (s->mean || training) && x->sizes[0] <= (training ? MOST_TRAINING : MOST_EVAL) &&
           tensor_numel(x) < INT32_MAX;
}

/* new_node() - the node with its inputs saved */
static struct node *new_node(struct ghost *g,
                             const struct backward *backward,
                             struct tensor *x,
                             const struct stats *s,
                             bool training)
{
    struct tensor *inputs[] = { x, s->weight, s->bias };
    struct node *n = node_new(g, backward, inputs, 3, SAVED_COUNT, NUMBER_COUNT);

    if (n)
        n->numbers[NUMBER_TRAINING] = training;
    node_save(n, SAVED_INPUT, x);
    node_save(n, SAVED_RUNNING_MEAN, s->mean);
    node_save(n, SAVED_RUNNING_VAR, s->var);
    node_save(n, SAVED_WEIGHT, s->weight);
    return n;
}

static struct tensor *cudnn_forward(struct ghost *g,
                                    struct tensor *x,
                                    const struct stats *s,
                                    bool training)
{
    /* input.contiguous(input.suggest_memory_format()), seen by autograd */
    bool channels_last = tensor_suggests_channels_last(x);
    TENSOR_AUTO *dense = !channels_last               ? view_contiguous(x)
                         : tensor_is_channels_last(x) ? tensor_ref(x)
                                                      : view_clone(x);

    if (!dense)
        return NULL;
    struct node *n = new_node(g, &cudnn_node, dense, s, training);
    struct tensor *y = layout_new(g, x->dtype, x->dims, x->sizes, channels_last);
    TENSOR_AUTO *mean = NULL, *invstd = NULL;

    if (training) {
        mean = tensor_new_sizes(g, s->weight->dtype, x->sizes[1]);
        invstd = tensor_new_sizes(g, s->weight->dtype, x->sizes[1]);
    }
    cudnn_workspace(g);
    node_save_output(n, SAVED_MEAN, mean);
    node_save_output(n, SAVED_INVSTD, invstd);
    return node_attach(n, y);
}

/* batch_norm_cuda() */
static struct tensor *native_forward(struct ghost *g,
                                     struct tensor *x,
                                     const struct stats *s,
                                     bool training)
{
    enum { WELFORD = 16 }; /* bytes of a running mean and variance */
    enum dtype wide = layout_accumulate(x->dtype);
    struct node *n = new_node(g, &native_node, x, s, training);
    struct tensor *y = tensor_like(g, x, x->dtype);
    TENSOR_AUTO *mean = tensor_new_sizes(g, wide, x->sizes[1]);
    TENSOR_AUTO *invstd = tensor_new_sizes(g, wide, x->sizes[1]);

    enum impl impl = choose_impl(x);

    if (training && !g->halt) {
        switch (impl) {
        case IMPL_CONTIGUOUS:
            break;
        case IMPL_CHANNELS_LAST:
            channels_last_scratch(g, x, 4);
            break;
        case IMPL_GENERAL: { /* var_mean over float32 */
            enum category outer = g->category;

            g->category = CATEGORY_TEMPORARY;
            TENSOR_AUTO *cast = kernel_cast(x, wide);

            if (cast)
                kernel_reduce_scratch(g, cast, ~UINT32_C(2), WELFORD);
            g->category = outer;
            break;
        }
        }
    }
    if (impl == IMPL_GENERAL) {
        /* scalars stand for a missing weight and bias */
        TENSOR_AUTO *one = s->weight ? NULL : scratch_new(g, wide, 0, NULL);
        TENSOR_AUTO *zero = s->bias ? NULL : scratch_new(g, wide, 0, NULL);
    }
    node_save_output(n, SAVED_MEAN, mean);
    node_save_output(n, SAVED_INVSTD, invstd);
    return node_attach(n, y);
}

static void batch_norm(struct ghost *g,
                       const struct op_args *args,
                       unsigned least_dims,
                       unsigned most_dims,
                       struct tensor **ret)
{
    struct tensor *x = args->in[0];
    char text[TENSOR_TEXT];

    if (!x || g->halt)
        return;
    if (x->dims < least_dims || x->dims > most_dims || !tensor_is_floating(x)) {
        ghost_fail(g, PLM_E_MODEL, "the input is %s %s; %s was expected", dtype_defs[x->dtype].name,
                   tensor_text(x, text),
                   most_dims == 4 ? "[batch, channels, height, width]" : "[batch, channels, …]");
        return;
    }
    struct stats s = { 0 };
    const int64_t *channels = &x->sizes[1];

    if (op_int(args, KEY_AFFINE)) {
        s.weight = op_own_parameter(args, 0, "weight", 1, channels);
        s.bias = op_own_parameter(args, 1, "bias", 1, channels);
    }
    if (op_int(args, KEY_TRACK_RUNNING_STATS)) {
        s.mean = op_own_buffer(args, 2, "running_mean", DTYPE_PRECISION, 1, channels);
        s.var = op_own_buffer(args, 3, "running_var", DTYPE_PRECISION, 1, channels);
        /* counts batches: += 1 in place */
        (void)op_own_buffer(args, 4, "num_batches_tracked", DTYPE_INT64, 0, NULL);
    }
    bool training = g->training || !s.mean;

    if (g->halt)
        return;
    if (training && *channels > 0 && tensor_numel(x) / *channels == 1) {
        ghost_fail(g, PLM_E_MODEL,
                   "the input %s has one value per channel; more are needed to train",
                   tensor_text(x, text));
        return;
    }
    ret[0] = takes_cudnn(x, &s, training) ? cudnn_forward(g, x, &s, training)
                                          : native_forward(g, x, &s, training);
}

void op_batch_norm(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    batch_norm(g, args, 2, TENSOR_DIMS, ret);
}

void op_batch_norm2d(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    batch_norm(g, args, 4, 4, ret);
}
