/*
 * train/fsdp.c - fully_shard (FSDP2) as a wrapper: the strategy, and the optimizer that may run on the host
 *
 * Mirrors torch/distributed/fsdp/_fully_shard (2.15). fully_shard() is called on each unit marked `wrap: true`, then on the
 * model (fsdp_shard.c). Before a module's forward its parameters are gathered, after it they are sharded again (the root's are
 * not, unless asked for); a hook on its outputs gathers them for the backward, and a node around its inputs reduces the
 * gradients when the backward has passed through. What no such node reaches is reduced when the backward ends (fsdp_hooks.c).
 */
#include "train/fsdp.h"
#include "train/mesh.h"

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

static enum plm_status create(struct run *run, struct plm_error *reterr)
{
    const struct plm_parallel *parallel = &run->strategy->parallel;
    struct fsdp *fsdp = arena_new(run->arena, struct fsdp);
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
    fsdp->rank = mesh_reduced_place(parallel) % fsdp->shards;
    enum plm_status status = check(fsdp, run->strategy, reterr);

    if (!status && parallel->tp > 0)
        status = wrapper_tensor_parallel.create(run, reterr);
    if (!status && parallel->ep > 1)
        status = expert_parallel_check(run, reterr);
    if (status)
        return status;
    fsdp_make_trees(fsdp);
    resharding(fsdp, parallel);
    run->wrapper_state = fsdp;
    run->partial_norms = (fsdp->shards > 1 ? 1u : 0u) + (parallel->tp > 1 ? 1u : 0u);
    return PLM_OK;
}

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
    .wrap = fsdp_wrap,
    .places = true,
    .before_forward = fsdp_before_forward,
    .after_forward = fsdp_after_forward,
    .before_backward = fsdp_before_backward,
    .stage = &fsdp_stage_hooks,
    .before_step = before_step,
    .after_step = after_step,
};
