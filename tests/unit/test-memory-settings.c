/* unit/test-memory-settings.c - PYTORCH_ALLOC_CONF; what is accepted was read back from PyTorch 2.15 and 2.11 */
#include "support/test.h"

#include "memory/settings.h"

#define MIB (UINT64_C(1) << 20)

static struct memory_settings settings;

static void reads_for(const char *text, const struct memory_rules *rules)
{
    struct plm_error error = { 0 };

    if (memory_settings_parse(text, rules, &settings, &error) != PLM_OK)
        fail_msg("%s", error.message);
}

static void reads(const char *text)
{
    reads_for(text, &memory_rules_newest);
}

static void refuses_for(const char *text, const struct memory_rules *rules, const char *message)
{
    struct plm_error error = { 0 };
    struct memory_settings untouched = { .max_split = 1 };

    assert_int_not_equal(memory_settings_parse(text, rules, &untouched, &error), PLM_OK);
    assert_string_equal(error.message, message);
    assert_int_equal(untouched.max_split, 1);
}

static void refuses(const char *text, const char *message)
{
    refuses_for(text, &memory_rules_newest, message);
}

static void divisions_are(const uint64_t expected[MEMORY_DIVISIONS])
{
    for (size_t i = 0; i < MEMORY_DIVISIONS; i++)
        assert_int_equal(settings.divisions[i], expected[i]);
}

static void nothing_set_means_zeros(void **state)
{
    const struct memory_settings zeros = { 0 };

    reads("");
    assert_memory_equal(&settings, &zeros, sizeof zeros);
    reads("  ");
    assert_memory_equal(&settings, &zeros, sizeof zeros);
}

static void several_options_are_separated_by_commas(void **state)
{
    reads("max_split_size_mb: 64 , expandable_segments:True,garbage_collection_threshold:0.8,");
    assert_int_equal(settings.max_split, 64 * MIB);
    assert_true(settings.expandable_segments);
    assert_true(settings.gc_threshold == 0.8);
}

static void the_last_of_two_equal_keys_wins(void **state)
{
    reads("expandable_segments:True,expandable_segments:False");
    assert_false(settings.expandable_segments);
}

static void the_backend_is_native_or_async(void **state)
{
    reads("backend:native");
    assert_int_equal(settings.backend, MEMORY_NATIVE);
    reads("backend:cudaMallocAsync");
    assert_int_equal(settings.backend, MEMORY_ASYNC);
    refuses("backend:cudamallocasync",
            "'backend' is 'cudamallocasync', but must be 'native' or 'cudaMallocAsync'");
}

static void truth_is_spelled_as_in_python(void **state)
{
    refuses("expandable_segments:true",
            "'expandable_segments' is 'true', but must be 'True' or 'False'");
    refuses("expandable_segments:",
            "'expandable_segments' is 'the end', but must be 'True' or 'False'");
    refuses("expandable_segments", "'expandable_segments': expected ':', not 'the end'");
}

static void split_and_rounding_are_at_least_a_large_segment(void **state)
{
    reads("max_split_size_mb:20,max_non_split_rounding_mb:20");
    assert_int_equal(settings.max_split, 20 * MIB);
    assert_int_equal(settings.max_non_split_rounding, 20 * MIB);
    refuses("max_split_size_mb:19",
            "'max_split_size_mb' must be at least 20, the size of a large segment");
    refuses("max_split_size_mb:30,large_segment_size_mb:40",
            "'max_split_size_mb' must be at least 40, the size of a large segment");
    refuses("max_non_split_rounding_mb:10",
            "'max_non_split_rounding_mb' must be at least 20, the size of a large segment");
}

static void large_segments_are_above_10_mib(void **state)
{
    reads("large_segment_size_mb:11");
    assert_int_equal(settings.large_segment, 11 * MIB);
    refuses("large_segment_size_mb:10", "'large_segment_size_mb' must be at least 11");
}

static void one_division_holds_for_all_sizes(void **state)
{
    reads("roundup_power2_divisions:4");
    divisions_are(
        (const uint64_t[MEMORY_DIVISIONS]){ 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4 });
    refuses("roundup_power2_divisions:3",
            "'roundup_power2_divisions' is '3', but must be a power of two or a list as "
            "[256:1,512:2,>:4]");
    refuses("roundup_power2_divisions:0",
            "'roundup_power2_divisions' is '0', but must be a power of two or a list as "
            "[256:1,512:2,>:4]");
}

static void a_list_of_divisions_fills_below_its_first_key(void **state)
{
    reads("roundup_power2_divisions:[256:1,512:2,1024:4,>:8]");
    divisions_are(
        (const uint64_t[MEMORY_DIVISIONS]){ 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 8, 8, 8, 8, 8 });
    reads("roundup_power2_divisions:[64:2,]");
    divisions_are((const uint64_t[MEMORY_DIVISIONS]){ 2, 2, 2, 2, 2, 2, 2 });
    reads("roundup_power2_divisions:[131072:2,>:4]");
    divisions_are(
        (const uint64_t[MEMORY_DIVISIONS]){ 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2 });
    reads("roundup_power2_divisions:[>:4]");
    divisions_are(
        (const uint64_t[MEMORY_DIVISIONS]){ 0, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4 });
    reads("roundup_power2_divisions:[]");
    divisions_are((const uint64_t[MEMORY_DIVISIONS]){ 0 });
}

static void an_old_version_overwrites_the_last_key(void **state)
{
    const struct memory_rules old = { .divisions_fill_from_last_key = true };

    reads_for("roundup_power2_divisions:[256:1,512:2,1024:4,>:8]", &old);
    divisions_are(
        (const uint64_t[MEMORY_DIVISIONS]){ 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 8, 8, 8, 8, 8, 8 });
}

static void lists_of_divisions_are_checked(void **state)
{
    refuses("roundup_power2_divisions:[3:1]",
            "'roundup_power2_divisions' is '3', but must be a list whose keys are powers of two "
            "(MiB) or '>'");
    refuses("roundup_power2_divisions:[64:3]",
            "'roundup_power2_divisions' is '3', but must be a list of powers of two, or 0");
    refuses("roundup_power2_divisions:[64:2",
            "'roundup_power2_divisions' is 'the end', but must be a list closed by ']'");
    refuses("roundup_power2_divisions:[64,2]", "'roundup_power2_divisions': expected ':', not ','");
}

static void fractions_have_limits(void **state)
{
    reads("per_process_memory_fraction:1,garbage_collection_threshold:0.5");
    assert_true(settings.fraction == 1);
    refuses("per_process_memory_fraction:1.5",
            "'per_process_memory_fraction' is '1.5', but must be above 0 and at most 1");
    refuses("garbage_collection_threshold:1.0",
            "'garbage_collection_threshold' is '1.0', but must be above 0 and below 1");
    refuses("garbage_collection_threshold:0",
            "'garbage_collection_threshold' is '0', but must be above 0 and below 1");
}

static void a_reserve_is_a_part_or_a_size(void **state)
{
    reads("expandable_segments_reserve:0.5");
    assert_true(settings.expandable_reserve == 0.5);
    reads("expandable_segments_reserve:40G");
    assert_int_equal(settings.expandable_reserve_bytes, 40 * 1024 * MIB);
    refuses("expandable_segments_reserve:128M",
            "'expandable_segments_reserve' is '128M', but must be a part of the device as 0.5 or "
            "a size in GiB as 40G");
}

static void options_of_the_host_have_no_effect(void **state)
{
    const struct memory_settings zeros = { 0 };

    reads("pinned_use_cuda_host_register:True,pinned_num_register_threads:8,"
          "pinned_use_background_threads:True,pinned_reserve_segment_size_mb:64,"
          "pinned_max_round_threshold_mb:1,pinned_max_cached_size_mb:2,pinned_free_catch_all:True,"
          "release_lock_on_cudamalloc:True,graph_capture_record_stream_reuse:True,"
          "expandable_segments_reserve_by_class:[a:0.5,b:40G]");
    assert_memory_equal(&settings, &zeros, sizeof zeros);
    refuses("pinned_num_register_threads:3",
            "'pinned_num_register_threads' is '3', but must be a power of two, at most 128");
}

static void an_unknown_option_gets_a_suggestion(void **state)
{
    refuses("max_split_size:64", "'max_split_size' is not an option of the allocator; did you mean "
                                 "'max_split_size_mb'?");
    refuses("foo:1",
            "'foo' is not an option of the allocator; expected key:value pairs separated by ','");
    refuses("max_split_size_mb:64,,",
            "',' is not an option of the allocator; expected key:value pairs separated by ','");
}

static void numbers_must_be_whole(void **state)
{
    refuses("max_split_size_mb:64x",
            "'max_split_size_mb' is '64x', but must be a whole number of MiB");
    refuses("max_split_size_mb:-1",
            "'max_split_size_mb' is '-1', but must be a whole number of MiB");
}

static void options_come_with_their_version(void **state)
{
    const struct memory_rules old = { .order_by_address = true };

    refuses_for("large_segment_size_mb:40", &old,
                "'large_segment_size_mb' is not an option of this version of PyTorch");
    refuses_for("per_process_memory_fraction:0.5", &old,
                "'per_process_memory_fraction' is not an option of this version of PyTorch");
    refuses_for("throw_on_cudamalloc_oom:True", &old,
                "'throw_on_cudamalloc_oom' is not an option of this version of PyTorch");
    reads_for("max_split_size_mb:64", &old);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_set_means_zeros),
        cmocka_unit_test(several_options_are_separated_by_commas),
        cmocka_unit_test(the_last_of_two_equal_keys_wins),
        cmocka_unit_test(the_backend_is_native_or_async),
        cmocka_unit_test(truth_is_spelled_as_in_python),
        cmocka_unit_test(split_and_rounding_are_at_least_a_large_segment),
        cmocka_unit_test(large_segments_are_above_10_mib),
        cmocka_unit_test(one_division_holds_for_all_sizes),
        cmocka_unit_test(a_list_of_divisions_fills_below_its_first_key),
        cmocka_unit_test(an_old_version_overwrites_the_last_key),
        cmocka_unit_test(lists_of_divisions_are_checked),
        cmocka_unit_test(fractions_have_limits),
        cmocka_unit_test(a_reserve_is_a_part_or_a_size),
        cmocka_unit_test(options_of_the_host_have_no_effect),
        cmocka_unit_test(an_unknown_option_gets_a_suggestion),
        cmocka_unit_test(numbers_must_be_whole),
        cmocka_unit_test(options_come_with_their_version),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
