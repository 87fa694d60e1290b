/* ops/create.c - tensors made from nothing: arange, full and new_zeros */
#include <inttypes.h>

#include "base/num.h"
#include "ops/shapes.h"

void op_arange(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    int64_t start = op_int(args, KEY_START), end = op_int(args, KEY_END);
    int64_t step = op_int(args, KEY_STEP), span;

    if (step == 0 || !num_sub(end, start, &span) || span == INT64_MIN ||
        (span != 0 && (span < 0) != (step < 0))) {
        ghost_fail(g, PLM_E_MODEL,
                   "no range from %" PRId64 " to %" PRId64 " in steps of %" PRId64
                   "; the step must lead from one to the other",
                   start, end, step);
        return;
    }
    int64_t count = span / step + (span % step != 0);

    ret[0] = tensor_new_sizes(g, op_dtype(g, args), count);
}

void op_full(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    int64_t sizes[TENSOR_DIMS];
    unsigned dims;

    if (shape_attr(g, args, KEY_SHAPE, &dims, sizes))
        ret[0] = tensor_new(g, op_dtype(g, args), dims, sizes);
}

void op_new_zeros(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    int64_t sizes[TENSOR_DIMS];
    unsigned dims;

    if (args->in[0] && shape_attr(g, args, KEY_SHAPE, &dims, sizes))
        ret[0] = tensor_new(g, args->in[0]->dtype, dims, sizes);
}
