/*
 * ops/rows.c - rows that ranks of tensor parallelism have alike, shared out between them for experts and gathered again
 *
 * Mirrors DTensor's redistribution from replicated to sharded rows and full_tensor() (torch/distributed/tensor/placement_types.py,
 * _redistribute.py, _api.py, 2.15), as transformers' AllToAllEP calls them. The first rank, which has the most, is meant.
 */
#include <string.h>

#include "base/num.h"
#include "ghost/kernels.h"
#include "ops/ops.h"

enum { ROWS }; /* the dimension */

/* with_rows() - a tensor of @rows such rows, in @category */
static struct tensor *with_rows(const struct tensor *x, int64_t rows, enum category category)
{
    struct ghost *g = x->ghost;
    enum category outer = g->category;
    int64_t sizes[TENSOR_DIMS];

    memcpy(sizes, x->sizes, sizeof sizes);
    sizes[ROWS] = rows;
    g->category = category;
    struct tensor *made = tensor_new(g, x->dtype, x->dims, sizes);

    g->category = outer;
    return made;
}

/* gathered() - @rows from all ranks; what pads the last parts is left out, and stays */
static struct tensor *gathered(const struct tensor *part, int64_t rows, int64_t ranks)
{
    int64_t padded, sizes[TENSOR_DIMS];

    if (!num_mul(part->sizes[ROWS], ranks, &padded) || rows > padded || rows < 0)
        return ghost_fail(part->ghost, PLM_E_MODEL, "%lld rows do not come from %lld parts of %lld",
                          (long long)rows, (long long)ranks, (long long)part->sizes[ROWS]);
    struct tensor *all = with_rows(part, padded, CATEGORY_COMMUNICATION);

    if (!all || padded == rows)
        return all;
    memcpy(sizes, all->sizes, sizeof sizes);
    sizes[ROWS] = rows;
    struct tensor *view = tensor_view(all, all->dims, sizes, all->strides);

    if (view)
        view->view = false; /* autograd does not know of the padded one */
    tensor_drop(all);
    return view;
}

static void shard_apply(struct ghost *g,
                        struct node *n,
                        struct tensor *const *grads,
                        struct tensor **ret)
{
    (void)g;
    if (node_needs(n, 0))
        ret[0] = gathered(grads[0], node_input(n, 0)->sizes[ROWS], n->numbers[0]);
}

static void gather_apply(struct ghost *g,
                         struct node *n,
                         struct tensor *const *grads,
                         struct tensor **ret)
{
    if (node_needs(n, 0))
        ret[0] = with_rows(grads[0], node_input(n, 0)->sizes[ROWS], g->category);
}

static const struct backward shard_backward = { "RedistributeBackward", shard_apply };
static const struct backward gather_backward = { "RedistributeBackward", gather_apply };

static int64_t ranks_of(const struct op_args *args)
{
    return args->ranks > 1 ? args->ranks : 1;
}

static bool has_rows(struct tensor *x)
{
    if (x && x->dims == 0)
        ghost_fail(x->ghost, PLM_E_MODEL, "a scalar has no rows");
    return x && x->dims > 0;
}

void op_shard_rows(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *x = args->in[0];

    if (!has_rows(x))
        return;
    int64_t rows = (int64_t)num_ceil_div((uint64_t)x->sizes[ROWS], (uint64_t)ranks_of(args));
    struct node *n = node_new(g, &shard_backward, &x, 1, 0, 1);

    if (n)
        n->numbers[0] = ranks_of(args);
    ret[0] = node_attach(n, with_rows(x, rows, g->category));
}

void op_gather_rows(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *x = args->in[0];

    if (!has_rows(x))
        return;
    struct node *n = node_new(g, &gather_backward, &x, 1, 0, 0);

    ret[0] = node_attach(n, gathered(x, op_int(args, KEY_ROWS), ranks_of(args)));
}
