/*
 * ops/reductions.c - mean, sum, amax, all
 *
 * Mirrors native/ReduceOps.cpp and ReduceOpsUtils.h, make_reduction(): the output comes first, then the input in the
 * type that is computed in, then the kernel's scratch. 16-bit floats are summed to float32 without a cast.
 */
#include <string.h>

#include "ghost/kernels.h"
#include "ops/pointwise.h"
#include "ops/shapes.h"
#include "ops/views.h"

/* struct reduction - @dims is a mask, @named when the model names them; @out what is returned, @in what the kernel reads */
struct reduction {
    uint32_t dims;
    bool named, keepdim, compares;
    enum dtype out, in;
};

/* accumulator() - bytes of an element of Reduce.cuh's buffer: 16-bit floats are summed as float32, but compared as they are */
static unsigned accumulator(const struct reduction *r)
{
    unsigned bytes = dtype_defs[r->out].bytes;

    return dtype_defs[r->out].floating && bytes < 4 && !r->compares ? 4 : bytes;
}

static struct tensor *reduce(struct ghost *g, struct tensor *x, const struct reduction *r)
{
    int64_t sizes[TENSOR_DIMS];
    unsigned count = 0;

    if (!x || g->halt)
        return NULL;
    for (unsigned i = 0; i < x->dims; i++) {
        bool reduced = r->dims & (1U << i);

        if (!reduced || r->keepdim)
            sizes[count++] = reduced ? 1 : x->sizes[i];
    }
    struct tensor *y = tensor_new(g, r->out, count, sizes);
    TENSOR_AUTO *in = kernel_cast(x, r->in);

    if (y && in)
        kernel_reduce_scratch(g, in, r->dims, accumulator(r));
    return y;
}

/* computed_in() - make_reduction(): the output's type, except that the kernel reads 16-bit floats for float32 itself */
static enum dtype computed_in(const struct tensor *x, enum dtype out)
{
    bool low = tensor_is_floating(x) && tensor_itemsize(x) == 2;

    return low && out == DTYPE_FLOAT32 ? x->dtype : out;
}

/* restored() - restore_reduced_dims(): the result or its gradient with the reduced dimensions back as 1, if they were named */
static struct tensor *restored(struct node *n, struct tensor *x)
{
    const struct output *in = node_input(n, 0);
    int64_t sizes[TENSOR_DIMS];

    if (!x || x->dims == in->dims || !n->numbers[1])
        return tensor_ref(x);
    for (unsigned i = 0; i < in->dims; i++)
        sizes[i] = n->numbers[0] & (1 << i) ? 1 : in->sizes[i];
    return view_reshape(x, in->dims, sizes);
}

/* expanded() - sum_backward: the same by unsqueeze(), then expand() to the input's sizes */
static struct tensor *expanded(struct node *n, struct tensor *grad)
{
    const struct output *in = node_input(n, 0);
    TENSOR_AUTO *kept = tensor_ref(grad);

    for (unsigned i = 0; kept && kept->dims < in->dims && n->numbers[1] && i < in->dims; i++)
        if (n->numbers[0] & (1 << i)) {
            struct tensor *more = view_unsqueeze(kept, i);

            tensor_drop(kept);
            kept = more;
        }
    return view_expand(kept, in->dims, in->sizes);
}

/* sum: grad.expand(sizes), which costs nothing */
static void sum_apply(struct ghost *g,
                      struct node *n,
                      struct tensor *const *grads,
                      struct tensor **ret)
{
    ret[0] = expanded(n, grads[0]);
}

/* mean: grad.expand(sizes) / numel, which is as large as the input */
static void mean_apply(struct ghost *g,
                       struct node *n,
                       struct tensor *const *grads,
                       struct tensor **ret)
{
    TENSOR_AUTO *grad = expanded(n, grads[0]);

    if (grad)
        ret[0] = pointwise_with_number(grad, grad->dtype);
}

/* amax: scale_grad_by_count(): (grad / mask.sum(dims)) * mask, with mask = (result == self) */
static void amax_apply(struct ghost *g,
                       struct node *n,
                       struct tensor *const *grads,
                       struct tensor **ret)
{
    TENSOR_AUTO *self = node_saved(n, 0);
    TENSOR_AUTO *result = node_saved(n, 1);
    TENSOR_AUTO *grad = restored(n, grads[0]);
    TENSOR_AUTO *best = restored(n, result);

    if (!self || !grad || !best)
        return;
    struct reduction count = {
        .dims = (uint32_t)n->numbers[0], .keepdim = true, .out = DTYPE_INT64, .in = DTYPE_INT64
    };
    TENSOR_AUTO *mask = kernel_pointwise(g, DTYPE_BOOL, (struct tensor *[]){ best, self }, 2);
    TENSOR_AUTO *sum = reduce(g, mask, &count);

    if (!sum)
        return;
    TENSOR_AUTO *share = kernel_pointwise(g, grad->dtype, (struct tensor *[]){ grad, sum }, 2);

    if (share)
        ret[0] = kernel_pointwise(g, grad->dtype, (struct tensor *[]){ share, mask }, 2);
}

static const struct backward sum_backward = { "SumBackward1", sum_apply };
static const struct backward mean_backward = { "MeanBackward1", mean_apply };
static const struct backward amax_backward = { "AmaxBackward0", amax_apply };

/* prepare() - what all four have in common; false after a failure */
static bool prepare(struct ghost *g, const struct op_args *args, struct reduction *r)
{
    const struct tensor *x = args->in[0];
    const struct attr *dims = op_attr(args, KEY_DIM);
    enum dtype dtype = op_dtype(g, args);

    if (!x)
        return false;
    r->dims = shape_dims(g, args, x);
    r->named = dims && dims->count > 0;
    r->keepdim = op_int(args, KEY_KEEPDIM);
    r->compares = args->op == OP_AMAX || args->op == OP_ALL || args->op == OP_ANY;
    r->out = dtype != DTYPE_COUNT ? dtype : x->dtype;
    return !g->halt;
}

static struct node *start(struct ghost *g,
                          struct tensor *x,
                          const struct backward *backward,
                          const struct reduction *r)
{
    struct node *n = dtype_defs[r->out].floating ? node_new(g, backward, &x, 1, 2, 2) : NULL;

    if (n) {
        n->numbers[0] = r->dims;
        n->numbers[1] = r->named;
    }
    return n;
}

void op_sum(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct reduction r;

    if (!prepare(g, args, &r))
        return;
    if (!op_attr(args, KEY_DTYPE) && !dtype_defs[r.out].floating)
        r.out = DTYPE_INT64;
    r.in = computed_in(args->in[0], r.out);
    struct node *n = start(g, args->in[0], &sum_backward, &r);

    ret[0] = node_attach(n, reduce(g, args->in[0], &r));
}

void op_mean(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct reduction r;

    if (!prepare(g, args, &r))
        return;
    if (!dtype_defs[r.out].floating) {
        ghost_fail(g, PLM_E_MODEL, "the mean of %s; give 'dtype' a floating-point type",
                   dtype_defs[r.out].name);
        return;
    }
    r.in = computed_in(args->in[0], r.out);
    struct node *n = start(g, args->in[0], &mean_backward, &r);

    ret[0] = node_attach(n, reduce(g, args->in[0], &r));
}

void op_amax(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct reduction r;
    char text[TENSOR_TEXT];

    if (!prepare(g, args, &r))
        return;
    for (unsigned i = 0; i < args->in[0]->dims; i++)
        if (r.dims & (1U << i) && args->in[0]->sizes[i] == 0) {
            ghost_fail(g, PLM_E_MODEL, "dimension %u of %s is empty and has no maximum", i,
                       tensor_text(args->in[0], text));
            return;
        }
    r.in = r.out;
    struct node *n = start(g, args->in[0], &amax_backward, &r);

    node_save(n, 0, args->in[0]);
    struct tensor *y = reduce(g, args->in[0], &r);

    node_save_output(n, 1, y);
    ret[0] = node_attach(n, y);
}

static void logical(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct reduction r;

    if (!prepare(g, args, &r))
        return;
    if (r.out != DTYPE_UINT8)
        r.out = DTYPE_BOOL;
    /* a scalar is cast; for anything else the kernel reads every type itself */
    r.in = args->in[0]->dims == 0 ? r.out : args->in[0]->dtype;
    ret[0] = reduce(g, args->in[0], &r);
}

void op_all(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    logical(g, args, ret);
}

void op_any(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    logical(g, args, ret);
}
