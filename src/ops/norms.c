/*
 * ops/norms.c - layer norm, root mean square norm and group norm
 *
 * Mirrors aten/src/ATen/native/layer_norm.cpp, group_norm.cpp, cuda/layer_norm_kernel.cu, cuda/group_norm_kernel.cu and
 * derivatives.yaml of PyTorch 2.15. The statistics of each row (or group) are outputs that the backward needs.
 */
#include "base/num.h"
#include "ghost/autocast.h"
#include "ghost/kernels.h"
#include "ops/layout.h"
#include "ops/ops.h"
#include "ops/pointwise.h"
#include "ops/views.h"

/* struct rows - what a norm over trailing dimensions works on: count rows of length elements */
struct rows {
    int64_t count, length;
};

static struct rows rows_of(const struct tensor *x, unsigned dims)
{
    struct rows rows = { 1, 1 };

    for (unsigned i = 0; i < x->dims; i++)
        *(i + dims < x->dims ? &rows.count : &rows.length) *= x->sizes[i];
    return rows;
}

/* one_type() - the kernels want weight and bias in the input's type; false after a failure */
static bool one_type(struct ghost *g, const struct tensor *x, const struct tensor *weight)
{
    if (!weight || weight->dtype == x->dtype)
        return true;
    ghost_fail(g, PLM_E_MODEL, "the input is %s and the weight %s; one type was expected",
               dtype_defs[x->dtype].name, dtype_defs[weight->dtype].name);
    return false;
}

/* ------------------------------------------------------------------ layer norm, rms norm */

/* column_sums() - blocks.sum(0) in place of the gradient that was made for it */
static void column_sums(struct tensor *blocks, struct tensor **gradient)
{
    if (!blocks)
        return;
    struct tensor *sum = kernel_reduce(blocks, 1, false, (*gradient)->dtype);

    tensor_drop(*gradient);
    *gradient = sum;
}

/*
 * row_backward() - LayerNormBackwardKernelImplInternal: dX, dgamma, dbeta, and where there are very many rows of few
 * elements, sums in blocks
 */
static void row_backward(struct ghost *g,
                         struct node *n,
                         struct tensor *grad,
                         struct tensor *x,
                         struct tensor *weight,
                         struct tensor *bias,
                         struct tensor **ret)
{
    enum { MANY_ROWS = 64 * 1024, COLUMNS = 32, MOST_BLOCK_ROWS = 32 * 1024 };
    struct rows rows = rows_of(x, (unsigned)n->numbers[0]);
    TENSOR_AUTO *dense = scratch_copy(x, false);

    if (node_needs(n, 0))
        ret[0] = tensor_new(g, x->dtype, x->dims, x->sizes);
    if (node_needs(n, 1))
        ret[1] = tensor_new(g, weight->dtype, weight->dims, weight->sizes);
    if (n->edge_count > 2 && node_needs(n, 2))
        ret[2] = tensor_new(g, bias->dtype, bias->dims, bias->sizes);
    TENSOR_AUTO *dense_grad = scratch_copy(grad, false);
    struct tensor *shape = weight ? weight : bias;

    if (!g->around.framework->layer_norm_blocks || rows.count <= MANY_ROWS ||
        rows.length / COLUMNS >= g->around.sm_count / 2 || !shape || g->halt)
        return;
    uint64_t columns = num_ceil_div((uint64_t)rows.length, COLUMNS);
    uint64_t block_rows =
        num_min(MOST_BLOCK_ROWS / columns, num_ceil_div((uint64_t)rows.count, COLUMNS));
    int64_t sizes[] = { (int64_t)block_rows, rows.length };
    TENSOR_AUTO *weight_blocks = NULL, *bias_blocks = NULL;

    if (ret[1])
        weight_blocks = scratch_new(g, shape->dtype, 2, sizes);
    if (n->edge_count > 2 && ret[2])
        bias_blocks = scratch_new(g, shape->dtype, 2, sizes);
    column_sums(weight_blocks, &ret[1]);
    if (bias_blocks)
        column_sums(bias_blocks, &ret[2]);
}

enum { ROW_INPUT, ROW_WEIGHT, ROW_BIAS, ROW_MEAN, ROW_RSTD, ROW_SAVED };

static void row_apply(struct ghost *g,
                      struct node *n,
                      struct tensor *const *grads,
                      struct tensor **ret)
{
    TENSOR_AUTO *bias = node_saved(n, ROW_BIAS);
    TENSOR_AUTO *x = node_saved(n, ROW_INPUT);
    TENSOR_AUTO *mean = node_saved(n, ROW_MEAN);
    TENSOR_AUTO *rstd = node_saved(n, ROW_RSTD);
    TENSOR_AUTO *weight = node_saved(n, ROW_WEIGHT);

    if (!g->halt)
        row_backward(g, n, grads[0], x, weight, bias, ret);
}

static const struct backward layer_norm_backward = { "NativeLayerNormBackward0", row_apply };
static const struct backward rms_norm_backward = { "FusedRmsNormBackward0", row_apply };

/* row_forward() - both norms: y, the rows' means (layer norm only) and reciprocal deviations */
static struct tensor *row_forward(struct ghost *g,
                                  const struct backward *backward,
                                  struct tensor *const *inputs, /* x, weight, bias */
                                  unsigned dims)
{
    struct tensor *x = inputs[0];
    bool layer = backward == &layer_norm_backward;
    struct rows rows = rows_of(x, dims);
    struct node *n = node_new(g, backward, inputs, layer ? 3 : 2, ROW_SAVED, 1);

    if (n)
        n->numbers[0] = dims;
    node_save(n, ROW_BIAS, inputs[2]);
    node_save(n, ROW_INPUT, x);
    node_save(n, ROW_WEIGHT, inputs[1]);
    TENSOR_AUTO *dense = scratch_copy(x, false);
    struct tensor *y = tensor_new(g, x->dtype, x->dims, x->sizes);
    TENSOR_AUTO *mean = NULL;

    if (layer)
        mean = tensor_new_sizes(g, layout_accumulate(x->dtype), rows.count);
    TENSOR_AUTO *rstd = tensor_new_sizes(g, layout_accumulate(x->dtype), rows.count);

    node_save_output(n, ROW_MEAN, mean);
    node_save_output(n, ROW_RSTD, rstd);
    return node_attach(n, y);
}

/* norm_dims() - how many trailing dimensions are normalised; 0 after a failure */
static unsigned norm_dims(struct ghost *g, const struct op_args *args, const struct tensor *x)
{
    int64_t dims = op_int(args, KEY_DIMS);
    char text[TENSOR_TEXT];

    if (!tensor_is_floating(x)) {
        ghost_fail(g, PLM_E_MODEL, "the input is %s; a floating-point type was expected",
                   dtype_defs[x->dtype].name);
        return 0;
    }
    if (dims < 1 || dims > (int64_t)x->dims) {
        ghost_fail(g, PLM_E_MODEL, "'dims' is %lld, but the input %s has %u dimensions",
                   (long long)dims, tensor_text(x, text), x->dims);
        return 0;
    }
    return (unsigned)dims;
}

void op_layer_norm(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *x = args->in[0];
    unsigned dims = x && !g->halt ? norm_dims(g, args, x) : 0;

    if (dims == 0)
        return;
    const int64_t *sizes = x->sizes + (x->dims - dims);
    bool affine = op_int(args, KEY_AFFINE);
    struct tensor *tensors[] = { x, NULL, NULL };

    if (affine)
        tensors[1] = op_own_parameter(args, 0, "weight", dims, sizes);
    if (affine && op_int(args, KEY_BIAS))
        tensors[2] = op_own_parameter(args, 1, "bias", dims, sizes);
    bool was_active = autocast_cast(g, op_defs[args->op].cast, tensors, 3);

    if (!g->halt && one_type(g, tensors[0], tensors[1]))
        ret[0] = row_forward(g, &layer_norm_backward, tensors, dims);
    autocast_restore(g, was_active, tensors, 3);
}

/* last_dims() - "dim: [-2, -1]" */
static struct attr last_dims(unsigned dims, int64_t *items)
{
    for (unsigned i = 0; i < dims; i++)
        items[i] = (int64_t)i - (int64_t)dims;
    return (struct attr){ .key = KEY_DIM, .type = ATTR_INTS, .count = dims, .value.items = items };
}

/* rms_norm_composite(): rsqrt(mean(x^2) + eps), in float32 */
static struct tensor *rms_composite(struct ghost *g,
                                    struct tensor *x,
                                    struct tensor *weight,
                                    unsigned dims)
{
    static const struct attr square = { .key = KEY_VALUE, .type = ATTR_REAL, .value.real = 2 };
    int64_t items[TENSOR_DIMS];
    const struct attr over_rows[] = { last_dims(dims, items),
                                      { .key = KEY_KEEPDIM, .type = ATTR_BOOL, .value.i = 1 } };
    bool weight_last = !g->around.framework->rms_norm_fused;
    TENSOR_AUTO *wide = view_to(x, layout_accumulate(x->dtype));
    TENSOR_AUTO *squares = op_apply(g, OP_POW, &wide, 1, &square, 1);
    TENSOR_AUTO *mean = op_apply(g, OP_MEAN, &squares, 1, over_rows, 2);

    tensor_drop(pointwise_add_inplace(mean, NULL));
    TENSOR_AUTO *rstd = op_apply(g, OP_RSQRT, &mean, 1, NULL, 0);

    tensor_drop(tensor_take(&squares));
    tensor_drop(tensor_take(&mean));
    TENSOR_AUTO *result = pointwise_mul(wide, rstd);

    if (weight_last) {
        struct tensor *narrow = view_to(result, x->dtype);

        tensor_drop(result);
        result = narrow;
    }
    if (weight) {
        struct tensor *scaled = pointwise_mul(result, weight);

        tensor_drop(result);
        result = scaled;
    }
    if (weight_last)
        return tensor_take(&result);
    TENSOR_AUTO *typed = view_to(result, x->dtype);

    return view_contiguous(typed);
}

void op_rms_norm(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *x = args->in[0];
    unsigned dims = x && !g->halt ? norm_dims(g, args, x) : 0;

    if (dims == 0)
        return;
    struct tensor *tensors[] = { x, NULL, NULL };
    const struct framework *framework = g->around.framework;

    if (op_int(args, KEY_AFFINE))
        tensors[1] = op_own_parameter(args, 0, "weight", dims, x->sizes + (x->dims - dims));
    /* where autocast does not know rms_norm, it casts what the composite is made of */
    bool was_active = autocast_cast(
        g, framework->rms_norm_autocast ? op_defs[args->op].cast : CAST_KEEP, tensors, 2);
    bool one = !tensors[1] || (tensors[0] && tensors[1]->dtype == tensors[0]->dtype);

    if (g->halt)
        ret[0] = NULL;
    else if (framework->rms_norm_fused && one && !tensor_suggests_channels_last(x))
        ret[0] = row_forward(g, &rms_norm_backward, tensors, dims);
    else
        ret[0] = rms_composite(g, tensors[0], tensors[1], dims);
    autocast_restore(g, was_active, tensors, 2);
}

/* ------------------------------------------------------------------ group norm */

enum { GROUP_INPUT, GROUP_WEIGHT, GROUP_MEAN, GROUP_RSTD, GROUP_SAVED };
enum { GROUP_COUNT }; /* numbers */

/* struct group_shape - [n, c, area], in @groups groups */
struct group_shape {
    int64_t n, c, area, groups;
    bool channels_last;
};

static struct group_shape group_shape(const struct ghost *g, const struct tensor *x, int64_t groups)
{
    struct group_shape s = {
        .n = x->sizes[0],
        .c = x->sizes[1],
        .area = 1,
        .groups = groups,
        .channels_last =
            g->around.framework->group_norm_channels_last && tensor_suggests_channels_last(x),
    };

    for (unsigned i = 2; i < x->dims; i++)
        s.area *= x->sizes[i];
    return s;
}

/* GroupNormBackwardKernelImplInternal() */
static void group_apply(struct ghost *g,
                        struct node *n,
                        struct tensor *const *grads,
                        struct tensor **ret)
{
    TENSOR_AUTO *x = node_saved(n, GROUP_INPUT);
    TENSOR_AUTO *mean = node_saved(n, GROUP_MEAN);
    TENSOR_AUTO *rstd = node_saved(n, GROUP_RSTD);
    TENSOR_AUTO *weight = node_saved(n, GROUP_WEIGHT);

    if (g->halt)
        return;
    struct group_shape s = group_shape(g, x, n->numbers[GROUP_COUNT]);
    enum dtype wide = layout_accumulate(x->dtype);
    TENSOR_AUTO *dense = scratch_copy(x, s.channels_last);
    TENSOR_AUTO *grad = scratch_copy(grads[0], s.channels_last);
    TENSOR_AUTO *sums = NULL, *grad_sums = NULL;
    TENSOR_AUTO *factor1 = NULL, *factor2 = NULL, *factor3 = NULL;

    if (node_needs(n, 0))
        ret[0] = layout_new(g, x->dtype, x->dims, x->sizes, s.channels_last);
    for (uint32_t i = 1; i < 3; i++)
        if (node_needs(n, i))
            ret[i] = tensor_new_sizes(g, weight ? weight->dtype : x->dtype, s.c);
    if (s.area != 1 || !g->around.framework->group_norm_channels_last) {
        sums = scratch_sizes(g, wide, s.n, s.c);
        grad_sums = scratch_sizes(g, wide, s.n, s.c);
    }
    if (!node_needs(n, 0))
        return;
    factor2 = scratch_sizes(g, wide, s.n, s.groups);
    factor3 = scratch_sizes(g, wide, s.n, s.groups);
    if (weight && s.area != 1 && !s.channels_last)
        factor1 = scratch_sizes(g, wide, s.n, s.c);
}

static const struct backward group_norm_backward = { "NativeGroupNormBackward0", group_apply };

/* GroupNormKernelImplInternal() */
static struct tensor *group_forward(struct ghost *g, struct tensor *const *inputs, int64_t groups)
{
    struct tensor *x = inputs[0], *weight = inputs[1];
    struct group_shape s = group_shape(g, x, groups);
    enum dtype wide = layout_accumulate(x->dtype);
    struct node *n = node_new(g, &group_norm_backward, inputs, 3, GROUP_SAVED, 1);

    if (n)
        n->numbers[GROUP_COUNT] = groups;
    node_save(n, GROUP_INPUT, x);
    node_save(n, GROUP_WEIGHT, weight);
    struct tensor *y = layout_new(g, x->dtype, x->dims, x->sizes, s.channels_last);
    TENSOR_AUTO *mean = tensor_new_sizes(g, x->dtype, s.n, s.groups);
    TENSOR_AUTO *rstd = tensor_new_sizes(g, x->dtype, s.n, s.groups);
    TENSOR_AUTO *dense = scratch_copy(x, s.channels_last);
    TENSOR_AUTO *wide_mean = NULL, *wide_rstd = NULL, *factor = NULL, *offset = NULL;

    if (g->around.framework->group_norm_channels_last && wide != x->dtype) {
        wide_mean = scratch_sizes(g, wide, s.n, s.groups);
        wide_rstd = scratch_sizes(g, wide, s.n, s.groups);
    }
    if (s.area != 1 && (weight || s.channels_last)) {
        factor = scratch_sizes(g, wide, s.n, s.c);
        offset = scratch_sizes(g, wide, s.n, s.c);
    }
    node_save_output(n, GROUP_MEAN, mean);
    node_save_output(n, GROUP_RSTD, rstd);
    return node_attach(n, y);
}

void op_group_norm(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *x = args->in[0];
    int64_t groups = op_int(args, KEY_GROUPS);
    char text[TENSOR_TEXT];

    if (!x || g->halt)
        return;
    if (x->dims < 2 || groups < 1 || x->sizes[1] % groups != 0 || !tensor_is_floating(x)) {
        ghost_fail(g, PLM_E_MODEL,
                   "the input is %s %s; [batch, channels, …] was expected, with a number of "
                   "channels that 'groups' (%lld) divides",
                   dtype_defs[x->dtype].name, tensor_text(x, text), (long long)groups);
        return;
    }
    struct tensor *tensors[] = { x, NULL, NULL };

    if (op_int(args, KEY_AFFINE)) {
        tensors[1] = op_own_parameter(args, 0, "weight", 1, &x->sizes[1]);
        tensors[2] = op_own_parameter(args, 1, "bias", 1, &x->sizes[1]);
    }
    bool was_active = autocast_cast(g, op_defs[args->op].cast, tensors, 3);

    if (!g->halt && one_type(g, tensors[0], tensors[1])) {
        struct tensor *dense = g->around.framework->group_norm_channels_last
                                   ? tensor_ref(tensors[0])
                                   : view_contiguous(tensors[0]);

        if (dense)
            ret[0] = group_forward(g, (struct tensor *[]){ dense, tensors[1], tensors[2] }, groups);
        tensor_drop(dense);
    }
    autocast_restore(g, was_active, tensors, 3);
}
