/*
 * plan/simulate.c - from a model and a strategy to a replayed schedule
 *
 * Steps are run until reserved memory repeats: two steps in a row with the same peaks that end with the same memory
 * held. What comes after is the same again, since a ghost run's next step depends on nothing else. So it is with the
 * micro-batches of a step.
 */
#include "plan/simulate.h"
#include "base/buf.h"
#include "base/num.h"
#include "base/units.h"

enum {
    MICRO_BATCHES_TIGHT =
        16, /* of a step that is bisected for its smallest memory: all of as many */
    MICRO_BATCHES_MOST = 64, /* of a step: memory that has not repeated by then does not settle */
    STEPS_MOST = 1000,
};

/* Without a device, kernels are chosen as on an A100: compute capability 8.0, 108 multiprocessors of 2048 threads. */
static const struct surroundings without_device = {
    .cc = 80,
    .sm_count = 108,
    .threads_per_sm = 2048,
};

static enum plm_status set_framework(struct simulation *sim, struct plm_error *reterr)
{
    size_t count;
    const struct framework *all = framework_all(&count);
    const char *name = sim->strategy.framework ? sim->strategy.framework : all[0].name;
    struct buf known = { .arena = &sim->arena };

    sim->framework = framework_find(name);
    if (sim->framework)
        return PLM_OK;
    for (size_t i = 0; i < count; i++)
        buf_printf(&known, "%s%s", i == 0 ? "" : i + 1 < count ? ", " : " and ", all[i].name);
    return plm_fail(reterr, PLM_E_USAGE, "unknown framework '%s'; %s are known", name,
                    buf_string(&known));
}

static enum plm_status fail_outside(const struct simulation *sim, struct plm_error *reterr)
{
    char context[UNITS_TEXT], nccl[UNITS_TEXT], capacity[UNITS_TEXT];

    units_format_bytes(sim->context, context);
    units_format_bytes(sim->capacity, capacity);
    if (sim->nccl.usual == 0)
        return plm_fail(reterr, PLM_E_USAGE, "the context of %s leaves nothing of a capacity of %s",
                        context, capacity);
    return plm_fail(reterr, PLM_E_USAGE,
                    "the context of %s and NCCL's %s leave nothing of a capacity of %s", context,
                    units_format_bytes(sim->nccl.usual, nccl), capacity);
}

static enum plm_status set_surroundings(struct simulation *sim, struct plm_error *reterr)
{
    const struct plm_strategy *s = &sim->strategy;
    const struct framework *f = sim->framework;
    const struct plm_device *device = s->device;

    sim->around = without_device;
    if (device) {
        sim->around.cc = device->cc;
        sim->around.sm_count = device->sm_count;
        sim->around.threads_per_sm = device->threads_per_sm;
    }
    if (sim->around.cc < f->cc_least || sim->around.cc > f->cc_most)
        return plm_fail(
            reterr, PLM_E_USAGE,
            "%s has no kernels for device '%s': its compute capability is %d.%d, and %d.%d to "
            "%d.%d are supported",
            f->name, device ? device->name : "", sim->around.cc / 10, sim->around.cc % 10,
            f->cc_least / 10, f->cc_least % 10, f->cc_most / 10, f->cc_most % 10);
    sim->around.framework = f;
    sim->around.ghostgpu = s->assume_ghostgpu;
    sim->around.workspace_mode = s->cudnn_workspace == PLM_WORKSPACE_NONE    ? WORKSPACE_NONE
                                 : s->cudnn_workspace == PLM_WORKSPACE_BYTES ? WORKSPACE_BYTES
                                                                             : WORKSPACE_AUTO;
    sim->around.workspace_bytes = s->cudnn_workspace_bytes;
    sim->capacity = s->capacity ? s->capacity : device ? device->total : 0;
    sim->context = s->has_context ? s->context : device ? device->context : 0;
    sim->nccl = nccl_bytes(s);
    sim->has_device = sim->capacity > 0;
    if (sim->has_device && simulation_outside(sim) >= sim->capacity)
        return fail_outside(sim, reterr);
    return PLM_OK;
}

static enum plm_status set_memory(struct simulation *sim,
                                  plm_bytes capacity_cut,
                                  struct plm_error *reterr)
{
    const struct framework *f = sim->framework;
    struct memory_options *o = &sim->memory_options;
    plm_bytes usable = simulation_usable(sim);

    *o = (struct memory_options){
        .rules = {
            .order_by_address = f->order_by_address,
            .divisions_fill_from_last_key = f->divisions_from_last,
            .has_large_segment_size = f->has_large_segment,
            .has_process_fraction = f->has_large_segment,
            .has_expandable_reserve = !f->blas_cached,
        },
        .device_total = sim->capacity,
    };
    if (sim->has_device) {
        /* a capacity of 0 would mean none: the smallest that is one holds nothing */
        usable = usable > capacity_cut ? usable - capacity_cut : 0;
        o->capacity = usable >= MEMORY_PAGE ? usable / MEMORY_PAGE * MEMORY_PAGE : 1;
    }
    if (!sim->strategy.allocator)
        return PLM_OK;
    return memory_settings_parse(sim->strategy.allocator, &o->rules, &o->settings, reterr);
}

plm_bytes simulation_unknown_workspace(const struct simulation *sim)
{
    plm_bytes range;

    return bytes_mul(4, train_ghost(sim->run)->operands_most, &range) ? range : UINT64_MAX;
}

plm_bytes simulation_outside(const struct simulation *sim)
{
    return sim->context + sim->nccl.usual;
}

plm_bytes simulation_usable(const struct simulation *sim)
{
    return sim->has_device ? sim->capacity - simulation_outside(sim) : 0;
}

static enum plm_status build_graph(const struct subject *subject,
                                   struct simulation *sim,
                                   struct plm_error *reterr)
{
    const struct plm_strategy *s = &sim->strategy;
    size_t count = subject->setting_count + s->setting_count;
    struct model_setting *settings = arena_array(&sim->arena, struct model_setting, count);

    for (size_t i = 0; i < subject->setting_count; i++)
        settings[i] = subject->settings[i];
    for (size_t i = 0; i < s->setting_count; i++)
        settings[subject->setting_count + i] =
            (struct model_setting){ s->settings[i].name, s->settings[i].value };
    enum plm_status status =
        graph_build(subject->model,
                    &(struct graph_settings){
                        .settings = settings,
                        .setting_count = count,
                        .batch = s->batch,
                        .seq = s->seq,
                        .training = !s->eval,
                        .checkpointing = s->checkpoint != PLM_CHECKPOINT_NONE ||
                                         s->parallel.recompute != PLM_RECOMPUTE_NONE,
                        .autocast = s->precision == PLM_PRECISION_AMP_BF16 ||
                                    s->precision == PLM_PRECISION_AMP_FP16,
                        .half = s->precision == PLM_PRECISION_FP16,
                        .tp = s->parallel.tp,
                        .sequence_parallel = s->parallel.sequence_parallel,
                        .recompute_selective = s->parallel.recompute == PLM_RECOMPUTE_SELECTIVE,
                        .cp = s->parallel.cp,
                        .ep = s->parallel.ep,
                        .imbalance = s->parallel.moe_imbalance,
                        .capacity = s->parallel.moe_capacity_factor,
                        .pytorch = sim->framework->version,
                        .reads_zero = s->assume_ghostgpu,
                    },
                    &sim->arena, &sim->graph, reterr);

    if (status == PLM_OK)
        sim->names = *sim->graph->names; /* the run adds to them */
    return status;
}

/* repeats() - were the last phases the same as those before, as far as the allocator can tell? */
static bool repeats(const struct replay_phase *last,
                    const struct replay_phase *before,
                    size_t phases)
{
    for (size_t i = 0; i < phases; i++)
        if (last[i].peak.allocated != before[i].peak.allocated ||
            last[i].peak.reserved != before[i].peak.reserved ||
            last[i].end.reserved != before[i].end.reserved)
            return false;
    return true;
}

/* play_mark() - the events up to the next mark; remembers the state there. False when memory ran out */
static bool play_mark(struct simulation *sim)
{
    size_t mark = sim->replay.phase_count;

    if (!replay_run(&sim->replay, sim->schedule.marks[mark].event + 1))
        return false;
    struct mark_state state = { replay_fingerprint(&sim->replay),
                                memory_stats(sim->memory)->retries };

    arena_push(&sim->arena, sim->states, sim->state_count, sim->state_capacity, state);
    return true;
}

/* play_on() - the events that were added */
static bool play_on(struct simulation *sim)
{
    while (sim->replay.phase_count < sim->schedule.mark_count)
        if (!play_mark(sim))
            return false;
    return replay_run(&sim->replay, sim->schedule.event_count);
}

/*
 * micro_batch_period() - play the micro-batch that was just written: in what cycle do the next ones repeat?
 *
 * The allocator is in the same state as that many micro-batches ago. (A batch is moved to the device while the last one is there, so
 * that two places take turns.) When memory has run out there is nothing left to see.
 */
static unsigned micro_batch_period(void *user)
{
    struct simulation *sim = user;
    unsigned count = sim->micro_batches++;
    unsigned found = 0;

    if (!play_on(sim))
        return 1;
    uint64_t state = replay_fingerprint(&sim->replay);

    for (unsigned period = 1; !found && period <= SIMULATE_PERIOD_MOST && period <= count; period++)
        if (sim->micro_states[(count - period) % SIMULATE_PERIOD_MOST] == state)
            found = period;
    sim->micro_states[count % SIMULATE_PERIOD_MOST] = state;
    if (sim->strategy.minimum_capacity && count < MICRO_BATCHES_TIGHT)
        return 0; /* in less memory they may take longer to repeat */
    return count + 1 >= MICRO_BATCHES_MOST && !found ? 1 : found;
}

/*
 * play_again() - the same, for a step that makes the requests of the last one, which had @marks marks
 *
 * Once the allocator is in the state that it had at the same mark, all that follows is what followed then: the phases from
 * there on are those of the last step, and nothing needs to be played any more. (Retries would have to be counted, so
 * after one everything is played.)
 */
static bool play_again(struct simulation *sim, size_t marks)
{
    const struct schedule *schedule = &sim->schedule;
    struct replay *replay = &sim->replay;

    while (!sim->settled && replay->phase_count < schedule->mark_count) {
        size_t mark = replay->phase_count;
        const struct mark_state *before = &sim->states[mark - marks];

        if (!play_mark(sim))
            return false;
        sim->settled = sim->states[mark].fingerprint == before->fingerprint &&
                       sim->states[mark].retries == before->retries;
    }
    if (!sim->settled)
        return replay_run(replay, schedule->event_count);
    replay->phase_count--; /* the open one has only begun */
    for (size_t phase = replay->phase_count; phase < schedule->mark_count; phase++) {
        const struct replay_phase before = replay->phases[phase - marks];

        arena_push(replay->arena, replay->phases, replay->phase_count, replay->phase_capacity,
                   before);
    }
    replay->event = schedule->event_count;
    return true;
}

/* play() - load and steps, each replayed as soon as it is written; ends when memory does */
static enum plm_status play(struct simulation *sim, struct plm_error *reterr)
{
    int64_t asked = sim->strategy.steps;
    unsigned most = asked > 0 ? (unsigned)asked : SIMULATE_STEPS_MOST;
    enum plm_status status = train_load(sim->run, reterr);
    size_t marks_of_step = 0;

    if (status != PLM_OK)
        return status;
    sim->events_repeated = sim->schedule.event_count;
    if (!play_on(sim))
        return PLM_OK;
    train_watch(sim->run, micro_batch_period, sim);
    while (sim->steps < most) {
        size_t marks = sim->schedule.mark_count;

        sim->micro_batches = 0;
        status = train_step(sim->run, reterr);
        if (status != PLM_OK)
            return status;
        sim->steps++;
        if (!train_repeated(sim->run))
            sim->events_repeated = sim->schedule.event_count;
        if (sim->replay.out_of_memory ||
            !(train_repeated(sim->run) ? play_again(sim, marks_of_step) : play_on(sim)))
            return PLM_OK;
        size_t added = sim->schedule.mark_count - marks;
        const struct replay_phase *end = sim->replay.phases + sim->replay.phase_count - 1;

        /* the last phase is open until the next step: the one before it is the last of this step */
        if (asked == 0 && (sim->settled || (added == marks_of_step &&
                                            repeats(end - added, end - 2 * added, added))))
            break;
        marks_of_step = added;
    }
    return PLM_OK;
}

/*
 * check_strategy() - numbers that no run has
 *
 * Sizes are far below what 64 bits hold, so that their sums need no care.
 */
static enum plm_status check_strategy(const struct plm_strategy *s, struct plm_error *reterr)
{
    if (s->steps < 0 || s->steps > STEPS_MOST)
        return plm_fail(reterr, PLM_E_USAGE,
                        "steps: from 1 to %d; what comes after is the same again", STEPS_MOST);
    if (s->capacity > SIMULATE_BYTES_MOST)
        return plm_fail(reterr, PLM_E_USAGE, "capacity: no device has more than 1PiB");
    if (s->has_context && s->context > SIMULATE_BYTES_MOST)
        return plm_fail(reterr, PLM_E_USAGE, "context: no device has more than 1PiB");
    return PLM_OK;
}

/* check_addresses() - without a device, memory runs out only where addresses do */
static enum plm_status check_addresses(const struct simulation *sim, struct plm_error *reterr)
{
    if (!sim->replay.out_of_memory || sim->has_device)
        return PLM_OK;
    char request[UNITS_TEXT], reserved[UNITS_TEXT];

    return plm_fail(
        reterr, PLM_E_RANGE,
        "the run needs more memory than there are addresses: a request of %s comes when "
        "%s are reserved",
        units_format_bytes(memory_failure(sim->memory).requested, request),
        units_format_bytes(memory_stats(sim->memory)->now.reserved, reserved));
}

static enum plm_status run_all(const struct subject *subject,
                               struct simulation *sim,
                               plm_bytes capacity_cut,
                               struct plm_error *reterr)
{
    enum plm_status status = check_strategy(&sim->strategy, reterr);

    if (status == PLM_OK)
        status = set_framework(sim, reterr);
    if (status == PLM_OK)
        status = set_surroundings(sim, reterr);
    if (status == PLM_OK)
        workspaces_open(&sim->workspaces, subject->cudnn, &sim->around);
    if (status == PLM_OK)
        status = set_memory(sim, capacity_cut, reterr);
    if (status == PLM_OK)
        status = build_graph(subject, sim, reterr);
    if (status != PLM_OK)
        return status;
    sim->schedule.arena = &sim->arena;
    sim->schedule.keeps = true; /* chains are cuDNN's plans, which PyTorch keeps */
    status = train_create(sim->graph, &sim->strategy, &sim->around, &sim->names, &sim->schedule,
                          &sim->arena, &sim->run, reterr);
    if (status != PLM_OK)
        return status;
    sim->memory = memory_new(&sim->arena, &sim->memory_options);
    replay_start(&sim->replay, &sim->schedule, sim->memory, &sim->arena);
    status = play(sim, reterr);
    return status == PLM_OK ? check_addresses(sim, reterr) : status;
}

enum plm_status simulate_rank(const struct subject *subject,
                              const struct plm_strategy *strategy,
                              plm_bytes capacity_cut,
                              struct simulation *ret,
                              struct plm_error *reterr)
{
    *ret = (struct simulation){ .strategy = *strategy };
    enum plm_status status = run_all(subject, ret, capacity_cut, reterr);

    if (status != PLM_OK)
        simulation_finish(ret);
    return status;
}

enum plm_status simulation_graph(const struct subject *subject,
                                 const struct plm_strategy *strategy,
                                 struct simulation *ret,
                                 struct plm_error *reterr)
{
    *ret = (struct simulation){ .strategy = *strategy };
    enum plm_status status = set_framework(ret, reterr);

    if (status == PLM_OK)
        status = build_graph(subject, ret, reterr);
    if (status != PLM_OK)
        simulation_finish(ret);
    return status;
}

void simulation_finish(struct simulation *sim)
{
    arena_finish(&sim->arena);
}

size_t simulation_phase_count(const struct simulation *sim)
{
    size_t ended = sim->schedule.mark_count ? sim->schedule.mark_count - 1 : 0;

    return sim->replay.phase_count < ended ? sim->replay.phase_count : ended;
}

size_t simulation_phase_at(const struct simulation *sim, size_t event)
{
    size_t phase = 0;

    while (phase + 2 < sim->schedule.mark_count && sim->schedule.marks[phase + 1].event <= event)
        phase++;
    return phase;
}
