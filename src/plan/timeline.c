/*
 * plan/timeline.c - the run event by event, played once more
 *
 * A life is one allocation: its size as requested and as the allocator gave it, its address in the allocator's model, its
 * birth and death as event numbers. Moments are the allocator's figures after each event.
 */
#include "plan/estimate.h"

struct recorder {
    struct simulation *sim;
    struct replay *replay;
    struct plm_moment *moments; /* [event_count] */
    struct plm_life *lives;
    uint32_t *life_of; /* by allocation, from 1 */
    size_t life_count;
    size_t phase;
};

static void record_birth(struct recorder *r, size_t event, uint32_t allocation)
{
    const struct ghost *g = train_ghost(r->sim->run);
    const struct record *record = &g->records[allocation];
    struct memory_block_view block = memory_block(r->sim->memory, r->replay->blocks[allocation]);
    size_t last = r->sim->schedule.mark_count - 1;

    while (r->phase < last && r->sim->schedule.marks[r->phase + 1].event <= event)
        r->phase++;
    r->lives[r->life_count++] = (struct plm_life){
        .requested = record->bytes,
        .bytes = block.bytes,
        .address = block.address,
        .born = (uint32_t)event,
        .died = UINT32_MAX,
        .category = category_name((enum category)record->category),
        .op = record_op_name(record),
        .block = names_text(&r->sim->names, record->path),
        .step = r->sim->schedule.marks[r->phase < last ? r->phase + 1 : last].step,
    };
    r->life_of[allocation] = (uint32_t)r->life_count;
}

static void observe(void *user, size_t event, const struct memory_stats *stats)
{
    struct recorder *r = user;
    const struct event *e = &r->sim->schedule.events[event];

    r->moments[event] = (struct plm_moment){ stats->now.allocated, stats->now.reserved };
    switch ((enum event_kind)e->kind) {
    case EVENT_ALLOC:
    case EVENT_TRY_ALLOC:
        if (r->replay->blocks[e->allocation])
            record_birth(r, event, e->allocation);
        break;
    case EVENT_FREE:
        if (r->life_of[e->allocation])
            r->lives[r->life_of[e->allocation] - 1].died = (uint32_t)event;
        break;
    case EVENT_USE:
    case EVENT_MARK:
    case EVENT_EMPTY:
        break;
    }
}

const struct plm_timeline *estimate_timeline(struct simulation *sim,
                                             const struct plm_result *result)
{
    struct arena *arena = &sim->arena;
    struct plm_timeline *timeline = arena_new(arena, struct plm_timeline);
    struct replay replay = { .observer = observe };
    uint32_t *phase_events = arena_array(arena, uint32_t, result->phase_count);
    struct recorder recorder = {
        .sim = sim,
        .replay = &replay,
        .moments = arena_array(arena, struct plm_moment, sim->schedule.event_count),
        .lives = arena_array(arena, struct plm_life, sim->schedule.allocation_count + 1),
        .life_of = arena_array(arena, uint32_t, sim->schedule.allocation_count + 1),
    };

    replay.user = &recorder;
    memory_reset(sim->memory, sim->memory_options.capacity, sim->memory_options.device_total);
    replay_start(&replay, &sim->schedule, sim->memory, arena);
    replay.observer = observe;
    replay.user = &recorder;
    /* running out of memory ends the timeline where it ended the run */
    bool finished = replay_run(&replay, sim->schedule.event_count);

    for (size_t i = 0; i < result->phase_count; i++)
        phase_events[i] = (uint32_t)sim->schedule.marks[i].event;
    *timeline = (struct plm_timeline){
        .lives = recorder.lives,
        .life_count = recorder.life_count,
        .moments = recorder.moments,
        .event_count = finished ? sim->schedule.event_count : replay.event,
        .phases = result->phases,
        .phase_events = phase_events,
        .phase_count = result->phase_count,
    };
    return timeline;
}
