/* test-compare.c - strategies side by side: threads, differences, growth, and what is written and read back */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "plan/compare.h"
#include "report/compare.h"
#include "support/test.h"

#define MIB ((plm_bytes)1 << 20)

static const struct plm_strategy strategies[] = {
    { .batch = 4 },
    { .batch = 4, .precision = PLM_PRECISION_BF16 },
    { .batch = 64, .optimizer = PLM_OPTIMIZER_SGD },
    { .batch = 4, .parallel = { .ddp = 2, .fsdp = 2 } }, /* no run has both */
    { .batch = 4, .capacity = (plm_bytes)512 << 20 },
    { .batch = 8, .accumulate = 3, .eval = true },
};
enum { STRATEGIES = sizeof strategies / sizeof *strategies };

static struct plm_context *context;
static struct plm_model *model;

static int load_model(void **state)
{
    struct plm_error error;

    context = plm_context_create();
    plm_context_add_models(context, TEST_SOURCE "/models");
    return plm_model_load(context, "mlp", &model, &error) == PLM_OK ? 0 : -1;
}

static int drop_model(void **state)
{
    plm_model_destroy(model);
    plm_context_destroy(context);
    return 0;
}

static struct plm_compare *compare_with(unsigned jobs)
{
    struct plm_comparison comparison = { .strategies = strategies,
                                         .strategy_count = STRATEGIES,
                                         .jobs = jobs };
    struct plm_compare *compare;
    struct plm_error error;

    assert_int_equal(plm_compare(model, &comparison, &compare, &error), PLM_OK);
    return compare;
}

/* written() - the comparison as JSON: every figure is in there */
static const char *written(const struct plm_compare *compare, struct arena *arena)
{
    struct buf text = { .arena = arena };
    struct compare_row rows[STRATEGIES] = { 0 };
    struct compare_report report = { .model = "mlp", .rows = rows, .row_count = STRATEGIES };
    size_t count;
    const struct plm_compared *results = plm_compare_results(compare, &count);

    assert_int_equal(count, STRATEGIES);
    for (size_t i = 0; i < count; i++)
        rows[i] = (struct compare_row){ .report = { .strategy = &strategies[i],
                                                    .result = results[i].result },
                                        .label = "",
                                        .number = i + 1,
                                        .compared = &results[i] };
    renderer_json.compare(&report, &text);
    return buf_string(&text);
}

static void any_number_of_threads_gives_the_same(void **state)
{
    struct arena arena = { 0 };
    struct plm_compare *one = compare_with(1);
    const char *expected = written(one, &arena);

    for (unsigned jobs = 2; jobs <= 8; jobs += 3) {
        struct plm_compare *many = compare_with(jobs);

        assert_string_equal(written(many, &arena), expected);
        plm_compare_destroy(many);
    }
    plm_compare_destroy(one);
    arena_finish(&arena);
}

static void each_result_is_that_of_an_estimate(void **state)
{
    struct plm_compare *compare = compare_with(3);
    size_t count;
    const struct plm_compared *results = plm_compare_results(compare, &count);

    for (size_t i = 0; i < count; i++) {
        struct plm_estimate *estimate;
        struct plm_error error;
        enum plm_status status = plm_estimate(model, &strategies[i], &estimate, &error);

        assert_int_equal(results[i].status, status);
        if (status != PLM_OK) {
            assert_null(results[i].result);
            assert_string_equal(results[i].error.message, error.message);
            continue;
        }
        const struct plm_result *expected = plm_estimate_result(estimate);

        assert_memory_equal(&results[i].result->peak, &expected->peak, sizeof expected->peak);
        assert_string_equal(results[i].result->at.phase, expected->at.phase);
        assert_int_equal(results[i].result->fits, expected->fits);
        plm_estimate_destroy(estimate);
    }
    assert_int_equal(results[3].status, PLM_E_USAGE);
    assert_int_equal(results[4].result->fits, 0);
    plm_compare_destroy(compare);
}

static void the_largest_batch_is_that_of_a_plan(void **state)
{
    static const struct plm_strategy both[] = {
        { .capacity = 1200 * MIB }, { .capacity = 1200 * MIB, .precision = PLM_PRECISION_BF16 }
    };
    const bool searched[] = { false, true };
    struct plm_comparison comparison = {
        .strategies = both,
        .strategy_count = 2,
        .largest_batch = searched,
        .search = { .has_margin = true, .margin_bytes = 16 * MIB, .max_batch = 4096 },
    };
    struct plm_search search = comparison.search;
    struct plm_compare *compare;
    struct plm_plan *plan;
    size_t count;

    search.strategy = both[1];
    assert_int_equal(plm_compare(model, &comparison, &compare, NULL), PLM_OK);
    assert_int_equal(plm_plan(model, &search, &plan, NULL), PLM_OK);
    const struct plm_compared *results = plm_compare_results(compare, &count);

    assert_false(results[0].has_largest_batch);
    assert_true(results[1].has_largest_batch);
    assert_true(results[1].largest_batch > 0);
    assert_int_equal(results[1].largest_batch, plm_plan_result(plan)->batch);
    plm_plan_destroy(plan);
    plm_compare_destroy(compare);
}

/* ------------------------------------------------------------------ differences */

#define PHASE(n, mib)                                                                              \
    {                                                                                              \
        .name = (n), .peak = {(mib)*MIB, (mib)*MIB, (mib)*MIB, (mib)*MIB }                         \
    }

static const struct plm_phase phases_a[] = { PHASE("forward", 60), PHASE("backward", 100),
                                             PHASE("optimizer", 70) };
static const struct plm_phase phases_b[] = { PHASE("forward", 20), PHASE("backward", 40),
                                             PHASE("optimizer", 65), PHASE("zero grad", 5) };
static const struct plm_share shares_a[] = { { "activations", 70 * MIB, 1 },
                                             { "parameters", 20 * MIB, 1 } };
static const struct plm_share shares_b[] = { { "gradients", 40 * MIB, 1 },
                                             { "parameters", 20 * MIB, 1 } };
static const struct plm_result a = { .peak.allocated = 100 * MIB,
                                     .at.phase = "backward",
                                     .phases = phases_a,
                                     .phase_count = 3,
                                     .live_by_category = shares_a,
                                     .live_by_category_count = 2 };
static const struct plm_result b = { .peak.allocated = 65 * MIB,
                                     .at.phase = "optimizer",
                                     .phases = phases_b,
                                     .phase_count = 4,
                                     .live_by_category = shares_b,
                                     .live_by_category_count = 2 };

static void a_saving_vanishes_where_another_phase_is_the_peak(void **state)
{
    struct arena arena = { 0 };
    const struct plm_difference *d = compare_difference(&a, &b, &arena);

    assert_true(d->b_saves);
    assert_string_equal(d->from, "backward");
    assert_string_equal(d->to, "optimizer");
    assert_int_equal(d->saved_there, 60 * MIB);
    assert_int_equal(d->saved_in_all, 35 * MIB);
    assert_string_equal(d->vanishes, "optimizer");
    arena_finish(&arena);
}

static void the_other_way_round_a_saves_as_much(void **state)
{
    struct arena arena = { 0 };
    const struct plm_difference *d = compare_difference(&b, &a, &arena);

    assert_false(d->b_saves);
    assert_string_equal(d->from, "backward");
    assert_int_equal(d->saved_there, 60 * MIB);
    assert_int_equal(d->saved_in_all, 35 * MIB);
    assert_string_equal(d->vanishes, "optimizer");
    assert_int_equal(d->phases[2].b, 70 * MIB);
    arena_finish(&arena);
}

static void a_strategy_differs_in_nothing_from_itself(void **state)
{
    struct arena arena = { 0 };
    const struct plm_difference *d = compare_difference(&a, &a, &arena);

    assert_int_equal(d->saved_there, 0);
    assert_int_equal(d->saved_in_all, 0);
    assert_null(d->vanishes);
    for (size_t i = 0; i < d->category_count; i++)
        assert_int_equal(d->categories[i].a, d->categories[i].b);
    arena_finish(&arena);
}

static void categories_add_up_to_the_peaks(void **state)
{
    struct arena arena = { 0 };
    const struct plm_difference *d = compare_difference(&a, &b, &arena);
    plm_bytes of_a = 0, of_b = 0;

    for (size_t i = 0; i < d->category_count; i++) {
        of_a += d->categories[i].a;
        of_b += d->categories[i].b;
    }
    assert_int_equal(of_a, a.peak.allocated);
    assert_int_equal(of_b, b.peak.allocated);
    assert_string_equal(d->categories[0].name, "activations");
    assert_int_equal(d->categories[0].b, 0);
    assert_int_equal(d->phase_count, 4);
    assert_string_equal(d->phases[3].name, "zero grad");
    assert_int_equal(d->phases[3].a, 0);
    arena_finish(&arena);
}

static void a_phase_is_kept_once_with_its_highest_figures(void **state)
{
    static const struct plm_phase run[] = {
        { "load", -1, 0, { 1, 2, 9, 9 }, 2, 9 },
        { "forward", 0, 0, { 3, 4, 9, 9 }, 4, 9 },
        { "forward", 1, 0, { 7, 8, 12, 12 }, 3, 9 },
        { "forward", 1, 1, { 6, 8, 13, 13 }, 2, 9 },
    };
    static const struct plm_result result = { .phases = run, .phase_count = 4 };
    struct arena arena = { 0 };
    const struct plm_result *kept = compare_keep(&result, &arena);

    assert_int_equal(kept->phase_count, 2);
    assert_string_equal(kept->phases[1].name, "forward");
    assert_int_equal(kept->phases[1].step, 1);
    assert_int_equal(kept->phases[1].micro, 0);
    assert_int_equal(kept->phases[1].peak.requested, 7);
    assert_int_equal(kept->phases[1].peak.allocated, 8);
    assert_int_equal(kept->phases[1].peak.reserved, 13);
    assert_int_equal(kept->phases[1].allocated_end, 4);
    arena_finish(&arena);
}

/* ------------------------------------------------------------------ baselines */

static void growth_is_that_of_the_figure_that_grew_most(void **state)
{
    static const struct plm_baseline_entry before = { .peak = { 100, 100, 200, 300 } };
    struct plm_result now = { .peak = { 100, 101, 206, 306 } };
    struct growth growth = growth_of(&now, &before, 0.02);

    assert_true(growth.grew);
    assert_string_equal(growth.figure, "reserved");
    assert_int_equal(growth.from, 200);
    assert_int_equal(growth.to, 206);
    assert_false(growth_of(&now, &before, 0.03).grew);
    now.out_of_memory = true;
    assert_true(growth_of(&now, &before, 0.5).grew);
}

static void nothing_is_known_of_a_peak_that_was_cut_short(void **state)
{
    static const struct plm_baseline_entry before = { .peak = { 1, 1, 1, 1 },
                                                      .out_of_memory = true };
    struct plm_result now = { .peak = { 9, 9, 9, 9 } };
    struct growth growth = growth_of(&now, &before, 0);

    assert_false(growth.grew);
    assert_null(growth.figure);
}

static void what_is_written_is_found_again(void **state)
{
    char file[] = "/tmp/plimsoll-compare-XXXXXX";
    struct arena arena = { 0 };
    struct plm_compare *compare = compare_with(2);
    const char *text = written(compare, &arena);
    struct plm_baseline *baseline;
    struct plm_error error;
    size_t count, entry_count;
    const struct plm_compared *results = plm_compare_results(compare, &count);
    int fd = mkstemp(file);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    assert_int_equal(plm_baseline_load(file, &baseline, &error), PLM_OK);
    unlink(file);
    const struct plm_baseline_entry *entries = plm_baseline_entries(baseline, &entry_count);

    assert_int_equal(entry_count, STRATEGIES - 1); /* the refused one has no peak */
    for (size_t i = 0, entry = 0; i < count; i++) {
        struct report report = { .strategy = &strategies[i], .result = results[i].result };

        if (!report.result)
            continue;
        const struct plm_baseline_entry *found = growth_find(&report, entries, entry_count, &arena);

        assert_ptr_equal(found, &entries[entry++]);
        assert_memory_equal(&found->peak, &report.result->peak, sizeof found->peak);
        assert_int_equal(found->out_of_memory, report.result->out_of_memory);
    }
    plm_baseline_destroy(baseline);
    plm_compare_destroy(compare);
    arena_finish(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_threads_gives_the_same),
        cmocka_unit_test(each_result_is_that_of_an_estimate),
        cmocka_unit_test(the_largest_batch_is_that_of_a_plan),
        cmocka_unit_test(a_saving_vanishes_where_another_phase_is_the_peak),
        cmocka_unit_test(the_other_way_round_a_saves_as_much),
        cmocka_unit_test(a_strategy_differs_in_nothing_from_itself),
        cmocka_unit_test(categories_add_up_to_the_peaks),
        cmocka_unit_test(a_phase_is_kept_once_with_its_highest_figures),
        cmocka_unit_test(growth_is_that_of_the_figure_that_grew_most),
        cmocka_unit_test(nothing_is_known_of_a_peak_that_was_cut_short),
        cmocka_unit_test(what_is_written_is_found_again),
    };

    return cmocka_run_group_tests(tests, load_model, drop_model);
}
