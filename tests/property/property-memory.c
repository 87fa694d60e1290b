/*
 * property/property-memory.c - what holds for every schedule and every setting
 *
 * Seeded random schedules; a failure prints the seed. No two blocks overlap, blocks cover their segments, sums of blocks
 * are the statistics, allocated <= active <= reserved <= capacity, and the same input gives the same output, observed or not.
 */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>

#include "memory/capacity.h"
#include "memory/replay.h"

#define MIB (UINT64_C(1) << 20)

enum { EVENTS = 1500, SEEDS = 50, STREAMS = 3 };

static const char *const confs[] = {
    "",
    "expandable_segments:True",
    "max_split_size_mb:24",
    "max_split_size_mb:24,expandable_segments:True",
    "roundup_power2_divisions:4",
    "garbage_collection_threshold:0.5,per_process_memory_fraction:0.7",
    "large_segment_size_mb:21,expandable_segments:True",
    "expandable_segments:True,expandable_segments_reserve:0.1",
    "per_process_memory_fraction:0.6,expandable_segments:True",
    "throw_on_cudamalloc_oom:True",
    "backend:cudaMallocAsync",
};

enum { CONF_COUNT = sizeof confs / sizeof *confs };

/* struct chance - xorshift64*, so that every platform plays the same */
struct chance {
    uint64_t state;
};

static uint64_t draw(struct chance *chance, uint64_t below)
{
    chance->state ^= chance->state >> 12;
    chance->state ^= chance->state << 25;
    chance->state ^= chance->state >> 27;
    return (chance->state * UINT64_C(0x2545F4914F6CDD1D) >> 11) % below;
}

/* From bytes to some 60 MiB, each power of two equally likely. */
static plm_bytes draw_bytes(struct chance *chance)
{
    uint64_t log2 = draw(chance, 26);

    return (UINT64_C(1) << log2) + draw(chance, UINT64_C(1) << log2);
}

struct live {
    uint32_t allocations[EVENTS];
    size_t count;
};

static void add_event(struct schedule *schedule, struct live *live, struct chance *chance)
{
    uint64_t kind = draw(chance, 100);
    uint16_t stream = (uint16_t)(draw(chance, 4) == 0 ? draw(chance, STREAMS) : 0);
    size_t at = live->count > 0 ? draw(chance, live->count) : 0;

    if (kind < 6) {
        schedule_free(schedule, schedule_alloc(schedule, draw_bytes(chance), stream));
    } else if (kind < 50 || live->count == 0) {
        live->allocations[live->count++] = schedule_alloc(schedule, draw_bytes(chance), stream);
    } else if (kind < 54) {
        const plm_bytes tries[] = { draw_bytes(chance) * 8, draw_bytes(chance), 0 };

        live->allocations[live->count++] =
            schedule_alloc_chain(schedule, tries, 2 + draw(chance, 2), stream);
    } else if (kind < 58) {
        schedule_use(schedule, live->allocations[at], stream);
    } else if (kind == 58) {
        schedule_empty(schedule);
    } else if (kind == 59) {
        schedule_mark(schedule, "phase", 0, 0);
    } else {
        schedule_free(schedule, live->allocations[at]);
        live->allocations[at] = live->allocations[--live->count];
    }
}

static void make_schedule(struct schedule *schedule, struct arena *arena, uint64_t seed)
{
    struct chance chance = { seed * UINT64_C(0x9E3779B97F4A7C15) + 1 };
    struct live *live = arena_new(arena, struct live);
    struct plm_error error = { 0 };

    *schedule = (struct schedule){ .arena = arena };
    for (size_t i = 0; i < EVENTS; i++)
        add_event(schedule, live, &chance);
    if (schedule_check(schedule, arena, &error) != PLM_OK)
        fail_msg("seed %llu: %s", (unsigned long long)seed, error.message);
}

struct range {
    plm_bytes begin, end;
};

static int by_begin(const void *a, const void *b)
{
    const struct range *x = a, *y = b;

    return (x->begin > y->begin) - (x->begin < y->begin);
}

/* struct witness - sums over what the allocator shows */
struct witness {
    const struct memory *memory;
    struct arena *arena;
    plm_bytes capacity;
    struct memory_sizes sums;
    struct range *ranges;
    size_t range_count, range_capacity;
};

static void walk_segment(struct witness *witness, const struct memory_segment_view *segment)
{
    plm_bytes address = segment->address;
    enum memory_block_state before = MEMORY_BLOCK_LIVE;

    for (memory_block_id block = segment->first; block != 0;) {
        struct memory_block_view view = memory_block(witness->memory, block);
        bool is_live = view.state == MEMORY_BLOCK_LIVE;
        bool is_active = is_live || view.state == MEMORY_BLOCK_WAITING;

        assert_int_equal(view.address, address);
        assert_true(view.bytes > 0 && view.bytes % 512 == 0);
        assert_true(is_active ? view.requested > 0 && view.requested <= view.bytes
                              : view.requested == 0);
        assert_true(is_active || view.state != before); /* neighbours were merged */
        assert_true(segment->expandable || view.state != MEMORY_BLOCK_UNMAPPED);
        witness->sums.requested += view.requested;
        witness->sums.allocated += is_live ? view.bytes : 0;
        witness->sums.active += is_active ? view.bytes : 0;
        witness->sums.reserved += view.state != MEMORY_BLOCK_UNMAPPED ? view.bytes : 0;
        before = view.state;
        address += view.bytes;
        block = view.next;
    }
    assert_int_equal(address, segment->address + segment->bytes);
    arena_push(witness->arena, witness->ranges, witness->range_count, witness->range_capacity,
               (struct range){ segment->address, address });
}

static void check_memory(struct witness *witness)
{
    const struct memory_stats *stats = memory_stats(witness->memory);

    witness->sums = (struct memory_sizes){ 0 };
    witness->range_count = 0;
    for (uint32_t i = 1; i <= memory_segment_limit(witness->memory); i++) {
        struct memory_segment_view segment;

        if (memory_segment(witness->memory, i, &segment))
            walk_segment(witness, &segment);
    }
    if (witness->range_count > 0)
        qsort(witness->ranges, witness->range_count, sizeof *witness->ranges, by_begin);
    for (size_t i = 1; i < witness->range_count; i++)
        assert_true(witness->ranges[i - 1].end <= witness->ranges[i].begin);
    assert_memory_equal(&witness->sums, &stats->now, sizeof stats->now);
}

static void observe(void *user, size_t event, const struct memory_stats *stats)
{
    struct witness *witness = user;

    assert_true(stats->now.allocated <= stats->now.active);
    assert_true(stats->now.requested <= stats->now.active);
    assert_true(stats->now.active <= stats->now.reserved);
    assert_true(witness->capacity == 0 || stats->now.reserved <= witness->capacity);
    assert_true(stats->now.reserved <= stats->peak.reserved);
    if (event % 16 == 0)
        check_memory(witness);
}

static void prepare(struct memory_options *options, uint64_t seed, plm_bytes capacity)
{
    struct plm_error error = { 0 };

    *options = (struct memory_options){ .rules = memory_rules_newest };
    options->rules.order_by_address = seed % 3 == 0;
    options->events_lag = seed % 5 == 0 ? 3 : 0;
    options->capacity = capacity;
    options->device_total = capacity != 0 ? capacity + 100 * MIB : 0;
    if (memory_settings_parse(confs[seed % CONF_COUNT], &options->rules, &options->settings,
                              &error) != PLM_OK)
        fail_msg("%s", error.message);
}

/* What a replay came to, for comparing two. */
struct outcome {
    struct memory_sizes peak;
    struct memory_stats stats;
    size_t event, peak_event, tries_failed;
    uint64_t fingerprint;
};

static struct outcome play_with(struct replay *replay,
                                struct memory *memory,
                                const struct schedule *schedule,
                                struct arena *arena)
{
    struct outcome outcome = { 0 };

    replay_start(replay, schedule, memory, arena);
    outcome.event = replay_run(replay, schedule->event_count) ? SIZE_MAX : replay->event;
    outcome.peak = replay->peak;
    outcome.peak_event = replay->peak_event;
    outcome.stats = *memory_stats(memory);
    outcome.tries_failed = replay->tries_failed;
    outcome.fingerprint = memory_fingerprint(memory);
    return outcome;
}

static struct outcome play(struct memory *memory,
                           const struct schedule *schedule,
                           struct arena *arena,
                           plm_bytes capacity)
{
    struct witness witness = { .memory = memory, .arena = arena, .capacity = capacity };
    struct replay replay = { .observer = observe, .user = &witness };
    struct outcome outcome = play_with(&replay, memory, schedule, arena);

    check_memory(&witness);
    return outcome;
}

static void for_every_seed(void (*property)(uint64_t seed, struct schedule *, struct arena *))
{
    struct arena arena = { 0 };

    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct schedule schedule;

        printf("# seed %llu: '%s'\n", (unsigned long long)seed, confs[seed % CONF_COUNT]);
        make_schedule(&schedule, &arena, seed);
        property(seed, &schedule, &arena);
        arena_reset(&arena);
    }
    arena_finish(&arena);
}

static void play_twice(uint64_t seed, struct schedule *schedule, struct arena *arena)
{
    struct memory_options options;

    prepare(&options, seed, 0);
    struct memory *memory = memory_new(arena, &options);
    struct outcome free_run = play(memory, schedule, arena, 0);

    assert_int_equal(free_run.event, SIZE_MAX);
    assert_int_equal(free_run.stats.retries, 0);
    /* a half and three quarters of what it would take */
    for (int quarter = 2; quarter <= 4; quarter++) {
        plm_bytes capacity =
            free_run.peak.reserved * (uint64_t)quarter / 4 / MEMORY_PAGE * MEMORY_PAGE;

        prepare(&options, seed, capacity);
        struct outcome fresh = play(memory_new(arena, &options), schedule, arena, capacity);

        memory_reset(memory, capacity, options.device_total);
        struct outcome again = play(memory, schedule, arena, capacity);

        assert_memory_equal(&fresh, &again, sizeof fresh);

        memory_reset(memory, capacity, options.device_total);
        struct outcome unseen = play_with(&(struct replay){ 0 }, memory, schedule, arena);

        assert_memory_equal(&fresh, &unseen, sizeof fresh);
    }
}

static void blocks_add_up_and_a_reset_memory_is_as_new(void **state)
{
    for_every_seed(play_twice);
}

static void find_minimum(uint64_t seed, struct schedule *schedule, struct arena *arena)
{
    struct memory_options options;
    struct memory_minimum minimum = { 0 };

    prepare(&options, seed, 1000 * MIB);
    assert_true(memory_minimum_capacity(schedule, &options, arena, &minimum));
    assert_int_equal(minimum.capacity % MEMORY_PAGE, 0);
    assert_true(minimum.peak.reserved <= minimum.capacity);
    for (int less = 0; less <= 1; less++) {
        plm_bytes capacity = minimum.capacity - (plm_bytes)less * MEMORY_PAGE;

        prepare(&options, seed, capacity);
        struct outcome outcome = play(memory_new(arena, &options), schedule, arena, capacity);

        assert_int_equal(outcome.event == SIZE_MAX, !less);
    }
}

static void the_minimum_works_and_a_page_less_does_not(void **state)
{
    for_every_seed(find_minimum);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_add_up_and_a_reset_memory_is_as_new),
        cmocka_unit_test(the_minimum_works_and_a_page_less_does_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
