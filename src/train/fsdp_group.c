/*
 * train/fsdp_group.c - the life of a group of parameters: gathered before use, sharded again after it, gradients reduced
 *
 * Mirrors torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py and _fsdp_param.py (2.15). One buffer of the forward's
 * gathers is kept until the next one is allocated (so that its copy-out may overlap with the next gather), and one input
 * of the backward's reductions until the next group's.
 */
#include "ghost/kernels.h"
#include "train/fsdp.h"

void fsdp_unshard(struct fsdp_state *state)
{
    struct fsdp *fsdp = state->fsdp;
    struct ghost *g = &fsdp->run->ghost;
    enum category category = g->category;
    name_id path = g->path;

    if (state->gathering || state->sharding == FSDP_UNSHARDED || state->param_count == 0)
        return;
    state->gathering = true;
    if (fsdp_world(state) == 1)
        return;
    g->category = CATEGORY_COMMUNICATION;
    g->path = state->path;
    state->gathered = fsdp_all_gather(state);
    g->category = category;
    g->path = path;
}

static void release_held(struct fsdp_tree *tree)
{
    tensor_drop(tree->held);
    tree->held = NULL;
}

void fsdp_wait_for_unshard(struct fsdp_state *state)
{
    struct fsdp *fsdp = state->fsdp;
    struct ghost *g = &fsdp->run->ghost;
    enum category category = g->category;
    name_id path = g->path;

    if (!state->gathering)
        return;
    if (state->group_training == FSDP_FORWARD)
        release_held(state->tree);
    g->category = CATEGORY_COMMUNICATION;
    fsdp_copy_out(state, state->gathered);
    g->category = category;
    g->path = path;
    for (size_t i = 0; i < state->param_count; i++) {
        tensor_drop(state->params[i].post_forward);
        state->params[i].post_forward = NULL;
    }
    state->sharding = FSDP_UNSHARDED;
    if (state->group_training == FSDP_FORWARD)
        state->tree->held = state->gathered;
    else
        tensor_drop(state->gathered);
    state->gathered = NULL;
    state->gathering = false;
}

/* to_post_forward() - to_sharded_post_forward(): a copy of the part of a smaller mesh, then the whole goes */
static void to_post_forward(struct fsdp_state *state)
{
    struct fsdp *fsdp = state->fsdp;
    struct ghost *g = &fsdp->run->ghost;
    enum category category = g->category;

    g->category = CATEGORY_PARAMETER;
    for (size_t i = 0; i < state->param_count && !g->halt; i++) {
        struct fsdp_param *p = &state->params[i];

        p->post_forward = tensor_new_sizes(g, p->output->dtype,
                                           tensor_numel(p->output) / fsdp->post_forward_shards);
        tensor_release_storage(p->output);
    }
    g->category = category;
    state->sharding = FSDP_SHARDED_POST_FORWARD;
}

void fsdp_reshard(struct fsdp_state *state)
{
    struct fsdp *fsdp = state->fsdp;

    if (state->param_count == 0)
        return;
    if (state->group_training == FSDP_FORWARD) {
        if (!state->reshards)
            return;
        if (fsdp->post_forward_shards != fsdp->shards) {
            to_post_forward(state);
            return;
        }
    }
    if (state->sharding == FSDP_SHARDED)
        return;
    for (size_t i = 0; i < state->param_count; i++) {
        tensor_release_storage(state->params[i].output);
        tensor_drop(state->params[i].post_forward);
        state->params[i].post_forward = NULL;
    }
    state->sharding = FSDP_SHARDED;
}

/*
 * defer_upcast() - _set_unsharded_grad_dtypes()
 *
 * A gradient narrower than the type of its reduction stays as autograd makes it, and the copy into the reduction's input
 * casts it. Only one that outlives its backward is cast by itself.
 */
static void defer_upcast(struct fsdp_state *state, bool defers)
{
    for (size_t i = 0; i < state->param_count; i++) {
        const struct fsdp_param *p = &state->params[i];
        struct tensor *leaf = p->param->used;
        enum dtype dtype = fsdp_grad_dtype(state, p);

        if (!leaf || !leaf->requires_grad ||
            dtype_defs[dtype].bytes <= dtype_defs[fsdp_gathered_dtype(state, p)].bytes)
            continue;
        if (defers) {
            if (leaf->grad || state->tree->reduces)
                autograd_grad_dtype(leaf, leaf->dtype);
            continue;
        }
        if (leaf->grad && leaf->grad->dtype != dtype) {
            struct tensor *narrow = leaf->grad;

            leaf->grad = kernel_cast(narrow, dtype);
            tensor_drop(narrow);
        }
        autograd_grad_dtype(leaf, dtype);
    }
}

/* prefetch() - _backward_prefetch(): gather what came before this group in the forward */
static void prefetch(struct fsdp_state *state)
{
    if (state->order_count == 0)
        return;
    size_t index = state->order[--state->order_count];

    if (index == 0)
        return;
    struct fsdp_state *target = state->tree->order[index - 1];
    enum fsdp_training outer = target->group_training;

    target->group_training = FSDP_PRE_BACKWARD;
    fsdp_unshard(target);
    target->group_training = outer;
}

void fsdp_group_pre_backward(struct fsdp_state *state)
{
    if (state->param_count == 0 || state->group_training == FSDP_PRE_BACKWARD)
        return;
    state->group_training = FSDP_PRE_BACKWARD;
    fsdp_unshard(state);
    fsdp_wait_for_unshard(state);
    defer_upcast(state, true);
    prefetch(state);
}

void fsdp_group_post_backward(struct fsdp_state *state)
{
    struct fsdp *fsdp = state->fsdp;
    struct ghost *g = &fsdp->run->ghost;
    enum category category = g->category;
    name_id path = g->path;
    size_t size = state->param_count * sizeof(struct tensor *), count = 0;

    if (state->param_count == 0)
        return;
    state->group_training = FSDP_POST_BACKWARD;
    state->pending = !state->tree->reduces;
    if (state->pending) {
        defer_upcast(state, false);
        if (!fsdp->finalizes)
            fsdp_reshard(state);
        return;
    }
    struct tensor **grads = pool_alloc(&g->pool, size);

    for (size_t i = 0; i < state->param_count; i++) {
        struct tensor *leaf = state->params[i].param->used;

        if (!leaf || !leaf->grad)
            continue;
        grads[i] = leaf->grad;
        leaf->grad = NULL;
        count++;
    }
    defer_upcast(state, false);
    fsdp_reshard(state);
    tensor_drop(state->tree->reduce_input);
    state->tree->reduce_input = NULL;
    if (count > 0) {
        tensor_drop(state->all_reduced);
        state->all_reduced = NULL;
        g->path = state->path;
        fsdp_reduce(state, grads);
        g->path = path;
        g->category = category;
    }
    pool_free(&g->pool, grads, size);
}
