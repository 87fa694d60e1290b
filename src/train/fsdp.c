/*
 * train/fsdp.c - fully_shard (FSDP2): its hooks around modules, and the sharding of their parameters
 *
 * Mirrors torch/distributed/fsdp/_fully_shard/_fsdp_state.py, _fsdp_init.py and FSDPParam of _fsdp_param.py (2.15).
 * fully_shard() is called on each unit marked `wrap: true`, then on the model. Before a module's forward its parameters are
 * gathered, after it they are sharded again (the root's are not, unless asked for); a hook on its outputs gathers them for
 * the backward, and a node around its inputs reduces the gradients when the backward has passed through. What no such node
 * reaches is reduced when the backward ends.
 */
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "ghost/autocast.h"
#include "train/fsdp.h"
#include "train/mesh.h"
#include "train/modules.h"
#include "train/pipeline.h"

extern const struct wrapper wrapper_tensor_parallel; /* tensor_parallel.c */

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

static enum plm_status check(const struct fsdp *fsdp,
                             const struct plm_strategy *s,
                             struct plm_error *reterr)
{
    if (s->optimizer == PLM_OPTIMIZER_ADAFACTOR && fsdp->shards > 1)
        return plm_fail(
            reterr, PLM_E_USAGE,
            "torch.optim.Adafactor does not run on the sharded parameters of fully_shard");
    if (s->parallel.tp > 1 && s->clip_grad_norm > 0)
        return plm_fail(
            reterr, PLM_E_USAGE,
            "clip-grad-norm: with --fsdp and --tp gradients are on two meshes, whose norms "
            "clip_grad_norm_() cannot put together");
    if (s->parallel.ep > 1 && s->clip_grad_norm > 0)
        return plm_fail(reterr, PLM_E_USAGE,
                        "clip-grad-norm: with --ep gradients are on two meshes, whose norms "
                        "clip_grad_norm_() cannot put together");
    if (s->channels_last)
        return plm_fail(reterr, PLM_E_USAGE,
                        "fully_shard takes contiguous parameters only, not those of "
                        "--channels-last");
    if (s->parallel.fsdp > 0 && s->parallel.hsdp_shard > 0)
        return plm_fail(reterr, PLM_E_USAGE,
                        "--fsdp and --hsdp exclude each other: a model is wrapped once");
    if (s->parallel.reshard == PLM_RESHARD_TO &&
        (s->parallel.reshard_to < 1 || fsdp->shards % s->parallel.reshard_to != 0))
        return plm_fail(reterr, PLM_E_USAGE,
                        "reshard-after-forward: %lld must divide the %lld ranks of a shard group",
                        (long long)s->parallel.reshard_to, (long long)fsdp->shards);
    if (fsdp->shards > INT32_MAX || fsdp->replicas > INT32_MAX)
        return plm_fail(reterr, PLM_E_RANGE, "fsdp: at most %d ranks", INT32_MAX);
    return PLM_OK;
}

/* resharding() - _get_post_forward_mesh_info() and, for the root, the choice that is made in the first forward */
static void resharding(struct fsdp *fsdp, const struct plm_parallel *parallel)
{
    bool reshards = parallel->reshard != PLM_RESHARD_FALSE;
    bool but_last = parallel->reshard == PLM_RESHARD_BUT_LAST;
    bool leaves_root = parallel->reshard == PLM_RESHARD_DEFAULT || but_last;

    fsdp->post_forward_shards = fsdp->shards;
    if (parallel->reshard == PLM_RESHARD_TO) {
        reshards = parallel->reshard_to > 1;
        fsdp->post_forward_shards = parallel->reshard_to;
    }
    for (size_t t = 0; t < fsdp->tree_count; t++)
        for (size_t i = 0; i < fsdp->trees[t].state_count; i++) {
            struct fsdp_state *state = &fsdp->trees[t].states[i];
            bool last = i + 2 == fsdp->trees[t].state_count; /* the root is the one after it */

            state->reshards = reshards && !(state->root && leaves_root) && !(last && but_last);
        }
}

/* ------------------------------------------------------------------ which modules, which parameters */

static struct fsdp_state *root_of(struct fsdp_tree *tree)
{
    return &tree->states[tree->state_count - 1];
}

/* tree_of() - of the stage that runs now; without a pipeline there is one */
static struct fsdp_tree *tree_of(const struct run *run)
{
    struct fsdp *fsdp = run->wrapper_state;

    return &fsdp->trees[run->stage];
}

static struct fsdp_state *state_of_call(struct run *run, const struct wrapped_call *call)
{
    struct fsdp_tree *tree = tree_of(run);

    return &tree->states[wrapped_of_call(&tree->wrapped, call)];
}

/* make_tree() - the states of the root module whose forward is @body */
static void make_tree(struct fsdp_tree *tree, struct fsdp *fsdp, const struct graph_body *body)
{
    struct arena *arena = fsdp->run->arena;

    *tree = (struct fsdp_tree){ .fsdp = fsdp, .reduces = true };
    wrapped_find(&tree->wrapped, fsdp->run, body);
    tree->state_count = tree->wrapped.count + 1;
    tree->states = arena_array(arena, struct fsdp_state, tree->state_count);
    tree->outer_first = arena_array(arena, struct fsdp_state *, tree->state_count);
    for (size_t i = 0; i < tree->state_count; i++) {
        bool root = i == tree->wrapped.count;

        tree->states[i] = (struct fsdp_state){
            .fsdp = fsdp,
            .tree = tree,
            .path = root ? 0 : tree->wrapped.paths[i],
            .root = root,
            .shards = fsdp->shards,
            .rank = fsdp->rank,
        };
    }
    tree->outer_first[0] = root_of(tree);
    for (size_t i = 0; i < tree->wrapped.count; i++)
        tree->outer_first[i + 1] = &tree->states[tree->wrapped.outer_first[i]];
}

static void make_trees(struct fsdp *fsdp)
{
    struct run *run = fsdp->run;

    fsdp->tree_count = pipeline_stage_count(run);
    fsdp->trees = arena_array(run->arena, struct fsdp_tree, fsdp->tree_count);
    for (uint32_t i = 0; i < fsdp->tree_count; i++)
        make_tree(&fsdp->trees[i], fsdp, pipeline_stage_body(run, i));
}

static enum plm_status create(struct run *run, struct plm_error *reterr)
{
    const struct plm_parallel *parallel = &run->strategy->parallel;
    struct fsdp *fsdp = arena_new(run->arena, struct fsdp);
    struct mesh_place place = mesh_place(parallel, parallel->rank);
    bool hybrid = parallel->hsdp_shard > 0;

    *fsdp = (struct fsdp){
        .run = run,
        .shards = mesh_reduced(parallel, hybrid ? parallel->hsdp_shard : parallel->fsdp),
        .replicas = hybrid ? parallel->hsdp_replicate : 1,
        .param_dtype = reduced_dtype(parallel->param_dtype),
        .reduce_dtype = reduced_dtype(parallel->reduce_dtype),
        .offload = parallel->cpu_offload,
        .finalizes = run->pipeline != NULL,
    };
    fsdp->rank = (place.data * mesh_sizes(parallel).context + place.context) % fsdp->shards;
    enum plm_status status = check(fsdp, run->strategy, reterr);

    if (!status && parallel->tp > 0)
        status = wrapper_tensor_parallel.create(run, reterr);
    if (!status && parallel->ep > 1)
        status = expert_parallel_check(run, reterr);
    if (status)
        return status;
    make_trees(fsdp);
    resharding(fsdp, parallel);
    run->wrapper_state = fsdp;
    run->partial_norms = (fsdp->shards > 1 ? 1u : 0u) + (parallel->tp > 1 ? 1u : 0u);
    return PLM_OK;
}

/* ------------------------------------------------------------------ fully_shard() itself */

static int by_rank(const void *a, const void *b)
{
    const struct leaf *x = *(const struct leaf *const *)a, *y = *(const struct leaf *const *)b;

    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* share_experts() - the group of experts is sharded between the ranks that have the same, and always after the forward */
static void share_experts(struct fsdp_state *state)
{
    const struct plm_parallel *p = &state->fsdp->run->strategy->parallel;
    int64_t tensor = mesh_place(p, p->rank).tensor;

    state->shards = mesh_expert_shards(p);
    state->rank = (state->fsdp->rank * mesh_sizes(p).tensor + tensor) / p->ep;
    state->reshards = true;
    state->experts = true;
}

/* assign() - each parameter to its group, in the order of _get_managed_states(): children's first */
static void assign(struct fsdp *fsdp)
{
    struct run *run = fsdp->run;
    struct leaf **leaves = arena_array(run->arena, struct leaf *, run->param_count);
    size_t count = 0;

    for (size_t i = 0; i < run->param_count; i++)
        if (run->params[i].tensor)
            leaves[count++] = &run->leaves[i];
    qsort(leaves, count, sizeof *leaves, by_rank);
    for (size_t i = 0; i < count; i++) {
        struct fsdp_tree *tree = &fsdp->trees[leaves[i]->param->stage];
        struct fsdp_state *state =
            &tree->states[wrapped_of_module(&tree->wrapped, leaves[i]->module)];
        struct fsdp_param p = { .param = leaves[i]->param, .module = leaves[i]->module };

        if (p.param->buffer) {
            arena_push(run->arena, state->buffers, state->buffer_count, state->buffer_capacity,
                       (size_t)(p.param - run->params));
            continue;
        }
        arena_push(run->arena, state->params, state->param_count, state->param_capacity, p);
        if (p.param->experts)
            share_experts(state);
    }
}

/* shard() - _init_sharded_param(): a padded copy of this rank's rows; the whole is let go by the caller */
static struct tensor *shard(struct fsdp_state *state, struct fsdp_param *p)
{
    struct fsdp *fsdp = state->fsdp;
    struct ghost *g = &fsdp->run->ghost;
    struct param *param = p->param;
    int64_t sizes[TENSOR_DIMS], rows, strides[TENSOR_DIMS];

    if (param->dims == 0)
        return ghost_fail(g, PLM_E_USAGE, "fully_shard cannot shard '%s', which is a scalar",
                          names_text(g->names, param->name));
    memcpy(p->sizes, param->tensor->sizes, param->dims * sizeof *sizes);
    memcpy(sizes, p->sizes, param->dims * sizeof *sizes);
    rows = (int64_t)num_ceil_div((uint64_t)sizes[0], (uint64_t)state->shards);
    sizes[0] = rows;
    p->shard = tensor_new(g, param->dtype, param->dims, sizes);
    if (!p->shard)
        return NULL;
    p->padded = tensor_numel(p->shard);
    if (fsdp->offload) /* .cpu().pin_memory() */
        tensor_release_storage(p->shard);
    tensor_contiguous_strides(param->dims, sizes, strides);
    sizes[0] = p->sizes[0] - state->rank * rows;
    sizes[0] = sizes[0] < 0 ? 0 : sizes[0] > rows ? rows : sizes[0];
    struct tensor *sharded = tensor_view(p->shard, param->dims, sizes, strides);

    if (sharded) {
        sharded->view = false;
        sharded->requires_grad = param->tensor->requires_grad;
    }
    return sharded;
}

/* move_states() - _move_states_to_device(): what of the unit is on the host */
static void move_states(struct fsdp_state *state)
{
    struct run *run = state->fsdp->run;

    for (size_t i = 0; i < state->param_count; i++)
        params_move(run, (size_t)(state->params[i].param - run->params));
    for (size_t i = 0; i < state->buffer_count; i++)
        params_move(run, state->buffers[i]);
    run->ghost.category = CATEGORY_PARAMETER;
}

static void fully_shard(struct fsdp_state *state)
{
    struct run *run = state->fsdp->run;
    struct ghost *g = &run->ghost;
    size_t size = (state->param_count + 1) * sizeof(struct tensor *);
    struct tensor **sharded = pool_alloc(&g->pool, size);

    if (run->strategy->parallel.load == PLM_LOAD_HOST)
        move_states(state);
    for (size_t i = 0; i < state->param_count && !g->halt; i++) {
        g->path = state->params[i].module;
        sharded[i] = shard(state, &state->params[i]);
    }
    for (size_t i = 0; i < state->param_count && !g->halt; i++) {
        tensor_drop(state->params[i].param->tensor);
        state->params[i].param->tensor = sharded[i];
    }
    pool_free(&g->pool, sharded, size);
}

static struct fsdp_param *find_param(struct fsdp *fsdp, size_t number)
{
    struct run *run = fsdp->run;
    struct fsdp_tree *tree = &fsdp->trees[run->params[number].stage];
    struct fsdp_state *state =
        &tree->states[wrapped_of_module(&tree->wrapped, run->leaves[number].module)];

    for (size_t i = 0; i < state->param_count; i++)
        if (state->params[i].param == &run->params[number])
            return &state->params[i];
    return NULL;
}

/* make_empty() - torch.empty_like() of a shard, whose memory is swapped; of a rank that has less than others it is not padded yet */
static void make_empty(struct run *run, size_t number)
{
    struct fsdp *fsdp = run->wrapper_state;
    struct param *param = &run->params[number];
    struct fsdp_param *p = param->buffer ? NULL : find_param(fsdp, number);

    if (!param->tensor || (p && fsdp->offload))
        return;
    params_set_place(run, number);
    if (!p) {
        tensor_renew_storage(param->tensor);
    } else if (tensor_numel(param->tensor) == p->padded) {
        tensor_renew_storage(p->shard);
    } else {
        struct tensor *unpadded = tensor_like(&run->ghost, param->tensor, param->dtype);

        tensor_drop(p->unpadded);
        p->unpadded = unpadded;
    }
}

/* pad() - reset_sharded_param(), when a unit's _apply() is over */
static void pad(struct run *run, name_id module)
{
    struct fsdp_tree *tree = tree_of(run);
    struct fsdp_state *state = &tree->states[wrapped_of_module(&tree->wrapped, module)];

    if (state->path != module)
        return;
    for (size_t i = 0; i < state->param_count; i++) {
        struct fsdp_param *p = &state->params[i];

        if (!p->unpadded)
            continue;
        params_set_place(run, (size_t)(p->param - run->params));
        tensor_restore_storage(p->shard);
        tensor_drop(p->unpadded);
        p->unpadded = NULL;
    }
}

static void wrap(struct run *run)
{
    struct fsdp *fsdp = run->wrapper_state;
    struct ghost *g = &run->ghost;
    bool is_meta = run->strategy->parallel.load == PLM_LOAD_META;

    if (run->strategy->parallel.tp > 0) { /* a mesh of two dimensions: split first, then sharded */
        wrapper_tensor_parallel.wrap(run);
        run_mark(run, wrapper_tensor_parallel.mark, 0);
    }
    struct schedule *schedule = is_meta ? params_off_device(run) : g->schedule;

    g->at = (struct source){ 0 };
    if (run->strategy->parallel.ep > 1)
        expert_parallel_wrap(run);
    assign(fsdp);
    fsdp->last_named = wrapped_last_named(run);
    g->category = CATEGORY_PARAMETER;
    g->op = OP_COUNT;
    for (int experts = 1; experts >= 0; experts--) /* transformers wraps all experts first */
        for (size_t t = 0; t < fsdp->tree_count; t++)
            for (size_t i = 0; i < fsdp->trees[t].state_count; i++)
                if (fsdp->trees[t].states[i].experts == experts)
                    fully_shard(&fsdp->trees[t].states[i]);
    params_on_device(run, schedule);
    if (is_meta)
        modules_apply_all(run, make_empty, pad);
    g->category = CATEGORY_ACTIVATION;
    g->path = 0;
    if (fsdp->param_dtype != DTYPE_COUNT)
        g->precision = fsdp->param_dtype;
}

/* ------------------------------------------------------------------ forward */

/* replace_arg() - the module, and the frames that call it, have @x, taken over, in place of the argument */
static void replace_arg(struct ghost *g, struct wrapped_call *call, uint32_t i, struct tensor *x)
{
    value_set(g, &call->held[i], value_tensor(tensor_ref(x)));
    value_set(g, &call->args[i], value_tensor(x));
}

/* cast_inputs() - _cast_forward_inputs() */
static void cast_inputs(struct fsdp *fsdp, struct wrapped_call *call)
{
    if (fsdp->param_dtype == DTYPE_COUNT)
        return;
    for (uint32_t i = 0; i < call->step->in_count; i++) {
        struct tensor *x = call->args[i].kind == VALUE_TENSOR ? call->args[i].as.tensor : NULL;

        if (tensor_is_floating(x) && x->dtype != fsdp->param_dtype)
            replace_arg(&fsdp->run->ghost, call, i, autocast_to(x, fsdp->param_dtype));
    }
}

/* RegisterPostBackwardFunction: gradients pass through, then the group is told */
static void post_backward_apply(struct ghost *g,
                                struct node *n,
                                struct tensor *const *grads,
                                struct tensor **ret)
{
    fsdp_group_post_backward((struct fsdp_state *)(intptr_t)n->numbers[0]);
    for (uint32_t i = 0; i < n->edge_count; i++) {
        if (!node_needs(n, i))
            continue;
        const struct output *output = &n->outputs[i];

        ret[i] = grads[i] ? tensor_ref(grads[i])
                          : tensor_new(g, output->dtype, output->dims, output->sizes);
    }
}

static const struct backward post_backward = { "RegisterPostBackwardFunctionBackward",
                                               post_backward_apply };

/* register_post_backward() - a node around the arguments that want a gradient; objects such as a cache are not looked into */
static void register_post_backward(struct fsdp_state *state, struct wrapped_call *call)
{
    struct ghost *g = &state->fsdp->run->ghost;
    uint32_t in_count = call->step->in_count, count = 0;
    size_t size = (in_count + 1) * sizeof(struct tensor *);
    struct tensor **inputs = pool_alloc(&g->pool, size);

    for (uint32_t i = 0; i < in_count; i++)
        if (call->args[i].kind == VALUE_TENSOR && tensor_requires_grad(call->args[i].as.tensor))
            inputs[count++] = call->args[i].as.tensor;
    struct node *n = count ? node_new_outputs(g, &post_backward, inputs, count, 0, 1, count) : NULL;

    if (n)
        n->numbers[0] = (int64_t)(intptr_t)state;
    for (uint32_t i = 0, k = 0; i < in_count && n; i++) {
        struct tensor *x = call->args[i].kind == VALUE_TENSOR ? call->args[i].as.tensor : NULL;

        if (!tensor_requires_grad(x))
            continue;
        struct tensor *y = tensor_view(x, x->dims, x->sizes, x->strides);

        node_attach_output(n, k++, y);
        value_set(g, &call->args[i], value_tensor(y));
    }
    node_drop(n);
    pool_free(&g->pool, inputs, size);
}

static void before_forward(struct run *run, struct wrapped_call *call)
{
    struct fsdp_state *state = state_of_call(run, call);

    if (state->training == FSDP_PRE_BACKWARD) {
        /* a checkpoint runs the module again: the hook on its outputs has gathered the parameters */
        fsdp_unshard(state);
        fsdp_wait_for_unshard(state);
        cast_inputs(state->fsdp, call);
        return;
    }
    state->training = FSDP_FORWARD;
    cast_inputs(state->fsdp, call);
    state->group_training = FSDP_FORWARD;
    fsdp_unshard(state);
    fsdp_wait_for_unshard(state);
    if (state->param_count > 0)
        register_post_backward(state, call);
}

static void release_held(struct fsdp_tree *tree)
{
    tensor_drop(tree->held);
    tree->held = NULL;
}

static void before_module_backward(void *context, struct tensor *grad);

/* register_pre_backward() - a hook on each output that wants a gradient */
static void register_pre_backward(struct fsdp_state *state,
                                  const struct value *values,
                                  size_t count)
{
    for (size_t i = 0; i < count; i++)
        switch (values[i].kind) {
        case VALUE_TENSOR:
            if (tensor_requires_grad(values[i].as.tensor))
                autograd_hook(values[i].as.tensor, before_module_backward, state);
            break;
        case VALUE_RECORD:
            register_pre_backward(state, values[i].as.object->items, values[i].as.object->count);
            break;
        case VALUE_LIST:
        case VALUE_NONE:
            break;
        }
}

static void after_forward(struct run *run, struct wrapped_call *call)
{
    struct fsdp_state *state = state_of_call(run, call);
    struct fsdp_tree *tree = state->tree;

    if (state->training == FSDP_PRE_BACKWARD)
        return;
    if (!run->ghost.backward && state->param_count > 0) {
        fsdp_reshard(state);
        arena_push(run->arena, state->order, state->order_count, state->order_capacity,
                   tree->order_count);
        arena_push(run->arena, tree->order, tree->order_count, tree->order_capacity, state);
    }
    state->group_training = FSDP_IDLE;
    if (run->ghost.grad_enabled)
        register_pre_backward(state, call->ret, call->step->body->out_count);
    state->training = FSDP_IDLE;
    if (state->root)
        release_held(tree);
}

/* ------------------------------------------------------------------ backward */

static void finish_group(struct fsdp_state *state)
{
    if (state->group_training != FSDP_POST_BACKWARD)
        fsdp_group_post_backward(state);
    state->group_training = FSDP_IDLE;
    state->training = FSDP_IDLE;
}

/* end_iteration() - _end_backward_iteration(): what reductions and gathers still hold goes */
static void end_iteration(struct fsdp_tree *tree)
{
    for (size_t i = 0; i < tree->state_count; i++) {
        struct fsdp_state *state = &tree->states[i];

        tensor_drop(state->all_reduced);
        tensor_drop(state->gathered);
        state->all_reduced = state->gathered = NULL;
        state->gathering = false;
        state->order_count = 0;
    }
    release_held(tree);
    tree->order_count = 0;
    tensor_drop(tree->reduce_input);
    tree->reduce_input = NULL;
}

/* after_whole_backward() - _root_post_backward_final_callback(): the root comes first */
static void after_whole_backward(void *context)
{
    struct fsdp_tree *tree = context;

    for (size_t i = 0; i < tree->state_count; i++)
        finish_group(tree->outer_first[i]);
    tree->callback_queued = false;
    if (tree->fsdp->finalizes)
        release_held(tree);
    else
        end_iteration(tree);
}

/* before_module_backward() - _pre_backward(): the gradient of an output has come */
static void before_module_backward(void *context, struct tensor *grad)
{
    struct fsdp_state *state = context;
    struct fsdp_tree *tree = state->tree;

    (void)grad;
    state->training = FSDP_PRE_BACKWARD;
    if (!tree->callback_queued)
        autograd_queue_callback(&tree->fsdp->run->ghost, after_whole_backward, tree);
    tree->callback_queued = true;
    fsdp_group_pre_backward(state);
}

static void before_backward(struct run *run, uint32_t micro)
{
    struct fsdp_tree *tree = tree_of(run);

    tree->reduces = !tree->fsdp->finalizes && (!run->strategy->parallel.fsdp_no_sync ||
                                               micro + 1 >= (uint32_t)run->strategy->accumulate);
}

/* ------------------------------------------------------------------ a pipeline's stage, as a schedule treats it */

/* unshard_stage() - FSDPModule.unshard(async_op=True) of each module, the root first */
static void unshard_stage(struct run *run)
{
    struct fsdp_tree *tree = tree_of(run);

    for (size_t i = 0; i < tree->state_count; i++)
        fsdp_unshard(tree->outer_first[i]);
    tree->unsharding = true;
}

static void await_unshard(struct run *run)
{
    struct fsdp_tree *tree = tree_of(run);

    for (size_t i = 0; tree->unsharding && i < tree->state_count; i++)
        fsdp_wait_for_unshard(tree->outer_first[i]);
    tree->unsharding = false;
}

static void reshard_stage(struct run *run)
{
    struct fsdp_tree *tree = tree_of(run);

    for (size_t i = 0; !tree->finalized && i < tree->state_count; i++)
        fsdp_reshard(tree->outer_first[i]);
    tree->finalized = false;
}

/* reduce_stage() - set_requires_gradient_sync(True), set_reshard_after_backward(True), finalize_backward() */
static void reduce_stage(struct run *run)
{
    struct fsdp_tree *tree = tree_of(run);

    tree->reduces = tree->finalized = true;
    for (size_t i = tree->state_count; i-- > 0;) {
        struct fsdp_state *state = tree->outer_first[i];

        if (state->pending)
            fsdp_group_post_backward(state);
        else
            fsdp_reshard(state);
        state->group_training = FSDP_IDLE;
    }
}

static void await_reduction(struct run *run)
{
    end_iteration(tree_of(run));
}

static const struct stage_hooks stage_hooks = {
    .unshard = unshard_stage,
    .await_unshard = await_unshard,
    .reshard = reshard_stage,
    .reduce = reduce_stage,
    .await_reduction = await_reduction,
};

/* ------------------------------------------------------------------ the optimizer, on the host when offloaded */

static void before_step(struct run *run)
{
    struct fsdp *fsdp = run->wrapper_state;

    fsdp->schedule = run->ghost.schedule;
    if (fsdp->offload)
        run->ghost.schedule = NULL;
}

static void after_step(struct run *run)
{
    struct fsdp *fsdp = run->wrapper_state;

    run->ghost.schedule = fsdp->schedule;
}

const struct wrapper wrapper_fsdp = {
    .mark = "fsdp_wrap",
    .create = create,
    .wrap = wrap,
    .places = true,
    .before_forward = before_forward,
    .after_forward = after_forward,
    .before_backward = before_backward,
    .stage = &stage_hooks,
    .before_step = before_step,
    .after_step = after_step,
};
