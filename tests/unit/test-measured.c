/* test-measured.c - the measured: section: what is written is read back, and margins come from the residuals */
#include <string.h>

#include "device/measured.h"
#include "support/test.h"

#define MIB ((plm_bytes)1 << 20)

static const struct figure figures[] = {
    { .id = FIGURE_FREE,
      .value = 1000.0 * MIB,
      .low = 1000.0 * MIB,
      .high = 1000.0 * MIB,
      .count = 1 },
    { .id = FIGURE_CONTEXT,
      .value = 300.0 * MIB,
      .low = 299.0 * MIB,
      .high = 303.0 * MIB,
      .count = 3 },
    { .id = FIGURE_LADDER,
      .size = 512,
      .value = 131072,
      .low = 131072,
      .high = 131072,
      .count = 1 },
    { .id = FIGURE_LADDER,
      .size = 1 << 20,
      .value = 1 << 20,
      .low = 1 << 20,
      .high = 1 << 20,
      .count = 1 },
    { .id = FIGURE_USABLE,
      .size = 1 << 30,
      .value = 900.0 * MIB,
      .low = 900.0 * MIB,
      .high = 900.0 * MIB,
      .count = 1,
      .at_least = true },
    { .id = FIGURE_COALESCED, .value = 0.625, .low = 0.625, .high = 0.625, .count = 1 },
};
static const struct skipped skipped[] = { { FIGURE_MANAGED_BEYOND, "only with --managed" } };
static const struct fit_point points[] = {
    { 0, 310 * MIB, 0, true },
    { 100 * MIB, 412 * MIB, 2.0 * MIB, true },
    { 200 * MIB, 499 * MIB, -1.0 * MIB, false },
};

static const struct measured sample = {
    .date = "2026-12-01T12:30:00Z",
    .program = "0.1.0",
    .uuid = "GPU-00",
    .driver = "580.65.06",
    .cuda = "13.0",
    .runtime = "12.8",
    .compute_mode = "default",
    .ecc = true,
    .quick = true,
    .max_fill = 0.95,
    .figures = figures,
    .figure_count = sizeof figures / sizeof *figures,
    .skipped = skipped,
    .skipped_count = 1,
    .context = 300 * MIB,
    .libraries = 10 * MIB,
    .points = points,
    .point_count = 3,
};

static enum plm_status read_text(const char *text,
                                 struct arena *arena,
                                 struct measured *ret,
                                 struct plm_error *reterr)
{
    const struct yaml_node *root;
    enum plm_status status = yaml_parse("x.yaml", text, strlen(text), arena, &root, reterr);

    return status == PLM_OK ? measured_read(yaml_get(root, "measured"), arena, ret, reterr)
                            : status;
}

static void what_is_written_is_read_back(void **state)
{
    struct arena arena = { 0 };
    struct buf text = { .arena = &arena }, again = { .arena = &arena };
    struct measured m;
    struct plm_error error = { 0 };

    measured_write(&sample, &text);
    if (read_text(buf_string(&text), &arena, &m, &error) != PLM_OK)
        fail_msg("%u:%u: %s", error.line, error.column, error.message);
    assert_string_equal(m.uuid, sample.uuid);
    assert_string_equal(m.driver, "580.65.06");
    assert_string_equal(m.cuda, "13.0");
    assert_true(m.ecc && m.quick && !m.mig);
    assert_int_equal(m.figure_count, sample.figure_count);
    for (size_t i = 0; i < m.figure_count; i++) {
        const struct figure *was = &figures[i], *is = measured_figure(&m, was->id, was->size);

        assert_non_null(is);
        assert_true(is->value == was->value && is->low == was->low && is->high == was->high);
        assert_int_equal(is->count, was->count);
        assert_int_equal(is->at_least, was->at_least);
    }
    assert_int_equal(m.skipped[0].id, FIGURE_MANAGED_BEYOND);
    assert_int_equal(m.point_count, 3);
    assert_true(m.points[1].residual == 2.0 * MIB);
    assert_true(m.points[1].libraries && !m.points[2].libraries);
    measured_write(&m, &again);
    assert_string_equal(buf_string(&again), buf_string(&text));
    arena_finish(&arena);
}

static void a_margin_is_what_exceeded_the_fit_and_how_contexts_differed(void **state)
{
    struct measured_margin margin = measured_margin(&sample);

    assert_int_equal(margin.residual, 2 * MIB);
    assert_int_equal(margin.spread, 4 * MIB);
    assert_int_equal(margin.unusable,
                     0); /* the limit stopped the probe: nothing is known to be lost */
    assert_int_equal(margin.margin,
                     margin.residual + margin.spread + margin.unusable + margin.framework);
}

static void memory_that_cannot_be_had_is_in_the_margin(void **state)
{
    struct figure own[sizeof figures / sizeof *figures];
    struct measured m = sample;

    memcpy(own, figures, sizeof figures);
    own[4].at_least = false;
    m.figures = own;
    assert_int_equal(measured_margin(&m).unusable, 100 * MIB);
}

static void a_large_block_that_met_the_limit_does_not_hide_what_small_ones_showed(void **state)
{
    static const struct figure filled[] = {
        { .id = FIGURE_FREE, .value = 1000.0 * MIB },
        { .id = FIGURE_USABLE, .size = 1 << 28, .value = 768.0 * MIB, .at_least = true },
        { .id = FIGURE_USABLE, .size = 20 << 20, .value = 900.0 * MIB, .at_least = true },
        { .id = FIGURE_USABLE, .size = 2 << 20, .value = 900.0 * MIB },
    };
    struct figure limited[sizeof filled / sizeof *filled];
    struct measured m = sample;

    m.figures = filled;
    m.figure_count = sizeof filled / sizeof *filled;
    assert_int_equal(measured_margin(&m).unusable, 100 * MIB);
    memcpy(limited, filled, sizeof filled);
    limited[2] = filled[3];
    limited[3].value = 950.0 * MIB;
    limited[3].at_least = true;
    m.figures = limited;
    assert_int_equal(measured_margin(&m).unusable, 0);
}

static void a_larger_known_context_leaves_less_for_the_frameworks_kernels(void **state)
{
    struct measured m = sample;

    assert_true(measured_margin(&m).framework == (plm_bytes)1 << 30);
    m.context = 1500 * MIB;
    m.libraries = 90 * MIB;
    assert_true(measured_margin(&m).framework == 100 * MIB);
    m.context = 2000 * MIB;
    assert_true(measured_margin(&m).framework == 0);
}

static void what_a_small_model_loaded_is_in_the_context_and_once_more_in_the_margin(void **state)
{
    const struct figure own[] = { { .id = FIGURE_FRAMEWORK, .value = 77.0 * MIB } };
    struct measured m = sample;

    m.figures = own;
    m.figure_count = 1;
    assert_int_equal(measured_context(&m), (300 + 10 + 77) * MIB);
    assert_int_equal(measured_margin(&m).framework, 77 * MIB);
    assert_int_equal(measured_context(&sample), (300 + 10) * MIB);
}

static void every_figure_has_a_name_of_its_own_and_says_how(void **state)
{
    for (unsigned i = 0; i < FIGURE_COUNT; i++) {
        assert_int_equal(figure_find(figure_descs[i].name), i);
        assert_true(strlen(figure_descs[i].how) > 10);
        assert_null(strpbrk(figure_descs[i].how, "\"\\\n"));
    }
    assert_int_equal(figure_find("no_such"), FIGURE_COUNT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_back),
        cmocka_unit_test(a_margin_is_what_exceeded_the_fit_and_how_contexts_differed),
        cmocka_unit_test(memory_that_cannot_be_had_is_in_the_margin),
        cmocka_unit_test(a_large_block_that_met_the_limit_does_not_hide_what_small_ones_showed),
        cmocka_unit_test(a_larger_known_context_leaves_less_for_the_frameworks_kernels),
        cmocka_unit_test(what_a_small_model_loaded_is_in_the_context_and_once_more_in_the_margin),
        cmocka_unit_test(every_figure_has_a_name_of_its_own_and_says_how),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
