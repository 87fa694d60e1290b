/*
 * ops/cut.c - pieces of a tensor as views: slice, select, split, chunk, unbind
 *
 * Forward they cost nothing. Backward, each slice and each select makes a tensor of zeros as large as the whole input,
 * and the engine adds them up; split and unbind make one tensor for all pieces, by cat or stack, with zeros for the
 * pieces that have no gradient.
 */
#include <inttypes.h>
#include <string.h>

#include "base/num.h"
#include "ops/shapes.h"
#include "ops/views.h"

/* slice_backward, select_backward: new_zeros(input sizes), and a copy into the part */
static void zeros_apply(struct ghost *g,
                        struct node *n,
                        struct tensor *const *grads,
                        struct tensor **ret)
{
    const struct output *in = node_input(n, 0);

    ret[0] = tensor_new(g, grads[0]->dtype, in->dims, in->sizes);
}

static const struct backward slice_backward = { "SliceBackward0", zeros_apply };
static const struct backward select_backward = { "SelectBackward0", zeros_apply };

static void alias_apply(struct ghost *g,
                        struct node *n,
                        struct tensor *const *grads,
                        struct tensor **ret)
{
    ret[0] = tensor_ref(grads[0]);
}

static const struct backward alias_backward = { "AliasBackward0", alias_apply };

/* clamp_index() - as Python's slices: negative from the end, then limited to [0, size] */
static int64_t clamp_index(int64_t index, int64_t size)
{
    if (index < 0 && !num_add(index, size, &index))
        index = 0;
    return index < 0 ? 0 : index > size ? size : index;
}

struct tensor *view_slice(struct tensor *x, int64_t dim, int64_t start, int64_t end, int64_t step)
{
    if (!x)
        return NULL;
    struct ghost *g = x->ghost;
    unsigned at = tensor_dim(g, x, dim);
    int64_t sizes[TENSOR_DIMS], strides[TENSOR_DIMS];

    if (step < 1 || x->dims == 0)
        return ghost_fail(g, PLM_E_MODEL,
                          "a slice with step %" PRId64 " of %u dimensions; the step must be "
                          "positive and the tensor not a scalar",
                          step, x->dims);
    int64_t first = clamp_index(start, x->sizes[at]), last = clamp_index(end, x->sizes[at]);
    int64_t length = last > first ? (last - first - 1) / step + 1 : 0;

    memcpy(sizes, x->sizes, sizeof sizes);
    memcpy(strides, x->strides, sizeof strides);
    sizes[at] = length;
    /* with one element the stride does not matter, and must not overflow */
    if (!num_mul(x->strides[at], step, &strides[at]))
        strides[at] = x->strides[at];
    struct node *n = node_new(g, &slice_backward, &x, 1, 0, 0);

    return node_attach(n, tensor_view(x, x->dims, sizes, strides));
}

struct tensor *view_select(struct tensor *x, int64_t dim, int64_t index)
{
    if (!x)
        return NULL;
    struct ghost *g = x->ghost;
    unsigned at = tensor_dim(g, x, dim), count = 0;
    int64_t sizes[TENSOR_DIMS], strides[TENSOR_DIMS];
    char text[TENSOR_TEXT];

    if (x->dims == 0 || index >= x->sizes[at] || index < -x->sizes[at])
        return ghost_fail(g, PLM_E_MODEL,
                          "index %" PRId64 " is out of range for dimension %u of %s", index, at,
                          tensor_text(x, text));
    for (unsigned i = 0; i < x->dims; i++) {
        if (i == at)
            continue;
        sizes[count] = x->sizes[i];
        strides[count++] = x->strides[i];
    }
    struct node *n = node_new(g, &select_backward, &x, 1, 0, 0);

    return node_attach(n, tensor_view(x, count, sizes, strides));
}

void op_slice(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *x = args->in[0];
    const struct attr *end = op_attr(args, KEY_END);

    if (!x)
        return;
    unsigned at = tensor_dim(g, x, op_int(args, KEY_DIM));
    int64_t size = x->dims ? x->sizes[at] : 0;
    int64_t start = op_int(args, KEY_START), last = end ? end->value.i : size;
    int64_t step = op_int(args, KEY_STEP);

    if (g->around.framework->slices_whole || x->dims == 0 || step != 1 ||
        clamp_index(start, size) != 0 || clamp_index(last, size) != size) {
        ret[0] = view_slice(x, at, start, last, step);
        return;
    }
    /* x[:]: newer indexing in Python makes an alias, whose gradient needs no zeros */
    struct node *n = node_new(g, &alias_backward, &x, 1, 0, 0);

    ret[0] = node_attach(n, tensor_view(x, x->dims, x->sizes, x->strides));
}

void op_select(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    ret[0] = view_select(args->in[0], op_int(args, KEY_DIM), op_int(args, KEY_INDEX));
}

/* pieces_backward() - split: at::cat of all gradients; unbind: at::stack, where a missing one is an expanded scalar */
static void pieces_backward(
    struct ghost *g, struct node *n, struct tensor *const *grads, struct tensor **ret, bool unbinds)
{
    size_t count = n->output_count;
    struct tensor **pieces = pool_alloc(&g->pool, count * sizeof *pieces);

    for (size_t i = 0; i < count; i++) {
        const struct output *out = &n->outputs[i];

        if (grads[i]) {
            pieces[i] = tensor_ref(grads[i]);
        } else if (unbinds) {
            TENSOR_AUTO *zero = tensor_new_scalar(g, out->dtype);

            pieces[i] = view_expand(zero, out->dims, out->sizes);
        } else {
            pieces[i] = tensor_new(g, out->dtype, out->dims, out->sizes);
        }
    }
    ret[0] = unbinds ? view_stack(g, pieces, count, n->numbers[0])
                     : view_cat(g, pieces, count, n->numbers[0]);
    for (size_t i = 0; i < count; i++)
        tensor_drop(pieces[i]);
    pool_free(&g->pool, pieces, count * sizeof *pieces);
}

static void split_apply(struct ghost *g,
                        struct node *n,
                        struct tensor *const *grads,
                        struct tensor **ret)
{
    pieces_backward(g, n, grads, ret, false);
}

static void unbind_apply(struct ghost *g,
                         struct node *n,
                         struct tensor *const *grads,
                         struct tensor **ret)
{
    pieces_backward(g, n, grads, ret, true);
}

static const struct backward split_backward = { "SplitBackward0", split_apply };
static const struct backward unbind_backward = { "UnbindBackward0", unbind_apply };

/* struct cuts - how a dimension is cut: @sizes, or all of @size but the last */
struct cuts {
    unsigned dim;
    int64_t count, size;
    const int64_t *sizes;
};

static bool check_count(struct ghost *g,
                        const struct op_args *args,
                        const struct tensor *x,
                        const struct cuts *cuts)
{
    char text[TENSOR_TEXT];

    if (cuts->count == (int64_t)args->out_count)
        return true;
    ghost_fail(g, PLM_E_MODEL,
               "dimension %u of %s is cut into %" PRId64 " pieces, but %u names are given",
               cuts->dim, tensor_text(x, text), cuts->count, args->out_count);
    return false;
}

static void cut(struct ghost *g,
                const struct op_args *args,
                const struct cuts *cuts,
                struct tensor **ret)
{
    struct tensor *x = args->in[0];
    int64_t sizes[TENSOR_DIMS], left = x->sizes[cuts->dim];

    if (!check_count(g, args, x, cuts))
        return;
    struct node *n = node_new_outputs(g, &split_backward, &x, 1, 0, 1, args->out_count);

    if (n)
        n->numbers[0] = cuts->dim;
    memcpy(sizes, x->sizes, sizeof sizes);
    for (uint32_t i = 0; i < args->out_count; i++) {
        int64_t size = cuts->sizes ? cuts->sizes[i] : cuts->size;

        sizes[cuts->dim] = size < left ? size : left;
        left -= sizes[cuts->dim];
        ret[i] = node_attach_output(n, i, tensor_view(x, x->dims, sizes, x->strides));
    }
    node_drop(n);
}

/* dim_to_cut() - false after a failure */
static bool dim_to_cut(struct ghost *g, const struct op_args *args, unsigned *ret_dim)
{
    const struct tensor *x = args->in[0];

    if (x && x->dims == 0)
        ghost_fail(g, PLM_E_MODEL, "a scalar cannot be cut");
    if (!x || g->halt)
        return false;
    *ret_dim = tensor_dim(g, x, op_int(args, KEY_DIM));
    return !g->halt;
}

void op_split(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    const struct tensor *x = args->in[0];
    const struct attr *size = op_attr(args, KEY_SIZE);
    struct cuts cuts = { 0 };
    char text[TENSOR_TEXT];

    if (!dim_to_cut(g, args, &cuts.dim))
        return;
    int64_t whole = x->sizes[cuts.dim], sum = 0;
    bool good = true;

    if (!size || size->count == 0) {
        good = false;
    } else if (size->count == 1) {
        cuts.size = size->value.items[0];
        good = cuts.size > 0 || (cuts.size == 0 && whole == 0);
        if (good)
            cuts.count = whole == 0 ? 1 : (whole - 1) / cuts.size + 1;
    } else {
        cuts.sizes = size->value.items;
        cuts.count = size->count;
        for (uint32_t i = 0; i < size->count; i++)
            good = good && cuts.sizes[i] >= 0 && num_add(sum, cuts.sizes[i], &sum);
        good = good && sum == whole;
    }
    if (good)
        cut(g, args, &cuts, ret);
    else
        ghost_fail(g, PLM_E_MODEL,
                   "dimension %u of %s cannot be cut into 'size'; give a positive size, or sizes "
                   "with the sum %" PRId64,
                   cuts.dim, tensor_text(x, text), whole);
}

void op_chunk(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    const struct tensor *x = args->in[0];
    int64_t chunks = op_int(args, KEY_CHUNKS);
    struct cuts cuts = { 0 };

    if (!dim_to_cut(g, args, &cuts.dim))
        return;
    if (chunks < 1) {
        ghost_fail(g, PLM_E_MODEL, "'chunks' is %" PRId64 "; it must be positive", chunks);
        return;
    }
    int64_t whole = x->sizes[cuts.dim];

    cuts.size = whole == 0 ? 0 : (whole - 1) / chunks + 1;
    cuts.count = whole == 0 ? chunks : (whole - 1) / cuts.size + 1;
    cut(g, args, &cuts, ret);
}

void op_unbind(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *x = args->in[0];
    struct cuts cuts = { 0 };
    int64_t sizes[TENSOR_DIMS], strides[TENSOR_DIMS];
    unsigned count = 0;

    if (!dim_to_cut(g, args, &cuts.dim))
        return;
    cuts.count = x->sizes[cuts.dim];
    if (!check_count(g, args, x, &cuts))
        return;
    for (unsigned i = 0; i < x->dims; i++) {
        if (i == cuts.dim)
            continue;
        sizes[count] = x->sizes[i];
        strides[count++] = x->strides[i];
    }
    struct node *n = node_new_outputs(g, &unbind_backward, &x, 1, 0, 1, args->out_count);

    if (n)
        n->numbers[0] = cuts.dim;
    for (uint32_t i = 0; i < args->out_count; i++)
        ret[i] = node_attach_output(n, i, tensor_view(x, count, sizes, strides));
    node_drop(n);
}
