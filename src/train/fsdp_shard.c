/*
 * train/fsdp_shard.c - fully_shard() itself: which modules it is called on, and the sharding of their parameters
 *
 * Mirrors torch/distributed/fsdp/_fully_shard/_fsdp_init.py and FSDPParam of _fsdp_param.py (2.15).
 */
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "train/fsdp.h"
#include "train/mesh.h"
#include "train/modules.h"
#include "train/pipeline.h"

extern const struct wrapper wrapper_tensor_parallel; /* tensor_parallel.c */

/* ------------------------------------------------------------------ which modules */

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
    tree->outer_first[0] = &tree->states[tree->state_count - 1];
    for (size_t i = 0; i < tree->wrapped.count; i++)
        tree->outer_first[i + 1] = &tree->states[tree->wrapped.outer_first[i]];
}

void fsdp_make_trees(struct fsdp *fsdp)
{
    struct run *run = fsdp->run;

    fsdp->tree_count = pipeline_stage_count(run);
    fsdp->trees = arena_array(run->arena, struct fsdp_tree, fsdp->tree_count);
    for (uint32_t i = 0; i < fsdp->tree_count; i++)
        make_tree(&fsdp->trees[i], fsdp, pipeline_stage_body(run, i));
}

/* ------------------------------------------------------------------ their parameters */

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
        if (p.param->experts && run->strategy->parallel.ep > 1)
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
    struct fsdp_tree *tree = fsdp_tree_of(run);
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

void fsdp_wrap(struct run *run)
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
