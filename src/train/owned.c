/*
 * train/owned.c - the operators `parameter` and `buffer`: tensors that the model owns by the name of their step
 */
#include <string.h>

#include "train/internal.h"

void op_parameter(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    const struct attr *shape = op_attr(args, KEY_SHAPE);
    int64_t sizes[8];
    unsigned dim = args->shard == SHARD_ROW;

    if (shape->count > 8) {
        ghost_fail(g, PLM_E_MODEL, "more than 8 dimensions");
        return;
    }
    if (shape->count > 0)
        memcpy(sizes, shape->value.items, shape->count * sizeof *sizes);
    if ((args->shard == SHARD_COLUMN || args->shard == SHARD_ROW) && dim < shape->count) {
        if (sizes[dim] % args->ranks != 0) {
            ghost_fail(g, PLM_E_USAGE, "%lld features cannot be split evenly over %lld ranks",
                       (long long)sizes[dim], (long long)args->ranks);
            return;
        }
        sizes[dim] /= args->ranks;
    }
    ret[0] = tensor_ref(op_own_parameter(args, 0, "", shape->count, sizes));
}

void op_buffer(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    const struct attr *shape = op_attr(args, KEY_SHAPE);
    enum dtype dtype = (enum dtype)op_int(args, KEY_DTYPE);

    ret[0] = tensor_ref(op_own_buffer(args, 0, "", dtype, shape->count, shape->value.items));
}
