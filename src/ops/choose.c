/* ops/choose.c - where, minimum, clamp and masked_fill: values chosen by a mask or a limit */
#include "ghost/kernels.h"
#include "ops/pointwise.h"
#include "ops/shapes.h"

/* where(condition, grad, 0) and where(condition, 0, grad): the 0 is a scalar tensor on the device */
static struct tensor *where_zero(struct ghost *g, struct tensor *condition, struct tensor *grad)
{
    if (!condition || !grad)
        return NULL;
    TENSOR_AUTO *zero = tensor_new_scalar(g, grad->dtype);
    TENSOR_AUTO *mask = kernel_cast(condition, DTYPE_BOOL);

    return kernel_pointwise(g, grad->dtype, (struct tensor *[]){ mask, grad, zero }, 3);
}

static void where_apply(struct ghost *g,
                        struct node *n,
                        struct tensor *const *grads,
                        struct tensor **ret)
{
    TENSOR_AUTO *condition = node_saved(n, 0);

    for (uint32_t i = 2; i-- > 0;) /* other, then self */
        if (node_needs(n, i))
            ret[i] = where_zero(g, condition, grads[0]);
}

static const struct backward where_backward = { "WhereBackward0", where_apply };

void op_where(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *condition = args->in[0];
    struct tensor *const *sides = args->in + 1;

    if (!condition || !sides[0] || !sides[1]) {
        ghost_fail(g, PLM_E_MODEL, "three tensors are needed");
        return;
    }
    if (condition->dtype != DTYPE_BOOL && condition->dtype != DTYPE_UINT8) {
        ghost_fail(g, PLM_E_MODEL, "the condition is %s; it must be bool",
                   dtype_defs[condition->dtype].name);
        return;
    }
    enum dtype dtype = kernel_promote(sides[0], sides[1]);
    struct node *n = node_new(g, &where_backward, sides, 2, 1, 0);

    node_save(n, 0, condition);
    TENSOR_AUTO *mask = kernel_cast(condition, DTYPE_BOOL);
    TENSOR_AUTO *self = kernel_cast(sides[0], dtype);
    TENSOR_AUTO *other = kernel_cast(sides[1], dtype);

    ret[0] =
        node_attach(n, kernel_pointwise(g, dtype, (struct tensor *[]){ mask, self, other }, 3));
}

enum { SELF, OTHER };

/* where(self == other, grad / 2, grad).masked_fill_(self > other, 0), whose parts are made in this order */
static struct tensor *minimum_side(struct ghost *g,
                                   struct tensor *grad,
                                   struct tensor *self,
                                   struct tensor *other)
{
    struct tensor *both[] = { self, other };
    TENSOR_AUTO *equal = kernel_pointwise(g, DTYPE_BOOL, both, 2);
    TENSOR_AUTO *half = kernel_pointwise(g, grad->dtype, &grad, 1);
    TENSOR_AUTO *greater = kernel_pointwise(g, DTYPE_BOOL, both, 2);

    if (!equal || !half)
        return NULL;
    return kernel_pointwise(g, grad->dtype, (struct tensor *[]){ equal, half, grad }, 3);
}

static void minimum_apply(struct ghost *g,
                          struct node *n,
                          struct tensor *const *grads,
                          struct tensor **ret)
{
    TENSOR_AUTO *other = node_saved(n, OTHER);
    TENSOR_AUTO *self = node_saved(n, SELF);

    for (uint32_t i = 2; self && other && i-- > 0;) /* other, then self */
        if (node_needs(n, i))
            ret[i] = minimum_side(g, grads[0], self, other);
}

static const struct backward minimum_backward = { "MinimumBackward0", minimum_apply };

void op_minimum(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *self = args->in[0], *other = args->in[1];

    if (!self || !other)
        return;
    struct node *n = node_new(g, &minimum_backward, args->in, 2, 2, 0);

    node_save(n, SELF, self);
    node_save(n, OTHER, other);
    ret[0] = node_attach(n, kernel_pointwise(g, kernel_promote(self, other), args->in, 2));
}

enum { CLAMP_SELF, CLAMP_LEAST, CLAMP_MOST, CLAMP_COUNT };

/* compare() - a mask of two tensors */
static struct tensor *compare(struct ghost *g, struct tensor *a, struct tensor *b)
{
    return a && b ? kernel_pointwise(g, DTYPE_BOOL, (struct tensor *[]){ a, b }, 2) : NULL;
}

/* clamp_inside() - least < self & self < most & least < most, where the gradient is whole */
static struct tensor *clamp_inside(struct ghost *g,
                                   struct tensor *self,
                                   struct tensor *least,
                                   struct tensor *most,
                                   struct tensor *order)
{
    TENSOR_AUTO *above = compare(g, self, least);
    TENSOR_AUTO *below = compare(g, self, most);
    TENSOR_AUTO *both = compare(g, above, below);

    return compare(g, both, order);
}

/* clamp_edge() - self == least | self == most, where it is halved */
static struct tensor *clamp_edge(struct ghost *g,
                                 struct tensor *self,
                                 struct tensor *least,
                                 struct tensor *most)
{
    TENSOR_AUTO *at_least = compare(g, self, least);
    TENSOR_AUTO *at_most = compare(g, self, most);

    return compare(g, at_least, at_most);
}

static void clamp_apply(struct ghost *g,
                        struct node *n,
                        struct tensor *const *grads,
                        struct tensor **ret)
{
    TENSOR_AUTO *self = node_saved(n, CLAMP_SELF);
    TENSOR_AUTO *least = node_saved(n, CLAMP_LEAST);
    TENSOR_AUTO *most = node_saved(n, CLAMP_MOST);

    if (g->halt || !self)
        return;
    if (!least || !most) {
        ret[0] = minimum_side(g, grads[0], self, least ? least : most);
        return;
    }
    TENSOR_AUTO *order = compare(g, least, most);
    TENSOR_AUTO *inside = clamp_inside(g, self, least, most, order);
    TENSOR_AUTO *edge = clamp_edge(g, self, least, most);
    TENSOR_AUTO *half = kernel_pointwise(g, grads[0]->dtype, (struct tensor *[]){ grads[0] }, 1);

    if (inside && edge && half)
        ret[0] = kernel_pointwise(g, grads[0]->dtype,
                                  (struct tensor *[]){ inside, grads[0], edge, half }, 4);
}

static const struct backward clamp_backward = { "ClampBackward0", clamp_apply };

struct tensor *pointwise_clamp(struct tensor *x, struct tensor *least, struct tensor *most)
{
    struct ghost *g = x->ghost;
    struct tensor *operands[CLAMP_COUNT] = { x };
    enum dtype dtype = x->dtype;
    size_t count = 1;

    if (tensor_requires_grad(least) || tensor_requires_grad(most))
        return ghost_fail(g, PLM_E_MODEL, "the gradient of a limit is not modelled");
    for (unsigned i = 0; i < 2; i++) {
        struct tensor *limit = i ? most : least;

        if (!limit)
            continue;
        dtype = kernel_promote(x, limit) == x->dtype ? dtype : kernel_promote(x, limit);
        operands[count++] = limit;
    }
    struct node *n = node_new(g, &clamp_backward, &x, 1, CLAMP_COUNT, 0);

    node_save(n, CLAMP_SELF, x);
    node_save(n, CLAMP_LEAST, least);
    node_save(n, CLAMP_MOST, most);
    return node_attach(n, kernel_pointwise(g, dtype, operands, count));
}

/* fill() - masked_fill: a contiguous copy of the broadcast tensor, filled in place */
static struct tensor *fill(struct ghost *g, const struct tensor *x, const struct tensor *mask)
{
    int64_t sizes[TENSOR_DIMS];
    unsigned dims;

    if (!shape_broadcast(g, x, mask, &dims, sizes))
        return NULL;
    return tensor_new(g, x->dtype, dims, sizes);
}

static void fill_apply(struct ghost *g,
                       struct node *n,
                       struct tensor *const *grads,
                       struct tensor **ret)
{
    TENSOR_AUTO *mask = node_saved(n, 0);

    ret[0] = fill(g, grads[0], mask);
}

static const struct backward fill_backward = { "MaskedFillBackward0", fill_apply };

void op_masked_fill(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *x = args->in[0], *mask = args->in[1];

    if (!x || !mask)
        return;
    if (mask->dtype != DTYPE_BOOL) {
        ghost_fail(g, PLM_E_MODEL, "the mask is %s; it must be bool", dtype_defs[mask->dtype].name);
        return;
    }
    struct node *n = node_new(g, &fill_backward, &x, 1, 1, 0);

    node_save(n, 0, mask);
    if (!op_int(args, KEY_INPLACE))
        ret[0] = node_attach(n, fill(g, x, mask));
    else if (pointwise_may_overwrite(x, n))
        ret[0] = pointwise_overwrite(x, n);
    else
        node_drop(n);
}
