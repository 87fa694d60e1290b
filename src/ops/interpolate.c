/*
 * ops/interpolate.c - resizing images
 *
 * Mirrors torch.nn.functional.interpolate, aten/src/ATen/native/cuda/UpSampleNearest2d.cu, UpSampleBilinear2d.cu and
 * UpSampleBicubic2d.cu of PyTorch 2.15 (2.11 takes the same memory). Nothing is saved but sizes. The channels-last kernels
 * want at least four channels; below that, the contiguous ones run into a contiguous copy.
 */
#include "base/num.h"
#include "ghost/kernels.h"
#include "ops/layout.h"
#include "ops/ops.h"

enum mode { MODE_NEAREST, MODE_BILINEAR, MODE_BICUBIC }; /* as in attrs.def */
enum { CHANNELS_LEAST = 4 };

static void bicubic_apply(struct ghost *g,
                          struct node *n,
                          struct tensor *const *grads,
                          struct tensor **ret)
{
    const struct output *in = node_input(n, 0);

    ret[0] = tensor_new(g, grads[0]->dtype, in->dims, in->sizes);
    tensor_drop(scratch_copy(grads[0], false));
}

static void other_apply(struct ghost *g,
                        struct node *n,
                        struct tensor *const *grads,
                        struct tensor **ret)
{
    const struct output *in = node_input(n, 0);
    bool channels_last = tensor_suggests_channels_last(grads[0]);

    ret[0] = layout_new(g, grads[0]->dtype, in->dims, in->sizes, channels_last);
    if (channels_last && in->sizes[1] >= CHANNELS_LEAST) {
        tensor_drop(scratch_copy(grads[0], true));
        return;
    }
    TENSOR_AUTO *plain = scratch_copy(ret[0], false);
    TENSOR_AUTO *grad = scratch_copy(grads[0], false);
}

static const struct backward nearest_backward = { "UpsampleNearest2DBackward0", other_apply };
static const struct backward bilinear_backward = { "UpsampleBilinear2DBackward0", other_apply };
static const struct backward bicubic_backward = { "UpsampleBicubic2DBackward0", bicubic_apply };

/* resized() - the output's height and width; false after a failure */
static bool resized(struct ghost *g,
                    const struct op_args *args,
                    const struct tensor *x,
                    int64_t *ret)
{
    bool by_size = op_attr(args, KEY_SIZE), by_scale = op_attr(args, KEY_SCALE);

    if (by_size == by_scale) {
        ghost_fail(g, PLM_E_MODEL, "one of 'size' and 'scale' was expected");
        return false;
    }
    if (by_size)
        op_ints(g, args, KEY_SIZE, 2, ret);
    for (unsigned i = 0; by_scale && i < 2; i++)
        if (!num_mul(x->sizes[2 + i], op_int(args, KEY_SCALE), &ret[i]))
            ret[i] = 0;
    if (!g->halt && (ret[0] < 1 || ret[1] < 1))
        ghost_fail(g, PLM_E_MODEL, "the output would be %lld x %lld; at least 1 was expected",
                   (long long)ret[0], (long long)ret[1]);
    return !g->halt;
}

void op_interpolate(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *x = args->in[0];
    char text[TENSOR_TEXT];

    if (!x || g->halt)
        return;
    if (x->dims != 4 || !tensor_is_floating(x)) {
        ghost_fail(g, PLM_E_MODEL,
                   "the input is %s %s; [batch, channels, height, width] was expected",
                   dtype_defs[x->dtype].name, tensor_text(x, text));
        return;
    }
    int64_t sizes[4] = { x->sizes[0], x->sizes[1] };
    bool channels_last = tensor_suggests_channels_last(x);
    bool wide = channels_last && x->sizes[1] >= CHANNELS_LEAST;
    const struct backward *backward = &nearest_backward;

    if (!resized(g, args, x, sizes + 2))
        return;
    switch ((enum mode)op_int(args, KEY_MODE)) {
    case MODE_NEAREST:
        break;
    case MODE_BILINEAR:
        backward = &bilinear_backward;
        break;
    case MODE_BICUBIC:
        backward = &bicubic_backward;
        break;
    }
    struct node *n = node_new(g, backward, &x, 1, 0, 0);
    struct tensor *y = layout_new(g, x->dtype, 4, sizes, channels_last);

    if (wide && backward != &bicubic_backward) {
        tensor_drop(scratch_copy(x, true));
    } else if (backward == &nearest_backward) {
        TENSOR_AUTO *plain = scratch_copy(y, false);
        TENSOR_AUTO *dense = scratch_copy(x, false);
    }
    ret[0] = node_attach(n, y);
}
