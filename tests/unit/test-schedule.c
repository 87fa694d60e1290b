/* unit/test-schedule.c - building schedules, and what schedule_check() refuses */
#include "support/test.h"

#include <string.h>

#include "schedule/schedule.h"

static struct arena arena;
static struct schedule schedule;

static int start(void **state)
{
    schedule = (struct schedule){ .arena = &arena };
    return 0;
}

static int finish(void **state)
{
    arena_finish(&arena);
    return 0;
}

static void is_accepted(void)
{
    struct plm_error error = { 0 };

    assert_int_equal(schedule_check(&schedule, &arena, &error), PLM_OK);
    assert_string_equal(error.message, "");
}

static void is_refused(const char *message)
{
    struct plm_error error = { 0 };

    assert_int_equal(schedule_check(&schedule, &arena, &error), PLM_E_RANGE);
    assert_string_equal(error.message, message);
}

static void allocations_count_up_from_1(void **state)
{
    assert_int_equal(schedule_alloc(&schedule, 512, 0), 1);
    assert_int_equal(schedule_alloc(&schedule, 7, 3), 2);
    schedule_free(&schedule, 1);
    assert_int_equal(schedule_alloc(&schedule, 512, 0), 3);
    assert_int_equal(schedule.event_count, 4);
    assert_int_equal(schedule.events[1].bytes, 7);
    assert_int_equal(schedule.events[1].stream, 3);
    is_accepted();
}

static void the_alternatives_of_a_chain_share_one_number(void **state)
{
    const plm_bytes bytes[] = { 4096, 1024, 0 };
    uint32_t allocation = schedule_alloc_chain(&schedule, bytes, 3, 0);

    assert_int_equal(schedule.event_count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(schedule.events[i].allocation, allocation);
        assert_int_equal(schedule.events[i].kind, i < 2 ? EVENT_TRY_ALLOC : EVENT_ALLOC);
    }
    schedule_free(&schedule, allocation);
    is_accepted();
}

static void a_mark_knows_its_event(void **state)
{
    schedule_alloc(&schedule, 1, 0);
    schedule_mark(&schedule, "fwd", 0, 0);
    schedule_mark(&schedule, "bwd", 0, 1);
    assert_int_equal(schedule.mark_count, 2);
    assert_int_equal(schedule.marks[1].event, 2);
    assert_int_equal(schedule.marks[1].micro, 1);
    assert_string_equal(schedule.marks[0].name, "fwd");
    is_accepted();
}

static void uses_and_empty_cache_are_events(void **state)
{
    uint32_t allocation = schedule_alloc(&schedule, 1, 0);

    schedule_use(&schedule, allocation, 2);
    schedule_empty(&schedule);
    schedule_free(&schedule, allocation);
    is_accepted();
}

static void a_second_release_is_refused(void **state)
{
    uint32_t allocation = schedule_alloc(&schedule, 1, 0);

    schedule_free(&schedule, allocation);
    schedule_free(&schedule, allocation);
    is_refused("event 2 releases allocation 1, which is not live");
}

static void a_use_after_release_is_refused(void **state)
{
    uint32_t allocation = schedule_alloc(&schedule, 1, 0);

    schedule_free(&schedule, allocation);
    schedule_use(&schedule, allocation, 1);
    is_refused("event 2 uses allocation 1, which is not live");
}

static void the_release_of_nothing_is_refused(void **state)
{
    schedule_free(&schedule, 0);
    is_refused("event 0 releases allocation 0, which is not live");
}

static void a_number_that_was_used_before_is_refused(void **state)
{
    schedule_alloc(&schedule, 1, 0);
    schedule_alloc(&schedule, 1, 0);
    schedule.events[1].allocation = 1;
    is_refused("event 1 makes allocation 1, but the next number is 2");
}

static void an_empty_allocation_is_refused_outside_of_a_chain(void **state)
{
    schedule_alloc(&schedule, 0, 0);
    is_refused("event 0 takes 0 bytes; only the end of a chain of tries may");
}

static void an_empty_try_is_refused(void **state)
{
    schedule_alloc_chain(&schedule, (plm_bytes[]){ 0, 5 }, 2, 0);
    is_refused("event 0 takes 0 bytes; only the end of a chain of tries may");
}

static void a_chain_must_not_be_interrupted(void **state)
{
    schedule_alloc_chain(&schedule, (plm_bytes[]){ 9, 5 }, 2, 0);
    schedule.events[1].kind = EVENT_EMPTY;
    is_refused("event 1 comes where a try for allocation 1 must go on");
}

static void a_chain_must_end(void **state)
{
    schedule_alloc_chain(&schedule, (plm_bytes[]){ 9, 5 }, 2, 0);
    schedule.event_count = 1;
    is_refused("the schedule ends within the tries for allocation 1");
}

static void a_mark_out_of_place_is_refused(void **state)
{
    schedule_mark(&schedule, "fwd", 0, 0);
    schedule.marks[0].event = 1;
    is_refused("event 0 is mark 0, which the table of marks has elsewhere");
}

static void a_mark_without_event_is_refused(void **state)
{
    schedule_mark(&schedule, "fwd", 0, 0);
    schedule.event_count = 0;
    is_refused("the events hold 0 allocations and 0 marks, not 0 and 1");
}

static void more_allocations_than_events_are_refused(void **state)
{
    schedule.allocation_count = UINT32_MAX;
    is_refused("4294967295 allocations cannot come from 0 events");
}

static void an_unknown_kind_is_refused(void **state)
{
    schedule_empty(&schedule);
    schedule.events[0].kind = 77;
    is_refused("event 0 is of unknown kind 77");
}

#define UNIT_TEST(name) cmocka_unit_test_setup_teardown(name, start, finish)

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT_TEST(allocations_count_up_from_1),
        UNIT_TEST(the_alternatives_of_a_chain_share_one_number),
        UNIT_TEST(a_mark_knows_its_event),
        UNIT_TEST(uses_and_empty_cache_are_events),
        UNIT_TEST(a_second_release_is_refused),
        UNIT_TEST(a_use_after_release_is_refused),
        UNIT_TEST(the_release_of_nothing_is_refused),
        UNIT_TEST(a_number_that_was_used_before_is_refused),
        UNIT_TEST(an_empty_allocation_is_refused_outside_of_a_chain),
        UNIT_TEST(an_empty_try_is_refused),
        UNIT_TEST(a_chain_must_not_be_interrupted),
        UNIT_TEST(a_chain_must_end),
        UNIT_TEST(a_mark_out_of_place_is_refused),
        UNIT_TEST(a_mark_without_event_is_refused),
        UNIT_TEST(more_allocations_than_events_are_refused),
        UNIT_TEST(an_unknown_kind_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
