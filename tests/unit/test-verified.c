/* test-verified.c - the verified: section of a profile: lines come, the oldest go, and what they do to the margin */
#include <stdbool.h>
#include <string.h>

#include "base/arena.h"
#include "device/verified.h"
#include "support/test.h"

#define GIB ((plm_bytes)1 << 30)
#define MIB ((plm_bytes)1 << 20)

static const struct measured_margin probed = { .margin = 1100 * MIB,
                                               .residual = 300 * MIB,
                                               .spread = 100 * MIB,
                                               .unusable = 200 * MIB,
                                               .framework = 500 * MIB };

/* filled() - a plan that took 12 of 16 GiB: 10 MiB more than planned, with 50 MiB of the rest out of reach */
static struct verified_line filled(void)
{
    return (struct verified_line){ .date = "2026-12-01T12:00:00Z",
                                   .model = "gpt2",
                                   .batch = 8,
                                   .holds = true,
                                   .planned = 12 * GIB - 10 * MIB,
                                   .used = 12 * GIB,
                                   .free = 4 * GIB,
                                   .left = 4 * GIB - 50 * MIB };
}

static struct measured_margin narrowed(const struct verified_line *lines, size_t count)
{
    struct measured_margin margin = probed;

    verified_narrow(lines, count, 16 * GIB, &margin);
    assert_true(margin.margin ==
                margin.residual + margin.spread + margin.unusable + margin.framework);
    return margin;
}

static void a_plan_that_fills_takes_the_probes_place(void **state)
{
    struct verified_line line = filled();
    struct measured_margin margin = narrowed(&line, 1);

    assert_true(margin.residual == 10 * MIB && margin.unusable == 50 * MIB);
    assert_true(margin.spread == probed.spread && margin.framework == probed.framework);
    assert_true(margin.margin == 660 * MIB);
}

static void the_worst_counts(void **state)
{
    struct verified_line lines[] = { filled(), filled(), filled() };

    lines[0].used += 400 * MIB;
    lines[2].left -= 7 * MIB;
    assert_true(narrowed(lines, 3).residual == 410 * MIB);
    assert_true(narrowed(lines, 3).unusable == 57 * MIB);
    lines[0].used = lines[0].planned - 1; /* less than planned is nothing beyond */
    assert_true(narrowed(lines, 1).residual == 0);
}

static void what_says_little_does_not_count(void **state)
{
    struct verified_line line = filled();

    assert_true(narrowed(NULL, 0).margin == probed.margin);
    line.holds = false;
    assert_true(narrowed(&line, 1).margin == probed.margin);
    line = filled();
    line.used = 8 * GIB - 1;
    assert_true(narrowed(&line, 1).margin == probed.margin);
    line = filled();
    line.left_at_least = true; /* it is not known what could not be had */
    assert_true(narrowed(&line, 1).residual == 10 * MIB);
    assert_true(narrowed(&line, 1).unusable == probed.unusable);
}

/* ------------------------------------------------------------------ text */

static const char *added(struct arena *arena, const char *profile)
{
    struct buf out = { .arena = arena };
    struct verified_line line = filled();

    verified_add(profile, &line, &out);
    return buf_string(&out);
}

static size_t occurrences(const char *text, const char *of)
{
    size_t count = 0;

    while ((text = strstr(text, of))) {
        text += strlen(of);
        count++;
    }
    return count;
}

static void the_section_is_made_once(void **state)
{
    struct arena arena = { 0 };
    const char *once = added(&arena, "plimsoll: 1\ndevice: x\n"), *twice = added(&arena, once);

    assert_true(strncmp(once, "plimsoll: 1\ndevice: x\nverified:\n    - {date: 2026", 49) == 0);
    assert_true(strncmp(twice, once, strlen(once)) == 0);
    assert_int_equal(occurrences(twice, "verified:\n"), 1);
    assert_int_equal(occurrences(twice, "holds: true"), 2);
    assert_non_null(strstr(added(&arena, "device: x"),
                           "device: x\nverified:\n")); /* a last line without its end */
    arena_finish(&arena);
}

static void what_follows_the_section_stays_behind_it(void **state)
{
    struct arena arena = { 0 };
    const char *text = added(&arena, "verified:\n    - {a}\ncalibrated: 1\n");

    assert_true(strncmp(text, "verified:\n    - {a}\n    - {date", 31) == 0);
    assert_non_null(strstr(text, "left_at_least: false}\ncalibrated: 1\n"));
    /* a key of that name elsewhere is not the section */
    text = added(&arena, "other:\n  verified:\n    - {b}\n");
    assert_int_equal(occurrences(text, "\nverified:\n"), 1);
    arena_finish(&arena);
}

static void the_oldest_go(void **state)
{
    struct arena arena = { 0 };
    const char *text = "verified:\n    - {oldest}\n";

    for (int i = 0; i < 2 * VERIFIED_LINES; i++)
        text = added(&arena, text);
    assert_null(strstr(text, "oldest"));
    assert_int_equal(occurrences(text, "\n    - {"), VERIFIED_LINES);
    arena_finish(&arena);
}

static void what_is_written_is_read_back(void **state)
{
    struct arena arena = { 0 };
    struct verified_line line = filled();
    struct buf out = { .arena = &arena };
    const struct yaml_node *root;
    const struct verified_line *lines;
    size_t count;
    struct plm_error error;

    line.model = "a \"model\" \\ of\none's own";
    line.left_at_least = true;
    verified_add("", &line, &out);
    assert_int_equal(yaml_parse("x", buf_string(&out), out.length, &arena, &root, &error), PLM_OK);
    assert_int_equal(verified_read(yaml_get(root, "verified"), &arena, &lines, &count, &error),
                     PLM_OK);
    assert_int_equal(count, 1);
    assert_string_equal(lines[0].model, "a \"model\" \\ of one's own");
    assert_string_equal(lines[0].date, line.date);
    assert_true(lines[0].batch == 8 && lines[0].holds && lines[0].left_at_least);
    assert_true(lines[0].planned == line.planned && lines[0].used == line.used);
    assert_true(lines[0].free == line.free && lines[0].left == line.left);
    arena_finish(&arena);
}

static enum plm_status read_line(const struct verified_line *line, struct plm_error *reterr)
{
    struct arena arena = { 0 };
    struct buf out = { .arena = &arena };
    const struct yaml_node *root;
    const struct verified_line *lines;
    size_t count;

    verified_add("", line, &out);
    assert_int_equal(yaml_parse("x", buf_string(&out), out.length, &arena, &root, reterr), PLM_OK);
    enum plm_status status =
        verified_read(yaml_get(root, "verified"), &arena, &lines, &count, reterr);

    arena_finish(&arena);
    return status;
}

static void sizes_that_no_device_has_are_refused_where_they_stand(void **state)
{
    struct verified_line used = filled(), free_bytes = filled();
    struct plm_error error;

    used.used = UINT64_MAX;
    assert_int_equal(read_line(&used, &error), PLM_E_RANGE);
    assert_int_equal(error.line, 2);
    free_bytes.free = UINT64_MAX;
    assert_int_equal(read_line(&free_bytes, &error), PLM_E_RANGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_that_fills_takes_the_probes_place),
        cmocka_unit_test(the_worst_counts),
        cmocka_unit_test(what_says_little_does_not_count),
        cmocka_unit_test(the_section_is_made_once),
        cmocka_unit_test(what_follows_the_section_stays_behind_it),
        cmocka_unit_test(the_oldest_go),
        cmocka_unit_test(what_is_written_is_read_back),
        cmocka_unit_test(sizes_that_no_device_has_are_refused_where_they_stand),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
