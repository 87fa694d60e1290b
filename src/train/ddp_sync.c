/*
 * train/ddp_sync.c - what DistributedDataParallel sends between ranks besides gradients
 *
 * Mirrors torch/distributed/utils.py, _verify_param_shape_across_processes and _sync_module_states, and
 * torch/csrc/distributed/c10d/comm.cpp and reducer.cpp (2.15). All of it is gone when the call returns.
 */
#include "train/ddp_sync.h"
#include "ghost/kernels.h"
#include "train/ddp_buckets.h"
#include "train/pipeline.h"

/* DistributedDataParallel.broadcast_bucket_size */
static const struct bucket_limits broadcast_limits = { 250 << 20, 250 << 20 };

enum { IN_FLIGHT = 2 }; /* comm.cpp, broadcast_coalesced: max_in_flight */

void ddp_verify_params(struct run *run, struct leaf *const *leaves, size_t count, int64_t ranks)
{
    struct ghost *g = &run->ghost;
    size_t made = (size_t)ranks + 1;
    struct tensor **counts = pool_alloc(&g->pool, made * sizeof *counts);
    int64_t dims = 0;

    /* verify_params_across_processes: the number of parameters from every rank, then sizes and strides of all */
    g->category = CATEGORY_COMMUNICATION;
    for (size_t i = 0; i < made; i++)
        counts[i] = tensor_new_scalar(g, DTYPE_INT64);
    for (size_t i = 0; i < count; i++)
        dims += leaves[i]->param->dims;
    tensor_drop(tensor_new_sizes(g, DTYPE_INT64, 2 * dims));
    while (made > 0)
        tensor_drop(counts[--made]);
    pool_free(&g->pool, counts, ((size_t)ranks + 1) * sizeof *counts);
    g->category = CATEGORY_ACTIVATION;
}

void ddp_send_indices(struct run *run, size_t members, size_t buckets)
{
    struct ghost *g = &run->ghost;

    g->category = CATEGORY_COMMUNICATION;
    TENSOR_AUTO *indices = tensor_new_sizes(g, DTYPE_INT32, (int64_t)members + 1);
    TENSOR_AUTO *sizes = tensor_new_sizes(g, DTYPE_INT32, (int64_t)buckets);

    g->category = CATEGORY_ACTIVATION;
}

struct tensor *ddp_flatten(struct run *run,
                           struct tensor *const *tensors,
                           const struct bucket *bucket)
{
    struct list dense = { 0 };
    struct tensor *flat;

    for (size_t i = 0; i < bucket->member_count; i++)
        list_push(run, &dense, kernel_contiguous(tensors[bucket->members[i]]));
    if (dense.count == 1)
        flat = tensor_ref(dense.items[0]);
    else
        flat = tensor_new_sizes(&run->ghost, bucket->dtype, bucket->numel);
    list_drop(run, &dense);
    return flat;
}

/* broadcast_coalesced() - a bucket after the other, at most two under way; their number makes no trace in the arena */
static void broadcast_coalesced(struct run *run, struct tensor *const *tensors, size_t count)
{
    struct ghost *g = &run->ghost;
    struct arena scratch = { 0 };
    struct buckets buckets = buckets_assign(&scratch, tensors, NULL, count, broadcast_limits);
    struct tensor *in_flight[IN_FLIGHT] = { NULL };

    g->category = CATEGORY_COMMUNICATION;
    for (size_t i = 0; i < buckets.count; i++) {
        tensor_drop(in_flight[i % IN_FLIGHT]);
        in_flight[i % IN_FLIGHT] = ddp_flatten(run, tensors, &buckets.items[i]);
    }
    for (size_t i = buckets.count; i < buckets.count + IN_FLIGHT; i++)
        tensor_drop(in_flight[i % IN_FLIGHT]);
    g->category = CATEGORY_ACTIVATION;
    arena_finish(&scratch);
}

/* is_here() - is the parameter or buffer in the module that is wrapped? */
static bool is_here(const struct run *run, size_t i)
{
    return run->params[i].tensor && pipeline_stage_has(run, run->stage, i);
}

/* broadcast() - parameters (when asked for), then buffers, each in the order of registration */
static void broadcast(struct run *run, bool parameters)
{
    struct pool *pool = &run->ghost.pool;
    size_t size = (run->param_count + 1) * sizeof(struct tensor *), count = 0;
    struct tensor **tensors = pool_alloc(pool, size);

    for (size_t i = 0; parameters && i < run->param_count; i++)
        if (!run->params[i].buffer && is_here(run, i))
            tensors[count++] = run->params[i].tensor;
    for (size_t i = 0; i < run->param_count; i++)
        if (run->params[i].buffer && is_here(run, i))
            tensors[count++] = run->params[i].tensor;
    broadcast_coalesced(run, tensors, count);
    pool_free(pool, tensors, size);
}

void ddp_broadcast_state(struct run *run)
{
    broadcast(run, true);
}

void ddp_broadcast_buffers(struct run *run)
{
    broadcast(run, false);
}
