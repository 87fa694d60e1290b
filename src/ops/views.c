/*
 * ops/views.c - other shapes over the same memory
 *
 * A view costs nothing, but it keeps its storage alive and so does its gradient: the backward of a view is a view
 * of the gradient, which the engine then may not add to in place.
 */
#include <inttypes.h>
#include <string.h>

#include "base/num.h"
#include "ghost/kernels.h"
#include "ops/shapes.h"
#include "ops/views.h"

/* ATen/TensorUtils.cpp, computeStride: strides under which the memory of @x has these sizes; false when there are none */
static bool view_strides(const struct tensor *x,
                         unsigned dims,
                         const int64_t *sizes,
                         int64_t *ret_strides)
{
    if (tensor_numel(x) == 0 || x->dims == 0) {
        tensor_contiguous_strides(dims, sizes, ret_strides);
        return true;
    }
    unsigned next = dims; /* the target's dimensions from @next on are done */
    int64_t step = x->strides[x->dims - 1], from = 1, to = 1;

    for (unsigned i = x->dims; i-- > 0;) {
        from *= x->sizes[i];
        /* a run of dimensions ends where the next slower one does not continue it */
        if (i > 0 && (x->sizes[i - 1] == 1 || x->strides[i - 1] == from * step))
            continue;
        while (next > 0 && (to < from || sizes[next - 1] == 1)) {
            next--;
            ret_strides[next] = to * step;
            to *= sizes[next];
        }
        if (to != from)
            return false;
        if (i > 0)
            step = x->strides[i - 1];
        from = to = 1;
    }
    return next == 0;
}

/* infer_sizes() - replace a -1 and check the number of elements; false after a failure */
static bool infer_sizes(struct tensor *x, unsigned dims, const int64_t *sizes, int64_t *ret)
{
    struct ghost *g = x->ghost;
    char from[TENSOR_TEXT], to[TENSOR_TEXT];
    unsigned unknown = dims;
    int64_t known, numel = tensor_numel(x);

    if (dims > TENSOR_DIMS) {
        ghost_fail(g, PLM_E_MODEL, "%u dimensions; %d are supported", dims, TENSOR_DIMS);
        return false;
    }
    for (unsigned i = 0; i < dims; i++) {
        ret[i] = sizes[i];
        if (sizes[i] == -1 && unknown == dims) {
            unknown = i;
            ret[i] = 1;
        }
    }
    bool good = shape_numel(dims, ret, &known);

    if (good && unknown < dims) {
        good = known > 0 && numel % known == 0;
        ret[unknown] = good ? numel / known : 0;
    } else {
        good = good && known == numel;
    }
    if (!good)
        ghost_fail(g, PLM_E_MODEL,
                   "%s has %" PRId64 " elements and cannot become %s; the sizes must multiply to "
                   "that, and at most one may be -1",
                   tensor_text(x, from), numel, shape_text(dims, sizes, to));
    return good;
}

static void view_apply(struct ghost *g,
                       struct node *n,
                       struct tensor *const *grads,
                       struct tensor **ret)
{
    const struct output *in = node_input(n, 0);

    ret[0] = view_reshape(grads[0], in->dims, in->sizes);
}

static const struct backward view_backward = { "ViewBackward0", view_apply };
static const struct backward unsafe_view_backward = { "UnsafeViewBackward0", view_apply };

struct tensor *view_view(struct tensor *x, unsigned dims, const int64_t *sizes)
{
    int64_t wanted[TENSOR_DIMS], strides[TENSOR_DIMS];
    char from[TENSOR_TEXT], to[TENSOR_TEXT];

    if (!x || !infer_sizes(x, dims, sizes, wanted))
        return NULL;
    if (!view_strides(x, dims, wanted, strides))
        return ghost_fail(x->ghost, PLM_E_MODEL,
                          "%s with strides %s has no view of sizes %s; use reshape, which copies",
                          tensor_text(x, from),
                          shape_text(x->dims, x->strides, (char[TENSOR_TEXT]){ 0 }),
                          shape_text(dims, wanted, to));
    struct node *n = node_new(x->ghost, &view_backward, &x, 1, 0, 0);

    return node_attach(n, tensor_view(x, dims, wanted, strides));
}

struct tensor *view_unsafe(struct tensor *x, unsigned dims, const int64_t *sizes)
{
    int64_t wanted[TENSOR_DIMS], strides[TENSOR_DIMS];

    if (!x || !infer_sizes(x, dims, sizes, wanted))
        return NULL;
    if (!view_strides(x, dims, wanted, strides))
        return ghost_fail(x->ghost, PLM_E_MODEL, "a view of a tensor that is not contiguous");
    struct node *n = node_new(x->ghost, &unsafe_view_backward, &x, 1, 0, 0);
    struct tensor *y = tensor_view(x, dims, wanted, strides);

    if (y)
        y->view = false; /* it keeps no base alive, only the memory */
    return node_attach(n, y);
}

struct tensor *view_reshape(struct tensor *x, unsigned dims, const int64_t *sizes)
{
    int64_t wanted[TENSOR_DIMS], strides[TENSOR_DIMS];

    if (!x || !infer_sizes(x, dims, sizes, wanted))
        return NULL;
    if (view_strides(x, dims, wanted, strides))
        return view_view(x, dims, wanted);
    TENSOR_AUTO *copy = view_contiguous(x);

    return view_unsafe(copy, dims, wanted);
}

static void permute_apply(struct ghost *g,
                          struct node *n,
                          struct tensor *const *grads,
                          struct tensor **ret)
{
    int64_t inverse[TENSOR_DIMS];

    for (uint32_t i = 0; i < n->number_count; i++)
        inverse[n->numbers[i]] = i;
    ret[0] = view_permute(grads[0], inverse);
}

static const struct backward permute_backward = { "PermuteBackward0", permute_apply };

struct tensor *view_permute(struct tensor *x, const int64_t *order)
{
    int64_t sizes[TENSOR_DIMS], strides[TENSOR_DIMS], from[TENSOR_DIMS];
    uint32_t used = 0;

    if (!x)
        return NULL;
    for (unsigned i = 0; i < x->dims; i++) {
        unsigned d = tensor_dim(x->ghost, x, order[i]);

        if (x->ghost->halt)
            return NULL;
        if (used & (1U << d))
            return ghost_fail(x->ghost, PLM_E_MODEL, "dimension %u is named twice in 'dims'", d);
        used |= 1U << d;
        from[i] = d;
        sizes[i] = x->sizes[d];
        strides[i] = x->strides[d];
    }
    struct node *n = node_new(x->ghost, &permute_backward, &x, 1, 0, x->dims);

    if (n)
        memcpy(n->numbers, from, x->dims * sizeof *from);
    return node_attach(n, tensor_view(x, x->dims, sizes, strides));
}

static void transpose_apply(struct ghost *g,
                            struct node *n,
                            struct tensor *const *grads,
                            struct tensor **ret)
{
    ret[0] = view_transpose(grads[0], n->numbers[0], n->numbers[1]);
}

static const struct backward transpose_backward = { "TransposeBackward0", transpose_apply };
static const struct backward t_backward = { "TBackward0", transpose_apply };

static struct tensor *exchange(struct tensor *x,
                               const struct backward *backward,
                               int64_t dim0,
                               int64_t dim1)
{
    if (!x)
        return NULL;
    int64_t sizes[TENSOR_DIMS], strides[TENSOR_DIMS];
    unsigned a = tensor_dim(x->ghost, x, dim0), b = tensor_dim(x->ghost, x, dim1);

    if (x->ghost->halt)
        return NULL;
    memcpy(sizes, x->sizes, sizeof sizes);
    memcpy(strides, x->strides, sizeof strides);
    sizes[a] = x->sizes[b];
    sizes[b] = x->sizes[a];
    strides[a] = x->strides[b];
    strides[b] = x->strides[a];
    struct node *n = node_new(x->ghost, backward, &x, 1, 0, 2);

    if (n) {
        n->numbers[0] = a;
        n->numbers[1] = b;
    }
    return node_attach(n, tensor_view(x, x->dims, sizes, strides));
}

struct tensor *view_transpose(struct tensor *x, int64_t dim0, int64_t dim1)
{
    return exchange(x, &transpose_backward, dim0, dim1);
}

struct tensor *view_t(struct tensor *x)
{
    if (x && x->dims > 2)
        return ghost_fail(x->ghost, PLM_E_MODEL, "t() of %u dimensions; at most 2 are allowed",
                          x->dims);
    return exchange(x, &t_backward, 0, x && x->dims == 2 ? 1 : 0);
}

static void expand_apply(struct ghost *g,
                         struct node *n,
                         struct tensor *const *grads,
                         struct tensor **ret)
{
    const struct output *in = node_input(n, 0);

    ret[0] = kernel_sum_to(grads[0], in->dims, in->sizes);
}

static const struct backward expand_backward = { "ExpandBackward0", expand_apply };

/* ATen/ExpandUtils.cpp, inferExpandGeometry */
struct tensor *view_expand(struct tensor *x, unsigned dims, const int64_t *sizes)
{
    int64_t wanted[TENSOR_DIMS], strides[TENSOR_DIMS], numel;
    char from[TENSOR_TEXT], to[TENSOR_TEXT];

    if (!x)
        return NULL;
    bool good = dims >= x->dims && dims <= TENSOR_DIMS;

    for (unsigned i = dims; good && i-- > 0;) {
        bool own = i + x->dims >= dims;
        int64_t size = own ? x->sizes[i + x->dims - dims] : 1;

        strides[i] = own            ? x->strides[i + x->dims - dims]
                     : i + 1 < dims ? wanted[i + 1] * strides[i + 1]
                                    : 1;
        wanted[i] = own && sizes[i] == -1 ? size : sizes[i];
        if (wanted[i] != size)
            strides[i] = 0;
        good = wanted[i] >= 0 && (wanted[i] == size || size == 1);
    }
    if (!good || !shape_numel(dims, wanted, &numel) || numel > INT64_MAX / 8)
        return ghost_fail(x->ghost, PLM_E_MODEL,
                          "%s cannot be expanded to %s; only dimensions of size 1 and new leading "
                          "ones can grow, -1 keeps a size",
                          tensor_text(x, from), shape_text(dims, sizes, to));
    struct node *n = node_new(x->ghost, &expand_backward, &x, 1, 0, 0);

    return node_attach(n, tensor_view(x, dims, wanted, strides));
}

static void squeeze_apply(struct ghost *g,
                          struct node *n,
                          struct tensor *const *grads,
                          struct tensor **ret)
{
    ret[0] = n->numbers[1] ? view_unsqueeze(grads[0], n->numbers[0]) : tensor_ref(grads[0]);
}

static const struct backward squeeze_backward = { "SqueezeBackward1", squeeze_apply };

struct tensor *view_squeeze(struct tensor *x, int64_t dim)
{
    if (!x)
        return NULL;
    int64_t sizes[TENSOR_DIMS], strides[TENSOR_DIMS];
    unsigned at = tensor_dim(x->ghost, x, dim), count = 0;
    bool drops = x->dims > 0 && x->sizes[at] == 1;

    for (unsigned i = 0; i < x->dims; i++) {
        if (i == at && drops)
            continue;
        sizes[count] = x->sizes[i];
        strides[count++] = x->strides[i];
    }
    struct node *n = node_new(x->ghost, &squeeze_backward, &x, 1, 0, 2);

    if (n) {
        n->numbers[0] = at;
        n->numbers[1] = drops;
    }
    return node_attach(n, tensor_view(x, count, sizes, strides));
}

static void unsqueeze_apply(struct ghost *g,
                            struct node *n,
                            struct tensor *const *grads,
                            struct tensor **ret)
{
    ret[0] = view_squeeze(grads[0], n->numbers[0]);
}

static const struct backward unsqueeze_backward = { "UnsqueezeBackward0", unsqueeze_apply };

struct tensor *view_unsqueeze(struct tensor *x, int64_t dim)
{
    if (!x)
        return NULL;
    int64_t sizes[TENSOR_DIMS], strides[TENSOR_DIMS];
    int64_t at = dim < 0 ? dim + x->dims + 1 : dim;

    if (at < 0 || at > x->dims || x->dims == TENSOR_DIMS)
        return ghost_fail(x->ghost, PLM_E_MODEL,
                          "no place %" PRId64 " for a new dimension in a tensor of %u; at most %d "
                          "dimensions are supported",
                          dim, x->dims, TENSOR_DIMS);
    for (unsigned i = 0; i <= x->dims; i++) {
        unsigned from = i > at ? i - 1 : i;

        sizes[i] = i == at ? 1 : x->sizes[from];
        strides[i] = i != at ? x->strides[from] : 1;
        /* an empty tensor's sizes and strides may multiply to anything */
        if (i == at && i < x->dims && !num_mul(x->sizes[i], x->strides[i], &strides[i]))
            strides[i] = 1;
    }
    struct node *n = node_new(x->ghost, &unsqueeze_backward, &x, 1, 0, 1);

    if (n)
        n->numbers[0] = at;
    return node_attach(n, tensor_view(x, x->dims + 1, sizes, strides));
}

void op_view(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    int64_t sizes[TENSOR_DIMS];
    unsigned dims;

    if (shape_attr(g, args, KEY_SHAPE, &dims, sizes))
        ret[0] = view_view(args->in[0], dims, sizes);
}

void op_reshape(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    int64_t sizes[TENSOR_DIMS];
    unsigned dims;

    if (shape_attr(g, args, KEY_SHAPE, &dims, sizes))
        ret[0] = view_reshape(args->in[0], dims, sizes);
}

void op_flatten(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *x = args->in[0];
    int64_t sizes[TENSOR_DIMS], merged = 1;
    unsigned first = tensor_dim(g, x, op_int(args, KEY_START_DIM)), count = 0;
    unsigned last = tensor_dim(g, x, op_int(args, KEY_END_DIM));
    bool fits = true;

    if (!x || g->halt)
        return;
    if (first > last) {
        ghost_fail(g, PLM_E_MODEL, "'start_dim' %u comes after 'end_dim' %u", first, last);
        return;
    }
    if (x->dims > 0 && first == last) {
        ret[0] = tensor_ref(x);
        return;
    }
    if (x->dims == 0)
        sizes[count++] = 1;
    for (unsigned i = 0; i < x->dims; i++) {
        bool inside = i >= first && i <= last;

        fits = fits && (!inside || num_mul(merged, x->sizes[i], &merged));
        if (!inside || i == last)
            sizes[count++] = inside ? merged : x->sizes[i];
    }
    if (fits)
        ret[0] = view_reshape(x, count, sizes);
    else
        ghost_fail(g, PLM_E_RANGE, "the merged dimension is larger than 2^63");
}

void op_permute(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *x = args->in[0];
    int64_t order[TENSOR_DIMS];
    unsigned dims;
    char text[TENSOR_TEXT];

    if (!x || !shape_attr(g, args, KEY_DIMS, &dims, order))
        return;
    if (dims == x->dims)
        ret[0] = view_permute(x, order);
    else
        ghost_fail(g, PLM_E_MODEL, "'dims' has %u numbers for %s; every dimension must be named",
                   dims, tensor_text(x, text));
}

void op_transpose(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    ret[0] = view_transpose(args->in[0], op_int(args, KEY_DIM0), op_int(args, KEY_DIM1));
}

void op_detach(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    ret[0] = tensor_detach(args->in[0]);
}

void op_expand(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    int64_t sizes[TENSOR_DIMS];
    unsigned dims;

    if (shape_attr(g, args, KEY_SHAPE, &dims, sizes))
        ret[0] = view_expand(args->in[0], dims, sizes);
}

void op_expand_as(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    ret[0] = view_expand(args->in[0], args->in[1]->dims, args->in[1]->sizes);
}

void op_squeeze(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    ret[0] = view_squeeze(args->in[0], op_int(args, KEY_DIM));
}

void op_unsqueeze(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    ret[0] = view_unsqueeze(args->in[0], op_int(args, KEY_DIM));
}

void op_alias(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    ret[0] = tensor_ref(args->in[0]);
}
