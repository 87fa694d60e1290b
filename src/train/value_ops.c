/*
 * train/value_ops.c - the rows of ops.def that stand for the model's own tensors, and those that only names understand
 *
 * Lists and records are not tensors: the executor runs their operators itself (value_operators), and none of these
 * functions is called. They exist because every row has one.
 */
#include "train/internal.h"

static void on_values(struct ghost *g, const struct op_args *args)
{
    ghost_fail(g, PLM_E_MODEL, "works on lists and records, which only a model file has");
}

#define ON_VALUES(name)                                                                            \
    void op_##name(struct ghost *g, const struct op_args *args, struct tensor **ret)               \
    {                                                                                              \
        on_values(g, args);                                                                        \
    }

ON_VALUES(list)
ON_VALUES(append)
ON_VALUES(pop)
ON_VALUES(item)
ON_VALUES(record)
ON_VALUES(field)

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
