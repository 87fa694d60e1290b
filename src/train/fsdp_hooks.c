/*
 * train/fsdp_hooks.c - what FSDP2 does around a module's forward and backward, and around a pipeline's stage
 *
 * Mirrors torch/distributed/fsdp/_fully_shard/_fsdp_state.py (2.15).
 */
#include "ghost/autocast.h"
#include "train/fsdp.h"

static struct fsdp_state *state_of_call(struct run *run, const struct wrapped_call *call)
{
    struct fsdp_tree *tree = fsdp_tree_of(run);

    return &tree->states[wrapped_of_call(&tree->wrapped, call)];
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

void fsdp_before_forward(struct run *run, struct wrapped_call *call)
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

void fsdp_after_forward(struct run *run, struct wrapped_call *call)
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

void fsdp_before_backward(struct run *run, uint32_t micro)
{
    struct fsdp_tree *tree = fsdp_tree_of(run);

    tree->reduces = !tree->fsdp->finalizes && (!run->strategy->parallel.fsdp_no_sync ||
                                               micro + 1 >= (uint32_t)run->strategy->accumulate);
}

/* ------------------------------------------------------------------ a pipeline's stage, as a schedule treats it */

/* unshard_stage() - FSDPModule.unshard(async_op=True) of each module, the root first */
static void unshard_stage(struct run *run)
{
    struct fsdp_tree *tree = fsdp_tree_of(run);

    for (size_t i = 0; i < tree->state_count; i++)
        fsdp_unshard(tree->outer_first[i]);
    tree->unsharding = true;
}

static void await_unshard(struct run *run)
{
    struct fsdp_tree *tree = fsdp_tree_of(run);

    for (size_t i = 0; tree->unsharding && i < tree->state_count; i++)
        fsdp_wait_for_unshard(tree->outer_first[i]);
    tree->unsharding = false;
}

static void reshard_stage(struct run *run)
{
    struct fsdp_tree *tree = fsdp_tree_of(run);

    for (size_t i = 0; !tree->finalized && i < tree->state_count; i++)
        fsdp_reshard(tree->outer_first[i]);
    tree->finalized = false;
}

/* reduce_stage() - set_requires_gradient_sync(True), set_reshard_after_backward(True), finalize_backward() */
static void reduce_stage(struct run *run)
{
    struct fsdp_tree *tree = fsdp_tree_of(run);

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
    end_iteration(fsdp_tree_of(run));
}

const struct stage_hooks fsdp_stage_hooks = {
    .unshard = unshard_stage,
    .await_unshard = await_unshard,
    .reshard = reshard_stage,
    .reduce = reduce_stage,
    .await_reduction = await_reduction,
};
