/*
 * ops/pointwise.c - sums, differences, products and quotients, with broadcasting and type promotion
 *
 * A Python number is no operand: it allocates nothing and saves nothing. Gradients are made for `other` first, then for
 * `self` (alphabetical), at the broadcast size; the engine sums them to the inputs' sizes afterwards.
 */
#include <math.h>
#include <string.h>

#include "ghost/kernels.h"
#include "ops/pointwise.h"
#include "ops/shapes.h"

/* saved tensors of a binary node, and its edges */
enum { SELF, OTHER };

static struct tensor *combine(struct ghost *g, struct tensor *a, struct tensor *b)
{
    return a && b ? kernel_pointwise(g, kernel_promote(a, b), (struct tensor *[]){ a, b }, 2)
                  : NULL;
}

static struct tensor *change(struct ghost *g, struct tensor *a)
{
    return a ? kernel_pointwise(g, a->dtype, (struct tensor *[]){ a }, 1) : NULL;
}

static void add_apply(struct ghost *g,
                      struct node *n,
                      struct tensor *const *grads,
                      struct tensor **ret)
{
    for (uint32_t i = n->edge_count; i-- > 0;)
        if (node_needs(n, i))
            ret[i] = tensor_ref(grads[0]);
}

static void sub_apply(struct ghost *g,
                      struct node *n,
                      struct tensor *const *grads,
                      struct tensor **ret)
{
    if (node_needs(n, OTHER))
        ret[OTHER] = change(g, grads[0]); /* -grad */
    if (node_needs(n, SELF))
        ret[SELF] = tensor_ref(grads[0]);
}

static void mul_apply(struct ghost *g,
                      struct node *n,
                      struct tensor *const *grads,
                      struct tensor **ret)
{
    TENSOR_AUTO *other = node_saved(n, OTHER);
    TENSOR_AUTO *self = node_saved(n, SELF);

    if (node_needs(n, OTHER))
        ret[OTHER] = combine(g, grads[0], self);
    if (node_needs(n, SELF))
        ret[SELF] = combine(g, grads[0], other);
}

/* quotient() - true division gives a float even of integers */
static struct tensor *quotient(struct ghost *g, struct tensor *a, struct tensor *b)
{
    if (!a || !b)
        return NULL;
    enum dtype dtype = kernel_promote(a, b);

    return kernel_pointwise(g, dtype_defs[dtype].floating ? dtype : DTYPE_FLOAT32,
                            (struct tensor *[]){ a, b }, 2);
}

/* div_tensor_other_backward: -grad * ((self / other) / other) */
static struct tensor *div_other(struct ghost *g,
                                struct tensor *grad,
                                struct tensor *self,
                                struct tensor *other)
{
    TENSOR_AUTO *once = quotient(g, self, other);
    TENSOR_AUTO *twice = quotient(g, once, other);
    TENSOR_AUTO *negated = change(g, grad);

    return combine(g, negated, twice);
}

static void div_apply(struct ghost *g,
                      struct node *n,
                      struct tensor *const *grads,
                      struct tensor **ret)
{
    TENSOR_AUTO *other = node_saved(n, OTHER);
    TENSOR_AUTO *self = node_saved(n, SELF);

    if (node_needs(n, OTHER))
        ret[OTHER] = div_other(g, grads[0], self, other);
    if (node_needs(n, SELF))
        ret[SELF] = quotient(g, grads[0], other);
}

struct tensor *pointwise_with_number(struct tensor *x, enum dtype dtype)
{
    struct tensor number = { .dims = 0 };

    return x ? kernel_pointwise(x->ghost, dtype, (struct tensor *[]){ x, &number }, 2) : NULL;
}

/* scale_apply() - of a product or quotient with a number */
static void scale_apply(struct ghost *g,
                        struct node *n,
                        struct tensor *const *grads,
                        struct tensor **ret)
{
    ret[0] = pointwise_with_number(grads[0], grads[0]->dtype);
}

/* struct arithmetic - one of the four; @saves: gradients need the factors, @divides: of `other` it needs both */
struct arithmetic {
    const struct backward of_tensors, of_number;
    bool saves, divides, subtracts;
};

static const struct arithmetic add = {
    { "AddBackward0", add_apply }, { "AddBackward0", add_apply }, false, false, false
};
static const struct arithmetic sub = {
    { "SubBackward0", sub_apply }, { "SubBackward0", add_apply }, false, false, true
};
static const struct arithmetic mul = {
    { "MulBackward0", mul_apply }, { "MulBackward0", scale_apply }, true, false, false
};
static const struct arithmetic quot = {
    { "DivBackward0", div_apply }, { "DivBackward0", scale_apply }, true, true, false
};

enum dtype pointwise_number_dtype(const struct tensor *x, double number)
{
    if (tensor_is_floating(x))
        return x->dtype;
    if (number != floor(number))
        return DTYPE_FLOAT32;
    return x->dtype == DTYPE_BOOL ? DTYPE_INT64 : x->dtype;
}

/* struct call - one call: @b NULL means the number */
struct call {
    const struct arithmetic *kind;
    struct tensor *a, *b;
    double number;
    bool inplace;
};

static enum dtype result_dtype(const struct call *call)
{
    enum dtype dtype =
        call->b ? kernel_promote(call->a, call->b) : pointwise_number_dtype(call->a, call->number);

    return call->kind->divides && !dtype_defs[dtype].floating ? DTYPE_FLOAT32 : dtype;
}

static bool check_inplace(struct ghost *g, const struct call *call)
{
    const struct tensor *a = call->a, *b = call->b;
    enum dtype dtype = result_dtype(call);
    int64_t sizes[TENSOR_DIMS];
    unsigned dims;
    char left[TENSOR_TEXT], right[TENSOR_TEXT];

    if (b && !shape_broadcast(g, a, b, &dims, sizes))
        return false;
    if (b && (dims != a->dims || memcmp(sizes, a->sizes, dims * sizeof *sizes) != 0)) {
        ghost_fail(g, PLM_E_MODEL, "the result has sizes %s and cannot be written to %s",
                   shape_text(dims, sizes, left), tensor_text(a, right));
        return false;
    }
    if (dtype_defs[dtype].floating && !tensor_is_floating(a)) {
        ghost_fail(g, PLM_E_MODEL, "the result is %s and cannot be written to %s",
                   dtype_defs[dtype].name, dtype_defs[a->dtype].name);
        return false;
    }
    return true;
}

/* save_factors() - `other` for the gradient of `self` and the reverse; what will be overwritten is saved as a copy */
static void save_factors(struct node *n, const struct call *call)
{
    bool self = tensor_requires_grad(call->a), other = tensor_requires_grad(call->b);

    if (!n || !call->b || !call->kind->saves)
        return;
    if (self || call->kind->divides)
        node_save(n, OTHER, call->b);
    if (other) {
        TENSOR_AUTO *kept = call->inplace ? kernel_clone(call->a) : tensor_ref(call->a);

        node_save(n, SELF, kept);
    }
}

static struct tensor *arithmetic(const struct call *call)
{
    struct tensor *a = call->a, *b = call->b;

    if (!a)
        return NULL;
    struct ghost *g = a->ghost;

    if (call->kind->subtracts && (a->dtype == DTYPE_BOOL || (b && b->dtype == DTYPE_BOOL)))
        return ghost_fail(g, PLM_E_MODEL, "a difference with a bool tensor; cast it to a number");
    if (call->inplace && !check_inplace(g, call))
        return NULL;
    struct node *n =
        node_new(g, b ? &call->kind->of_tensors : &call->kind->of_number,
                 (struct tensor *[]){ a, b }, b ? 2 : 1, b && call->kind->saves ? 2 : 0, 0);

    save_factors(n, call);
    if (call->inplace)
        return pointwise_may_overwrite(a, n) ? pointwise_overwrite(a, n) : node_attach(n, NULL);
    enum dtype dtype = result_dtype(call);

    return node_attach(n, b ? kernel_pointwise(g, dtype, (struct tensor *[]){ a, b }, 2)
                            : pointwise_with_number(a, dtype));
}

struct tensor *pointwise_add(struct tensor *a, struct tensor *b)
{
    return arithmetic(&(struct call){ .kind = &add, .a = a, .b = b });
}

struct tensor *pointwise_mul(struct tensor *a, struct tensor *b)
{
    return arithmetic(&(struct call){ .kind = &mul, .a = a, .b = b });
}

struct tensor *pointwise_div(struct tensor *a, struct tensor *b)
{
    return arithmetic(&(struct call){ .kind = &quot, .a = a, .b = b });
}

struct tensor *pointwise_add_inplace(struct tensor *a, struct tensor *b)
{
    return arithmetic(&(struct call){ .kind = &add, .a = a, .b = b, .inplace = true });
}

struct tensor *pointwise_mul_inplace(struct tensor *a, struct tensor *b)
{
    return arithmetic(&(struct call){ .kind = &mul, .a = a, .b = b, .inplace = true });
}

static void run(struct ghost *g,
                const struct op_args *args,
                const struct arithmetic *kind,
                struct tensor **ret)
{
    struct call call = {
        .kind = kind,
        .a = args->in[0],
        .number = op_real(args, KEY_VALUE),
        .inplace = op_int(args, KEY_INPLACE),
    };

    if (pointwise_second(g, args, &call.b))
        ret[0] = arithmetic(&call);
}

bool pointwise_second(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *b = args->in_count > 1 ? args->in[1] : NULL;
    bool number = op_attr(args, KEY_VALUE);

    if (!g->halt && number == (b != NULL)) {
        ghost_fail(g, PLM_E_MODEL, "%s; give one of the two",
                   number ? "both a second input and 'value'" : "no second input and no 'value'");
        return false;
    }
    *ret = b;
    return !g->halt && args->in[0];
}

void op_add(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    run(g, args, &add, ret);
}

void op_sub(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    run(g, args, &sub, ret);
}

void op_mul(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    run(g, args, &mul, ret);
}

void op_div(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    run(g, args, &quot, ret);
}

/* op_floor_divide() - of integers, by a number: no gradient */
void op_floor_divide(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *x = args->in[0];

    if (!x)
        return;
    if (tensor_is_floating(x) || x->dtype == DTYPE_BOOL)
        ghost_fail(g, PLM_E_MODEL, "of %s; integers were expected", dtype_defs[x->dtype].name);
    else
        ret[0] = pointwise_with_number(x, x->dtype);
}
