/*
 * train/expert_parallel.c - expert parallelism: each rank has some of the experts, whole
 *
 * Mirrors transformers/distributed/expert_parallel.py (5.24), MoEParamShard: of each parameter that a model marks with
 * `expert_parallel: true` a rank keeps a copy of its own part of the first dimension. What happens in a forward is in the model's file.
 */
#include "train/fsdp.h"
#include "train/pipeline.h"

enum plm_status expert_parallel_check(struct run *run, struct plm_error *reterr)
{
    const struct plm_strategy *s = run->strategy;

    if (s->parallel.ep == s->parallel.tp &&
        (s->eval || (s->checkpoint != PLM_CHECKPOINT_NONE && s->checkpoint_reentrant)))
        return plm_fail(reterr, PLM_E_USAGE,
                        "ep: where no gradient is wanted and --ep and --tp have the same ranks, "
                        "transformers sums outputs in place of sending rows (AllReduceEP), which "
                        "is not modelled");
    for (size_t i = 0; i < run->param_count; i++)
        if (run->params[i].experts)
            return PLM_OK;
    return plm_fail(reterr, PLM_E_USAGE, "ep: the model marks no parameter with 'expert_parallel'");
}

/* share_out() - the experts of the model, or of a stage of a pipeline */
static void share_out(struct run *run, uint32_t stage)
{
    struct ghost *g = &run->ghost;
    struct list wholes = { 0 }; /* named_parameters() holds them until all are shared out */

    g->category = CATEGORY_PARAMETER;
    for (size_t i = 0; i < run->param_count; i++) {
        struct param *p = &run->params[i];

        if (!p->experts || !p->tensor || p->stage != stage)
            continue;
        g->path = run->leaves[i].module;
        bool is_here = p->tensor->storage->allocation != 0; /* or it comes for the while */
        TENSOR_AUTO *whole = is_here ? NULL : tensor_new(g, p->dtype, p->dims, p->sizes);
        struct tensor *own = param_shard(run, p, p->dtype);

        if (own && p->tensor->requires_grad)
            autograd_leaf(own);
        list_push(run, &wholes, p->tensor);
        p->tensor = own;
    }
    for (size_t i = 0; i < wholes.count; i++) { /* a dictionary lets go of the first first */
        tensor_drop(wholes.items[i]);
        wholes.items[i] = NULL;
    }
    list_drop(run, &wholes);
    g->path = 0;
}

void expert_parallel_wrap(struct run *run)
{
    for (uint32_t i = 0; i < pipeline_stage_count(run); i++)
        share_out(run, i);
}
