/*
 * train/pipeline.c - pipeline parallelism: what is accepted, and a step of this rank
 *
 * The training script that it stands for, as torchtitan's: the step's whole batch is moved to the device of every rank, under autocast
 * the schedule runs all micro-batches (return_outputs=False), and clipping, optimizer and zero_grad follow as ever. A
 * weight that the first and the last stage tie is there on both; their gradients are summed in place.
 */
#include "train/pipeline.h"
#include "ghost/autocast.h"
#include "train/megatron_order.h"
#include "train/mesh.h"

enum { RANKS_MOST = 1024, MICROS_MOST = 65536, ACTIONS_MOST = 1 << 20 };

/* check_strategy() - what a pipeline is not run with */
static enum plm_status check_strategy(const struct plm_strategy *s, struct plm_error *reterr)
{
    const struct plm_parallel *p = &s->parallel;
    bool splits = p->schedule == PLM_SCHEDULE_ZERO_BUBBLE;

    if (p->pp > RANKS_MOST)
        return plm_fail(reterr, PLM_E_USAGE, "pp: at most %d stages", RANKS_MOST);
    if (s->eval)
        return plm_fail(reterr, PLM_E_USAGE, "pp: only training is modelled, not --eval");
    if (s->accumulate > 1)
        return plm_fail(reterr, PLM_E_USAGE,
                        "accumulate: a pipeline accumulates over its --microbatches");
    if (s->precision == PLM_PRECISION_AMP_FP16)
        return plm_fail(reterr, PLM_E_USAGE,
                        "pp: the schedule calls backward itself, so that GradScaler (amp-fp16) has "
                        "no loss to scale");
    if (s->keep_outputs || s->keep_outputs_in_step)
        return plm_fail(reterr, PLM_E_USAGE,
                        "keep-outputs: a pipeline's outputs are in its last stage alone");
    if (s->frozen)
        return plm_fail(reterr, PLM_E_USAGE, "frozen: not modelled with --pp");
    if (s->zero_grad_at == PLM_ZERO_GRAD_AT_BEFORE_BACKWARD)
        return plm_fail(
            reterr, PLM_E_USAGE,
            "zero-grad-at: a pipeline's schedule runs forward and backward in one call");
    if (p->fsdp1 > 0)
        return plm_fail(reterr, PLM_E_USAGE,
                        "fsdp1: with several micro-batches in flight it has let go of "
                        "parameters when a backward comes to them, and PyTorch fails; take "
                        "--fsdp");
    if ((p->fsdp > 0 || p->hsdp_shard > 0) && splits && p->reshard != PLM_RESHARD_FALSE)
        return plm_fail(reterr, PLM_E_USAGE,
                        "fsdp: zero-bubble looks for a stage's parameters before the backward "
                        "gathers them, and trains none that was sharded again after the forward; "
                        "add --reshard-after-forward false");
    if (p->fsdp_no_sync || (p->cpu_offload && p->fsdp > 0))
        return plm_fail(reterr, PLM_E_USAGE, "%s: not modelled with --pp",
                        p->fsdp_no_sync ? "fsdp-no-sync" : "fsdp-cpu-offload");
    if (p->data_parallel > 1)
        return plm_fail(reterr, PLM_E_USAGE, "data-parallel: one process cannot be a pipeline");
    if (p->ddp > 0 && p->find_unused_parameters)
        return plm_fail(reterr, PLM_E_USAGE, "find-unused-parameters: not modelled with --pp");
    if (p->ddp > 0 && splits)
        return plm_fail(
            reterr, PLM_E_USAGE,
            "ddp: zero-bubble makes the weights' gradients by autograd.grad, which calls "
            "no hook of DistributedDataParallel");
    if (p->megatron > 0 && (splits || p->schedule == PLM_SCHEDULE_GPIPE))
        return plm_fail(reterr, PLM_E_USAGE,
                        "schedule: Megatron has 1f1b and interleaved:V, and neither gpipe nor "
                        "zero-bubble; without --megatron they are torch.distributed.pipelining's");
    if (splits && s->checkpoint != PLM_CHECKPOINT_NONE)
        return plm_fail(reterr, PLM_E_USAGE,
                        "checkpoint: zero-bubble runs the backward in two halves, and each would "
                        "recompute; it is not modelled");
    return PLM_OK;
}

/* check_absent() - without a pipeline its options say nothing */
static enum plm_status check_absent(const struct plm_parallel *p, struct plm_error *reterr)
{
    if (p->pp == 1) /* so that pipelines of 1, 2, … ranks can be compared */
        return PLM_OK;
    if (p->microbatches > 1 || p->pp_split || p->schedule != PLM_SCHEDULE_1F1B)
        return plm_fail(reterr, PLM_E_USAGE, "%s: needs a pipeline of several stages, --pp N",
                        p->microbatches > 1 ? "microbatches"
                        : p->pp_split       ? "pp-split"
                                            : "schedule");
    return PLM_OK;
}

static enum plm_status set_shape(struct pipeline *p, struct plm_error *reterr)
{
    const struct plm_parallel *o = &p->run->strategy->parallel;
    bool looped =
        o->schedule == PLM_SCHEDULE_INTERLEAVED || o->schedule == PLM_SCHEDULE_ZERO_BUBBLE;
    int64_t local = looped && o->virtual_stages > 1 ? o->virtual_stages : 1;
    int64_t micros = o->microbatches > 0 ? o->microbatches : o->pp;

    if (local > RANKS_MOST)
        return plm_fail(reterr, PLM_E_USAGE, "schedule: at most %d stages on a rank", RANKS_MOST);
    if (micros > MICROS_MOST || o->microbatch_group > MICROS_MOST ||
        o->pp * local * micros > ACTIONS_MOST)
        return plm_fail(reterr, PLM_E_USAGE,
                        "microbatches: at most %d, and stages times micro-batches at most %d",
                        MICROS_MOST, ACTIONS_MOST);
    p->shape = (struct pipeline_shape){ .schedule = o->schedule,
                                        .ranks = (int32_t)o->pp,
                                        .local = (int32_t)local,
                                        .micros = (int32_t)micros,
                                        .group = (int32_t)o->microbatch_group };
    p->stage_count = (uint32_t)(o->pp * local);
    p->rank = (int32_t)mesh_place(o, o->rank).pipeline;
    return o->megatron > 0 ? megatron_order_check(&p->shape, reterr)
                           : pipeline_check(&p->shape, reterr);
}

enum plm_status pipeline_create(struct run *run, struct plm_error *reterr)
{
    struct pipeline *p = arena_new(run->arena, struct pipeline);
    enum plm_status status;

    if (run->strategy->parallel.pp <= 1)
        return check_absent(&run->strategy->parallel, reterr);
    p->run = run;
    status = check_strategy(run->strategy, reterr);
    if (status == PLM_OK)
        status = set_shape(p, reterr);
    if (status != PLM_OK)
        return status;
    if (run->strategy->parallel.megatron > 0)
        megatron_computes(&p->shape, p->rank, run->arena, &p->actions);
    else if (p->shape.schedule == PLM_SCHEDULE_GPIPE || p->shape.schedule == PLM_SCHEDULE_1F1B)
        pipeline_computes(&p->shape, p->rank, run->arena, &p->actions);
    else
        pipeline_lower(&p->shape, p->rank, run->arena, &p->actions);
    status = pipeline_cut(p, reterr);
    if (status != PLM_OK)
        return status;
    run->pipeline = p;
    /* Megatron moves each micro-batch by itself */
    run->batch_multiple = run->strategy->parallel.megatron > 0 ? 1 : p->shape.micros;
    return PLM_OK;
}

uint32_t pipeline_stage_count(const struct run *run)
{
    return run->pipeline ? (uint32_t)run->pipeline->shape.local : 1;
}

const struct graph_body *pipeline_stage_body(const struct run *run, uint32_t i)
{
    return run->pipeline ? run->pipeline->stages[i].call.body : run->graph->main;
}

bool pipeline_stage_has(const struct run *run, uint32_t i, size_t param)
{
    return !run->pipeline || run->pipeline->stages[i].has[param];
}

void pipeline_load(struct run *run)
{
    struct pipeline *p = run->pipeline;

    for (int32_t i = 0; p && i < p->shape.local; i++) {
        stage_prepare(p, &p->stages[i]);
        stage_weights(p, &p->stages[i]);
    }
}

/*
 * connect() - what the first step does before its first micro-batch: a vote on the stages' metadata, and a message to each neighbour
 *
 * (schedules.py, _initialize_pipeline_distributed_state; _p2p.py, _preconnect_shared_p2p_edges)
 */
static void connect(struct run *run)
{
    struct ghost *g = &run->ghost;

    g->category = CATEGORY_COMMUNICATION;
    TENSOR_AUTO *vote = tensor_new_sizes(g, DTYPE_INT32, 1);
    TENSOR_AUTO *synchronization = tensor_new_sizes(g, DTYPE_INT32, 1);
    TENSOR_AUTO *payload = tensor_new_sizes(g, DTYPE_INT32, 1);

    g->category = CATEGORY_ACTIVATION;
}

void pipeline_step(struct run *run)
{
    struct ghost *g = &run->ghost;
    enum dtype dtype = loop_autocast_dtype(run);

    script_enter(run->pipeline);
    if (run->step == 0)
        connect(run);
    if (dtype != DTYPE_COUNT)
        autocast_enter(g, dtype);
    pipeline_micro_steps(run->pipeline);
    if (dtype != DTYPE_COUNT)
        autocast_leave(g);
    script_leave(run->pipeline);
}

const char *pipeline_about(const struct run *run)
{
    return run->pipeline ? run->pipeline->about : NULL;
}
