/* ops/rearrange.c - elements moved to other places: roll, pad, tril, triu */
#include <inttypes.h>
#include <string.h>

#include "base/num.h"
#include "ghost/kernels.h"
#include "ops/shapes.h"
#include "ops/views.h"

/*
 * roll() - one kernel for each dimension, each on a contiguous input; results between them live until the last
 * is done, because roll() of several dimensions calls itself with the rest (native/TensorTransformations.h, roll_common)
 */
static struct tensor *roll(struct tensor *x, int64_t times)
{
    TENSOR_AUTO *once = NULL;

    if (!x)
        return NULL;
    {
        TENSOR_AUTO *dense = kernel_contiguous(x);

        once = dense ? tensor_new(x->ghost, x->dtype, x->dims, x->sizes) : NULL;
    }
    return times > 1 ? roll(once, times - 1) : tensor_take(&once);
}

static void roll_apply(struct ghost *g,
                       struct node *n,
                       struct tensor *const *grads,
                       struct tensor **ret)
{
    ret[0] = roll(grads[0], n->numbers[0]);
}

static const struct backward roll_backward = { "RollBackward0", roll_apply };

void op_roll(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *x = args->in[0];
    const struct attr *shifts = op_attr(args, KEY_SHIFTS), *dims = op_attr(args, KEY_DIMS);

    if (!x || !shifts || !dims)
        return;
    if (shifts->count != dims->count || dims->count == 0 || dims->count > TENSOR_DIMS) {
        ghost_fail(g, PLM_E_MODEL,
                   "'shifts' has %u numbers and 'dims' %u; there must be as many, at least one",
                   shifts->count, dims->count);
        return;
    }
    for (uint32_t i = 0; i < dims->count; i++)
        tensor_dim(g, x, dims->value.items[i]);
    struct node *n = node_new(g, &roll_backward, &x, 1, 0, 1);

    if (n)
        n->numbers[0] = dims->count;
    ret[0] = node_attach(n, roll(x, dims->count));
}

static void pad_apply(struct ghost *g,
                      struct node *n,
                      struct tensor *const *grads,
                      struct tensor **ret)
{
    int64_t pad[2 * TENSOR_DIMS];

    for (uint32_t i = 0; i < n->number_count; i++)
        pad[i] = -n->numbers[i];
    ret[0] = view_pad(grads[0], pad, n->number_count);
}

static const struct backward pad_backward = { "ConstantPadNdBackward0", pad_apply };

/* padded() - constant_pad_nd: without growing, a copy of the part that stays; else a tensor of the suggested layout */
static struct tensor *padded(struct tensor *x, const int64_t *sizes, bool grows)
{
    int64_t strides[TENSOR_DIMS];
    struct tensor part = *x;

    if (!grows) {
        memcpy(part.sizes, sizes, x->dims * sizeof *sizes);
        return tensor_like(x->ghost, &part, x->dtype);
    }
    if (tensor_suggests_channels_last(x))
        tensor_channels_last_strides(x->dims, sizes, strides);
    else
        tensor_contiguous_strides(x->dims, sizes, strides);
    return tensor_new_strided(x->ghost, x->dtype, x->dims, sizes, strides);
}

struct tensor *view_pad(struct tensor *x, const int64_t *pad, size_t pad_count)
{
    int64_t sizes[TENSOR_DIMS];
    char text[TENSOR_TEXT];
    bool grows = false, good;

    if (!x || x->ghost->halt)
        return NULL;
    good = pad_count % 2 == 0 && pad_count / 2 <= x->dims;
    memcpy(sizes, x->sizes, sizeof sizes);
    for (size_t i = 0; i < pad_count && good; i++) {
        int64_t *size = &sizes[x->dims - 1 - i / 2];

        grows = grows || pad[i] > 0;
        /* INT64_MIN has no opposite for the backward */
        good = pad[i] > -INT64_MAX && num_add(*size, pad[i], size) && (i % 2 == 0 || *size >= 0);
    }
    if (!good)
        return ghost_fail(x->ghost, PLM_E_MODEL,
                          "%zu paddings do not fit %s; give two for each dimension, from the last "
                          "on, that leave no negative size",
                          pad_count, tensor_text(x, text));
    struct node *n = node_new(x->ghost, &pad_backward, &x, 1, 0, (uint32_t)pad_count);

    if (n && pad_count > 0)
        memcpy(n->numbers, pad, pad_count * sizeof *pad);
    return node_attach(n, padded(x, sizes, grows));
}

void op_pad(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    const struct attr *pad = op_attr(args, KEY_PAD);

    if (pad)
        ret[0] = view_pad(args->in[0], pad->value.items, pad->count);
}

static void triangle_apply(struct ghost *g,
                           struct node *n,
                           struct tensor *const *grads,
                           struct tensor **ret)
{
    ret[0] = tensor_new(g, grads[0]->dtype, grads[0]->dims, grads[0]->sizes);
}

static const struct backward tril_backward = { "TrilBackward0", triangle_apply };
static const struct backward triu_backward = { "TriuBackward0", triangle_apply };

static struct tensor *triangle(struct ghost *g, struct tensor *x, const struct backward *backward)
{
    char text[TENSOR_TEXT];

    if (!x)
        return NULL;
    if (x->dims < 2)
        return ghost_fail(g, PLM_E_MODEL, "a triangle of %s; at least 2 dimensions are needed",
                          tensor_text(x, text));
    struct node *n = node_new(g, backward, &x, 1, 0, 0);

    return node_attach(n, tensor_new(g, x->dtype, x->dims, x->sizes));
}

void op_tril(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    ret[0] = triangle(g, args->in[0], &tril_backward);
}

void op_triu(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    ret[0] = triangle(g, args->in[0], &triu_backward);
}
