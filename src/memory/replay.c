/*
 * memory/replay.c - events in, peaks out
 *
 * Equations: replay.peak.x == max over all events of stats.now.x; replay.peak_event is the least event at which
 * stats.now.allocated == replay.peak.allocated.
 */
#include <assert.h>
#include <string.h>

#include "base/num.h"
#include "memory/replay.h"

void replay_start(struct replay *replay,
                  const struct schedule *schedule,
                  struct memory *memory,
                  struct arena *arena)
{
    *replay = (struct replay){
        .schedule = schedule,
        .memory = memory,
        .arena = arena,
        .observer = replay->observer,
        .user = replay->user,
        .phases = replay->phases,
        .phase_capacity = replay->phase_capacity,
        .blocks = replay->blocks,
        .block_capacity = replay->block_capacity,
        .kept = replay->kept,
        .kept_capacity = replay->kept_capacity,
    };
}

static struct memory_sizes larger(struct memory_sizes a, struct memory_sizes b)
{
    return (struct memory_sizes){
        .requested = num_max(a.requested, b.requested),
        .allocated = num_max(a.allocated, b.allocated),
        .active = num_max(a.active, b.active),
        .reserved = num_max(a.reserved, b.reserved),
    };
}

/* Bring the open phase and the whole up to date. */
static void take_stock(struct replay *replay)
{
    const struct memory_stats *stats = memory_stats(replay->memory);

    replay->peak = larger(replay->peak, stats->peak);
    if (replay->phase_count > 0)
        replay->phases[replay->phase_count - 1] =
            (struct replay_phase){ .end = stats->now, .peak = stats->peak };
}

static void start_phase(struct replay *replay)
{
    take_stock(replay);
    memory_reset_peaks(replay->memory);
    arena_push(replay->arena, replay->phases, replay->phase_count, replay->phase_capacity,
               (struct replay_phase){ 0 });
}

static void make_room(struct replay *replay)
{
    size_t count = (size_t)replay->schedule->allocation_count + 1;

    if (replay->block_count >= count)
        return;
    size_t more = count - replay->block_count;

    arena_reserve(replay->arena, replay->blocks, replay->block_count, replay->block_capacity, more);
    memset(&replay->blocks[replay->block_count], 0, more * sizeof *replay->blocks);
    replay->block_count = count;
}

/* The event after the chain that @event belongs to. */
static size_t chain_end(const struct schedule *schedule, size_t event)
{
    while (schedule->events[event].kind == EVENT_TRY_ALLOC)
        event++;
    return event + 1;
}

/* hash_chain() - of the bytes that the chain at @event asks for, FNV-1a */
static uint64_t hash_chain(const struct schedule *schedule, size_t event)
{
    size_t end = chain_end(schedule, event);
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (; event < end; event++)
        hash = (hash ^ schedule->events[event].bytes) * UINT64_C(0x100000001b3);
    return hash;
}

static struct replay_kept *find_kept(const struct replay *replay, uint64_t chain)
{
    for (size_t i = 0; i < replay->kept_count; i++)
        if (replay->kept[i].chain == chain)
            return &replay->kept[i];
    return NULL;
}

/* where_to_begin() - the offset of the try that worked last */
static uint32_t where_to_begin(const struct replay *replay, size_t event)
{
    if (replay->kept_count == 0 || replay->schedule->events[event].kind == EVENT_ALLOC)
        return 0;
    const struct replay_kept *kept = find_kept(replay, hash_chain(replay->schedule, event));

    return kept ? kept->offset : 0;
}

static void keep(struct replay *replay, size_t event, uint32_t offset)
{
    uint64_t chain = hash_chain(replay->schedule, event);
    struct replay_kept *kept = find_kept(replay, chain);

    if (kept)
        kept->offset = offset;
    else
        arena_push(replay->arena, replay->kept, replay->kept_count, replay->kept_capacity,
                   (struct replay_kept){ chain, offset });
}

/* Play an allocation and its alternatives. Returns the event to go on with, or 0 when none fits. */
static size_t play_alloc(struct replay *replay, size_t first)
{
    const struct schedule *schedule = replay->schedule;
    uint32_t begin = where_to_begin(replay, first);
    size_t event = first + begin;
    bool again = begin > 0; /* when the kept one fails, all are tried */

    for (;;) {
        const struct event *it = &schedule->events[event];
        memory_block_id block = 0;

        if (it->bytes == 0 || memory_alloc(replay->memory, it->bytes, it->stream, &block)) {
            if (schedule->keeps && event - first != begin)
                keep(replay, first, (uint32_t)(event - first));
            replay->blocks[it->allocation] = block;
            return chain_end(schedule, event);
        }
        replay->event = event;
        if (!again && it->kind == EVENT_ALLOC)
            return 0;
        replay->tries_failed++;
        event = again ? first : event + 1;
        again = false;
    }
}

static void play_free(struct replay *replay, uint32_t allocation)
{
    memory_block_id block = replay->blocks[allocation];

    replay->blocks[allocation] = 0;
    if (block != 0)
        memory_free(replay->memory, block);
}

/* Play one event. Returns the next, or 0 when it did not fit. */
static size_t play(struct replay *replay, size_t event)
{
    const struct event *it = &replay->schedule->events[event];

    switch ((enum event_kind)it->kind) {
    case EVENT_ALLOC:
    case EVENT_TRY_ALLOC:
        return play_alloc(replay, event);
    case EVENT_FREE:
        play_free(replay, it->allocation);
        break;
    case EVENT_USE:
        if (replay->blocks[it->allocation] != 0)
            memory_use(replay->memory, replay->blocks[it->allocation], it->stream);
        break;
    case EVENT_MARK:
        start_phase(replay);
        break;
    case EVENT_EMPTY:
        memory_empty(replay->memory);
        break;
    }
    return event + 1;
}

/* passes() - play the event and the next, when they are an allocation that is released at once and that is all there is to it */
static bool passes(struct replay *replay, size_t event, size_t event_end)
{
    const struct event *it = &replay->schedule->events[event];

    return event + 1 < event_end && it->kind == EVENT_ALLOC && it[1].kind == EVENT_FREE &&
           it[1].allocation == it->allocation && !replay->observer && it->bytes > 0 &&
           memory_pass(replay->memory, it->bytes, it->stream);
}

uint64_t replay_fingerprint(const struct replay *replay)
{
    uint64_t hash = memory_fingerprint(replay->memory);

    for (size_t i = 0; i < replay->kept_count; i++)
        hash = (hash ^ (replay->kept[i].chain + replay->kept[i].offset)) * UINT64_C(0x100000001b3);
    return hash;
}

bool replay_run(struct replay *replay, size_t event_end)
{
    const struct memory_stats *stats = memory_stats(replay->memory);
    plm_bytes peak = replay->peak.allocated;

    assert(event_end <= replay->schedule->event_count && !replay->out_of_memory);
    make_room(replay);
    while (replay->event < event_end) {
        bool pass = passes(replay, replay->event, event_end);
        size_t next = pass ? replay->event + 2 : play(replay, replay->event);

        if (next == 0) {
            replay->out_of_memory = true;
            break;
        }
        if (stats->peak.allocated > peak) {
            peak = stats->peak.allocated;
            replay->peak_event = next - 1 - pass;
        }
        if (replay->observer)
            replay->observer(replay->user, next - 1, stats);
        replay->event = next;
    }
    take_stock(replay);
    return !replay->out_of_memory;
}
