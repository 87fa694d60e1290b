/*
 * ops/unary.c - functions of one number: neg, abs, exp, log, sin, cos, sqrt, rsqrt, and clamp
 *
 * Their gradients are products of the incoming one with something made from what was saved; how many tensors of
 * full size that takes is the formula in derivatives.yaml.
 */
#include "ghost/kernels.h"
#include "ops/pointwise.h"

static struct tensor *change(struct ghost *g, struct tensor *a)
{
    return a ? kernel_pointwise(g, a->dtype, (struct tensor *[]){ a }, 1) : NULL;
}

static struct tensor *combine(struct ghost *g, struct tensor *a, struct tensor *b)
{
    return a && b ? kernel_pointwise(g, kernel_promote(a, b), (struct tensor *[]){ a, b }, 2)
                  : NULL;
}

static void neg_apply(struct ghost *g,
                      struct node *n,
                      struct tensor *const *grads,
                      struct tensor **ret)
{
    ret[0] = change(g, grads[0]);
}

/* exp: grad * result; log: grad / self */
static void plain_apply(struct ghost *g,
                        struct node *n,
                        struct tensor *const *grads,
                        struct tensor **ret)
{
    TENSOR_AUTO *saved = node_saved(n, 0);

    ret[0] = combine(g, grads[0], saved);
}

/* abs: grad * self.sgn(); sin: grad * self.cos(); sqrt: grad / (2 * result) */
static void one_apply(struct ghost *g,
                      struct node *n,
                      struct tensor *const *grads,
                      struct tensor **ret)
{
    TENSOR_AUTO *saved = node_saved(n, 0);
    TENSOR_AUTO *factor = change(g, saved);

    ret[0] = combine(g, grads[0], factor);
}

/* cos: grad * -self.sin() */
static void cos_apply(struct ghost *g,
                      struct node *n,
                      struct tensor *const *grads,
                      struct tensor **ret)
{
    TENSOR_AUTO *saved = node_saved(n, 0);
    TENSOR_AUTO *sine = change(g, saved);
    TENSOR_AUTO *factor = change(g, sine);

    ret[0] = combine(g, grads[0], factor);
}

/* rsqrt: -0.5 * grad * result.pow(3) */
static void rsqrt_apply(struct ghost *g,
                        struct node *n,
                        struct tensor *const *grads,
                        struct tensor **ret)
{
    TENSOR_AUTO *saved = node_saved(n, 0);
    TENSOR_AUTO *half = pointwise_with_number(grads[0], grads[0]->dtype);
    TENSOR_AUTO *cube = change(g, saved);

    ret[0] = combine(g, half, cube);
}

enum saves { SAVES_NOTHING, SAVES_INPUT, SAVES_RESULT };

/* struct unary - @floats: an integer input gives float32 */
struct unary {
    struct backward backward;
    enum saves saves;
    bool floats;
};

static void run(struct ghost *g,
                const struct op_args *args,
                const struct unary *kind,
                struct tensor **ret)
{
    struct tensor *x = args->in[0];

    if (!x)
        return;
    enum dtype dtype = kind->floats && !tensor_is_floating(x) ? DTYPE_FLOAT32 : x->dtype;
    struct node *n = node_new(g, &kind->backward, &x, 1, 1, 0);

    if (kind->saves == SAVES_INPUT)
        node_save(n, 0, x);
    struct tensor *y = kernel_pointwise(g, dtype, &x, 1);

    if (kind->saves == SAVES_RESULT)
        node_save_output(n, 0, y);
    ret[0] = node_attach(n, y);
}

void op_neg(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    static const struct unary kind = { { "NegBackward0", neg_apply }, SAVES_NOTHING, false };

    if (args->in[0] && args->in[0]->dtype == DTYPE_BOOL)
        ghost_fail(g, PLM_E_MODEL, "a bool tensor has no negative; use logical_not");
    run(g, args, &kind, ret);
}

void op_abs(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    static const struct unary kind = { { "AbsBackward0", one_apply }, SAVES_INPUT, false };

    run(g, args, &kind, ret);
}

void op_exp(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    static const struct unary kind = { { "ExpBackward0", plain_apply }, SAVES_RESULT, true };

    run(g, args, &kind, ret);
}

void op_log(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    static const struct unary kind = { { "LogBackward0", plain_apply }, SAVES_INPUT, true };

    run(g, args, &kind, ret);
}

void op_sin(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    static const struct unary kind = { { "SinBackward0", one_apply }, SAVES_INPUT, true };

    run(g, args, &kind, ret);
}

void op_cos(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    static const struct unary kind = { { "CosBackward0", cos_apply }, SAVES_INPUT, true };

    run(g, args, &kind, ret);
}

void op_sqrt(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    static const struct unary kind = { { "SqrtBackward0", one_apply }, SAVES_RESULT, true };

    run(g, args, &kind, ret);
}

void op_rsqrt(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    static const struct unary kind = { { "RsqrtBackward0", rsqrt_apply }, SAVES_RESULT, true };

    run(g, args, &kind, ret);
}

/* clamp_backward: where(self >= min && self <= max, grad, 0), one mask for each limit, joined in place */
static void clamp_apply(struct ghost *g,
                        struct node *n,
                        struct tensor *const *grads,
                        struct tensor **ret)
{
    TENSOR_AUTO *self = node_saved(n, 0);

    if (!self)
        return;
    TENSOR_AUTO *zero = tensor_new_scalar(g, grads[0]->dtype);
    TENSOR_AUTO *mask = kernel_pointwise(g, DTYPE_BOOL, (struct tensor *[]){ self }, 1);
    TENSOR_AUTO *second =
        n->numbers[0] == 2 ? kernel_pointwise(g, DTYPE_BOOL, (struct tensor *[]){ self }, 1) : NULL;

    if (zero && mask && (second || n->numbers[0] < 2))
        ret[0] =
            kernel_pointwise(g, grads[0]->dtype, (struct tensor *[]){ mask, grads[0], zero }, 3);
}

static const struct backward clamp_backward = { "ClampBackward1", clamp_apply };

void op_clamp(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    static const enum attr_key limits[] = { KEY_START, KEY_END };
    struct tensor *x = args->in[0];
    struct tensor *least = args->in_count > 1 ? args->in[1] : NULL;
    struct tensor *most = args->in_count > 2 ? args->in[2] : NULL;
    int64_t count = 0;

    if (!x)
        return;
    if (least || most) {
        ret[0] = pointwise_clamp(x, least, most);
        return;
    }
    struct tensor wide = { .dtype = x->dtype };

    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        if (!op_attr(args, limits[i]))
            continue;
        wide.dtype = pointwise_number_dtype(&wide, op_real(args, limits[i]));
        count++;
    }
    if (count == 0) {
        ghost_fail(g, PLM_E_MODEL, "neither 'start' nor 'end'; at least one is needed");
        return;
    }
    struct node *n = node_new(g, &clamp_backward, &x, 1, 1, 1);

    if (n)
        n->numbers[0] = count;
    node_save(n, 0, x);
    TENSOR_AUTO *base = kernel_cast(x, wide.dtype);

    ret[0] = node_attach(n, change(g, base));
}

/* isinf(): self.abs() == inf */
void op_isinf(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *x = args->in[0];

    if (!x)
        return;
    TENSOR_AUTO *size = tensor_is_floating(x) ? change(g, x) : tensor_ref(x);

    if (size)
        ret[0] = kernel_pointwise(g, DTYPE_BOOL, (struct tensor *[]){ size }, 1);
}
