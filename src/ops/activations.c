/*
 * ops/activations.c - relu, gelu and their kind: one output, and backward one more
 *
 * What is saved is what derivatives.yaml names: the input, or the result. In place, an input that is saved is copied first.
 */
#include "ghost/kernels.h"
#include "ops/pointwise.h"

/* The backward kernels' operands are (grad, saved) or the reverse, and the first one decides the layout. */
static void grad_first(struct ghost *g,
                       struct node *n,
                       struct tensor *const *grads,
                       struct tensor **ret)
{
    TENSOR_AUTO *saved = node_saved(n, 0);

    if (saved)
        ret[0] = kernel_pointwise(g, grads[0]->dtype, (struct tensor *[]){ grads[0], saved }, 2);
}

static void saved_first(struct ghost *g,
                        struct node *n,
                        struct tensor *const *grads,
                        struct tensor **ret)
{
    TENSOR_AUTO *saved = node_saved(n, 0);

    if (saved)
        ret[0] = kernel_pointwise(g, grads[0]->dtype, (struct tensor *[]){ saved, grads[0] }, 2);
}

enum saves { SAVES_INPUT, SAVES_RESULT };
enum integers { INTEGERS_FAIL, INTEGERS_STAY, INTEGERS_FLOAT };

struct activation {
    struct backward backward;
    enum saves saves, saves_inplace;
    enum integers integers;
    bool like; /* the output is made by empty_like(), not by TensorIterator */
};

static struct tensor *overwrite(struct ghost *g, struct tensor *x, const struct activation *kind)
{
    struct node *n = node_new(g, &kind->backward, &x, 1, 1, 0);

    if (!pointwise_may_overwrite(x, n))
        return node_attach(n, NULL);
    if (n && kind->saves_inplace == SAVES_INPUT) {
        TENSOR_AUTO *kept = kernel_clone(x);

        node_save(n, 0, kept);
    } else {
        node_save_output(n, 0, x);
    }
    return pointwise_overwrite(x, n);
}

static void run(struct ghost *g,
                const struct op_args *args,
                const struct activation *kind,
                struct tensor **ret)
{
    struct tensor *x = args->in[0];

    if (!x)
        return;
    enum dtype dtype = x->dtype;

    if (!tensor_is_floating(x) && kind->integers == INTEGERS_FAIL) {
        ghost_fail(g, PLM_E_MODEL, "of %s; a floating-point type is needed",
                   dtype_defs[dtype].name);
        return;
    }
    if (!tensor_is_floating(x) && kind->integers == INTEGERS_FLOAT)
        dtype = DTYPE_FLOAT32;
    if (op_int(args, KEY_INPLACE)) {
        ret[0] = overwrite(g, x, kind);
        return;
    }
    struct node *n = node_new(g, &kind->backward, &x, 1, 1, 0);

    if (kind->saves == SAVES_INPUT)
        node_save(n, 0, x);
    struct tensor *y = kind->like ? tensor_like(g, x, dtype) : kernel_pointwise(g, dtype, &x, 1);

    if (kind->saves == SAVES_RESULT)
        node_save_output(n, 0, y);
    ret[0] = node_attach(n, y);
}

void op_relu(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    static const struct activation kind = {
        { "ReluBackward0", saved_first }, SAVES_RESULT, SAVES_RESULT, INTEGERS_STAY, false
    };

    run(g, args, &kind, ret);
}

void op_relu6(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    static const struct activation kind = {
        { "HardtanhBackward0", grad_first }, SAVES_INPUT, SAVES_INPUT, INTEGERS_STAY, true
    };

    run(g, args, &kind, ret);
}

void op_leaky_relu(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    static const struct activation kind = {
        { "LeakyReluBackward0", saved_first }, SAVES_INPUT, SAVES_RESULT, INTEGERS_FAIL, false
    };

    run(g, args, &kind, ret);
}

void op_gelu(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    static const struct activation kind = {
        { "GeluBackward0", grad_first }, SAVES_INPUT, SAVES_INPUT, INTEGERS_FAIL, false
    };

    run(g, args, &kind, ret);
}

void op_silu(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    static const struct activation kind = {
        { "SiluBackward0", grad_first }, SAVES_INPUT, SAVES_INPUT, INTEGERS_FAIL, false
    };

    run(g, args, &kind, ret);
}

void op_hardswish(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    static const struct activation kind = {
        { "HardswishBackward0", grad_first }, SAVES_INPUT, SAVES_INPUT, INTEGERS_FAIL, false
    };

    run(g, args, &kind, ret);
}

void op_hardsigmoid(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    static const struct activation kind = {
        { "HardsigmoidBackward0", grad_first }, SAVES_INPUT, SAVES_INPUT, INTEGERS_FAIL, false
    };

    run(g, args, &kind, ret);
}

void op_sigmoid(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    static const struct activation kind = {
        { "SigmoidBackward0", grad_first }, SAVES_RESULT, SAVES_RESULT, INTEGERS_FLOAT, false
    };

    run(g, args, &kind, ret);
}

void op_tanh(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    static const struct activation kind = {
        { "TanhBackward0", grad_first }, SAVES_RESULT, SAVES_RESULT, INTEGERS_FLOAT, false
    };

    run(g, args, &kind, ret);
}
