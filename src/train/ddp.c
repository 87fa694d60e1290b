/*
 * train/ddp.c - torch.nn.parallel.DistributedDataParallel: one of N ranks
 *
 * Mirrors torch/nn/parallel/distributed.py and torch/csrc/distributed/c10d/reducer.cpp (2.15) with their defaults
 * (static_graph=False, init_sync=True): one bucket per dtype from the construction on; the order in
 * which gradients become ready in the first backward that is synchronized makes other buckets, at the start of the next
 * forward. With find_unused_parameters=True the buckets are made at the construction, from the last parameter to the first, and stay.
 * Gradients are copied into buckets as they become ready and reduced in place. All ranks are alike.
 *
 *     bytes of all buckets = bytes of all gradients, at any time after the construction
 */
#include <stdlib.h>

#include "train/ddp_buckets.h"
#include "train/ddp_sink.h"
#include "train/ddp_sync.h"
#include "train/mesh.h"
#include "train/pipeline.h"
#include "train/wrapper.h"
#include "train/zero_optimizer.h"

enum {
    FIRST_BUCKET_BYTES = 1 << 20, /* reducer.hpp, kDefaultFirstBucketBytes */
    BUCKET_CAP_MIB = 25,          /* distributed.py, _DEFAULT_BUCKET_CAP_MB */
    BUCKET_CAP_MOST = 1 << 20,    /* a TiB */
    RANKS_MOST = 1 << 16
};

/* struct place - of a leaf among the trained parameters; sorted by address, to be found again */
struct place {
    const struct tensor *leaf;
    uint32_t number;
};

/* struct ddp - a module that is wrapped: the model, or a stage of a pipeline */
struct ddp {
    struct leaf *
        *trained; /* [count] its parameters that want gradients, in the order of registration */
    struct tensor **leaves; /* [count], borrowed */
    struct place *places;   /* [count] */
    size_t count;
    struct buckets buckets;
    struct tensor *used; /* local_used_map_dev_, when unused parameters are looked for */
    uint32_t *bucket_of; /* [count] */
    uint32_t *
        ready; /* [ready_count] in order of readiness, of the first backward that is synchronized */
    bool *is_ready; /* [count], of the backward that runs now */
    /* static_graph: hooks of each parameter in the first backward, and those that are still to come in this one */
    uint32_t *hooks, *hooks_left; /* [count] */
    bool learns;        /* the first backward is not over: nothing is reduced before its end */
    size_t ready_count; /* kept after the backward until buckets are made from it */
    bool rebuilt;
    bool expects_hooks;      /* this backward is synchronized */
    bool forward_param_sync; /* require_forward_param_sync */
};

/* ddp_of() - of the stage that runs now; without a pipeline there is one */
static struct ddp *ddp_of(const struct run *run)
{
    struct ddp *wrapped = run->wrapper_state;

    return &wrapped[run->stage];
}

static int64_t rank_count(const struct plm_parallel *p)
{
    return mesh_reduced(p, p->ddp > 0 ? p->ddp : p->zero_optimizer);
}

/* is_synchronized() - the script wraps every micro-batch but the last in no_sync() */
static bool is_synchronized(const struct run *run)
{
    return (int64_t)run->micro + 1 >= run->strategy->accumulate;
}

/* ------------------------------------------------------------------ buckets */

/* view_of_bucket() - the place of a gradient: as its parameter is laid out */
static struct tensor *view_of_bucket(struct ddp *ddp, uint32_t number)
{
    struct tensor *leaf = ddp->leaves[number];
    struct tensor *flat = ddp->buckets.items[ddp->bucket_of[number]].flat;
    int64_t strides[TENSOR_DIMS];

    if (tensor_is_dense(leaf))
        return tensor_view(flat, leaf->dims, leaf->sizes, leaf->strides);
    tensor_contiguous_strides(leaf->dims, leaf->sizes, strides);
    return tensor_view(flat, leaf->dims, leaf->sizes, strides);
}

static void point_into_bucket(struct ddp *ddp, uint32_t number)
{
    struct tensor *leaf = ddp->leaves[number];
    struct tensor *view = view_of_bucket(ddp, number);

    tensor_drop(leaf->grad);
    leaf->grad = view;
}

/* initialize_buckets() - the old ones go first; gradients that were views of them move one by one */
static void initialize_buckets(struct run *run, struct ddp *ddp, struct buckets buckets)
{
    struct ghost *g = &run->ghost;
    bool as_view = run->strategy->parallel.gradient_as_bucket_view;

    for (size_t i = 0; i < ddp->buckets.count; i++)
        tensor_drop(ddp->buckets.items[i].flat);
    ddp->buckets = buckets;
    for (size_t i = 0; i < buckets.count; i++) {
        struct bucket *b = &buckets.items[i];

        g->category = as_view ? CATEGORY_GRADIENT : CATEGORY_COMMUNICATION;
        b->flat = tensor_new_sizes(g, b->dtype, b->numel);
        g->category = CATEGORY_ACTIVATION;
        for (size_t k = 0; k < b->member_count; k++) {
            ddp->bucket_of[b->members[k]] = (uint32_t)i;
            if (as_view && ddp->leaves[b->members[k]]->grad)
                point_into_bucket(ddp, b->members[k]);
        }
    }
}

static struct bucket_limits bucket_limits(const struct plm_parallel *p)
{
    struct bucket_limits limits = { FIRST_BUCKET_BYTES, (plm_bytes)BUCKET_CAP_MIB << 20 };

    if (p->bucket_cap_mb > 0)
        limits.first = limits.others = (plm_bytes)(p->bucket_cap_mb * (1 << 20));
    return limits;
}

/* first_buckets() - those of the construction */
static struct buckets first_buckets(struct run *run, const struct ddp *ddp)
{
    const struct plm_parallel *p = &run->strategy->parallel;
    const struct bucket_limits none = { UINT64_MAX, UINT64_MAX };
    struct buckets buckets = buckets_assign(run->arena, ddp->leaves, NULL, ddp->count,
                                            p->find_unused_parameters ? bucket_limits(p) : none);

    for (size_t i = 0; i < buckets.count / 2; i++) {
        struct bucket first = buckets.items[i];

        buckets.items[i] = buckets.items[buckets.count - 1 - i];
        buckets.items[buckets.count - 1 - i] = first;
    }
    return buckets;
}

static void rebuild_buckets(struct run *run, struct ddp *ddp)
{
    if (ddp->rebuilt || ddp->ready_count == 0)
        return;
    struct buckets buckets = buckets_assign(run->arena, ddp->leaves, ddp->ready, ddp->ready_count,
                                            bucket_limits(&run->strategy->parallel));

    ddp_send_indices(run, ddp->ready_count, buckets.count);
    ddp->rebuilt = true;
    initialize_buckets(run, ddp, buckets);
}

/* ------------------------------------------------------------------ a gradient is ready */

static int by_address(const void *a, const void *b)
{
    const struct place *x = a, *y = b;

    return x->leaf < y->leaf ? -1 : x->leaf > y->leaf;
}

/* is_last_hook() - of static_graph: counted in the first backward, expected in the others */
static bool is_last_hook(struct ddp *ddp, uint32_t number)
{
    if (!ddp->learns)
        return ddp->hooks_left[number] > 0 && --ddp->hooks_left[number] == 0;
    ddp->hooks[number]++;
    return false;
}

static void mark_ready(struct run *run, struct ddp *ddp, uint32_t number)
{
    ddp->is_ready[number] = true;
    if (!ddp->rebuilt && !run->strategy->parallel.find_unused_parameters)
        ddp->ready[ddp->ready_count++] = number;
}

static void make_ready(void *context, struct tensor *leaf)
{
    struct run *run = context;
    struct ddp *ddp = ddp_of(run);
    const struct place wanted = { .leaf = leaf };

    if (!ddp->expects_hooks)
        return;
    const struct place *place =
        bsearch(&wanted, ddp->places, ddp->count, sizeof *place, by_address);

    if (!place)
        return;
    if (ddp->is_ready[place->number] && !run->strategy->parallel.static_graph) {
        ghost_fail(
            &run->ghost, PLM_E_USAGE,
            "DistributedDataParallel: '%s' gets a second gradient in one backward, as when a "
            "reentrant checkpoint shares it; PyTorch refuses that",
            names_text(run->ghost.names, ddp->trained[place->number]->param->name));
        return;
    }
    if (run->strategy->parallel.static_graph && !is_last_hook(ddp, place->number))
        return;
    mark_ready(run, ddp, place->number);
    if (run->strategy->parallel.gradient_as_bucket_view)
        point_into_bucket(ddp, place->number);
}

/* ------------------------------------------------------------------ hooks */

static enum plm_status create(struct run *run, struct plm_error *reterr)
{
    const struct plm_parallel *p = &run->strategy->parallel;

    int64_t ranks = rank_count(p);

    if (ranks > RANKS_MOST)
        return plm_fail(reterr, PLM_E_USAGE, "ddp: at most %d ranks", RANKS_MOST);
    if (p->ddp > 0 && p->zero_optimizer > 0 && p->ddp != p->zero_optimizer)
        return plm_fail(reterr, PLM_E_USAGE,
                        "zero-redundancy: works over the ranks of ddp, %lld and not %lld",
                        (long long)p->ddp, (long long)p->zero_optimizer);
    if (p->zero_optimizer > 0 && run->strategy->optimizer == PLM_OPTIMIZER_NONE)
        return plm_fail(reterr, PLM_E_USAGE, "zero-redundancy: there is no optimizer to share");
    if (p->static_graph && p->find_unused_parameters)
        return plm_fail(reterr, PLM_E_USAGE,
                        "static-graph: finds unused parameters by itself; leave out "
                        "--find-unused-parameters");
    if (p->static_graph && (run->strategy->accumulate > 1 || run->pipeline))
        return plm_fail(reterr, PLM_E_USAGE,
                        "static-graph: with no_sync() PyTorch reduces the gradients of the first "
                        "backward and not those of the last");
    if (p->bucket_cap_mb < 0 || p->bucket_cap_mb > BUCKET_CAP_MOST)
        return plm_fail(reterr, PLM_E_USAGE, "bucket-cap-mb: above 0, at most %d", BUCKET_CAP_MOST);
    run->wrapper_state = arena_array(run->arena, struct ddp, pipeline_stage_count(run));
    return PLM_OK;
}

/* find_leaves() - the parameters of the stage that want gradients */
static void find_leaves(struct run *run, struct ddp *ddp)
{
    ddp->trained = arena_array(run->arena, struct leaf *, run->trained_count);
    ddp->leaves = arena_array(run->arena, struct tensor *, run->trained_count);
    ddp->places = arena_array(run->arena, struct place, run->trained_count);
    for (size_t i = 0; i < run->trained_count; i++) {
        struct leaf *leaf = run->trained[i];

        if (leaf->param->stage != run->stage)
            continue;
        ddp->trained[ddp->count] = leaf;
        ddp->leaves[ddp->count] = leaf->param->tensor;
        ddp->places[ddp->count] = (struct place){ leaf->param->tensor, (uint32_t)ddp->count };
        ddp->count++;
    }
    qsort(ddp->places, ddp->count, sizeof *ddp->places, by_address);
}

/* wrap_stage() - the constructor */
static void wrap_stage(struct run *run)
{
    const struct plm_parallel *p = &run->strategy->parallel;
    struct ddp *ddp = ddp_of(run);

    find_leaves(run, ddp);
    if (ddp->count == 0) {
        ghost_fail(&run->ghost, PLM_E_USAGE,
                   "DistributedDataParallel needs a parameter that requires a gradient");
        return;
    }
    ddp->bucket_of = arena_array(run->arena, uint32_t, ddp->count);
    ddp->ready = arena_array(run->arena, uint32_t, ddp->count);
    ddp->is_ready = arena_array(run->arena, bool, ddp->count);
    ddp->forward_param_sync = true;
    ddp_verify_params(run, ddp->trained, ddp->count, rank_count(p));
    ddp_broadcast_state(run);
    initialize_buckets(run, ddp, first_buckets(run, ddp));
    if (p->static_graph) {
        ddp->hooks = arena_array(run->arena, uint32_t, ddp->count);
        ddp->hooks_left = arena_array(run->arena, uint32_t, ddp->count);
        ddp->learns = true;
    }
    if (p->find_unused_parameters || p->static_graph) {
        run->ghost.category = CATEGORY_COMMUNICATION;
        ddp->used = tensor_new_sizes(&run->ghost, DTYPE_INT32, (int64_t)ddp->count);
        run->ghost.category = CATEGORY_ACTIVATION;
    }
}

static void wrap(struct run *run)
{
    for (run->stage = 0; run->stage < pipeline_stage_count(run); run->stage++)
        wrap_stage(run);
    run->stage = 0;
    if (run->strategy->parallel.zero_optimizer > 0)
        zero_optimizer_partition(run, run->strategy->parallel.zero_optimizer);
    run->ghost.accumulated = make_ready;
    run->ghost.accumulated_context = run;
}

static void before_forward(struct run *run, struct wrapped_call *call)
{
    struct ddp *ddp = ddp_of(run);

    if (!call->root)
        return;
    if (run->ghost.grad_enabled)
        rebuild_buckets(run, ddp);
    if (ddp->forward_param_sync)
        ddp_broadcast_buffers(run);
}

static void after_forward(struct run *run, struct wrapped_call *call)
{
    struct ddp *ddp = ddp_of(run);

    if (!call->root)
        return;
    /* a pipeline runs every forward in no_sync(), and prepares the last backward itself */
    ddp->expects_hooks = run->ghost.grad_enabled && !run->pipeline && is_synchronized(run);
    ddp->forward_param_sync = ddp->expects_hooks;
    for (size_t i = 0; i < ddp->count; i++)
        ddp->is_ready[i] = false;
    for (size_t i = 0; i < ddp->count && ddp->hooks; i++)
        ddp->hooks_left[i] = ddp->hooks[i];
    if (run->strategy->parallel.find_unused_parameters || ddp->learns)
        ddp_sink(run, call);
}

/* before_backward() - of a pipeline's last micro-batch: reducer.prepare_for_backward() */
static void before_backward(struct run *run, uint32_t micro)
{
    struct ddp *ddp = ddp_of(run);

    if (!run->pipeline || (int64_t)micro + 1 < run->batch_multiple)
        return;
    ddp->expects_hooks = true;
    for (size_t i = 0; i < ddp->count; i++)
        ddp->is_ready[i] = false;
}

/* reduce_all() - Reducer::delay_all_reduce(), when the first backward of a static graph is over */
static void reduce_all(struct run *run, struct ddp *ddp)
{
    ddp->learns = false;
    for (uint32_t i = 0; i < ddp->count; i++)
        if (run->strategy->parallel.gradient_as_bucket_view && ddp->leaves[i]->grad)
            point_into_bucket(ddp, i);
}

static void after_backward(struct run *run, uint32_t micro)
{
    struct ddp *ddp = ddp_of(run);

    bool all = ddp->expects_hooks && !ddp->used;

    for (size_t i = 0; all && !run->ghost.halt && i < ddp->count; i++)
        if (!ddp->is_ready[i])
            ghost_fail(&run->ghost, PLM_E_USAGE,
                       "DistributedDataParallel: '%s' gets no gradient; PyTorch refuses that "
                       "without --find-unused-parameters",
                       names_text(run->ghost.names, ddp->trained[i]->param->name));
    for (uint32_t i = 0; ddp->hooks && !ddp->learns && i < ddp->count; i++)
        if (ddp->hooks[i] == 0)
            mark_ready(run, ddp, i);
    ddp->expects_hooks = false;
    if (ddp->learns)
        reduce_all(run, ddp);
}

const struct wrapper wrapper_ddp = {
    .mark = "ddp_wrap",
    .keeps_outputs = true,
    .create = create,
    .wrap = wrap,
    .before_forward = before_forward,
    .after_forward = after_forward,
    .before_backward = before_backward,
    .after_backward = after_backward,
};
