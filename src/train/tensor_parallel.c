/*
 * train/tensor_parallel.c - parallelize_module: linear layers whose weights are split over ranks
 *
 * Mirrors torch/distributed/tensor/parallel/style.py (2.15), ColwiseParallel and RowwiseParallel with their defaults, where
 * the model marks its layers (`tensor_parallel: column` or `row`). Weights become shards when the model is wrapped: a column
 * shard is one copied chunk; for a row shard every rank's chunk is made contiguous first. What happens in a forward and
 * backward is in ops/collective.c and dense.c.
 */
#include <string.h>

#include "train/wrapper.h"

const struct wrapper wrapper_tensor_parallel;

static enum plm_status create(struct run *run, struct plm_error *reterr)
{
    const struct plm_parallel *p = &run->strategy->parallel;
    bool any = false;

    for (size_t i = 0; i < run->param_count; i++) {
        any = any || run->params[i].shard != SHARD_NONE;
        if (run->params[i].shard != SHARD_NONE && run->params[i].on_device)
            return plm_fail(reterr, PLM_E_USAGE,
                            "tp: this model's layers are split as Megatron does; say over how many "
                            "replicas it trains, with --megatron N");
    }
    if (p->tp > 1 && !any)
        return plm_fail(reterr, PLM_E_USAGE,
                        "tp: the model marks no linear layer with 'tensor_parallel'");
    /* one foreach call over DTensors and plain tensors, which PyTorch refuses */
    if (p->fsdp == 0 && run->strategy->clip_grad_norm > 0)
        return plm_fail(
            reterr, PLM_E_USAGE,
            "tp: clip_grad_norm_ fails in PyTorch on a mix of split and whole parameters");
    if (p->fsdp == 0 && run->strategy->precision == PLM_PRECISION_AMP_FP16)
        return plm_fail(reterr, PLM_E_USAGE,
                        "tp: GradScaler fails in PyTorch on a mix of split and whole parameters; "
                        "amp-bf16 needs none");
    return PLM_OK;
}

/* shard() - the whole parameter goes to @wholes: named_parameters() holds a module's until all of them are split */
static void shard(struct run *run, struct param *p, struct list *wholes)
{
    struct ghost *g = &run->ghost;
    int64_t ranks = run->strategy->parallel.tp, sizes[8];
    unsigned dim = p->shard == SHARD_ROW;
    struct list chunks = { 0 };
    bool is_here = p->tensor && p->tensor->storage->allocation; /* or it comes for the while */
    TENSOR_AUTO *whole = is_here ? NULL : tensor_new(g, p->dtype, p->dims, p->sizes);

    memcpy(sizes, p->sizes, sizeof sizes);
    sizes[dim] /= ranks;
    for (int64_t i = 0; dim == 1 && i < ranks; i++)
        list_push(run, &chunks, tensor_new(g, p->dtype, p->dims, sizes));
    struct tensor *own = tensor_new(g, p->dtype, p->dims, sizes);

    list_drop(run, &chunks);
    if (own && p->tensor && p->tensor->requires_grad)
        autograd_leaf(own);
    list_push(run, wholes, p->tensor);
    p->tensor = own;
}

/* split() - parallelize_module() */
static void split(struct run *run)
{
    struct ghost *g = &run->ghost;
    struct list wholes = { 0 };

    for (size_t i = 0; i < run->param_count; i++) {
        struct param *p = &run->params[i];

        if (i > 0 && run->leaves[i].module != run->leaves[i - 1].module)
            list_drop(run, &wholes);
        g->category = CATEGORY_PARAMETER;
        g->path = run->leaves[i].module;
        if (p->shard != SHARD_NONE && !p->elsewhere && run->strategy->parallel.tp > 1)
            shard(run, p, &wholes);
    }
    list_drop(run, &wholes);
}

static void wrap(struct run *run)
{
    struct leaf **grouped = arena_array(run->arena, struct leaf *, run->trained_count);
    bool is_meta = run->strategy->parallel.load == PLM_LOAD_META;
    struct schedule *schedule = is_meta ? params_off_device(run) : run->ghost.schedule;
    size_t count = 0;

    split(run);
    params_on_device(run, schedule);
    if (run->wrapper == &wrapper_tensor_parallel) /* fully_shard() would do it otherwise */
        params_place(run);
    /* sharded and plain parameters are two groups of the optimizer: a foreach list cannot mix them */
    for (int plain = 0; plain < 2; plain++)
        for (size_t i = 0; i < run->trained_count; i++)
            if ((run->trained[i]->param->shard == SHARD_NONE) == plain)
                grouped[count++] = run->trained[i];
    run->trained = grouped;
    for (size_t i = 0; i < count && grouped[i]->param->shard != SHARD_NONE; i++)
        run->group_end = i + 1;
    run->ghost.path = 0;
}

const struct wrapper wrapper_tensor_parallel = {
    .mark = "tp_wrap",
    .create = create,
    .wrap = wrap,
    .places = true,
};
