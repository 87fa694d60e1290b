/*
 * train/zero_optimizer.c - PyTorch's ZeroRedundancyOptimizer: each rank updates some of the parameters
 *
 * Mirrors torch/distributed/optim/zero_redundancy_optimizer.py (2.15), _partition_parameters, with
 * parameters_as_bucket_view=False and overlap_with_ddp=False. Whole parameters, largest first, go to the rank that has least so
 * far. The rank's own optimizer knows its parameters alone; zero_grad, clipping and unscaling see all. Updated parameters
 * are broadcast in place, which takes no memory.
 */
#include <stdlib.h>

#include "train/internal.h"
#include "train/mesh.h"
#include "train/zero_optimizer.h"

/* struct sized - a parameter to be sorted */
struct sized {
    int64_t numel;
    uint32_t number;
};

/* Python's sorted(reverse=True) keeps equals in their order */
static int largest_first(const void *a, const void *b)
{
    const struct sized *x = a, *y = b;

    if (x->numel != y->numel)
        return x->numel > y->numel ? -1 : 1;
    return x->number < y->number ? -1 : 1;
}

void zero_optimizer_assign(const int64_t *numels,
                           size_t count,
                           size_t ranks,
                           struct arena *arena,
                           uint32_t *ret_order,
                           uint32_t *ret_rank,
                           int64_t *ret_load)
{
    struct sized *sorted = arena_array(arena, struct sized, count);

    for (uint32_t i = 0; i < count; i++)
        sorted[i] = (struct sized){ numels[i], i };
    qsort(sorted, count, sizeof *sorted, largest_first);
    for (size_t rank = 0; rank < ranks; rank++)
        ret_load[rank] = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t least = 0;

        for (uint32_t rank = 1; rank < ranks; rank++)
            if (ret_load[rank] < ret_load[least])
                least = rank;
        ret_order[i] = sorted[i].number;
        ret_rank[sorted[i].number] = least;
        ret_load[least] += sorted[i].numel;
    }
}

static size_t most_loaded(const int64_t *load, size_t ranks)
{
    size_t most = 0;

    for (size_t rank = 1; rank < ranks; rank++)
        if (load[rank] > load[most])
            most = rank;
    return most;
}

/* trained_leaf() - its leaf when the parameter is trained, or NULL */
static struct leaf *trained_leaf(const struct run *run, const struct param *param)
{
    struct leaf *leaf = &run->leaves[param - run->params];

    return tensor_requires_grad(param->tensor) ? leaf : NULL;
}

void zero_optimizer_partition(struct run *run, int64_t ranks)
{
    struct arena *arena = run->arena;
    size_t most = run->param_count + 1, count = 0, rank;
    const struct param **params = arena_array(arena, const struct param *, most);
    int64_t *numels = arena_array(arena, int64_t, most);
    uint32_t *order = arena_array(arena, uint32_t, most);
    uint32_t *rank_of = arena_array(arena, uint32_t, most);
    int64_t *load = arena_array(arena, int64_t, (size_t)ranks);

    rank = (size_t)mesh_place(&run->strategy->parallel, run->strategy->parallel.rank).data;

    /* frozen parameters are assigned too */
    for (size_t i = 0; i < run->param_count; i++) {
        if (run->params[i].buffer || !run->params[i].tensor)
            continue;
        params[count] = &run->params[i];
        numels[count++] = tensor_numel(run->params[i].tensor);
    }
    zero_optimizer_assign(numels, count, (size_t)ranks, arena, order, rank_of, load);
    if (rank == 0)
        rank = most_loaded(load, (size_t)ranks);
    if (rank > 0)
        run_warn(run, "zero-redundancy: rank %zu is shown; it updates %lld elements, rank 0 %lld",
                 rank, (long long)load[rank], (long long)load[0]);
    run->updated = arena_array(arena, struct leaf *, most);
    run->updated_count = 0;
    for (size_t i = 0; i < count; i++) {
        struct leaf *leaf = rank_of[order[i]] == rank ? trained_leaf(run, params[order[i]]) : NULL;

        if (leaf)
            run->updated[run->updated_count++] = leaf;
    }
}
