/*
 * ops/linear.c - F.linear, and the module's linear layer with its weight
 *
 * Mirrors aten/src/ATen/native/Linear.cpp (2.15).
 */
#include <string.h>

#include "ghost/autocast.h"
#include "ops/collective.h"
#include "ops/dense.h"
#include "ops/ops.h"
#include "ops/pointwise.h"
#include "ops/views.h"

/* _flatten_nd_linear() */
static struct tensor *flat_linear(struct tensor *x, struct tensor *weight, struct tensor *bias)
{
    int64_t sizes[TENSOR_DIMS], rows = 1;

    memcpy(sizes, x->sizes, sizeof sizes);
    for (unsigned i = 0; i + 1 < x->dims; i++)
        rows *= sizes[i];
    sizes[x->dims - 1] = weight->sizes[0];
    TENSOR_AUTO *flat = view_reshape(x, 2, (int64_t[]){ rows, x->sizes[x->dims - 1] });
    TENSOR_AUTO *weight_t = view_t(weight);
    TENSOR_AUTO *out = dense_addmm(bias, flat, weight_t);

    return view_unsafe(out, x->dims, sizes);
}

struct tensor *dense_linear(struct tensor *x, struct tensor *weight, struct tensor *bias)
{
    if (!x || !weight)
        return NULL;
    if (x->ghost->linear)
        return x->ghost->linear(x, weight, bias);
    if (bias && x->dims == 2) {
        TENSOR_AUTO *weight_t = view_t(weight);

        return dense_addmm(bias, x, weight_t);
    }
    if (bias && tensor_is_contiguous(x))
        return flat_linear(x, weight, bias);
    TENSOR_AUTO *weight_t = view_t(weight);
    struct tensor *out = dense_matmul(x, weight_t);

    if (!bias)
        return out;
    struct tensor *sum = pointwise_add_inplace(out, bias);

    tensor_drop(out);
    return sum;
}

/* split_features() - the part of one rank */
static bool split_features(struct ghost *g, int64_t ranks, int64_t *features)
{
    if (*features % ranks != 0) {
        ghost_fail(g, PLM_E_USAGE, "%lld features cannot be split evenly over %lld ranks",
                   (long long)*features, (long long)ranks);
        return false;
    }
    *features /= ranks;
    return true;
}

void op_linear(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *x = args->in[0];
    int64_t features = op_int(args, KEY_FEATURES);

    if (!x || x->dims == 0) {
        ghost_fail(g, PLM_E_MODEL, "an input of at least one dimension was expected");
        return;
    }
    if (args->shard == SHARD_COLUMN && !split_features(g, args->ranks, &features))
        return;
    struct tensor *weight =
        op_own_parameter(args, 0, "weight", 2, (int64_t[]){ features, x->sizes[x->dims - 1] });
    struct tensor *bias =
        op_int(args, KEY_BIAS) ? op_own_parameter(args, 1, "bias", 1, &features) : NULL;

    if (!weight)
        return;
    if (weight->sizes[1] != x->sizes[x->dims - 1]) {
        ghost_fail(g, PLM_E_MODEL, "the input's last size is %lld; the weight expects %lld",
                   (long long)x->sizes[x->dims - 1], (long long)weight->sizes[1]);
        return;
    }
    TENSOR_AUTO *input = args->shard == SHARD_COLUMN ? collective_enter(x) : tensor_ref(x);
    struct tensor *t[] = { input, weight, bias };
    bool was_active = autocast_cast(g, op_defs[OP_LINEAR].cast, t, 3);
    TENSOR_AUTO *y = dense_linear(t[0], t[1], t[2]);

    autocast_restore(g, was_active, t, 3);
    ret[0] = args->shard == SHARD_ROW ? collective_reduce(y) : tensor_take(&y);
}

void op_linear_with(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *x = args->in[0], *weight = args->in[1];
    struct tensor *bias = args->in_count > 2 ? args->in[2] : NULL;
    char xt[TENSOR_TEXT], wt[TENSOR_TEXT];

    if (!x || !weight)
        return;
    if (x->dims == 0 || weight->dims != 2 || weight->sizes[1] != x->sizes[x->dims - 1])
        ret[0] =
            ghost_fail(g, PLM_E_MODEL,
                       "an input %s does not go with a weight %s; the last sizes must be equal",
                       tensor_text(x, xt), tensor_text(weight, wt));
    else
        ret[0] = dense_linear(x, weight, bias);
}
