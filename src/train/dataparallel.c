/*
 * train/dataparallel.c - torch.nn.DataParallel: the first of N devices, which holds the most
 *
 * Mirrors torch/nn/parallel/data_parallel.py, replicate.py, scatter_gather.py, _functions.py and comm.py, and
 * torch/csrc/cuda/comm.cpp (2.15). One process drives all devices. The whole batch (N times the strategy's) comes to device 0; each
 * forward sends parameters and buffers to the others through flat copies, runs the model on its own part, and gathers all
 * outputs on device 0. There the replica's parameters are the module's own memory, but not leaves: their gradients meet in the
 * backward of the broadcast and are reduced in flat chunks, of which .grad are views. Losses that the model makes are averaged, as
 * the script must do.
 */
#include "ghost/kernels.h"
#include "train/ddp_buckets.h"
#include "train/ddp_sync.h"
#include "train/wrapper.h"

enum {
    CHUNK_BYTES = 10485760, /* comm.py, buffer_size */
    DEVICES_MOST = 1 << 10,
    LOSSES_MOST = 8
};

struct dataparallel {
    int64_t devices;
    struct tensor *
        *own; /* [param_count] the module's parameters, while replicas take their place; owned */
    struct tensor **
        replicas; /* [param_count] of device 0; NULL for buffers; owned, from forward to the end of backward */
    bool replicated, swapped;
    struct value *losses[LOSSES_MOST]; /* gathered scalars */
    size_t loss_count;
};

/* ------------------------------------------------------------------ replicas */

/* send_chunks() - comm.cpp, broadcast_coalesced: a flat copy of each chunk, one at a time */
static void send_chunks(struct run *run, struct tensor *const *tensors, size_t count)
{
    static const struct bucket_limits limits = { CHUNK_BYTES, CHUNK_BYTES };
    struct arena scratch = { 0 };
    uint32_t *order = arena_array(&scratch, uint32_t, count + 1);

    for (uint32_t i = 0; i < count; i++)
        order[i] = i;
    struct buckets chunks = buckets_assign(&scratch, tensors, order, count, limits);

    run->ghost.category = CATEGORY_COMMUNICATION;
    for (size_t i = 0; i < chunks.count; i++)
        tensor_drop(ddp_flatten(run, tensors, &chunks.items[i]));
    run->ghost.category = CATEGORY_ACTIVATION;
    arena_finish(&scratch);
}

/* send_all() - parameters (or buffers) in the order of registration */
static void send_all(struct run *run, bool buffers)
{
    struct pool *pool = &run->ghost.pool;
    size_t size = (run->param_count + 1) * sizeof(struct tensor *), count = 0;
    struct tensor **tensors = pool_alloc(pool, size);

    for (size_t i = 0; i < run->param_count; i++)
        if (run->params[i].buffer == buffers && run->params[i].tensor)
            tensors[count++] = run->params[i].tensor;
    send_chunks(run, tensors, count);
    pool_free(pool, tensors, size);
}

/* struct reduction - what the backward of the broadcast holds */
struct reduction {
    struct node *node;
    struct tensor **grads; /* [output_count] of device 0, owned */
    struct tensor **ret;
    struct tensor *flat; /* of the last chunk: Python's name keeps it until the next is made */
    struct list results;
};

static void reduce_chunk(struct run *run, struct reduction *r, const struct bucket *chunk)
{
    struct ghost *g = &run->ghost;
    struct tensor *flat = ddp_flatten(run, r->grads, chunk);

    tensor_drop(r->flat);
    r->flat = flat;
    if (!flat)
        return;
    g->category = CATEGORY_GRADIENT;
    struct tensor *result = tensor_new_sizes(g, chunk->dtype, chunk->numel);

    g->category = CATEGORY_ACTIVATION_GRADIENT;
    for (size_t k = 0; k < chunk->member_count; k++) {
        uint32_t i = chunk->members[k];
        const struct tensor *grad = r->grads[i];
        int64_t strides[TENSOR_DIMS];

        if (!node_needs(r->node, i))
            continue;
        tensor_contiguous_strides(grad->dims, grad->sizes, strides);
        r->ret[i] = tensor_view(result, grad->dims, grad->sizes, strides);
    }
    list_push(run, &r->results, result);
}

/* reduce_chunks() - torch._utils._take_tensors: a chunk ends before the gradient that would make it too large */
static void reduce_chunks(struct run *run, struct reduction *r)
{
    struct arena scratch = { 0 };

    for (unsigned dtype = 0; dtype < DTYPE_COUNT; dtype++) {
        struct bucket chunk = { .dtype = (enum dtype)dtype };

        for (uint32_t i = 0; i < r->node->output_count && !run->ghost.halt; i++) {
            const struct tensor *grad = r->grads[i];

            if (!grad || grad->dtype != dtype)
                continue;
            if (chunk.bytes > 0 && chunk.bytes + tensor_bytes(grad) > CHUNK_BYTES) {
                reduce_chunk(run, r, &chunk);
                chunk.member_count = 0;
                chunk.bytes = 0;
                chunk.numel = 0;
            }
            arena_push(&scratch, chunk.members, chunk.member_count, chunk.member_capacity, i);
            chunk.bytes += tensor_bytes(grad);
            chunk.numel += tensor_numel(grad);
        }
        if (chunk.member_count > 0 && !run->ghost.halt)
            reduce_chunk(run, r, &chunk);
    }
    arena_finish(&scratch);
}

/* Broadcast.backward; gradients that did not come, also of frozen parameters, are zeros (Function materializes them) */
static void broadcast_backward(struct ghost *g,
                               struct node *n,
                               struct tensor *const *grads,
                               struct tensor **ret)
{
    struct run *run = (struct run *)g; /* whose first member it is */
    size_t size = n->output_count * sizeof(struct tensor *);
    struct reduction r = { .node = n, .grads = pool_alloc(&g->pool, size), .ret = ret };

    for (uint32_t i = 0; i < n->output_count; i++)
        r.grads[i] =
            grads[i] ? tensor_ref(grads[i])
                     : tensor_new(g, n->outputs[i].dtype, n->outputs[i].dims, n->outputs[i].sizes);
    reduce_chunks(run, &r);
    tensor_drop(r.flat);
    list_drop(run, &r.results);
    for (uint32_t i = n->output_count; i-- > 0;)
        tensor_drop(r.grads[i]);
    pool_free(&g->pool, r.grads, size);
}

static const struct backward broadcast_node = { "BroadcastBackward", broadcast_backward };

/* make_replicas() - device 0's parameters as outputs of Broadcast: the same memory, another history */
static void make_replicas(struct run *run, struct dataparallel *dp)
{
    struct ghost *g = &run->ghost;
    size_t size = (run->param_count + 1) * sizeof(struct tensor *);
    struct tensor **params = pool_alloc(&g->pool, size);
    uint32_t count = 0;

    for (size_t i = 0; i < run->param_count; i++)
        if (!run->params[i].buffer && run->params[i].tensor)
            params[count++] = run->params[i].tensor;
    struct node *n = node_new_outputs(g, &broadcast_node, params, count, 0, 0, count);

    for (uint32_t i = 0, output = 0; i < run->param_count; i++) {
        struct tensor *own = run->params[i].tensor;

        if (run->params[i].buffer || !own)
            continue;
        struct tensor *replica = tensor_view(own, own->dims, own->sizes, own->strides);
        bool differentiable = tensor_requires_grad(own);

        node_attach_output(n, output++, replica);
        if (replica && !differentiable) {
            node_drop(replica->grad_fn);
            replica->grad_fn = NULL;
            replica->requires_grad = false;
        }
        dp->replicas[i] = replica;
    }
    node_drop(n);
    dp->replicated = true;
    pool_free(&g->pool, params, size);
}

static void drop_replicas(struct run *run, struct dataparallel *dp)
{
    for (size_t i = run->param_count; i-- > 0;) {
        tensor_drop(dp->replicas[i]);
        dp->replicas[i] = NULL;
    }
    dp->replicated = false;
}

/* swap() - give the operators the replica's parameters, or the module's own again */
static void swap(struct run *run, struct dataparallel *dp)
{
    for (size_t i = 0; dp->replicated && i < run->param_count; i++) {
        if (!dp->replicas[i])
            continue;
        struct tensor *now = run->params[i].tensor;

        run->params[i].tensor = dp->swapped ? dp->own[i] : dp->replicas[i];
        if (!dp->swapped)
            dp->own[i] = now;
    }
    dp->swapped = dp->replicated && !dp->swapped;
}

/* ------------------------------------------------------------------ scatter and gather */

/* part() - the first device's part of @x along dimension 0: a view */
static struct tensor *part(struct tensor *x, int64_t devices)
{
    int64_t sizes[TENSOR_DIMS];

    for (unsigned i = 0; i < x->dims; i++)
        sizes[i] = i == 0 ? (x->sizes[0] + devices - 1) / devices : x->sizes[i];
    return tensor_view(x, x->dims, sizes, x->strides);
}

static void scatter(struct run *run, struct dataparallel *dp, struct wrapped_call *call)
{
    for (uint32_t i = 0; i < call->step->in_count; i++) {
        struct value *arg = &call->args[i];

        if (arg->kind == VALUE_TENSOR && arg->as.tensor->dims > 0)
            value_set(&run->ghost, arg, value_tensor(part(arg->as.tensor, dp->devices)));
    }
}

/* Gather.backward is Scatter: device 0's part is a view of the whole gradient */
static void gather_backward(struct ghost *g,
                            struct node *n,
                            struct tensor *const *grads,
                            struct tensor **ret)
{
    const struct output *input = node_input(n, 0);

    if (grads[0] && node_needs(n, 0))
        ret[0] = tensor_view(grads[0], input->dims, input->sizes, grads[0]->strides);
}

static const struct backward gather_node = { "GatherBackward", gather_backward };

static struct tensor *gather_tensor(struct run *run, struct dataparallel *dp, struct tensor *x)
{
    struct ghost *g = &run->ghost;
    int64_t sizes[TENSOR_DIMS] = { dp->devices };
    struct node *n = node_new(g, &gather_node, &x, 1, 0, 0);

    for (unsigned i = 0; i < x->dims; i++)
        sizes[i] = i == 0 ? x->sizes[0] * dp->devices : x->sizes[i];
    return node_attach(n, tensor_new(g, x->dtype, x->dims ? x->dims : 1, sizes));
}

static void gather(struct run *run, struct dataparallel *dp, struct value *v);

/*
 * gather_cache() - what the zoo's models return as a list: a DynamicCache, keys and values of a layer after the other
 *
 * It is made anew from what is gathered, and copies each pair; a pair is let go when the next has been gathered.
 */
static void gather_cache(struct run *run, struct dataparallel *dp, struct object *o)
{
    struct tensor *last[2] = { NULL };

    for (uint32_t i = 0; i < o->count; i += 2) {
        struct tensor *pair[2] = { NULL };

        for (uint32_t k = 0; k < 2 && i + k < o->count; k++)
            if (o->items[i + k].kind == VALUE_TENSOR)
                pair[k] = gather_tensor(run, dp, o->items[i + k].as.tensor);
        for (uint32_t k = 0; k < 2; k++) {
            tensor_drop(last[k]);
            last[k] = pair[k];
        }
        for (uint32_t k = 0; k < 2 && i + k < o->count; k++)
            o->items[i + k] = value_tensor(pair[k] ? kernel_clone(pair[k]) : NULL);
    }
    for (uint32_t k = 0; k < 2; k++)
        tensor_drop(last[k]);
}

/* gather_object() - a new list or record of what the old one held */
static void gather_object(struct run *run, struct dataparallel *dp, struct value *v)
{
    struct pool *pool = &run->ghost.pool;
    const struct object *old = v->as.object;
    struct object *o = pool_alloc(pool, sizeof *o);

    *o = (struct object){
        .refs = 1, .count = old->count, .capacity = old->count, .names = old->names
    };
    if (old->count > 0)
        o->items = pool_alloc(pool, old->count * sizeof *o->items);
    v->as.object = o;
    for (uint32_t i = 0; i < o->count; i++)
        o->items[i] = old->items[i];
    if (v->kind == VALUE_LIST) {
        gather_cache(run, dp, o);
        return;
    }
    for (uint32_t i = 0; i < o->count; i++)
        gather(run, dp, &o->items[i]);
}

/* gather() - put what is gathered in place of the borrowed *@v */
static void gather(struct run *run, struct dataparallel *dp, struct value *v)
{
    bool scalar = v->kind == VALUE_TENSOR && v->as.tensor->dims == 0;

    switch (v->kind) {
    case VALUE_NONE:
        break;
    case VALUE_TENSOR:
        *v = value_tensor(gather_tensor(run, dp, v->as.tensor));
        if (scalar && dp->loss_count < LOSSES_MOST)
            dp->losses[dp->loss_count++] = v;
        break;
    case VALUE_LIST:
    case VALUE_RECORD:
        gather_object(run, dp, v);
        break;
    }
}

/* average_losses() - the script's loss.mean() */
static void average_losses(struct run *run, struct dataparallel *dp)
{
    static const struct attr attrs[] = { { .key = KEY_KEEPDIM, .type = ATTR_BOOL } };

    for (size_t i = 0; i < dp->loss_count; i++) {
        struct tensor *mean =
            op_apply(&run->ghost, OP_MEAN, &dp->losses[i]->as.tensor, 1, attrs, 1);

        value_set(&run->ghost, dp->losses[i], value_tensor(mean));
    }
    dp->loss_count = 0;
}

static void gather_outputs(struct run *run, struct dataparallel *dp, struct wrapped_call *call)
{
    struct ghost *g = &run->ghost;
    uint32_t count = call->step->body->out_count;
    size_t size = (count + 1) * sizeof(struct value);
    struct value *old = pool_alloc(&g->pool, size);

    dp->loss_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        old[i] = call->ret[i];
        gather(run, dp, &call->ret[i]);
    }
    for (uint32_t i = 0; i < count; i++)
        value_drop(g, old[i]);
    pool_free(&g->pool, old, size);
    average_losses(run, dp);
}

/* ------------------------------------------------------------------ hooks */

static enum plm_status create(struct run *run, struct plm_error *reterr)
{
    const struct plm_strategy *s = run->strategy;
    struct dataparallel *dp = arena_new(run->arena, struct dataparallel);

    if (s->parallel.data_parallel > DEVICES_MOST)
        return plm_fail(reterr, PLM_E_USAGE, "data-parallel: at most %d devices", DEVICES_MOST);
    if (s->checkpoint != PLM_CHECKPOINT_NONE && s->checkpoint_reentrant)
        return plm_fail(reterr, PLM_E_USAGE,
                        "data-parallel: with reentrant checkpoints every segment would reduce all "
                        "gradients; leave checkpoint-reentrant away");
    dp->devices = s->parallel.data_parallel;
    dp->own = arena_array(run->arena, struct tensor *, run->param_count);
    dp->replicas = arena_array(run->arena, struct tensor *, run->param_count);
    run->wrapper_state = dp;
    run->batch_multiple = dp->devices;
    return PLM_OK;
}

static void wrap(struct run *run)
{
    (void)run; /* the constructor moves nothing: the module is on device 0 already */
}

static void before_forward(struct run *run, struct wrapped_call *call)
{
    struct dataparallel *dp = run->wrapper_state;

    if (!call->root || dp->devices < 2)
        return;
    scatter(run, dp, call);
    send_all(run, false);
    if (run->ghost.grad_enabled)
        make_replicas(run, dp);
    send_all(run, true);
    swap(run, dp);
}

static void after_forward(struct run *run, struct wrapped_call *call)
{
    struct dataparallel *dp = run->wrapper_state;

    if (!call->root || dp->devices < 2)
        return;
    swap(run, dp);
    gather_outputs(run, dp, call);
}

/* Recomputed checkpoints see the replica again. */
static void before_backward(struct run *run, uint32_t micro)
{
    swap(run, run->wrapper_state);
}

static void after_backward(struct run *run, uint32_t micro)
{
    struct dataparallel *dp = run->wrapper_state;

    if (dp->swapped)
        swap(run, dp);
    drop_replicas(run, dp);
}

const struct wrapper wrapper_dataparallel = {
    .mark = "dp_wrap",
    .create = create,
    .wrap = wrap,
    .before_forward = before_forward,
    .after_forward = after_forward,
    .before_backward = before_backward,
    .after_backward = after_backward,
};
