/*
 * unit/test-memory.c - the allocator's rules, one by one
 *
 * Whole runs are held against recordings in tests/replay; here each rule stands alone, with PyTorch's numbers.
 */
#include "support/test.h"

#include "memory/memory.h"

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

static struct arena arena;
static struct memory_options options;
static struct memory *memory;

static int start(void **state)
{
    options = (struct memory_options){ .rules = memory_rules_newest };
    memory = memory_new(&arena, &options);
    return 0;
}

static int finish(void **state)
{
    arena_finish(&arena);
    return 0;
}

/* An allocator with other settings than start()'s. */
static void use(const char *conf)
{
    struct plm_error error = { 0 };

    if (memory_settings_parse(conf, &options.rules, &options.settings, &error) != PLM_OK)
        fail_msg("%s", error.message);
    memory = memory_new(&arena, &options);
}

static memory_block_id take_on(plm_bytes bytes, uint16_t stream)
{
    memory_block_id block = 0;

    assert_true(memory_alloc(memory, bytes, stream, &block));
    assert_int_not_equal(block, 0);
    return block;
}

static memory_block_id take(plm_bytes bytes)
{
    return take_on(bytes, 0);
}

static void does_not_fit(plm_bytes bytes)
{
    memory_block_id block = 77;

    assert_false(memory_alloc(memory, bytes, 0, &block));
    assert_int_equal(block, 77);
}

static plm_bytes size_of(memory_block_id block)
{
    return memory_block(memory, block).bytes;
}

static plm_bytes address_of(memory_block_id block)
{
    return memory_block(memory, block).address;
}

static plm_bytes reserved(void)
{
    return memory_stats(memory)->now.reserved;
}

static plm_bytes allocated(void)
{
    return memory_stats(memory)->now.allocated;
}

static void sizes_are_rounded_to_512_bytes(void **state)
{
    assert_int_equal(size_of(take(1)), 512);
    assert_int_equal(size_of(take(512)), 512);
    assert_int_equal(size_of(take(513)), 1024);
    assert_int_equal(allocated(), 2048);
    assert_int_equal(memory_stats(memory)->now.requested, 1 + 512 + 513);
}

static void up_to_1_mib_share_segments_of_2_mib(void **state)
{
    take(MIB);
    take(MIB);
    assert_int_equal(reserved(), 2 * MIB);
    take(1);
    assert_int_equal(reserved(), 4 * MIB);
}

static void below_10_mib_a_segment_has_20(void **state)
{
    take(MIB + 1);
    assert_int_equal(reserved(), 20 * MIB);
    take(10 * MIB - 512);
    assert_int_equal(reserved(), 20 * MIB);
}

static void from_10_mib_on_a_segment_is_rounded_to_2(void **state)
{
    take(10 * MIB);
    assert_int_equal(reserved(), 10 * MIB);
    take(10 * MIB + 1);
    assert_int_equal(reserved(), 22 * MIB);
}

static void small_and_large_requests_never_share(void **state)
{
    memory_free(memory, take(10 * MIB));
    take(MIB);
    assert_int_equal(reserved(), 12 * MIB);
}

static void a_large_block_is_given_whole_when_1_mib_or_less_is_left(void **state)
{
    /* 12 MiB segments */
    assert_int_equal(size_of(take(11 * MIB)), 12 * MIB);
    assert_int_equal(size_of(take(11 * MIB - 512)), 11 * MIB - 512);
    assert_int_equal(memory_stats(memory)->now.requested, 22 * MIB - 512);
    assert_int_equal(allocated(), 23 * MIB - 512);
}

static void a_small_block_is_split_to_the_last_512_bytes(void **state)
{
    memory_block_id block = take(MIB - 512);

    take(MIB);
    assert_int_equal(size_of(block), MIB - 512);
    take(512);
    assert_int_equal(reserved(), 2 * MIB);
}

static void the_smallest_free_block_that_fits_is_taken(void **state)
{
    memory_block_id large = take(64 * KIB), wall = take(512), small = take(8 * KIB);

    take(512);
    plm_bytes address = address_of(small);

    memory_free(memory, large);
    memory_free(memory, small);
    assert_int_equal(address_of(take(8 * KIB)), address);
    memory_free(memory, wall);
}

static void frees_merge_with_both_neighbours(void **state)
{
    memory_block_id left = take(4 * KIB), middle = take(4 * KIB), right = take(4 * KIB);
    plm_bytes address = address_of(left);

    take(2 * MIB - 1024 * KIB - 12 * KIB);
    take(1012 * KIB); /* the segment is full now up to 12 KiB */
    memory_free(memory, left);
    memory_free(memory, right);
    memory_free(memory, middle);
    assert_int_equal(address_of(take(12 * KIB)), address);
}

/* Two free blocks of one size, the older segment at the higher address. */
static void make_equal_blocks(plm_bytes addresses[2])
{
    memory_block_id blocks[2] = { take(MIB), 0 };

    take(MIB);
    blocks[1] = take(MIB);
    take(MIB);
    for (size_t i = 0; i < 2; i++) {
        addresses[i] = address_of(blocks[i]);
        memory_free(memory, blocks[i]);
    }
    assert_true(addresses[0] > addresses[1]);
}

static void among_equal_blocks_the_oldest_segment_comes_first(void **state)
{
    plm_bytes addresses[2];

    make_equal_blocks(addresses);
    assert_int_equal(address_of(take(MIB)), addresses[0]);
}

static void among_equal_blocks_the_lowest_address_came_first_up_to_2_11(void **state)
{
    plm_bytes addresses[2];

    options.rules.order_by_address = true;
    memory = memory_new(&arena, &options);
    make_equal_blocks(addresses);
    assert_int_equal(address_of(take(MIB)), addresses[1]);
}

static void streams_do_not_share_blocks(void **state)
{
    memory_free(memory, take_on(MIB, 0));
    take_on(MIB, 1);
    assert_int_equal(reserved(), 4 * MIB);
    take_on(MIB, 0);
    assert_int_equal(reserved(), 4 * MIB);
}

static void freeing_keeps_what_is_reserved(void **state)
{
    memory_free(memory, take(30 * MIB));
    assert_int_equal(allocated(), 0);
    assert_int_equal(reserved(), 30 * MIB);
    memory_empty(memory);
    assert_int_equal(reserved(), 0);
    assert_int_equal(memory_stats(memory)->peak.reserved, 30 * MIB);
}

static void empty_cache_keeps_segments_in_use(void **state)
{
    memory_block_id block = take(2 * MIB);

    take(2 * MIB);
    memory_free(memory, block);
    memory_empty(memory);
    assert_int_equal(reserved(), 20 * MIB);
}

static void peaks_start_again_at_what_is_held(void **state)
{
    memory_block_id block = take(30 * MIB);

    take(40 * MIB);
    memory_free(memory, block);
    memory_reset_peaks(memory);
    assert_int_equal(memory_stats(memory)->peak.allocated, 40 * MIB);
    assert_int_equal(memory_stats(memory)->peak.reserved, 70 * MIB);
}

static void use_capacity(plm_bytes capacity, plm_bytes device_total, const char *conf)
{
    options.capacity = capacity;
    options.device_total = device_total;
    use(conf);
}

static void a_full_device_gets_its_cache_back(void **state)
{
    use_capacity(64 * MIB, 0, "");
    memory_free(memory, take(40 * MIB));
    take(50 * MIB);
    assert_int_equal(reserved(), 50 * MIB);
    assert_int_equal(memory_stats(memory)->retries, 1);
    assert_int_equal(memory_stats(memory)->ooms, 0);
}

static void what_does_not_fit_is_an_answer(void **state)
{
    use_capacity(64 * MIB, 0, "");
    take(40 * MIB);
    does_not_fit(30 * MIB - 5);
    assert_int_equal(memory_stats(memory)->ooms, 1);
    assert_int_equal(memory_stats(memory)->retries, 1);
    assert_int_equal(memory_failure(memory).requested, 30 * MIB - 5);
    assert_int_equal(memory_failure(memory).rounded, 30 * MIB);
    assert_int_equal(memory_failure(memory).segment, 30 * MIB);
    take(24 * MIB);
    does_not_fit(1);
    assert_int_equal(memory_failure(memory).segment, 2 * MIB);
}

static void a_request_larger_than_any_device_does_not_fit(void **state)
{
    does_not_fit(UINT64_MAX);
    does_not_fit(UINT64_C(1) << 60);
    assert_int_equal(reserved(), 0);
}

static void reset_forgets_everything(void **state)
{
    take(30 * MIB);
    memory_reset(memory, 20 * MIB, 0);
    assert_int_equal(reserved(), 0);
    assert_int_equal(memory_stats(memory)->peak.allocated, 0);
    does_not_fit(30 * MIB);
    take(20 * MIB);
}

static void a_block_used_elsewhere_waits_for_the_next_request(void **state)
{
    memory_block_id block = take(MIB);

    memory_use(memory, block, 1);
    memory_free(memory, block);
    assert_int_equal(allocated(), 0);
    assert_int_equal(memory_stats(memory)->now.active, MIB);
    assert_int_equal(memory_stats(memory)->now.requested, MIB);
    take(MIB);
    assert_int_equal(memory_stats(memory)->now.active, MIB);
    assert_int_equal(reserved(), 2 * MIB);
}

static void a_use_on_its_own_stream_is_none(void **state)
{
    memory_block_id block = take_on(MIB, 3);

    memory_use(memory, block, 3);
    memory_free(memory, block);
    assert_int_equal(memory_stats(memory)->now.active, 0);
}

static void events_may_complete_late(void **state)
{
    options.events_lag = 2;
    memory = memory_new(&arena, &options);
    memory_block_id block = take(10 * MIB);

    memory_use(memory, block, 1);
    memory_free(memory, block);
    take(10 * MIB);
    take(10 * MIB);
    assert_int_equal(reserved(), 30 * MIB);
    take(10 * MIB);
    assert_int_equal(reserved(), 30 * MIB);
}

static void empty_cache_waits_for_events(void **state)
{
    options.events_lag = 100;
    memory = memory_new(&arena, &options);
    memory_block_id block = take(10 * MIB);

    memory_use(memory, block, 1);
    memory_free(memory, block);
    memory_empty(memory);
    assert_int_equal(reserved(), 0);
    assert_int_equal(memory_stats(memory)->now.active, 0);
}

static void a_fraction_limits_what_is_reserved(void **state)
{
    use_capacity(GIB, GIB, "per_process_memory_fraction:0.5");
    take(400 * MIB);
    does_not_fit(200 * MIB);
    take(112 * MIB);
    assert_int_equal(reserved(), 512 * MIB);
}

static void a_request_past_the_device_is_rejected_without_retry(void **state)
{
    use_capacity(500 * MIB, GIB, "throw_on_cudamalloc_oom:True");
    memory_free(memory, take(400 * MIB));
    does_not_fit(800 * MIB);
    assert_int_equal(memory_stats(memory)->retries, 0);
    assert_int_equal(reserved(), 400 * MIB);
    does_not_fit(600 * MIB);
    assert_int_equal(memory_stats(memory)->retries, 1);
    assert_int_equal(reserved(), 0);
}

static void divisions_round_between_powers_of_two(void **state)
{
    use("roundup_power2_divisions:[1:8,32:4,>:2]");
    assert_int_equal(size_of(take(1025 * KIB)), 1152 * KIB);
    assert_int_equal(size_of(take(33 * MIB)), 40 * MIB);
    assert_int_equal(size_of(take(65 * MIB)), 96 * MIB);
    assert_int_equal(size_of(take(64 * MIB)), 64 * MIB);
    /* 8 steps of less than 512 bytes are no steps */
    assert_int_equal(size_of(take(4 * KIB + 1)), 4 * KIB + 512);
    assert_int_equal(size_of(take(4 * KIB + 513)), 5 * KIB);
}

static void large_segments_may_be_larger(void **state)
{
    use("large_segment_size_mb:40");
    take(2 * MIB);
    assert_int_equal(reserved(), 40 * MIB);
    take(10 * MIB);
    assert_int_equal(reserved(), 40 * MIB);
}

static void oversize_blocks_are_kept_for_oversize_requests(void **state)
{
    use("max_split_size_mb:30");
    memory_free(memory, take(40 * MIB));
    take(12 * MIB); /* not from the 40 */
    assert_int_equal(reserved(), 52 * MIB);
    assert_int_equal(size_of(take(30 * MIB)), 40 * MIB);
    assert_int_equal(reserved(), 52 * MIB);
}

static void an_oversize_block_may_be_only_20_mib_too_large(void **state)
{
    use("max_split_size_mb:30");
    memory_free(memory, take(60 * MIB));
    take(40 * MIB);
    assert_int_equal(reserved(), 100 * MIB);
    assert_int_equal(size_of(take(40 * MIB + 512)), 60 * MIB);
}

static void oversize_blocks_are_released_before_all_others(void **state)
{
    use_capacity(100 * MIB, 0, "max_split_size_mb:30");
    memory_free(memory, take(60 * MIB));
    memory_free(memory, take(10 * MIB));
    take(40 * MIB); /* 60 is too large for it, and goes */
    assert_int_equal(reserved(), 50 * MIB);
    assert_int_equal(memory_stats(memory)->retries, 0);
}

static void garbage_collection_takes_what_was_unused_longest(void **state)
{
    /* collects above 614.4 MiB */
    use_capacity(2 * GIB, 2 * GIB,
                 "garbage_collection_threshold:0.6,per_process_memory_fraction:0.5");
    memory_block_id old = take(100 * MIB), recent = take(150 * MIB);

    memory_free(memory, old);
    take(110 * MIB);
    take(120 * MIB);
    memory_free(memory, recent);
    take(200 * MIB);
    assert_int_equal(reserved(), 680 * MIB);
    take(210 * MIB); /* ages 4 and 2: only @old is above the average, and it is enough */
    assert_int_equal(reserved(), 790 * MIB);
    take(150 * MIB);
    assert_int_equal(reserved(), 790 * MIB);
    assert_int_equal(memory_stats(memory)->retries, 0);
}

static void without_a_fraction_nothing_is_collected(void **state)
{
    use_capacity(GIB, GIB, "garbage_collection_threshold:0.1");
    memory_free(memory, take(300 * MIB));
    take(310 * MIB);
    assert_int_equal(reserved(), 610 * MIB);
}

static void expandable_segments_grow_by_pages(void **state)
{
    use("expandable_segments:True");
    take(2 * MIB);
    assert_int_equal(reserved(), 20 * MIB);
    take(30 * MIB);
    assert_int_equal(reserved(), 40 * MIB);
    take(1);
    assert_int_equal(reserved(), 42 * MIB);
    assert_int_equal(allocated(), 32 * MIB + 512);
}

static void expandable_blocks_are_always_split(void **state)
{
    use("expandable_segments:True");
    assert_int_equal(size_of(take(20 * MIB - 512)), 20 * MIB - 512);
    take(2 * MIB);
    assert_int_equal(reserved(), 40 * MIB);
}

static void expandable_segments_give_back_whole_pages(void **state)
{
    use("expandable_segments:True");
    memory_block_id first = take(30 * MIB), second = take(2 * MIB), third = take(60 * MIB);

    memory_free(memory, first);
    memory_free(memory, third);
    memory_empty(memory); /* 100 MiB: pages 0 and 2 to 4 go, page 1 holds @second */
    assert_int_equal(reserved(), 20 * MIB);
    memory_free(memory, second);
    memory_empty(memory);
    assert_int_equal(reserved(), 0);
    assert_false(memory_segment(memory, 1, &(struct memory_segment_view){ 0 }));
}

static void an_expandable_request_fails_page_by_page(void **state)
{
    use_capacity(50 * MIB, 0, "expandable_segments:True");
    take(19 * MIB);
    does_not_fit(42 * MIB);
    assert_int_equal(reserved(), 20 * MIB);
    take(21 * MIB);
    assert_int_equal(reserved(), 40 * MIB);
}

static void the_tail_that_can_grow_is_taken_last(void **state)
{
    use("expandable_segments:True");
    memory_block_id hole = take(12 * MIB);

    take(4 * MIB); /* 4 MiB are left of the page, and can grow */
    plm_bytes address = address_of(hole);

    memory_free(memory, hole);
    assert_int_equal(address_of(take(3 * MIB)), address);
}

static void a_request_beyond_the_reserve_does_not_fit(void **state)
{
    use_capacity(0, GIB, "expandable_segments:True,expandable_segments_reserve:0.25");
    take(200 * MIB);
    take(200 * MIB); /* in a second segment */
    does_not_fit(300 * MIB);
    assert_int_equal(reserved(), 400 * MIB);
}

static void the_drivers_pool_grows_by_32_mib(void **state)
{
    use_capacity(64 * MIB, 0, "backend:cudaMallocAsync");
    take(1);
    assert_int_equal(reserved(), 32 * MIB);
    memory_free(memory, take_on(30 * MIB, 4));
    take(31 * MIB);
    assert_int_equal(reserved(), 32 * MIB);
    does_not_fit(40 * MIB);
}

struct seen {
    unsigned counts[4];
    plm_bytes bytes;
    uint16_t stream;
};

static void see(
    void *user, enum memory_device_event event, plm_bytes address, plm_bytes bytes, uint16_t stream)
{
    struct seen *seen = user;

    seen->counts[event]++;
    seen->bytes = bytes;
    seen->stream = stream;
}

static void the_device_can_be_watched(void **state)
{
    struct seen seen = { 0 };

    memory_watch(memory, see, &seen);
    memory_free(memory, take_on(12 * MIB, 5));
    take_on(12 * MIB, 5);
    assert_int_equal(seen.counts[MEMORY_SEGMENT_ALLOC], 1);
    assert_int_equal(seen.bytes, 12 * MIB);
    assert_int_equal(seen.stream, 5);
    memory_reset(memory, 0, 0);
    memory_free(memory, take(14 * MIB));
    memory_empty(memory);
    assert_int_equal(seen.counts[MEMORY_SEGMENT_FREE], 1);
    memory_watch(memory, NULL, NULL);
    take(1);
    assert_int_equal(seen.counts[MEMORY_SEGMENT_ALLOC], 2);
}

static void blocks_cover_their_segment(void **state)
{
    memory_block_id live = take(3 * MIB);
    struct memory_segment_view segment;
    plm_bytes bytes = 0;

    take(4 * MIB);
    memory_free(memory, live);
    assert_int_equal(memory_segment_limit(memory), 1);
    assert_true(memory_segment(memory, 1, &segment));
    assert_true(segment.large);
    assert_false(segment.expandable);
    for (memory_block_id block = segment.first; block != 0;) {
        struct memory_block_view view = memory_block(memory, block);

        assert_int_equal(view.address, segment.address + bytes);
        bytes += view.bytes;
        block = view.next;
    }
    assert_int_equal(bytes, segment.bytes);
    assert_int_equal(memory_block(memory, segment.first).state, MEMORY_BLOCK_FREE);
    assert_int_equal(memory_block(memory, segment.first).requested, 0);
}

#define UNIT_TEST(name) cmocka_unit_test_setup_teardown(name, start, finish)

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT_TEST(sizes_are_rounded_to_512_bytes),
        UNIT_TEST(up_to_1_mib_share_segments_of_2_mib),
        UNIT_TEST(below_10_mib_a_segment_has_20),
        UNIT_TEST(from_10_mib_on_a_segment_is_rounded_to_2),
        UNIT_TEST(small_and_large_requests_never_share),
        UNIT_TEST(a_large_block_is_given_whole_when_1_mib_or_less_is_left),
        UNIT_TEST(a_small_block_is_split_to_the_last_512_bytes),
        UNIT_TEST(the_smallest_free_block_that_fits_is_taken),
        UNIT_TEST(frees_merge_with_both_neighbours),
        UNIT_TEST(among_equal_blocks_the_oldest_segment_comes_first),
        UNIT_TEST(among_equal_blocks_the_lowest_address_came_first_up_to_2_11),
        UNIT_TEST(streams_do_not_share_blocks),
        UNIT_TEST(freeing_keeps_what_is_reserved),
        UNIT_TEST(empty_cache_keeps_segments_in_use),
        UNIT_TEST(peaks_start_again_at_what_is_held),
        UNIT_TEST(a_full_device_gets_its_cache_back),
        UNIT_TEST(what_does_not_fit_is_an_answer),
        UNIT_TEST(a_request_larger_than_any_device_does_not_fit),
        UNIT_TEST(reset_forgets_everything),
        UNIT_TEST(a_block_used_elsewhere_waits_for_the_next_request),
        UNIT_TEST(a_use_on_its_own_stream_is_none),
        UNIT_TEST(events_may_complete_late),
        UNIT_TEST(empty_cache_waits_for_events),
        UNIT_TEST(a_fraction_limits_what_is_reserved),
        UNIT_TEST(a_request_past_the_device_is_rejected_without_retry),
        UNIT_TEST(divisions_round_between_powers_of_two),
        UNIT_TEST(large_segments_may_be_larger),
        UNIT_TEST(oversize_blocks_are_kept_for_oversize_requests),
        UNIT_TEST(an_oversize_block_may_be_only_20_mib_too_large),
        UNIT_TEST(oversize_blocks_are_released_before_all_others),
        UNIT_TEST(garbage_collection_takes_what_was_unused_longest),
        UNIT_TEST(without_a_fraction_nothing_is_collected),
        UNIT_TEST(expandable_segments_grow_by_pages),
        UNIT_TEST(expandable_blocks_are_always_split),
        UNIT_TEST(expandable_segments_give_back_whole_pages),
        UNIT_TEST(an_expandable_request_fails_page_by_page),
        UNIT_TEST(the_tail_that_can_grow_is_taken_last),
        UNIT_TEST(a_request_beyond_the_reserve_does_not_fit),
        UNIT_TEST(the_drivers_pool_grows_by_32_mib),
        UNIT_TEST(the_device_can_be_watched),
        UNIT_TEST(blocks_cover_their_segment),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
