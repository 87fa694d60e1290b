/* ops/compare.c - comparisons and logic: one bool an element, and no gradient */
#include "ghost/kernels.h"
#include "ops/pointwise.h"

static void compare(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *b;

    if (!pointwise_second(g, args, &b))
        return;
    ret[0] = b ? kernel_pointwise(g, DTYPE_BOOL, (struct tensor *[]){ args->in[0], b }, 2)
               : pointwise_with_number(args->in[0], DTYPE_BOOL);
}

void op_eq(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    compare(g, args, ret);
}

void op_ne(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    compare(g, args, ret);
}

void op_lt(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    compare(g, args, ret);
}

void op_le(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    compare(g, args, ret);
}

void op_gt(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    compare(g, args, ret);
}

void op_ge(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    compare(g, args, ret);
}

static void logic(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    for (uint32_t i = 0; i < args->in_count; i++)
        if (!args->in[i])
            return;
    ret[0] = kernel_pointwise(g, DTYPE_BOOL, args->in, args->in_count);
}

void op_logical_not(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    logic(g, args, ret);
}

void op_logical_and(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    logic(g, args, ret);
}

void op_logical_or(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    logic(g, args, ret);
}
