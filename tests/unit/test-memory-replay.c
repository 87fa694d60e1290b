/* unit/test-memory-replay.c - schedules through the allocator, and the smallest memory they need */
#include "support/test.h"

#include "memory/capacity.h"
#include "memory/replay.h"

#define MIB (UINT64_C(1) << 20)

static struct arena arena;
static struct schedule schedule;
static struct memory_options options;
static struct replay replay;

static int start(void **state)
{
    schedule = (struct schedule){ .arena = &arena };
    options = (struct memory_options){ .rules = memory_rules_newest };
    replay = (struct replay){ 0 };
    return 0;
}

static int finish(void **state)
{
    arena_finish(&arena);
    return 0;
}

static uint32_t take(plm_bytes bytes)
{
    return schedule_alloc(&schedule, bytes, 0);
}

static bool play(plm_bytes capacity)
{
    options.capacity = capacity;
    replay_start(&replay, &schedule, memory_new(&arena, &options), &arena);
    return replay_run(&replay, schedule.event_count);
}

static void the_peak_is_at_its_first_event(void **state)
{
    uint32_t first = take(10 * MIB);

    take(12 * MIB);
    schedule_free(&schedule, first);
    take(10 * MIB); /* as high again */
    assert_true(play(0));
    assert_int_equal(replay.peak.allocated, 22 * MIB);
    assert_int_equal(replay.peak.reserved, 22 * MIB);
    assert_int_equal(replay.peak_event, 1);
    assert_int_equal(replay.event, 4);
}

static void each_mark_starts_a_phase_at_what_is_held(void **state)
{
    take(10 * MIB);
    schedule_mark(&schedule, "fwd", 0, 0);
    uint32_t activation = take(30 * MIB);

    schedule_mark(&schedule, "bwd", 0, 0);
    schedule_free(&schedule, activation);
    schedule_mark(&schedule, "opt", 0, 0);
    assert_true(play(0));
    assert_int_equal(replay.phase_count, 3);
    assert_int_equal(replay.phases[0].end.allocated, 40 * MIB);
    assert_int_equal(replay.phases[0].peak.allocated, 40 * MIB);
    assert_int_equal(replay.phases[1].end.allocated, 10 * MIB);
    assert_int_equal(replay.phases[1].peak.allocated, 40 * MIB);
    assert_int_equal(replay.phases[2].peak.allocated, 10 * MIB);
    assert_int_equal(replay.phases[2].peak.reserved, 40 * MIB);
    assert_int_equal(replay.peak.allocated, 40 * MIB);
}

static void a_replay_goes_on_when_the_schedule_grows(void **state)
{
    schedule_mark(&schedule, "step 0", 0, 0);
    uint32_t first = take(10 * MIB);

    assert_true(play(0));
    schedule_free(&schedule, first);
    schedule_mark(&schedule, "step 1", 1, 0);
    for (int i = 0; i < 100; i++)
        take(MIB);
    assert_true(replay_run(&replay, schedule.event_count));
    assert_int_equal(replay.phases[0].end.allocated, 0);
    assert_int_equal(replay.phases[0].peak.allocated, 10 * MIB);
    assert_int_equal(replay.phases[1].end.allocated, 100 * MIB);
    assert_int_equal(replay.peak.allocated, 100 * MIB);
}

static void a_request_that_does_not_fit_ends_the_replay(void **state)
{
    take(10 * MIB);
    take(30 * MIB);
    take(1);
    assert_false(play(32 * MIB));
    assert_true(replay.out_of_memory);
    assert_int_equal(replay.event, 1);
    assert_int_equal(memory_failure(replay.memory).rounded, 30 * MIB);
    assert_int_equal(replay.peak.allocated, 10 * MIB);
}

static uint32_t take_with_fallback(void)
{
    return schedule_alloc_chain(&schedule, (plm_bytes[]){ 60 * MIB, 20 * MIB, 0 }, 3, 0);
}

static void the_first_try_that_fits_counts(void **state)
{
    schedule_free(&schedule, take_with_fallback());
    assert_true(play(64 * MIB));
    assert_int_equal(replay.peak.allocated, 60 * MIB);
    assert_int_equal(replay.tries_failed, 0);
    assert_true(play(32 * MIB));
    assert_int_equal(replay.peak.allocated, 20 * MIB);
    assert_int_equal(replay.tries_failed, 1);
    assert_true(play(2 * MIB));
    assert_int_equal(replay.peak.allocated, 0);
    assert_int_equal(replay.tries_failed, 2);
    assert_int_equal(memory_stats(replay.memory)->ooms, 2);
}

static void a_chain_that_fell_back_begins_there_from_then_on(void **state)
{
    uint32_t held = take(20 * MIB);

    schedule.keeps = true;
    schedule_free(&schedule, take_with_fallback());
    schedule_free(&schedule, held);
    schedule_free(&schedule, take_with_fallback()); /* 60 MiB would fit now */
    /* another chain */
    schedule_free(&schedule, schedule_alloc_chain(&schedule, (plm_bytes[]){ 50 * MIB, 0 }, 2, 0));
    assert_true(play(64 * MIB));
    assert_int_equal(replay.tries_failed, 1);
    assert_int_equal(replay.kept_count, 1);
    assert_int_equal(replay.peak.allocated, 50 * MIB);
}

static void a_chain_of_another_schedule_begins_anew(void **state)
{
    uint32_t held = take(20 * MIB);

    schedule_free(&schedule, take_with_fallback());
    schedule_free(&schedule, held);
    schedule_free(&schedule, take_with_fallback());
    assert_true(play(64 * MIB));
    assert_int_equal(replay.tries_failed, 1);
    assert_int_equal(replay.peak.allocated, 60 * MIB);
}

static void a_kept_try_that_fails_is_followed_by_all_tries(void **state)
{
    const plm_bytes tries[] = { 30 * MIB, 14 * MIB, 0 };
    uint32_t held = take(20 * MIB);

    schedule.keeps = true;
    schedule_free(&schedule, schedule_alloc_chain(&schedule, tries, 3, 0));
    schedule_free(&schedule, held);
    take(36 * MIB);
    size_t first = schedule.event_count;

    schedule_free(&schedule, schedule_alloc_chain(&schedule, tries, 3, 0));
    options.capacity = 40 * MIB;
    struct memory *memory = memory_new(&arena, &options);

    replay_start(&replay, &schedule, memory, &arena);
    assert_true(replay_run(&replay, first));
    assert_int_equal(replay.kept[0].offset, 1);
    assert_int_equal(replay.tries_failed, 1);
    /* with another one kept, what follows is played otherwise, in the same memory */
    uint64_t fingerprint = replay_fingerprint(&replay);

    replay.kept[0].offset = 2;
    assert_true(replay_fingerprint(&replay) != fingerprint);
    replay.kept[0].offset = 1;
    assert_true(replay_fingerprint(&replay) == fingerprint);
    assert_true(replay_run(&replay, schedule.event_count));
    assert_int_equal(replay.kept_count, 1);
    assert_int_equal(replay.kept[0].offset, 2);
    assert_int_equal(replay.tries_failed, 1 + 1 + 2);
}

static void a_chain_whose_end_does_not_fit_fails_there(void **state)
{
    schedule_alloc_chain(&schedule, (plm_bytes[]){ 60 * MIB, 20 * MIB }, 2, 0);
    assert_false(play(10 * MIB));
    assert_int_equal(replay.event, 1);
    assert_int_equal(replay.tries_failed, 1);
}

static void uses_and_empty_cache_reach_the_allocator(void **state)
{
    uint32_t used = take(10 * MIB);

    schedule_use(&schedule, used, 1);
    schedule_free(&schedule, used);
    assert_true(play(0));
    assert_int_equal(memory_stats(replay.memory)->now.active, 10 * MIB);
    schedule_empty(&schedule);
    assert_true(replay_run(&replay, schedule.event_count));
    assert_int_equal(memory_stats(replay.memory)->now.reserved, 0);
}

static void count(void *user, size_t event, const struct memory_stats *stats)
{
    size_t *sum = user;

    *sum += event + 1;
}

static void an_observer_sees_every_event_but_skipped_tries(void **state)
{
    size_t sum = 0;

    schedule_free(&schedule, take(MIB));
    take_with_fallback();
    replay = (struct replay){ .observer = count, .user = &sum };
    assert_true(play(0));
    assert_int_equal(sum, 1 + 2 + 5); /* a chain counts as its last event */
}

static struct memory_minimum minimum(void)
{
    struct memory_minimum found = { 0 };

    assert_true(memory_minimum_capacity(&schedule, &options, &arena, &found));
    assert_true(play(found.capacity));
    if (found.capacity > MEMORY_PAGE)
        assert_false(play(found.capacity - MEMORY_PAGE));
    return found;
}

static void the_minimum_is_less_than_the_peak_when_the_cache_can_go(void **state)
{
    schedule_free(&schedule, take(100 * MIB));
    schedule_free(&schedule, take(150 * MIB));
    struct memory_minimum found = minimum();

    assert_int_equal(found.peak_unconstrained, 250 * MIB);
    assert_int_equal(found.capacity, 150 * MIB);
    assert_int_equal(found.retries, 1);
    assert_int_equal(found.peak.reserved, 150 * MIB);
}

static void the_minimum_is_a_multiple_of_2_mib(void **state)
{
    take(MIB + 1); /* a segment of 20 MiB */
    take(513);
    assert_int_equal(minimum().capacity, 22 * MIB);
}

static void the_minimum_uses_fallbacks(void **state)
{
    schedule_free(&schedule, take_with_fallback());
    take(4 * MIB);
    assert_int_equal(minimum().capacity, 20 * MIB);
}

static void nothing_needs_one_page(void **state)
{
    assert_int_equal(minimum().capacity, MEMORY_PAGE);
}

static void the_minimum_respects_the_fraction(void **state)
{
    take(100 * MIB);
    options.settings.fraction = 0.5;
    options.capacity = 1000 * MIB;
    options.device_total = 1024 * MIB; /* 24 MiB for others */
    struct memory_minimum found = { 0 };

    assert_true(memory_minimum_capacity(&schedule, &options, &arena, &found));
    assert_int_equal(found.capacity, 176 * MIB); /* half of 200 */
}

static void an_absurd_request_has_no_minimum(void **state)
{
    take(UINT64_MAX);
    assert_false(
        memory_minimum_capacity(&schedule, &options, &arena, &(struct memory_minimum){ 0 }));
}

#define UNIT_TEST(name) cmocka_unit_test_setup_teardown(name, start, finish)

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT_TEST(the_peak_is_at_its_first_event),
        UNIT_TEST(each_mark_starts_a_phase_at_what_is_held),
        UNIT_TEST(a_replay_goes_on_when_the_schedule_grows),
        UNIT_TEST(a_request_that_does_not_fit_ends_the_replay),
        UNIT_TEST(the_first_try_that_fits_counts),
        UNIT_TEST(a_chain_that_fell_back_begins_there_from_then_on),
        UNIT_TEST(a_chain_of_another_schedule_begins_anew),
        UNIT_TEST(a_kept_try_that_fails_is_followed_by_all_tries),
        UNIT_TEST(a_chain_whose_end_does_not_fit_fails_there),
        UNIT_TEST(uses_and_empty_cache_reach_the_allocator),
        UNIT_TEST(an_observer_sees_every_event_but_skipped_tries),
        UNIT_TEST(the_minimum_is_less_than_the_peak_when_the_cache_can_go),
        UNIT_TEST(the_minimum_is_a_multiple_of_2_mib),
        UNIT_TEST(the_minimum_uses_fallbacks),
        UNIT_TEST(nothing_needs_one_page),
        UNIT_TEST(the_minimum_respects_the_fraction),
        UNIT_TEST(an_absurd_request_has_no_minimum),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
