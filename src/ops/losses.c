/*
 * ops/losses.c - cross entropy and its parts, mean squared error, binary cross entropy of logits
 *
 * Mirrors aten/src/ATen/native/LossNLL.cpp, Loss.cpp, cuda/NLLLoss2d.cu and cuda/Loss.cu of PyTorch 2.15 (2.11 takes the same
 * memory). Under autocast the log-probabilities stay in 16 bits, since cross_entropy names their type, and
 * nll_loss then casts them to float32: both are kept.
 */
#include "ghost/autocast.h"
#include "ghost/kernels.h"
#include "ops/layout.h"
#include "ops/ops.h"
#include "ops/pointwise.h"
#include "ops/views.h"

enum reduction { REDUCTION_MEAN, REDUCTION_SUM, REDUCTION_NONE }; /* as in attrs.def */

static enum reduction reduction_of(const struct op_args *args)
{
    return (enum reduction)op_int(args, KEY_REDUCTION);
}

/* replace() - let go of what @local held, and hold @x */
static void replace(struct tensor **local, struct tensor *x)
{
    tensor_drop(*local);
    *local = x;
}

static struct tensor *apply1(struct ghost *g, enum op_kind op, struct tensor *x)
{
    return x ? op_apply(g, op, &x, 1, NULL, 0) : NULL;
}

/* sum_along() - x.sum(dim) */
static struct tensor *sum_along(struct ghost *g, struct tensor *x, int64_t dim)
{
    const struct attr attr = { .key = KEY_DIM, .type = ATTR_INTS, .count = 1, .value.items = &dim };

    return x ? op_apply(g, OP_SUM, &x, 1, &attr, 1) : NULL;
}

/* ------------------------------------------------------------------ nll_loss */

enum { NLL_INPUT, NLL_TARGET, NLL_TOTAL_WEIGHT, NLL_SAVED };

/* nll_loss_backward(), of [n, c] or [c] */
static void nll_apply(struct ghost *g,
                      struct node *n,
                      struct tensor *const *grads,
                      struct tensor **ret)
{
    TENSOR_AUTO *x = node_saved(n, NLL_INPUT);
    TENSOR_AUTO *target = node_saved(n, NLL_TARGET);
    TENSOR_AUTO *total_weight = node_saved(n, NLL_TOTAL_WEIGHT);

    if (g->halt)
        return;
    ret[0] = tensor_new(g, x->dtype, x->dims, x->sizes);
    TENSOR_AUTO *dense = scratch_copy(x, false);
    TENSOR_AUTO *dense_target = scratch_copy(target, false);
    TENSOR_AUTO *grad = scratch_copy(grads[0], false);
}

/* nll_loss2d_backward(), of [n, c, h, w]; without a reduction its kernel reads any strides */
static void nll2d_apply(struct ghost *g,
                        struct node *n,
                        struct tensor *const *grads,
                        struct tensor **ret)
{
    TENSOR_AUTO *x = node_saved(n, NLL_INPUT);
    TENSOR_AUTO *target = node_saved(n, NLL_TARGET);
    TENSOR_AUTO *total_weight = node_saved(n, NLL_TOTAL_WEIGHT);

    if (g->halt)
        return;
    ret[0] = tensor_new(g, x->dtype, x->dims, x->sizes);
    if (n->numbers[0] != REDUCTION_NONE)
        tensor_drop(scratch_copy(target, false));
}

static const struct backward nll_backward = { "NllLossBackward0", nll_apply };
static const struct backward nll2d_backward = { "NllLoss2DBackward0", nll2d_apply };

static struct tensor *nll_forward(struct ghost *g,
                                  struct tensor *x,
                                  struct tensor *target,
                                  enum reduction reduction)
{
    bool image = x->dims == 4, none = reduction == REDUCTION_NONE && x->dims > 1;
    struct node *n = node_new(g, image ? &nll2d_backward : &nll_backward, &x, 1, NLL_SAVED, 1);

    if (n)
        n->numbers[0] = reduction;
    node_save(n, NLL_INPUT, x);
    node_save(n, NLL_TARGET, target);
    TENSOR_AUTO *total_weight = image ? tensor_new_scalar(g, x->dtype) : NULL;
    struct tensor *y = tensor_new(g, x->dtype, none ? target->dims : 0, target->sizes);

    if (!image)
        total_weight = tensor_new_scalar(g, x->dtype);
    if (!(image && none)) {
        TENSOR_AUTO *dense = scratch_copy(x, false);
        TENSOR_AUTO *dense_target = scratch_copy(target, false);
    }
    node_save_output(n, NLL_TOTAL_WEIGHT, total_weight);
    return node_attach(n, y);
}

/* nll() - nll_loss or nll_loss2d, which autocast runs in float32 */
static struct tensor *nll(struct ghost *g,
                          struct tensor *x,
                          struct tensor *target,
                          enum reduction reduction)
{
    struct tensor *tensors[] = { x, target };
    struct tensor *y = NULL;
    bool was_active = autocast_cast(g, CAST_FP32, tensors, 2);

    if (tensors[0] && tensors[1])
        y = nll_forward(g, tensors[0], tensors[1], reduction);
    autocast_restore(g, was_active, tensors, 2);
    return y;
}

/* nll_fits() - is target [n, …] for an input [n, c, …]; false after a failure */
static bool nll_fits(struct ghost *g, const struct tensor *x, const struct tensor *target)
{
    bool fits = x->dims > 0 && tensor_is_floating(x) && target->dtype == DTYPE_INT64;
    char text[TENSOR_TEXT], target_text[TENSOR_TEXT];

    fits = fits && target->dims + 1 == x->dims;
    for (unsigned i = 0; fits && i < target->dims; i++)
        fits = target->sizes[i] == x->sizes[i == 0 ? 0 : i + 1];
    if (!fits)
        ghost_fail(g, PLM_E_MODEL,
                   "the input is %s %s and the target %s %s; [batch, classes, …] and int64 [batch, "
                   "…] were expected",
                   dtype_defs[x->dtype].name, tensor_text(x, text), dtype_defs[target->dtype].name,
                   tensor_text(target, target_text));
    return fits;
}

/* nll_loss_nd(): three dimensions, and more than four, are viewed as an image of height 1 */
static struct tensor *nll_nd(struct ghost *g,
                             struct tensor *x,
                             struct tensor *target,
                             enum reduction reduction)
{
    if (!x || !target || g->halt || !nll_fits(g, x, target))
        return NULL;
    if (x->dims <= 2 || x->dims == 4)
        return nll(g, x, target, reduction);
    TENSOR_AUTO *dense = view_contiguous(x);
    TENSOR_AUTO *dense_target = view_contiguous(target);
    TENSOR_AUTO *image = view_view(dense, 4, (int64_t[]){ x->sizes[0], x->sizes[1], 1, -1 });
    TENSOR_AUTO *image_target = view_view(dense_target, 3, (int64_t[]){ x->sizes[0], 1, -1 });

    if (!image || !image_target)
        return NULL;
    TENSOR_AUTO *y = nll(g, image, image_target, reduction);

    return reduction == REDUCTION_NONE ? view_view(y, target->dims, target->sizes)
                                       : tensor_take(&y);
}

void op_nll_loss(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    ret[0] = nll_nd(g, args->in[0], args->in[1], reduction_of(args));
}

/* ------------------------------------------------------------------ cross_entropy */

static void masked_fill_apply(struct ghost *g,
                              struct node *n,
                              struct tensor *const *grads,
                              struct tensor **ret)
{
    TENSOR_AUTO *mask = node_saved(n, 0);

    if (!g->halt)
        ret[0] = tensor_like(g, grads[0], grads[0]->dtype);
}

static const struct backward masked_fill_backward = { "MaskedFillBackward0", masked_fill_apply };

/* masked_fill_() - x.masked_fill_(mask, 0) */
static void masked_fill_inplace(struct ghost *g, struct tensor *x, struct tensor *mask)
{
    if (!x || !mask)
        return;
    struct node *n = node_new(g, &masked_fill_backward, &x, 1, 1, 0);

    node_save(n, 0, mask);
    node_attach_inplace(n, x);
}

/* counted_mean() - smooth.sum() / mask.logical_not().sum() */
static struct tensor *counted_mean(struct ghost *g, struct tensor *smooth, struct tensor *mask)
{
    TENSOR_AUTO *kept = apply1(g, OP_LOGICAL_NOT, mask);
    TENSOR_AUTO *count = apply1(g, OP_SUM, kept);
    TENSOR_AUTO *sum = apply1(g, OP_SUM, smooth);

    return sum && count ? pointwise_div(sum, count) : NULL;
}

/* cross_entropy_loss_label_smoothing() */
static struct tensor *smoothed_loss(struct ghost *g,
                                    const struct op_args *args,
                                    struct tensor *x,
                                    struct tensor *target)
{
    const struct attr ignored = { .key = KEY_VALUE,
                                  .type = ATTR_REAL,
                                  .value.real = (double)op_int(args, KEY_IGNORE_INDEX) };
    enum reduction reduction = reduction_of(args);
    unsigned class_dim = x->dims == 1 ? 0 : 1;
    TENSOR_AUTO *log_prob = pointwise_log_softmax(x, class_dim, x->dtype);
    TENSOR_AUTO *loss = nll_nd(g, log_prob, target, reduction);
    TENSOR_AUTO *smooth = NULL;

    {
        TENSOR_AUTO *sum = sum_along(g, log_prob, class_dim);

        smooth = apply1(g, OP_NEG, sum);
    }
    TENSOR_AUTO *mask = g->halt ? NULL : op_apply(g, OP_EQ, &target, 1, &ignored, 1);

    masked_fill_inplace(g, smooth, mask);
    TENSOR_AUTO *mean = NULL;

    switch (reduction) {
    case REDUCTION_MEAN:
        mean = counted_mean(g, smooth, mask);
        break;
    case REDUCTION_SUM:
        mean = apply1(g, OP_SUM, smooth);
        break;
    case REDUCTION_NONE:
        mean = tensor_ref(smooth);
        break;
    }
    TENSOR_AUTO *smooth_part = mean ? pointwise_mul(mean, NULL) : NULL;
    TENSOR_AUTO *sharp_part = loss ? pointwise_mul(loss, NULL) : NULL;

    return smooth_part && sharp_part ? pointwise_add(sharp_part, smooth_part) : NULL;
}

/* cross_entropy_loss_prob_target() */
static struct tensor *probability_loss(struct ghost *g,
                                       const struct op_args *args,
                                       struct tensor *x,
                                       struct tensor *target)
{
    unsigned class_dim = x->dims == 1 ? 0 : 1;
    TENSOR_AUTO *log_prob = pointwise_log_softmax(x, class_dim, x->dtype);
    TENSOR_AUTO *smooth = tensor_ref(target);

    if (op_real(args, KEY_LABEL_SMOOTHING) > 0 && log_prob) {
        TENSOR_AUTO *scaled = pointwise_mul(target, NULL);

        replace(&smooth, scaled ? pointwise_add(scaled, NULL) : NULL);
    }
    TENSOR_AUTO *product = log_prob && smooth ? pointwise_mul(log_prob, smooth) : NULL;
    TENSOR_AUTO *sum = reduction_of(args) == REDUCTION_NONE ? sum_along(g, product, class_dim)
                                                            : apply1(g, OP_SUM, product);
    TENSOR_AUTO *loss = apply1(g, OP_NEG, sum);

    if (reduction_of(args) != REDUCTION_MEAN || !loss)
        return tensor_take(&loss);
    return pointwise_div(loss, NULL);
}

void op_cross_entropy(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *x = args->in[0], *target = args->in[1];
    double smoothing = op_real(args, KEY_LABEL_SMOOTHING);
    char text[TENSOR_TEXT], target_text[TENSOR_TEXT];

    if (!x || !target || g->halt)
        return;
    if (smoothing < 0 || smoothing > 1) {
        ghost_fail(g, PLM_E_MODEL, "'label_smoothing' is %g; 0 to 1 was expected", smoothing);
        return;
    }
    if (tensor_is_floating(target)) {
        if (tensor_same_sizes(x, target) && x->dims > 0 && tensor_is_floating(x))
            ret[0] = probability_loss(g, args, x, target);
        else
            ghost_fail(
                g, PLM_E_MODEL,
                "the input is %s and the target of probabilities %s; equal sizes were expected",
                tensor_text(x, text), tensor_text(target, target_text));
        return;
    }
    if (!nll_fits(g, x, target))
        return;
    if (smoothing > 0) {
        ret[0] = smoothed_loss(g, args, x, target);
        return;
    }
    TENSOR_AUTO *log_prob = pointwise_log_softmax(x, x->dims == 1 ? 0 : 1, x->dtype);

    ret[0] = nll_nd(g, log_prob, target, reduction_of(args));
}

/* ------------------------------------------------------------------ mse_loss, bce_with_logits */

enum { PAIR_INPUT, PAIR_TARGET, PAIR_SAVED };

/* mse_loss_backward(): zeros_like(self), contiguous, for each */
static void mse_apply(struct ghost *g,
                      struct node *n,
                      struct tensor *const *grads,
                      struct tensor **ret)
{
    TENSOR_AUTO *x = node_saved(n, PAIR_INPUT);
    TENSOR_AUTO *target = node_saved(n, PAIR_TARGET);

    if (g->halt)
        return;
    if (node_needs(n, PAIR_INPUT))
        ret[0] = tensor_new(g, x->dtype, x->dims, x->sizes);
    if (node_needs(n, PAIR_TARGET))
        ret[1] = tensor_new(g, target->dtype, target->dims, target->sizes);
}

static const struct backward mse_backward = { "MseLossBackward0", mse_apply };

void op_mse_loss(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *const *in = args->in;

    if (!in[0] || !in[1] || g->halt)
        return;
    enum dtype dtype = kernel_promote(in[0], in[1]);
    struct node *n = node_new(g, &mse_backward, in, 2, PAIR_SAVED, 0);

    node_save(n, PAIR_INPUT, in[0]);
    node_save(n, PAIR_TARGET, in[1]);
    struct tensor *y = kernel_pointwise(g, dtype, in, 2);

    if (reduction_of(args) != REDUCTION_NONE && y) {
        /* the output was made in full size before it is resized to a scalar, and it keeps that memory */
        struct tensor *scalar = tensor_view(y, 0, NULL, NULL);

        if (scalar)
            scalar->view = false;
        replace(&y, scalar);
        enum category outer = g->category;

        g->category = CATEGORY_TEMPORARY;
        TENSOR_AUTO *losses = kernel_pointwise(g, dtype, in, 2);

        if (losses)
            kernel_reduce_scratch(g, losses, UINT32_MAX, 4);
        g->category = outer;
    }
    ret[0] = node_attach(n, y);
}

/* binary_cross_entropy_with_logits_backward(): sigmoid, then in place; the target's is -self times the gradient */
static void bce_apply(struct ghost *g,
                      struct node *n,
                      struct tensor *const *grads,
                      struct tensor **ret)
{
    TENSOR_AUTO *x = node_saved(n, PAIR_INPUT);
    TENSOR_AUTO *target = node_saved(n, PAIR_TARGET);

    if (g->halt)
        return;
    if (node_needs(n, PAIR_INPUT))
        ret[0] = tensor_like(g, x, x->dtype);
    if (!node_needs(n, PAIR_TARGET))
        return;
    TENSOR_AUTO *negative = tensor_like(g, x, x->dtype);

    if (negative)
        ret[1] = kernel_pointwise(g, kernel_promote(negative, grads[0]),
                                  (struct tensor *[]){ negative, grads[0] }, 2);
}

static const struct backward bce_backward = { "BinaryCrossEntropyWithLogitsBackward0", bce_apply };

void op_bce_with_logits(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *x = args->in[0], *target = args->in[1];
    char text[TENSOR_TEXT], target_text[TENSOR_TEXT];

    if (!x || !target || g->halt)
        return;
    if (!tensor_same_sizes(x, target) || !tensor_is_floating(x) || !tensor_is_floating(target)) {
        ghost_fail(
            g, PLM_E_MODEL,
            "the input is %s %s and the target %s %s; equal sizes of floating-point types were "
            "expected",
            dtype_defs[x->dtype].name, tensor_text(x, text), dtype_defs[target->dtype].name,
            tensor_text(target, target_text));
        return;
    }
    struct node *n = node_new(g, &bce_backward, args->in, 2, PAIR_SAVED, 0);

    node_save(n, PAIR_INPUT, x);
    node_save(n, PAIR_TARGET, target);
    enum category outer = g->category;
    bool reduced = reduction_of(args) != REDUCTION_NONE;

    g->category = CATEGORY_TEMPORARY;
    TENSOR_AUTO *log_sigmoid = tensor_like(g, x, x->dtype);

    if (!reduced)
        g->category = outer;
    TENSOR_AUTO *loss = tensor_like(g, target, target->dtype); /* 1 - target, then in place */

    g->category = outer;
    ret[0] = node_attach(n, reduced ? kernel_reduce(loss, UINT32_MAX, false, target->dtype)
                                    : tensor_ref(loss));
}
