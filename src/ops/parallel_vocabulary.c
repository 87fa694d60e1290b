/*
 * ops/parallel_vocabulary.c - Megatron's embedding and cross entropy over a vocabulary that ranks share
 *
 * Mirrors VocabParallelEmbedding (megatron/core/tensor_parallel/layers.py) and _VocabParallelCrossEntropy (cross_entropy.py) of
 * megatron-core 0.16.1. The loss keeps one tensor of float32 probabilities, made in place of the logits, which becomes their
 * gradient in place; what a rank does not have is masked.
 */
#include "ghost/kernels.h"
#include "ops/embedding.h"
#include "ops/ops.h"
#include "ops/parallel.h"
#include "ops/pointwise.h"
#include "ops/views.h"

/* outside() - (x < start) | (x >= end) */
static struct tensor *outside(struct tensor *x)
{
    struct ghost *g = x->ghost;
    TENSOR_AUTO *below = tensor_like(g, x, DTYPE_BOOL);
    TENSOR_AUTO *above = tensor_like(g, x, DTYPE_BOOL);
    struct tensor *mask = tensor_like(g, x, DTYPE_BOOL);

    tensor_drop(tensor_take(&below)); /* it was made first, and its name goes first */
    return mask;
}

/* shifted() - x.clone() - start, then zero where masked, in place */
static struct tensor *shifted(struct tensor *x)
{
    TENSOR_AUTO *clone = kernel_clone(x);

    return clone ? tensor_like(x->ghost, clone, clone->dtype) : NULL;
}

/* ------------------------------------------------------------------ embedding */

/* rows of other ranks get no gradient: masked_fill(grad, mask, 0) */
static void masked_apply(struct ghost *g,
                         struct node *n,
                         struct tensor *const *grads,
                         struct tensor **ret)
{
    TENSOR_AUTO *mask = node_saved(n, 0);

    if (mask)
        ret[0] = tensor_new(g, grads[0]->dtype, grads[0]->dims, grads[0]->sizes);
}

static const struct backward masked_backward = { "MaskedFillBackward0", masked_apply };

/* own_rows() - the rows that this rank has, zero for the others */
static struct tensor *own_rows(struct tensor *weight, struct tensor *indices)
{
    TENSOR_AUTO *mask = outside(indices);
    TENSOR_AUTO *own = shifted(indices);
    struct tensor *rows = own ? embedding_rows(weight, own) : NULL;

    if (!rows)
        return NULL;
    struct node *n = node_new(weight->ghost, &masked_backward, &rows, 1, 1, 0);

    node_save(n, 0, mask);
    node_attach_inplace(n, rows);
    return rows;
}

void op_parallel_embedding(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *indices = args->in[0], *weight = args->in[1];
    bool split = args->shard != SHARD_NONE, scatters = op_int(args, KEY_SCATTER);

    if (!indices || !weight)
        return;
    if (weight->dims != 2 || indices->dims == 0 || indices->dims >= TENSOR_DIMS ||
        (indices->dtype != DTYPE_INT64 && indices->dtype != DTYPE_INT32)) {
        ghost_fail(g, PLM_E_MODEL,
                   "int64 or int32 indices and a table of two dimensions were expected");
        return;
    }
    TENSOR_AUTO *rows = split ? own_rows(weight, indices) : embedding_rows(weight, indices);

    if (!scatters || !rows) {
        ret[0] = split ? parallel_reduced(rows, args->ranks, false) : tensor_take(&rows);
        return;
    }
    /* [batch, seq, width] to [seq, batch, width] */
    TENSOR_AUTO *turned = view_transpose(rows, 0, 1);
    TENSOR_AUTO *dense = view_contiguous(turned);

    tensor_drop(tensor_take(&rows));
    tensor_drop(tensor_take(&turned));
    ret[0] =
        split ? parallel_reduced(dense, args->ranks, args->sequence_parallel) : tensor_take(&dense);
}

/* ------------------------------------------------------------------ cross entropy */

enum { SAVED_PROBABILITIES, SAVED_MASK, SAVED_TARGET, SAVED_COUNT };

/* cross_entropy_apply() - subtract 1 where the target is, times the gradient: both in place of the probabilities */
static void cross_entropy_apply(struct ghost *g,
                                struct node *n,
                                struct tensor *const *grads,
                                struct tensor **ret)
{
    TENSOR_AUTO *probabilities = node_saved(n, SAVED_PROBABILITIES);
    TENSOR_AUTO *mask = node_saved(n, SAVED_MASK);
    TENSOR_AUTO *target = node_saved(n, SAVED_TARGET);

    if (g->halt)
        return;
    int64_t rows = tensor_numel(target);
    TENSOR_AUTO *update = NULL;
    TENSOR_AUTO *range = tensor_new_sizes(g, DTYPE_INT64, rows);
    TENSOR_AUTO *wide = tensor_new_sizes(g, DTYPE_FLOAT32, rows); /* the mask, as float */

    update = tensor_new_sizes(g, DTYPE_FLOAT32, rows); /* 1 - mask */
    tensor_drop(tensor_take(&wide));
    tensor_drop(tensor_new_sizes(g, probabilities->dtype, rows)); /* what is subtracted from */
    if (node_needs(n, 0))
        ret[0] = tensor_ref(probabilities);
}

static const struct backward cross_entropy_backward = { "_VocabParallelCrossEntropyBackward",
                                                        cross_entropy_apply };

/* greatest() - torch.max(x, dim=-1)[0]: the indices are made too */
static struct tensor *greatest(struct tensor *x)
{
    struct tensor *values = tensor_new(x->ghost, x->dtype, x->dims - 1, x->sizes);

    tensor_drop(tensor_new(x->ghost, DTYPE_INT64, x->dims - 1, x->sizes));
    return values;
}

/* predicted() - logits[arange, target], cloned */
static struct tensor *predicted(const struct tensor *x, struct tensor *target)
{
    struct ghost *g = target->ghost;
    TENSOR_AUTO *picked = tensor_new_sizes(g, x->dtype, tensor_numel(target));

    return tensor_new_sizes(g, x->dtype, tensor_numel(target));
}

static struct tensor *cross_entropy(struct tensor *logits, struct tensor *targets)
{
    struct ghost *g = logits->ghost;
    struct node *n =
        node_new(g, &cross_entropy_backward, (struct tensor *[]){ logits }, 1, SAVED_COUNT, 0);
    TENSOR_AUTO *sum = NULL, *picked = NULL;

    if (n)
        n->python = true;
    TENSOR_AUTO *wide = kernel_cast(logits, DTYPE_FLOAT32);
    TENSOR_AUTO *most = wide ? greatest(wide) : NULL;
    TENSOR_AUTO *mask = outside(targets);
    TENSOR_AUTO *own = shifted(targets);
    TENSOR_AUTO *range = own ? tensor_new_sizes(g, DTYPE_INT64, tensor_numel(targets)) : NULL;

    if (g->halt) {
        node_drop(n);
        return NULL;
    }
    picked = predicted(wide, own);
    /* exp() in place */
    sum = kernel_reduce(wide, 1U << (wide->dims - 1), false, wide->dtype);
    tensor_drop(tensor_take(&range));
    TENSOR_AUTO *log = tensor_like(g, sum, sum->dtype);
    struct tensor *loss = tensor_like(g, sum, sum->dtype);

    tensor_drop(tensor_take(&log));
    node_save_output(n, SAVED_PROBABILITIES, wide); /* divided in place */
    node_save_output(n, SAVED_MASK, mask);
    node_save_output(n, SAVED_TARGET, own);
    /* the function's arguments of that name go first */
    tensor_drop(tensor_take(&most));
    tensor_drop(tensor_take(&picked));
    return node_attach(n, loss);
}

void op_parallel_cross_entropy(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *logits = args->in[0], *targets = args->in[1];

    if (!logits || !targets)
        return;
    if (logits->dims != targets->dims + 1 || targets->dims == 0 ||
        tensor_numel(targets) * logits->sizes[logits->dims - 1] != tensor_numel(logits))
        ghost_fail(g, PLM_E_MODEL, "logits are expected with one dimension more than targets");
    else
        ret[0] = cross_entropy(logits, targets);
}
