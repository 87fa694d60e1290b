/* ops/copies.c - the same values in memory of their own: contiguous, clone, to, repeat */
#include <string.h>

#include "base/num.h"
#include "ghost/autocast.h"
#include "ghost/kernels.h"
#include "ops/shapes.h"
#include "ops/views.h"

static void clone_apply(struct ghost *g,
                        struct node *n,
                        struct tensor *const *grads,
                        struct tensor **ret)
{
    ret[0] = tensor_ref(grads[0]);
}

static const struct backward clone_backward = { "CloneBackward0", clone_apply };

struct tensor *view_contiguous(struct tensor *x)
{
    if (!x || tensor_is_contiguous(x))
        return tensor_ref(x);
    struct node *n = node_new(x->ghost, &clone_backward, &x, 1, 0, 0);

    return node_attach(n, tensor_new(x->ghost, x->dtype, x->dims, x->sizes));
}

struct tensor *view_clone(struct tensor *x)
{
    if (!x)
        return NULL;
    struct node *n = node_new(x->ghost, &clone_backward, &x, 1, 0, 0);

    return node_attach(n, kernel_clone(x));
}

struct tensor *view_to(struct tensor *x, enum dtype dtype)
{
    return autocast_to(x, dtype);
}

/* FunctionsManual.cpp, repeat_backward: sum over new leading dimensions one by one, then over all repeats at once */
static void repeat_apply(struct ghost *g,
                         struct node *n,
                         struct tensor *const *grads,
                         struct tensor **ret)
{
    const struct output *in = node_input(n, 0);
    unsigned leading = n->number_count - in->dims, dims = 0;
    int64_t sizes[2 * TENSOR_DIMS];
    uint32_t summed = 0;
    bool empty = false;

    for (uint32_t i = 0; i < n->number_count; i++)
        empty = empty || n->numbers[i] == 0;
    if (empty) {
        ret[0] = tensor_new(g, grads[0]->dtype, in->dims, in->sizes);
        return;
    }
    TENSOR_AUTO *grad = tensor_ref(grads[0]);

    for (unsigned i = 0; i < leading; i++) {
        struct tensor *next = kernel_reduce(grad, 1, false, grads[0]->dtype);

        tensor_drop(grad);
        grad = next;
    }
    for (unsigned i = 0; i < in->dims; i++) {
        int64_t repeat = n->numbers[i + leading];

        if (repeat != 1) {
            summed |= 1U << dims;
            sizes[dims++] = repeat;
        }
        sizes[dims++] = in->sizes[i];
    }
    if (!summed) {
        ret[0] = tensor_take(&grad);
        return;
    }
    TENSOR_AUTO *shaped = view_reshape(grad, dims, sizes);

    ret[0] = kernel_reduce(shaped, summed, false, grads[0]->dtype);
}

static const struct backward repeat_backward = { "RepeatBackward0", repeat_apply };

void op_repeat(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *x = args->in[0];
    int64_t repeats[TENSOR_DIMS], sizes[TENSOR_DIMS];
    unsigned dims;
    char text[TENSOR_TEXT];

    if (!x || !shape_attr(g, args, KEY_REPEATS, &dims, repeats))
        return;
    bool good = dims >= x->dims;

    for (unsigned i = 0; i < dims && good; i++) {
        int64_t size = i + x->dims < dims ? 1 : x->sizes[i + x->dims - dims];

        good = repeats[i] >= 0 && num_mul(size, repeats[i], &sizes[i]);
    }
    if (!good) {
        ghost_fail(g, PLM_E_MODEL,
                   "'repeats' must name each dimension of %s, with numbers that are not negative",
                   tensor_text(x, text));
        return;
    }
    struct node *n = node_new(g, &repeat_backward, &x, 1, 0, dims);

    if (n)
        memcpy(n->numbers, repeats, dims * sizeof *repeats);
    ret[0] = node_attach(n, tensor_new(g, x->dtype, dims, sizes));
}

void op_contiguous(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    ret[0] = view_contiguous(args->in[0]);
}

void op_clone(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    ret[0] = view_clone(args->in[0]);
}

void op_to(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    ret[0] = view_to(args->in[0], op_dtype(g, args));
}

void op_requires_grad(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *x = args->in[0];

    if (tensor_is_floating(x) && !x->requires_grad)
        autograd_leaf(x);
    ret[0] = tensor_ref(x);
}

void op_type_as(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    if (args->in[0] && args->in[1])
        ret[0] = view_to(args->in[0], args->in[1]->dtype);
}
