/*
 * ops/scatter.c - elements written, or added, to where an index tensor says: scatter, scatter_add
 *
 * Mirrors torch/_C derivatives of scatter and scatter_add (tools/autograd/derivatives.yaml, PyTorch 2.15). Which elements they are
 * depends on values, how much memory it takes does not.
 */
#include "ghost/kernels.h"
#include "ops/pointwise.h"
#include "ops/shapes.h"

enum { SELF, SOURCE };

static bool is_index(struct ghost *g, const struct tensor *index)
{
    if (!index || index->dtype == DTYPE_INT64)
        return index;
    ghost_fail(g, PLM_E_MODEL, "the index is %s; it must be int64", dtype_defs[index->dtype].name);
    return false;
}

/* grad.gather(dim, index) */
static struct tensor *gathered(struct ghost *g, struct tensor *grad, const struct tensor *index)
{
    return tensor_new(g, grad->dtype, index->dims, index->sizes);
}

/* grad.scatter(dim, index, 0), and what was written */
static void scatter_apply(struct ghost *g,
                          struct node *n,
                          struct tensor *const *grads,
                          struct tensor **ret)
{
    TENSOR_AUTO *index = node_saved(n, 0);

    if (index && node_needs(n, SELF))
        ret[SELF] = kernel_clone(grads[0]);
    if (index && node_needs(n, SOURCE))
        ret[SOURCE] = gathered(g, grads[0], index);
}

static void scatter_add_apply(struct ghost *g,
                              struct node *n,
                              struct tensor *const *grads,
                              struct tensor **ret)
{
    TENSOR_AUTO *index = node_saved(n, 0);

    if (index && node_needs(n, SELF))
        ret[SELF] = tensor_ref(grads[0]);
    if (index && node_needs(n, SOURCE))
        ret[SOURCE] = gathered(g, grads[0], index);
}

static const struct backward scatter_backward = { "ScatterBackward0", scatter_apply };
static const struct backward scatter_add_backward = { "ScatterAddBackward0", scatter_add_apply };

/* has_shape() - sizes of the index may not be larger than the source's */
static bool has_shape(struct ghost *g, const struct tensor *index, const struct tensor *source)
{
    char a[TENSOR_TEXT], b[TENSOR_TEXT];
    bool good = index->dims == source->dims;

    for (unsigned i = 0; good && i < index->dims; i++)
        good = index->sizes[i] <= source->sizes[i];
    if (!good)
        ghost_fail(g, PLM_E_MODEL, "the index has sizes %s and the source %s; it may not be larger",
                   tensor_text(index, a), tensor_text(source, b));
    return good;
}

void op_scatter(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *x = args->in[0], *index = args->in[1];
    struct tensor *source = args->in_count > 2 ? args->in[2] : NULL; /* NULL: a number */

    if (!x || !is_index(g, index) || (source && !has_shape(g, index, source)))
        return;
    tensor_dim(g, x, op_int(args, KEY_DIM));
    struct node *n =
        node_new(g, &scatter_backward, (struct tensor *[]){ x, source }, source ? 2 : 1, 1, 0);

    node_save(n, 0, index);
    ret[0] = node_attach(n, kernel_clone(x));
}

void op_scatter_add(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *x = args->in[0], *index = args->in[1], *source = args->in[2];

    if (!x || !source || !is_index(g, index) || !has_shape(g, index, source))
        return;
    tensor_dim(g, x, op_int(args, KEY_DIM));
    struct node *n = node_new(g, &scatter_add_backward, (struct tensor *[]){ x, source }, 2, 1, 0);

    if (!pointwise_may_overwrite(x, n))
        return;
    node_save(n, 0, index);
    ret[0] = pointwise_overwrite(x, n);
}
