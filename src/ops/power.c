/*
 * ops/power.c - pow, by a number or by a tensor
 *
 * Mirrors FunctionsManual.cpp, pow_backward, pow_backward_self and pow_backward_exponent, temporary by temporary.
 */
#include "ghost/kernels.h"
#include "ops/pointwise.h"

enum { SELF, EXPONENT, RESULT };

static struct tensor *combine(struct ghost *g, struct tensor *a, struct tensor *b)
{
    return a && b ? kernel_pointwise(g, kernel_promote(a, b), (struct tensor *[]){ a, b }, 2)
                  : NULL;
}

static struct tensor *change(struct ghost *g, struct tensor *a, enum dtype dtype)
{
    return a ? kernel_pointwise(g, dtype, (struct tensor *[]){ a }, 1) : NULL;
}

/* choose() - where(condition, zeros({}), x), the scalar being given */
static struct tensor *choose(struct ghost *g,
                             struct tensor *condition,
                             struct tensor *zero,
                             struct tensor *x)
{
    if (!condition || !zero || !x)
        return NULL;
    return kernel_pointwise(g, kernel_promote(zero, x), (struct tensor *[]){ condition, zero, x },
                            3);
}

/* pow_backward: grad * (exponent * self.pow(exponent - 1)); zeros_like(self) for exponent 0 */
static void number_apply(struct ghost *g,
                         struct node *n,
                         struct tensor *const *grads,
                         struct tensor **ret)
{
    TENSOR_AUTO *self = node_saved(n, SELF);

    if (!self)
        return;
    if (n->numbers[0]) {
        ret[0] = tensor_new(g, self->dtype, self->dims, self->sizes);
        return;
    }
    TENSOR_AUTO *power = change(g, self, self->dtype);
    TENSOR_AUTO *scaled = pointwise_with_number(power, self->dtype);

    ret[0] = combine(g, grads[0], scaled);
}

/* grad * where(self == 0 && exponent >= 0, 0, result * self.log()) */
static struct tensor *exponent_grad(struct ghost *g,
                                    struct tensor *grad,
                                    struct tensor *self,
                                    struct tensor *exponent,
                                    struct tensor *result)
{
    TENSOR_AUTO *condition = NULL;
    {
        TENSOR_AUTO *positive = pointwise_with_number(exponent, DTYPE_BOOL);
        TENSOR_AUTO *zero = pointwise_with_number(self, DTYPE_BOOL);

        condition = combine(g, zero, positive);
    }
    TENSOR_AUTO *wide = kernel_cast(self, kernel_promote(self, exponent));
    TENSOR_AUTO *log = wide ? change(g, wide, wide->dtype) : NULL;
    TENSOR_AUTO *product = combine(g, result, log);
    TENSOR_AUTO *zero = tensor_new_scalar(g, grad->dtype);
    TENSOR_AUTO *chosen = choose(g, condition, zero, product);

    return combine(g, grad, chosen);
}

/* where(exponent == 0, 0, grad * (exponent * self.pow(exponent - 1))) */
static struct tensor *self_grad(struct ghost *g,
                                struct tensor *grad,
                                struct tensor *self,
                                struct tensor *exponent)
{
    TENSOR_AUTO *less = pointwise_with_number(exponent, exponent->dtype);
    TENSOR_AUTO *power = combine(g, self, less);
    TENSOR_AUTO *scaled = combine(g, exponent, power);
    TENSOR_AUTO *product = combine(g, grad, scaled);
    TENSOR_AUTO *zero = tensor_new_scalar(g, grad->dtype);
    TENSOR_AUTO *condition = pointwise_with_number(exponent, DTYPE_BOOL);

    return choose(g, condition, zero, product);
}

static void tensor_apply(struct ghost *g,
                         struct node *n,
                         struct tensor *const *grads,
                         struct tensor **ret)
{
    TENSOR_AUTO *self = node_saved(n, SELF);
    TENSOR_AUTO *exponent = node_saved(n, EXPONENT);
    TENSOR_AUTO *result = node_saved(n, RESULT);

    if (!self || !exponent)
        return;
    if (node_needs(n, EXPONENT) && result)
        ret[EXPONENT] = exponent_grad(g, grads[0], self, exponent, result);
    if (node_needs(n, SELF))
        ret[SELF] = self_grad(g, grads[0], self, exponent);
}

static const struct backward number_backward = { "PowBackward0", number_apply };
static const struct backward tensor_backward = { "PowBackward1", tensor_apply };

static struct tensor *power_of_number(struct ghost *g, struct tensor *x, double exponent)
{
    enum dtype dtype = pointwise_number_dtype(x, exponent);
    struct node *n = node_new(g, &number_backward, &x, 1, 1, 1);

    if (n)
        n->numbers[0] = exponent == 0;
    node_save(n, SELF, x);
    TENSOR_AUTO *base = kernel_cast(x, dtype); /* the base is cast, not only read as another type */

    return node_attach(n, base ? change(g, base, dtype) : NULL);
}

void op_pow(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *x = args->in[0], *exponent;

    if (!pointwise_second(g, args, &exponent))
        return;
    if (!exponent) {
        ret[0] = power_of_number(g, x, op_real(args, KEY_VALUE));
        return;
    }
    struct node *n = node_new(g, &tensor_backward, (struct tensor *[]){ x, exponent }, 2, 3, 0);

    node_save(n, SELF, x);
    node_save(n, EXPONENT, exponent);
    struct tensor *y = combine(g, x, exponent);

    node_save_output(n, RESULT, y); /* also when only the gradient of the base is wanted */
    ret[0] = node_attach(n, y);
}
