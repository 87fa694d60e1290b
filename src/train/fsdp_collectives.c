/*
 * train/fsdp_collectives.c - the buffers of FSDP2's all-gather and reduce-scatter, in the order in which they come and go
 *
 * Mirrors torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py and, for the addresses and sizes that the copying
 * kernels are handed on the device, aten/src/ATen/native/cuda/TensorShape.cu (2.15).
 */
#include "base/num.h"
#include "ghost/kernels.h"
#include "train/fsdp.h"

enum {
    BLOCK_THREADS = 128,              /* TensorShape.cu, BLOCK_SIZE */
    BLOCK_BYTES = BLOCK_THREADS * 16, /* BYTES_PER_BLOCK */
    ENTRY_BYTES = 8,                  /* an int64 */
    /* c10/cuda/CUDAStream.cpp, kStreamsPerPool: streams of a priority, handed out in turn */
    POOL_STREAMS = 32,
    HIGH_STREAMS = 3, /* of those a tree takes so many of high priority, and one of normal */
};

uint16_t fsdp_stream(const struct fsdp_tree *tree, enum fsdp_stream which)
{
    unsigned number = (unsigned)(tree - tree->fsdp->trees);

    if (which == FSDP_STREAM_ALL_REDUCE)
        return (uint16_t)(1 + POOL_STREAMS + number % POOL_STREAMS);
    return (uint16_t)(1 + (number * HIGH_STREAMS + which) % POOL_STREAMS);
}

int64_t fsdp_world(const struct fsdp_state *state)
{
    return state->sharding == FSDP_SHARDED_POST_FORWARD ? state->fsdp->post_forward_shards
                                                        : state->shards;
}

enum dtype fsdp_gathered_dtype(const struct fsdp_state *state, const struct fsdp_param *p)
{
    enum dtype cast = state->fsdp->param_dtype;

    return cast != DTYPE_COUNT && dtype_defs[p->param->dtype].floating ? cast : p->param->dtype;
}

enum dtype fsdp_grad_dtype(const struct fsdp_state *state, const struct fsdp_param *p)
{
    enum dtype given = state->fsdp->reduce_dtype;

    return given != DTYPE_COUNT ? given : p->param->dtype;
}

/* input_numel() - what this rank gives to a gather of the parameter */
static int64_t input_numel(const struct fsdp_state *state, const struct fsdp_param *p)
{
    return state->sharding == FSDP_SHARDED_POST_FORWARD ? tensor_numel(p->post_forward) : p->padded;
}

/* to_device() - the shard as it is gathered: from the host when offloaded, cast where a type was given; owned */
static struct tensor *to_device(struct fsdp_state *state, struct fsdp_param *p)
{
    struct ghost *g = &state->fsdp->run->ghost;
    struct tensor *shard =
        state->sharding == FSDP_SHARDED_POST_FORWARD ? p->post_forward : p->shard;
    bool copies = state->fsdp->offload && state->sharding == FSDP_SHARDED;
    TENSOR_AUTO *on_device = copies ? tensor_like(g, shard, shard->dtype) : tensor_ref(shard);

    return on_device ? kernel_cast(on_device, fsdp_gathered_dtype(state, p)) : NULL;
}

/* cast_together() - one flat tensor for the casts of all; NULL when none is needed */
static struct tensor *cast_together(struct fsdp_state *state)
{
    int64_t numel = 0;
    enum dtype dtype = DTYPE_COUNT;

    for (size_t i = 0; i < state->param_count; i++) {
        struct fsdp_param *p = &state->params[i];

        if (fsdp_gathered_dtype(state, p) == p->param->dtype)
            continue;
        dtype = fsdp_gathered_dtype(state, p);
        numel += input_numel(state, p);
    }
    return numel ? tensor_new_sizes(&state->fsdp->run->ghost, dtype, numel) : NULL;
}

struct tensor *fsdp_all_gather(struct fsdp_state *state)
{
    struct ghost *g = &state->fsdp->run->ghost;
    struct list inputs = { 0 };
    int64_t numel = 0;
    bool aside =
        state->group_training == FSDP_FORWARD || state->group_training == FSDP_PRE_BACKWARD;

    g->stream = aside ? fsdp_stream(state->tree, FSDP_STREAM_ALL_GATHER) : 0;
    for (size_t i = 0; i < state->param_count; i++) {
        numel += input_numel(state, &state->params[i]);
        if (state->fsdp->offload)
            list_push(state->fsdp->run, &inputs, to_device(state, &state->params[i]));
    }
    if (!state->fsdp->offload)
        list_push(state->fsdp->run, &inputs, cast_together(state));
    struct tensor *gathered = tensor_new_sizes(g, fsdp_gathered_dtype(state, &state->params[0]),
                                               numel * fsdp_world(state));

    list_drop(state->fsdp->run, &inputs);
    g->stream = 0;
    return gathered;
}

/*
 * copy_out_arguments() - split_with_sizes_copy: destinations, sources, sizes, block to split, first block of each
 *
 * A block copies a share of a chunk (one rank's part of one parameter), larger when there would be too many blocks.
 */
static void copy_out_arguments(struct fsdp_state *state)
{
    struct ghost *g = &state->fsdp->run->ghost;
    uint64_t world = (uint64_t)fsdp_world(state), splits = state->param_count, blocks = 0, entries;
    uint64_t most =
        (uint64_t)g->around.sm_count * (uint64_t)g->around.threads_per_sm / BLOCK_THREADS * 2;
    uint64_t together = 1; /* chunks_per_block */

    for (size_t i = 0; i < splits; i++)
        blocks += num_ceil_div((uint64_t)input_numel(state, &state->params[i]) *
                                   tensor_itemsize(state->params[i].output),
                               BLOCK_BYTES);
    uint64_t factor = num_ceil_div(blocks * world, most);

    while (together * together < factor)
        together++;
    together = num_min(together, world);
    uint64_t iterations = num_ceil_div(factor, together);

    blocks = 0;
    for (size_t i = 0; i < splits && iterations; i++)
        blocks += num_ceil_div((uint64_t)input_numel(state, &state->params[i]) *
                                   tensor_itemsize(state->params[i].output),
                               BLOCK_BYTES * iterations);
    entries = 3 * splits + blocks + splits + 1;
    ghost_scratch(g, ENTRY_BYTES * entries);
}

/* make_unsharded() - the tensor that modules use: a leaf over the gathered memory, without the padding */
static void make_unsharded(struct fsdp_state *state, struct fsdp_param *p)
{
    int64_t strides[TENSOR_DIMS];

    tensor_contiguous_strides(p->param->dims, p->sizes, strides);
    p->param->used = tensor_view(p->output, p->param->dims, p->sizes, strides);
    if (!p->param->used)
        return;
    p->param->used->view = false;
    if (p->param->tensor->requires_grad)
        autograd_leaf(p->param->used);
    autograd_grad_dtype(p->param->used, fsdp_grad_dtype(state, p));
}

/* allocate_output() - init_all_gather_outputs(), alloc_all_gather_outputs() */
static void allocate_output(struct fsdp_state *state, struct fsdp_param *p)
{
    struct ghost *g = &state->fsdp->run->ghost;

    g->category = CATEGORY_PARAMETER;
    g->path = p->module;
    if (p->output)
        tensor_restore_storage(p->output);
    else
        p->output = tensor_new_sizes(g, fsdp_gathered_dtype(state, p), p->padded * state->shards);
    g->category = CATEGORY_COMMUNICATION;
}

void fsdp_copy_out(struct fsdp_state *state, struct tensor *gathered)
{
    struct tensor *input =
        NULL; /* in a world of one, the last parameter's until the next one's is there */

    for (size_t i = 0; i < state->param_count && !state->fsdp->run->ghost.halt; i++) {
        struct fsdp_param *p = &state->params[i];

        if (!gathered) {
            struct tensor *next = to_device(state, p);

            tensor_drop(input);
            input = next;
        }
        allocate_output(state, p);
    }
    tensor_drop(input);
    if (gathered && !state->fsdp->run->ghost.halt)
        copy_out_arguments(state);
    for (size_t i = 0; i < state->param_count && !state->fsdp->run->ghost.halt; i++)
        if (!state->params[i].param->used)
            make_unsharded(state, &state->params[i]);
}

/* cut_in_one_go() - has _chunk_cat one kernel for all: the same type on both sides, or bfloat16 into float32 */
static bool cut_in_one_go(struct fsdp_state *state, struct tensor *const *grads, enum dtype dtype)
{
    for (size_t i = 0; i < state->param_count; i++)
        if (grads[i] && (!tensor_is_dense(grads[i]) ||
                         (grads[i]->dtype != dtype &&
                          !(grads[i]->dtype == DTYPE_BFLOAT16 && dtype == DTYPE_FLOAT32))))
            return false;
    return true;
}

/* pad() - without that kernel: a zero-padded copy of each gradient whose rows are not a multiple of the ranks */
static void pad(struct fsdp_state *state, struct tensor *const *grads)
{
    struct ghost *g = &state->fsdp->run->ghost;
    struct list copies = { 0 };

    for (size_t i = 0; i < state->param_count; i++)
        if (grads[i] && grads[i]->sizes[0] % state->shards != 0)
            list_push(
                state->fsdp->run, &copies,
                tensor_new_sizes(g, grads[i]->dtype, state->params[i].padded * state->shards));
    list_drop(state->fsdp->run, &copies);
}

/* copy_in() - _chunk_cat: gradients side by side, cut into the ranks' parts; @grads are let go */
static void copy_in(struct fsdp_state *state, struct tensor **grads, enum dtype dtype)
{
    uint64_t count = 0, blocks = 0;

    for (size_t i = 0; i < state->param_count; i++) {
        if (!grads[i])
            continue;
        count++;
        blocks +=
            num_ceil_div((uint64_t)state->params[i].padded * dtype_defs[dtype].bytes, BLOCK_BYTES);
    }
    if (cut_in_one_go(state, grads, dtype))
        ghost_scratch(&state->fsdp->run->ghost, ENTRY_BYTES * (6 * count + 2 + blocks));
    else
        pad(state, grads);
    for (size_t i = 0; i < state->param_count; i++)
        tensor_drop(grads[i]);
}

/* give_grad() - the parameter's part of the reduced buffer becomes its .grad, or is added to it */
static void give_grad(struct fsdp_state *state, struct fsdp_param *p, struct tensor *reduced)
{
    struct ghost *g = &state->fsdp->run->ghost;
    struct tensor *leaf = p->param->tensor;

    if (leaf->grad)
        return; /* grad._local_tensor += new_sharded_grad */
    if (!state->fsdp->offload) {
        leaf->grad = tensor_view(reduced, leaf->dims, leaf->sizes, leaf->strides);
        return;
    }
    struct schedule *schedule = g->schedule; /* the host's memory is not the device's */

    g->schedule = NULL;
    leaf->grad = tensor_like(g, leaf, reduced->dtype);
    g->schedule = schedule;
}

void fsdp_reduce(struct fsdp_state *state, struct tensor **grads)
{
    struct fsdp *fsdp = state->fsdp;
    struct ghost *g = &fsdp->run->ghost;
    enum dtype dtype = DTYPE_COUNT, kept = DTYPE_COUNT;
    int64_t numel = 0;
    bool *has = pool_alloc(&g->pool, state->param_count);

    for (size_t i = 0; i < state->param_count; i++) {
        has[i] = grads[i];
        if (!grads[i])
            continue;
        dtype = fsdp_grad_dtype(state, &state->params[i]);
        kept = state->params[i].param->dtype;
        numel += state->params[i].padded;
    }
    g->category = CATEGORY_COMMUNICATION;
    state->tree->reduce_input = tensor_new_sizes(g, dtype, numel * state->shards);
    copy_in(state, grads, dtype);
    g->stream = fsdp_stream(state->tree, FSDP_STREAM_REDUCE_SCATTER);
    g->category = CATEGORY_GRADIENT;
    TENSOR_AUTO *output = tensor_new_sizes(g, dtype, numel);

    if (state->experts && state->shards == 1 && fsdp->shards * fsdp->replicas > 1) {
        /* no collective that divides: set_gradient_divide_factor() */
        TENSOR_AUTO *divided = tensor_new_sizes(g, dtype, numel);
    }
    if (fsdp->replicas > 1) {
        g->stream = fsdp_stream(state->tree, FSDP_STREAM_ALL_REDUCE);
        state->all_reduced = tensor_ref(output);
    }
    TENSOR_AUTO *reduced = output ? kernel_cast(output, kept) : NULL;

    for (size_t i = 0; i < state->param_count && reduced; i++)
        if (has[i])
            give_grad(state, &state->params[i], reduced);
    g->stream = 0;
    pool_free(&g->pool, has, state->param_count);
}
