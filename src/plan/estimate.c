/*
 * plan/estimate.c - what a simulation says, as a struct plm_result
 *
 *     requested <= allocated <= reserved,   device = reserved + context + nccl
 */
#include <string.h>

#include "base/buf.h"
#include "plan/estimate.h"

const char *phase_name(const char *mark)
{
    static const char *const names[][2] = {
        { "model_load", "load" },
        { "optimizer_init", "optimizer init" },
        { "fwd", "forward" },
        { "bwd", "backward" },
        { "opt", "optimizer" },
        { "end", "zero grad" },
        { "ddp_wrap", "wrap" },
        { "dp_wrap", "wrap" },
        { "fsdp_wrap", "wrap" },
        { "tp_wrap", "wrap" },
        { "deepspeed_init", "wrap" },
        { "bwd_input", "input backward" },
        { "bwd_weight", "weight backward" },
    };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i][0], mark) == 0)
            return names[i][1];
    return mark;
}

const char *record_op_name(const struct record *record)
{
    return record->op < OP_COUNT ? op_defs[record->op].name : "";
}

const char *estimate_chosen(const struct plm_strategy *chosen, struct arena *arena)
{
    struct buf text = { .arena = arena };

    if (chosen->checkpoint != PLM_CHECKPOINT_BLOCKS)
        return "none";
    buf_printf(&text, "blocks=%s", chosen->checkpoint_blocks);
    return buf_string(&text);
}

static struct plm_memory memory_of(const struct simulation *sim, const struct memory_sizes *sizes)
{
    return (struct plm_memory){
        .requested = sizes->requested,
        .allocated = sizes->allocated,
        .reserved = sizes->reserved,
        .device = sizes->reserved + simulation_outside(sim),
    };
}

/* mark_of_phase() - the mark that ends a phase; one that no mark ends (out of memory) has the last name that it could have */
static const struct mark *mark_of_phase(const struct simulation *sim, size_t phase)
{
    size_t last = sim->schedule.mark_count - 1;

    return &sim->schedule.marks[phase + 1 < last ? phase + 1 : last];
}

static void fill_phases(struct simulation *sim, struct plm_result *ret)
{
    size_t count = simulation_phase_count(sim);
    struct plm_phase *phases = arena_array(&sim->arena, struct plm_phase, count);
    struct plm_step_peak *steps = arena_array(&sim->arena, struct plm_step_peak, sim->steps);

    for (size_t i = 0; i < count; i++) {
        const struct mark *mark = mark_of_phase(sim, i);
        const struct replay_phase *phase = &sim->replay.phases[i];

        phases[i] = (struct plm_phase){
            .name = phase_name(mark->name),
            .step = mark->step,
            .micro = mark->micro,
            .peak = memory_of(sim, &phase->peak),
            .allocated_end = phase->end.allocated,
            .reserved_end = phase->end.reserved,
        };
        if (mark->step < 0 || (unsigned)mark->step >= sim->steps)
            continue;
        struct plm_step_peak *step = &steps[mark->step];

        if (phase->peak.allocated > step->allocated)
            step->allocated = phase->peak.allocated;
        if (phase->peak.reserved > step->reserved)
            step->reserved = phase->peak.reserved;
        if (phase->peak.requested > step->requested)
            step->requested = phase->peak.requested;
    }
    ret->phases = phases;
    ret->phase_count = count;
    ret->steps = steps;
    ret->step_count = sim->steps;
}

static void fill_place(struct simulation *sim, struct plm_result *ret)
{
    const struct ghost *g = train_ghost(sim->run);
    const struct mark *mark = mark_of_phase(sim, simulation_phase_at(sim, sim->replay.peak_event));
    const struct event *event = &sim->schedule.events[sim->replay.peak_event];
    bool allocates = event->kind == EVENT_ALLOC || event->kind == EVENT_TRY_ALLOC;
    const struct record *record = &g->records[allocates ? event->allocation : 0];

    ret->at.phase = phase_name(mark->name);
    ret->at.step = mark->step;
    ret->at.micro = mark->micro;
    ret->at.op = allocates ? record_op_name(record) : "";
    if (!*ret->at.op && strcmp(mark->name, "opt") == 0)
        ret->at.op = "optimizer.step";
    ret->at.block = allocates ? names_text(&sim->names, record->path) : "";
}

static void fill_failure(struct simulation *sim, struct plm_result *ret)
{
    const struct ghost *g = train_ghost(sim->run);
    const struct mark *mark = mark_of_phase(sim, simulation_phase_at(sim, sim->replay.event));
    const struct record *record = &g->records[sim->schedule.events[sim->replay.event].allocation];
    struct memory_failure failure = memory_failure(sim->memory);

    ret->out_of_memory = true;
    ret->failure.phase = phase_name(mark->name);
    ret->failure.step = mark->step;
    ret->failure.op = record_op_name(record);
    ret->failure.block = names_text(&sim->names, record->path);
    ret->failure.request = failure.requested;
    ret->failure.segment = failure.segment;
}

static void fill_parameters(struct simulation *sim, struct plm_result *ret)
{
    size_t count;
    const struct param *params = train_params(sim->run, &count);

    for (size_t i = 0; i < count; i++) {
        uint64_t numel = 1;

        if (params[i].buffer)
            continue;
        for (unsigned d = 0; d < params[i].dims; d++)
            numel *= (uint64_t)params[i].sizes[d];
        ret->parameters += numel;
        if (!params[i].frozen)
            ret->trainable_parameters += numel;
    }
}

static void fill_warnings(struct simulation *sim,
                          const char *const *warnings,
                          size_t warning_count,
                          struct plm_result *ret)
{
    size_t run_count;
    const char *const *of_run = train_warnings(sim->run, &run_count);
    const char **all = arena_array(&sim->arena, const char *, warning_count + run_count + 1);
    const char *of_workspaces = workspaces_warning(&sim->workspaces, &sim->arena);

    for (size_t i = 0; i < warning_count; i++)
        all[i] = warnings[i];
    for (size_t i = 0; i < run_count; i++)
        all[warning_count + i] = of_run[i];
    ret->warnings = all;
    ret->warning_count = warning_count + run_count;
    if (of_workspaces)
        all[ret->warning_count++] = of_workspaces;
}

void estimate_result(struct simulation *sim,
                     const char *const *warnings,
                     size_t warning_count,
                     struct plm_result *ret)
{
    const struct memory_stats *stats = memory_stats(sim->memory);
    const struct ghost *g = train_ghost(sim->run);

    *ret = (struct plm_result){
        .model = sim->graph->model_name,
        .framework = sim->framework->name,
        .allocator = sim->strategy.allocator ? sim->strategy.allocator : "",
        .batch = sim->graph->batch,
        .seq = sim->graph->seq * (sim->strategy.parallel.cp > 1 ? sim->strategy.parallel.cp : 1),
        .fits = sim->has_device ? !sim->replay.out_of_memory : -1,
        .peak = memory_of(sim, &sim->replay.peak),
        .capacity = sim->capacity,
        .context = sim->context,
        .nccl = sim->nccl.usual,
        .nccl_low = sim->nccl.low,
        .nccl_high = sim->nccl.high,
        .retries = stats->retries,
        .fallbacks = sim->replay.tries_failed,
        .ranks = sim->ranks,
        .rank_count = sim->rank_count,
        .rank_reason = sim->rank_reason,
        .device = sim->strategy.device,
        .workspace_unknown = g->unknown_workspaces > 0,
        .workspace_high = simulation_unknown_workspace(sim),
        .cudnn = {
            .library = sim->workspaces.asked ? cudnn_library_version(sim->workspaces.planner) : 0,
            .table = sim->workspaces.looked_up ? cudnn_table_version(sim->workspaces.planner) : 0,
            .asked = sim->workspaces.asked,
            .looked_up = sim->workspaces.looked_up,
            .unknown = g->unknown_workspaces,
            .blas = sim->workspaces.assumed,
            .blas_most = sim->workspaces.assumed_most,
            .left_out = sim->workspaces.left_out,
        },
    };
    fill_parameters(sim, ret);
    fill_phases(sim, ret);
    fill_place(sim, ret);
    fill_warnings(sim, warnings, warning_count, ret);
    if (sim->replay.out_of_memory)
        fill_failure(sim, ret);
    estimate_live(sim, ret);
    estimate_ledger(sim, ret);
    estimate_unverified(sim, ret);
    ret->advice = estimate_advice(sim, ret);
}
