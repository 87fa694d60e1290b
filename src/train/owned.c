/*
 * train/owned.c - the operators `parameter` and `buffer`: tensors that the model owns by the name of their step
 */
#include "train/internal.h"

void op_parameter(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    const struct attr *shape = op_attr(args, KEY_SHAPE);

    ret[0] = tensor_ref(op_own_parameter(args, 0, "", shape->count, shape->value.items));
}

void op_buffer(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    const struct attr *shape = op_attr(args, KEY_SHAPE);
    enum dtype dtype = (enum dtype)op_int(args, KEY_DTYPE);

    ret[0] = tensor_ref(op_own_buffer(args, 0, "", dtype, shape->count, shape->value.items));
}
