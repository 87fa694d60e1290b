/*
 * train/fsdp1.c - FullyShardedDataParallel (FSDP1): its hooks around modules
 *
 * Mirrors torch/distributed/fsdp/_runtime_utils.py and fully_sharded_data_parallel.py (2.15): FULL_SHARD, or SHARD_GRAD_OP with
 * --reshard-after-forward false; backward_prefetch=BACKWARD_PRE; limit_all_gathers, which makes the host wait and so
 * allocates nothing; use_orig_params=False.
 */
#include <string.h>

#include "ghost/autocast.h"
#include "ghost/kernels.h"
#include "train/fsdp1.h"
#include "train/modules.h"

/* ------------------------------------------------------------------ the strategy */

static enum dtype reduced_dtype(enum plm_reduced reduced)
{
    switch (reduced) {
    case PLM_REDUCED_FP32:
        return DTYPE_FLOAT32;
    case PLM_REDUCED_BF16:
        return DTYPE_BFLOAT16;
    case PLM_REDUCED_FP16:
        return DTYPE_FLOAT16;
    case PLM_REDUCED_DEFAULT:
        break;
    }
    return DTYPE_COUNT;
}

static struct fsdp1_handle *root_of(struct fsdp1 *fsdp)
{
    return &fsdp->handles[fsdp->wrapped.count];
}

static struct fsdp1_handle *handle_of_call(struct run *run, const struct wrapped_call *call)
{
    struct fsdp1 *fsdp = run->wrapper_state;

    return &fsdp->handles[wrapped_of_call(&fsdp->wrapped, call)];
}

static enum plm_status create(struct run *run, struct plm_error *reterr)
{
    const struct plm_parallel *parallel = &run->strategy->parallel;
    struct fsdp1 *fsdp = arena_new(run->arena, struct fsdp1);

    if (parallel->fsdp1 < 2)
        return plm_fail(reterr, PLM_E_USAGE,
                        "fsdp1: at least 2 ranks; on one, FullyShardedDataParallel shards nothing");
    if (parallel->reshard >= PLM_RESHARD_BUT_LAST)
        return plm_fail(reterr, PLM_E_USAGE,
                        "reshard-after-forward: with --fsdp1 it is true (FULL_SHARD) or false "
                        "(SHARD_GRAD_OP)");
    if (run->strategy->channels_last)
        return plm_fail(reterr, PLM_E_USAGE, "--fsdp1 with --channels-last is not modelled");
    if (parallel->cpu_offload && run->strategy->accumulate > 1 && !parallel->fsdp_no_sync)
        return plm_fail(reterr, PLM_E_USAGE,
                        "--fsdp1 with --fsdp-cpu-offload cannot accumulate reduced gradients: "
                        "add --fsdp-no-sync");
    for (size_t i = 0; i < run->param_count && parallel->load == PLM_LOAD_META; i++)
        if (run->params[i].tied)
            return plm_fail(
                reterr, PLM_E_USAGE,
                "load: from the meta device FullyShardedDataParallel makes '%s' once for "
                "each module that has it, and ties come apart; take --load host",
                names_text(run->ghost.names, run->params[i].name));
    *fsdp = (struct fsdp1){
        .run = run,
        .shards = parallel->fsdp1,
        .rank = parallel->rank % parallel->fsdp1,
        .param_dtype = reduced_dtype(parallel->param_dtype),
        .reduce_dtype = reduced_dtype(parallel->reduce_dtype),
        .offload = parallel->cpu_offload,
        .frees_after_forward = parallel->reshard != PLM_RESHARD_FALSE,
        .prefetches_forward = parallel->fsdp_forward_prefetch,
        .syncs = true,
    };
    wrapped_find(&fsdp->wrapped, run, run->graph->main);
    fsdp->handles = arena_array(run->arena, struct fsdp1_handle, fsdp->wrapped.count + 1);
    for (size_t i = 0; i <= fsdp->wrapped.count; i++) {
        bool root = i == fsdp->wrapped.count;

        fsdp->handles[i] = (struct fsdp1_handle){
            .fsdp = fsdp,
            .path = root ? 0 : fsdp->wrapped.paths[i],
            .root = root,
        };
    }
    run->wrapper_state = fsdp;
    return PLM_OK;
}

/* ------------------------------------------------------------------ the constructor */

static void assign(struct fsdp1 *fsdp)
{
    struct run *run = fsdp->run;

    for (size_t i = 0; i < run->param_count; i++) {
        struct param *p = &run->params[i];
        struct fsdp1_handle *h;

        if (p->buffer || !p->tensor)
            continue;
        h = &fsdp->handles[wrapped_of_module(&fsdp->wrapped, run->leaves[i].module)];
        if (h->param_count > 0 && (p->frozen != h->frozen || p->dtype != h->dtype))
            ghost_fail(&run->ghost, PLM_E_USAGE,
                       "FullyShardedDataParallel flattens '%s' with parameters that are %s",
                       names_text(run->ghost.names, p->name),
                       p->frozen != h->frozen ? "not frozen as it is" : "of another type");
        h->frozen = p->frozen;
        h->dtype = p->dtype;
        h->numel += tensor_numel(p->tensor);
        arena_push(run->arena, h->params, h->param_count, h->param_capacity, p);
    }
}

static bool is_unit(struct run *run, name_id name)
{
    struct fsdp1 *fsdp = run->wrapper_state;
    size_t unit = wrapped_of_module(&fsdp->wrapped, name);

    return unit < fsdp->wrapped.count && fsdp->wrapped.paths[unit] == name;
}

/* bring() - _move_module_to_device(), or param_init_fn with to_empty() for each module */
static void bring(struct fsdp1_handle *h)
{
    struct run *run = h->fsdp->run;

    switch (run->strategy->parallel.load) {
    case PLM_LOAD_DEVICE:
        break;
    case PLM_LOAD_HOST:
        modules_walk(run, h->path, MODULE_PARAMETERS, is_unit, params_move);
        modules_walk(run, h->path, MODULE_BUFFERS, is_unit, params_move);
        break;
    case PLM_LOAD_META:
        modules_walk(run, h->path, MODULE_PARAMETERS | MODULE_BUFFERS, is_unit, params_move);
        break;
    }
    run->ghost.category = CATEGORY_PARAMETER;
}

static void accumulated(void *context, struct tensor *leaf);

static void wrap(struct run *run)
{
    struct fsdp1 *fsdp = run->wrapper_state;
    struct ghost *g = &run->ghost;

    g->at = (struct source){ 0 };
    assign(fsdp);
    fsdp->last_named = wrapped_last_named(run);
    g->category = CATEGORY_PARAMETER;
    g->op = OP_COUNT;
    for (size_t i = 0; i <= fsdp->wrapped.count && !g->halt; i++) {
        bring(&fsdp->handles[i]);
        fsdp1_flatten(&fsdp->handles[i]);
    }
    run->trained_count = 0;
    if (root_of(fsdp)->param_count > 0 && !root_of(fsdp)->frozen)
        run->trained[run->trained_count++] = &root_of(fsdp)->leaf;
    for (size_t i = 0; i < fsdp->wrapped.count; i++)
        if (fsdp->handles[i].param_count > 0 && !fsdp->handles[i].frozen)
            run->trained[run->trained_count++] = &fsdp->handles[i].leaf;
    g->accumulated = accumulated;
    g->accumulated_context = fsdp;
    g->category = CATEGORY_ACTIVATION;
    g->path = 0;
    if (fsdp->param_dtype != DTYPE_COUNT)
        g->precision = fsdp->param_dtype;
}

/* ------------------------------------------------------------------ prefetch */

static void prefetch(struct fsdp1_handle *h, enum fsdp1_training training)
{
    enum fsdp1_training outer = h->training;

    h->training = training;
    fsdp1_unshard(h);
    h->training = outer;
    h->prefetched = true;
}

static void prefetch_forward(struct fsdp1_handle *h)
{
    struct fsdp1 *fsdp = h->fsdp;

    if (!fsdp->prefetches_forward || !fsdp->order_is_known)
        return;
    for (size_t i = 0; i + 1 < fsdp->before_count; i++) {
        struct fsdp1_handle *next = fsdp->before_forward[i + 1];

        if (fsdp->before_forward[i] != h)
            continue;
        if (next->needs_pre_forward && !next->prefetched)
            prefetch(next, FSDP1_FORWARD);
        return;
    }
}

static void prefetch_backward(struct fsdp1_handle *h)
{
    if (!h->placed || h->index == 0)
        return;
    struct fsdp1_handle *before = h->fsdp->after_forward[h->index - 1];

    if (before->needs_pre_backward && !before->prefetched)
        prefetch(before, FSDP1_BACKWARD_PRE);
}

/* ------------------------------------------------------------------ forward */

static void cast_inputs(struct fsdp1 *fsdp, struct wrapped_call *call)
{
    struct ghost *g = &fsdp->run->ghost;

    if (fsdp->param_dtype == DTYPE_COUNT)
        return;
    for (uint32_t i = 0; i < call->step->in_count; i++) {
        struct tensor *x = call->args[i].kind == VALUE_TENSOR ? call->args[i].as.tensor : NULL;

        if (!tensor_is_floating(x) || x->dtype == fsdp->param_dtype)
            continue;
        struct tensor *cast = autocast_to(x, fsdp->param_dtype);

        value_set(g, &call->held[i], value_tensor(tensor_ref(cast)));
        value_set(g, &call->args[i], value_tensor(cast));
    }
}

/* lazy_init() - in the first forward: the buffers are made once, and emptied */
static void lazy_init(struct fsdp1 *fsdp)
{
    struct ghost *g = &fsdp->run->ghost;
    enum category category = g->category;
    name_id path = g->path;

    fsdp->initialized = true;
    fsdp1_init_attributes(root_of(fsdp));
    for (size_t i = 0; i < fsdp->wrapped.count; i++)
        fsdp1_init_attributes(&fsdp->handles[i]);
    g->category = category;
    g->path = path;
}

static void begin_forward(struct fsdp1 *fsdp)
{
    if (!fsdp->initialized)
        lazy_init(fsdp);
    for (size_t i = 0; fsdp->prefetches_forward && i <= fsdp->wrapped.count; i++) {
        fsdp->handles[i].needs_pre_forward = true;
        fsdp->handles[i].prefetched = false;
    }
}

static bool should_free(const struct fsdp1_handle *h)
{
    return h->fsdp->syncs || h->fsdp->frees_after_forward;
}

static void input_gradient(void *context, struct tensor *grad)
{
    struct fsdp1_handle *h = context;

    (void)grad;
    if (h->inputs_awaited == 0 || --h->inputs_awaited > 0)
        return;
    h->training = FSDP1_BACKWARD_POST;
    fsdp1_reshard(h, should_free(h));
}

/* await_inputs() - a frozen flat parameter has no gradient: it is sharded again after those of the module's inputs */
static void await_inputs(struct fsdp1_handle *h, const struct wrapped_call *call)
{
    h->inputs_awaited = 0;
    for (uint32_t i = 0; i < call->step->in_count; i++) {
        struct tensor *x = call->args[i].kind == VALUE_TENSOR ? call->args[i].as.tensor : NULL;

        if (!tensor_requires_grad(x) || !x->grad_fn)
            continue;
        h->inputs_awaited++;
        autograd_hook(x, input_gradient, h);
    }
}

static void before_forward(struct run *run, struct wrapped_call *call)
{
    struct fsdp1_handle *h = handle_of_call(run, call);
    struct fsdp1 *fsdp = h->fsdp;

    if (h->param_count > 0 && h->training == FSDP1_BACKWARD_PRE)
        return; /* a checkpoint runs the module again */
    if (h->root) {
        begin_forward(fsdp);
        cast_inputs(fsdp, call);
    }
    if (h->param_count == 0)
        return;
    if (!fsdp->order_is_known)
        arena_push(run->arena, fsdp->before_forward, fsdp->before_count, fsdp->before_capacity, h);
    h->training = FSDP1_FORWARD;
    if (!h->prefetched)
        fsdp1_unshard(h);
    h->needs_pre_forward = false;
    prefetch_forward(h);
    if (h->frozen && run->ghost.grad_enabled)
        await_inputs(h, call);
}

static void before_module_backward(void *context, struct tensor *grad);

static void register_pre_backward(struct fsdp1_handle *h, const struct value *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        switch (values[i].kind) {
        case VALUE_TENSOR:
            if (!tensor_requires_grad(values[i].as.tensor))
                break;
            autograd_hook(values[i].as.tensor, before_module_backward, h);
            h->needs_pre_backward = true;
            break;
        case VALUE_RECORD:
            register_pre_backward(h, values[i].as.object->items, values[i].as.object->count);
            break;
        case VALUE_LIST:
        case VALUE_NONE:
            break;
        }
}

static void after_forward(struct run *run, struct wrapped_call *call)
{
    struct fsdp1_handle *h = handle_of_call(run, call);
    struct fsdp1 *fsdp = h->fsdp;

    if (h->param_count > 0) {
        if (h->training == FSDP1_BACKWARD_PRE)
            return;
        if (!h->placed)
            h->index = fsdp->after_count;
        h->placed = true;
        arena_push(run->arena, fsdp->after_forward, fsdp->after_count, fsdp->after_capacity, h);
        fsdp1_reshard(h, !h->root && fsdp->frees_after_forward);
    }
    if (run->ghost.grad_enabled) {
        if (h->root)
            fsdp->callback_queued = false;
        h->needs_pre_backward = h->ran_pre_backward = false;
        register_pre_backward(h, call->ret, call->step->body->out_count);
    }
    h->training = FSDP1_IDLE;
}

/* ------------------------------------------------------------------ backward */

/* finish() - _catch_all_reshard(), prepare_gradient_for_optim() */
static void finish(struct fsdp1_handle *h)
{
    struct fsdp1 *fsdp = h->fsdp;
    struct ghost *g = &fsdp->run->ghost;

    if (h->param_count == 0)
        return;
    if (!h->sharded)
        fsdp1_reshard(h, should_free(h));
    h->ran_pre_backward = h->needs_pre_backward = h->prefetched = h->placed = false;
    h->training = FSDP1_IDLE;
    if (!fsdp->syncs || !h->reduced || !h->flat.tensor)
        return;
    struct tensor *leaf = h->flat.tensor;

    if (fsdp->offload) {
        struct schedule *schedule = g->schedule; /* _cpu_grad is the host's */

        g->schedule = NULL;
        if (!leaf->grad)
            leaf->grad = tensor_like(g, leaf, leaf->dtype);
        g->schedule = schedule;
    } else {
        leaf->grad = tensor_ref(h->reduced);
    }
    tensor_drop(h->reduced);
    h->reduced = NULL;
}

static void after_whole_backward(void *context)
{
    struct fsdp1 *fsdp = context;

    fsdp->order_is_known = true;
    fsdp->after_count = 0;
    finish(root_of(fsdp));
    for (size_t i = 0; i < fsdp->wrapped.count; i++)
        finish(&fsdp->handles[i]);
    fsdp->callback_queued = false;
}

static void before_module_backward(void *context, struct tensor *grad)
{
    struct fsdp1_handle *h = context;
    struct fsdp1 *fsdp = h->fsdp;

    (void)grad;
    if (h->ran_pre_backward)
        return;
    if (h->root && !fsdp->callback_queued) {
        autograd_queue_callback(&fsdp->run->ghost, after_whole_backward, fsdp);
        fsdp->callback_queued = true;
    }
    if (h->param_count == 0)
        return;
    h->training = FSDP1_BACKWARD_PRE;
    if (h->needs_pre_backward && !h->prefetched)
        fsdp1_unshard(h);
    h->needs_pre_backward = false;
    prefetch_backward(h);
    if (h->flat.tensor && h->flat.tensor->grad && !fsdp->offload) {
        /* prepare_gradient_for_backward(): what was reduced before is added to in the end */
        h->reduced = h->flat.tensor->grad;
        h->flat.tensor->grad = NULL;
    }
    h->ran_pre_backward = true;
}

/* accumulated() - _post_backward_hook(), on the AccumulateGrad of a flat parameter */
static void accumulated(void *context, struct tensor *leaf)
{
    struct fsdp1 *fsdp = context;
    struct fsdp1_handle *h = NULL;

    for (size_t i = 0; i <= fsdp->wrapped.count && !h; i++)
        if (fsdp->handles[i].unsharded == leaf)
            h = &fsdp->handles[i];
    if (!h)
        return;
    h->training = FSDP1_BACKWARD_POST;
    if (!leaf->grad)
        return;
    fsdp1_reshard(h, should_free(h));
    if (fsdp->syncs)
        fsdp1_reduce(h);
}

static void before_backward(struct run *run, uint32_t micro)
{
    struct fsdp1 *fsdp = run->wrapper_state;

    fsdp->syncs =
        !run->strategy->parallel.fsdp_no_sync || micro + 1 >= (uint32_t)run->strategy->accumulate;
}

/* ------------------------------------------------------------------ the optimizer's side */

/* norm() - torch.linalg.vector_norm(x, dtype=torch.float32) */
static struct tensor *norm(struct tensor *x)
{
    return x ? kernel_reduce(x, (1u << x->dims) - 1, false, DTYPE_FLOAT32) : NULL;
}

/* clip() - FullyShardedDataParallel.clip_grad_norm_() */
static void clip(struct run *run)
{
    struct fsdp1 *fsdp = run->wrapper_state;
    struct ghost *g = &run->ghost;
    struct list norms = { 0 };

    g->category = CATEGORY_TEMPORARY;
    g->op = OP_COUNT;
    g->path = 0;
    if (!fsdp->zero)
        fsdp->zero = tensor_new_scalar(g, DTYPE_FLOAT32);
    for (size_t i = 0; i < run->trained_count; i++)
        if (run->trained[i]->param->tensor->grad)
            list_push(run, &norms, norm(run->trained[i]->param->tensor->grad));
    if (norms.count > 0) {
        TENSOR_AUTO *stack = tensor_new_sizes(g, DTYPE_FLOAT32, (int64_t)norms.count);

        list_drop(run, &norms);
        TENSOR_AUTO *local = norm(stack);

        tensor_drop(tensor_take(&stack));
        TENSOR_AUTO *square = tensor_new_scalar(g, DTYPE_FLOAT32);
        TENSOR_AUTO *total = tensor_new_scalar(g, DTYPE_FLOAT32);

        tensor_drop(tensor_take(&square));
        TENSOR_AUTO *sum = tensor_new_scalar(g, DTYPE_FLOAT32);
        TENSOR_AUTO *reciprocal = tensor_new_scalar(g, DTYPE_FLOAT32);
        TENSOR_AUTO *coefficient = tensor_new_scalar(g, DTYPE_FLOAT32);

        tensor_drop(tensor_take(&reciprocal));
        tensor_drop(tensor_take(&sum));
        tensor_drop(tensor_new_scalar(g, DTYPE_FLOAT32)); /* clamped */
    }
    list_drop(run, &norms);
    g->category = CATEGORY_ACTIVATION;
}

static void before_step(struct run *run)
{
    struct fsdp1 *fsdp = run->wrapper_state;

    fsdp->schedule = run->ghost.schedule;
    if (fsdp->offload)
        run->ghost.schedule = NULL;
}

static void after_step(struct run *run)
{
    struct fsdp1 *fsdp = run->wrapper_state;

    run->ghost.schedule = fsdp->schedule;
}

const struct wrapper wrapper_fsdp1 = {
    .mark = "fsdp_wrap",
    .create = create,
    .wrap = wrap,
    .places = true,
    .before_forward = before_forward,
    .after_forward = after_forward,
    .before_backward = before_backward,
    .clip = clip,
    .before_step = before_step,
    .after_step = after_step,
};
