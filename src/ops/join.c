/*
 * ops/join.c - cat and stack: one new tensor, whatever the types of the parts
 *
 * Backward costs nothing: each part's gradient is a view of the whole, which thereby stays alive until the last of
 * them is done.
 */
#include <inttypes.h>
#include <string.h>

#include "base/num.h"
#include "ghost/kernels.h"
#include "ops/shapes.h"
#include "ops/views.h"

/* is_skipped() - torch.cat lets an empty tensor of one dimension go with any other */
static bool is_skipped(const struct tensor *x)
{
    return x->dims == 1 && x->sizes[0] == 0;
}

static void cat_apply(struct ghost *g,
                      struct node *n,
                      struct tensor *const *grads,
                      struct tensor **ret)
{
    int64_t dim = n->numbers[0], start = 0;

    for (uint32_t i = 0; i < n->edge_count; i++) {
        int64_t size = n->numbers[1 + i];

        if (node_needs(n, i))
            ret[i] = size < 0 ? tensor_new(g, grads[0]->dtype, 1, &(int64_t){ 0 })
                              : view_slice(grads[0], dim, start, start + size, 1);
        start += size < 0 ? 0 : size;
    }
}

static const struct backward cat_backward = { "CatBackward0", cat_apply };

/* struct joined - what the result will be */
struct joined {
    const struct tensor *model; /* the first part that counts */
    unsigned dim, dims;
    enum dtype dtype;
    bool channels_last;
    int64_t sizes[TENSOR_DIMS];
};

/* widest() - the type that all parts are promoted to; scalars count like others */
static enum dtype widest(struct tensor *const *x, size_t count)
{
    struct tensor wide = { .dims = 1, .dtype = x[0]->dtype };

    for (size_t i = 1; i < count; i++) {
        struct tensor other = { .dims = 1, .dtype = x[i]->dtype };

        wide.dtype = kernel_promote(&wide, &other);
    }
    return wide.dtype;
}

static bool check_part(struct ghost *g, const struct joined *j, const struct tensor *x)
{
    char a[TENSOR_TEXT], b[TENSOR_TEXT];
    bool good = x->dims == j->model->dims;

    for (unsigned d = 0; d < x->dims && good; d++)
        good = d == j->dim || x->sizes[d] == j->model->sizes[d];
    if (!good)
        ghost_fail(g, PLM_E_MODEL,
                   "%s and %s cannot be joined along dimension %u; all other sizes must be equal",
                   tensor_text(j->model, a), tensor_text(x, b), j->dim);
    return good;
}

/* plan() - aten/src/ATen/native/TensorShape.cpp, TORCH_PRECOMPUTE_META_FUNC(cat) */
static bool plan(
    struct ghost *g, struct tensor *const *x, size_t count, int64_t dim, struct joined *j)
{
    int64_t sum = 0;

    *j = (struct joined){ .model = x[0], .channels_last = true };
    for (size_t i = 0; i < count && is_skipped(j->model); i++)
        j->model = x[i];
    j->dtype = widest(x, count);
    j->dim = tensor_dim(g, j->model, dim);
    j->dims = j->model->dims;
    if (j->dims == 0)
        ghost_fail(g, PLM_E_MODEL, "scalars cannot be joined; use stack");
    if (g->halt)
        return false;
    memcpy(j->sizes, j->model->sizes, sizeof j->sizes);
    for (size_t i = 0; i < count; i++) {
        j->channels_last = j->channels_last && tensor_suggests_channels_last(x[i]);
        if (is_skipped(x[i]) && j->model->dims != 1)
            continue;
        if (!check_part(g, j, x[i]))
            return false;
        if (!num_add(sum, x[i]->sizes[j->dim], &sum)) {
            ghost_fail(g, PLM_E_RANGE, "the joined dimension is larger than 2^63");
            return false;
        }
    }
    j->sizes[j->dim] = sum;
    return true;
}

static bool all_there(struct ghost *g, struct tensor *const *x, size_t count)
{
    for (size_t i = 0; i < count && !g->halt; i++)
        if (!x[i])
            ghost_fail(g, PLM_E_MODEL, "input %zu is none; only tensors can be joined", i + 1);
    if (count == 0)
        ghost_fail(g, PLM_E_MODEL, "at least one tensor is needed");
    return !g->halt;
}

struct tensor *view_cat(struct ghost *g, struct tensor *const *x, size_t count, int64_t dim)
{
    struct joined j;
    int64_t strides[TENSOR_DIMS];

    if (g->halt || !all_there(g, x, count) || !plan(g, x, count, dim, &j))
        return NULL;
    struct node *n = node_new(g, &cat_backward, x, (uint32_t)count, 0, (uint32_t)count + 1);

    if (n) {
        n->numbers[0] = j.dim;
        for (size_t i = 0; i < count; i++)
            n->numbers[1 + i] = is_skipped(x[i]) && j.model->dims != 1 ? -1 : x[i]->sizes[j.dim];
    }
    if (j.channels_last)
        tensor_channels_last_strides(j.dims, j.sizes, strides);
    else
        tensor_contiguous_strides(j.dims, j.sizes, strides);
    return node_attach(n, tensor_new_strided(g, j.dtype, j.dims, j.sizes, strides));
}

static void stack_apply(struct ghost *g,
                        struct node *n,
                        struct tensor *const *grads,
                        struct tensor **ret)
{
    for (uint32_t i = 0; i < n->edge_count; i++)
        if (node_needs(n, i))
            ret[i] = view_select(grads[0], n->numbers[0], i);
}

static const struct backward stack_backward = { "StackBackward0", stack_apply };

struct tensor *view_stack(struct ghost *g, struct tensor *const *x, size_t count, int64_t dim)
{
    int64_t sizes[TENSOR_DIMS];
    char a[TENSOR_TEXT], b[TENSOR_TEXT];

    if (g->halt || !all_there(g, x, count))
        return NULL;
    unsigned dims = x[0]->dims;
    int64_t at = dim < 0 ? dim + dims + 1 : dim;

    if (at < 0 || at > dims || dims == TENSOR_DIMS)
        return ghost_fail(g, PLM_E_MODEL,
                          "no place %" PRId64 " for a new dimension in a tensor of %u; at most %d "
                          "dimensions are supported",
                          dim, dims, TENSOR_DIMS);
    for (size_t i = 1; i < count; i++)
        if (!tensor_same_sizes(x[0], x[i]))
            return ghost_fail(g, PLM_E_MODEL,
                              "%s and %s cannot be stacked; the sizes must be equal",
                              tensor_text(x[0], a), tensor_text(x[i], b));
    for (unsigned i = 0; i <= dims; i++)
        sizes[i] = i == at ? (int64_t)count : x[0]->sizes[i > at ? i - 1 : i];
    struct node *n = node_new(g, &stack_backward, x, (uint32_t)count, 0, 1);

    if (n)
        n->numbers[0] = at;
    return node_attach(n, tensor_new(g, widest(x, count), dims + 1, sizes));
}

void op_cat(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    ret[0] = view_cat(g, args->in, args->in_count, op_int(args, KEY_DIM));
}

void op_stack(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    ret[0] = view_stack(g, args->in, args->in_count, op_int(args, KEY_DIM));
}
