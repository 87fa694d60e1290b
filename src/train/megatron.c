/*
 * train/megatron.c - what Megatron-LM is run with, and its place among the wrappers
 *
 * The model's layers are Megatron's where the model file is made of them (`op: parallel_linear` and its like); any other model
 * trains with the same buffers and optimizer, as long as nothing of it is to be split.
 */
#include "train/megatron.h"
#include "ghost/autocast.h"
#include "train/pipeline.h"

static enum plm_status refuse(const char *option, const char *reason, struct plm_error *reterr)
{
    return plm_fail(reterr, PLM_E_USAGE, "%s: %s", option, reason);
}

/* check_script() - what Megatron's training loop leaves no room for */
static enum plm_status check_script(const struct plm_strategy *s, struct plm_error *reterr)
{
    if (s->eval)
        return refuse("megatron", "only training is modelled, not --eval", reterr);
    if (s->precision == PLM_PRECISION_AMP_BF16 || s->precision == PLM_PRECISION_AMP_FP16)
        return refuse("megatron",
                      "no autocast: --precision bf16 and fp16 have float32 copies in the optimizer",
                      reterr);
    if (s->checkpoint != PLM_CHECKPOINT_NONE)
        return refuse("checkpoint", "Megatron recomputes with --recompute selective or full",
                      reterr);
    if (s->frozen)
        return refuse("megatron", "--frozen is not modelled", reterr);
    if (s->zero_grad != PLM_ZERO_GRAD_SET_TO_NONE || s->zero_grad_at != PLM_ZERO_GRAD_AT_END)
        return refuse("megatron", "gradients are zeroed in their buffer, where a step begins",
                      reterr);
    if (s->keep_outputs || s->keep_outputs_in_step || s->channels_last)
        return refuse("megatron", "its script has no --keep-outputs and no --channels-last",
                      reterr);
    if (s->optimizer > PLM_OPTIMIZER_ADAMW_FUSED)
        return refuse("megatron",
                      "its optimizers are adam, adamw, adam-fused and adamw-fused (Transformer "
                      "Engine's), sgd and sgd-momentum",
                      reterr);
    return PLM_OK;
}

/* check_model() - are the layers that --tp splits Megatron's? */
static enum plm_status check_model(const struct run *run, struct plm_error *reterr)
{
    bool any = false;

    if (run->strategy->parallel.tp <= 1)
        return PLM_OK;
    for (size_t i = 0; i < run->param_count; i++) {
        const struct param *p = &run->params[i];

        if (p->shard != SHARD_NONE && !p->on_device)
            return refuse("tp",
                          "this model's layers are not Megatron's; without --megatron they are "
                          "split as DTensor does",
                          reterr);
        any = any || p->shard != SHARD_NONE;
    }
    return any ? PLM_OK : refuse("tp", "the model marks no layer with 'tensor_parallel'", reterr);
}

/* check_cuts() - recv_forward() and its like pass one tensor */
static enum plm_status check_cuts(const struct run *run, struct plm_error *reterr)
{
    const struct pipeline *p = run->pipeline;

    for (uint32_t i = 1; p && i < p->stage_count; i++)
        if (p->cuts[i].count != 1)
            return plm_fail(reterr, PLM_E_USAGE,
                            "pp: Megatron sends one tensor from stage to stage; this model has %zu "
                            "where it would be cut",
                            p->cuts[i].count);
    return PLM_OK;
}

/* check_mixture() - what MoELayer demands */
static enum plm_status check_mixture(const struct run *run, bool mixture, struct plm_error *reterr)
{
    const struct plm_parallel *p = &run->strategy->parallel;

    if (!mixture && p->ep > 1)
        return refuse("ep", "the model marks no parameter with 'expert_parallel'", reterr);
    if (!mixture && p->moe_capacity_factor > 0)
        return refuse("moe-capacity-factor", "the model has no experts", reterr);
    if (mixture && p->cp > 1)
        return refuse("cp", "with a mixture of experts of Megatron it is not modelled", reterr);
    if (mixture && p->tp > 1 && !p->sequence_parallel)
        return refuse("tp", "Megatron trains a mixture of experts with --sequence-parallel only",
                      reterr);
    return PLM_OK;
}

static enum plm_status create(struct run *run, struct plm_error *reterr)
{
    const struct plm_parallel *p = &run->strategy->parallel;
    enum plm_status status = check_script(run->strategy, reterr);

    if (!status)
        status = check_model(run, reterr);
    if (!status && p->sequence_parallel && p->tp <= 1)
        status = refuse("sequence-parallel", "needs several ranks of --tp", reterr);
    if (!status)
        status = check_cuts(run, reterr);
    bool mixture = false;

    for (size_t i = 0; i < run->param_count; i++)
        mixture = mixture || run->params[i].experts;
    if (!status)
        status = check_mixture(run, mixture, reterr);
    if (status)
        return status;
    struct megatron *m = arena_new(run->arena, struct megatron);

    m->mixture = mixture;

    if (run->pipeline)
        m->stage_inputs =
            arena_array(run->arena, struct tensor *, (size_t)run->pipeline->shape.local);
    run->wrapper_state = m;
    return PLM_OK;
}

static void wrap(struct run *run)
{
    megatron_buffers(run, run->wrapper_state);
}

static void before_optimizer(struct run *run)
{
    megatron_mains(run, run->wrapper_state);
}

/* ------------------------------------------------------------------ Float16Module */

/* stage_called() - whose module @call is, in a pipeline */
static const struct stage *stage_called(const struct run *run, const struct wrapped_call *call)
{
    const struct pipeline *p = run->pipeline;
    int32_t i = 0;

    while (p && i + 1 < p->shape.local && call->step != &p->stages[i].call)
        i++;
    return p ? &p->stages[i] : NULL;
}

bool megatron_is_given(const struct run *run, uint32_t i)
{
    const struct graph_body *main = run->graph->main;

    for (size_t k = 0; k < main->step_count; k++)
        if (main->steps[k].kind == STEP_CALL) {
            for (uint32_t n = 0; n < main->steps[k].in_count; n++)
                if (main->steps[k].in[n] == i)
                    return true;
            return false;
        }
    return false;
}

/* before_forward() - fp32_to_float16() of what the model is given; DistributedDataParallel.forward() holds that as it was */
static void before_forward(struct run *run, struct wrapped_call *call)
{
    const struct stage *stage = stage_called(run, call);
    enum dtype dtype = params_cast_dtype(run);

    if (!call->root || dtype == DTYPE_COUNT || (stage && stage->index > 0))
        return;
    for (uint32_t i = 0; i < call->step->in_count; i++) {
        struct value *arg = &call->args[i];

        if (stage && !megatron_is_given(run, i)) /* a stage's call has all of main's inputs */
            continue;
        if (arg->kind == VALUE_TENSOR && arg->as.tensor->dtype == DTYPE_FLOAT32)
            value_set(&run->ghost, arg, value_tensor(autocast_to(arg->as.tensor, dtype)));
    }
}

/* after_forward() - float16_to_fp32() of what it returns */
static void after_forward(struct run *run, struct wrapped_call *call)
{
    const struct stage *stage = stage_called(run, call);
    enum dtype dtype = params_cast_dtype(run);

    if (!call->root || dtype == DTYPE_COUNT || (stage && stage->out->count > 0))
        return;
    for (uint32_t i = 0; i < call->step->out_count; i++) {
        struct value *out = &call->ret[i];

        if (out->kind == VALUE_TENSOR && out->as.tensor->dtype == dtype)
            value_set(&run->ghost, out, value_tensor(autocast_to(out->as.tensor, DTYPE_FLOAT32)));
    }
}

const struct wrapper wrapper_megatron = {
    .mark = "ddp_wrap",
    .keeps_outputs = true,
    .create = create,
    .wrap = wrap,
    .before_optimizer = before_optimizer,
    .before_forward = before_forward,
    .after_forward = after_forward,
    .step = megatron_step,
};
