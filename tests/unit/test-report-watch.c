/* test-report-watch.c - a watch in the terminal, as text and as data */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "report/utf8.h"
#include "report/watch.h"
#include "support/test.h"
#include "yaml/document.h"

#define GIB ((plm_bytes)1 << 30)
#define MIB ((plm_bytes)1 << 20)

enum { POINTS = 1000 };

static struct arena arena;
static struct plm_watch_point points[POINTS];
static struct plm_watch_gpu gpus[2];
static struct plm_watch_result result;
static struct watch_plan plan;
static struct watch_report report;

/* make() - a job that rises to 20 GiB of 24 in its first half, one sample a second, and a GPU that it does not use */
static int make(void **state)
{
    for (int i = 0; i < POINTS; i++) {
        plm_bytes job = i < POINTS / 2 ? 20 * GIB * (plm_bytes)i / (POINTS / 2) : 20 * GIB;

        points[i] = (struct plm_watch_point){
            .time = i, .job = job, .job_low = job, .used = job + GIB, .free = 23 * GIB - job
        };
    }
    gpus[0] = (struct plm_watch_gpu){ .id = "0",
                                      .name = "NVIDIA Double",
                                      .uuid = "GPU-0",
                                      .ecc = -1,
                                      .total = 24 * GIB,
                                      .points = points,
                                      .point_count = POINTS,
                                      .now = 20 * GIB,
                                      .peak = 20 * GIB,
                                      .peak_time = 500,
                                      .used_now = 21 * GIB,
                                      .used_peak = 21 * GIB,
                                      .free_now = 3 * GIB,
                                      .free_low = 3 * GIB };
    gpus[1] = (struct plm_watch_gpu){
        .id = "1", .name = "NVIDIA Double", .uuid = "GPU-1", .total = 24 * GIB, .free_low = 24 * GIB
    };
    result = (struct plm_watch_result){
        .driver = "580", .gpus = gpus, .gpu_count = 2, .samples = POINTS, .seconds = POINTS - 1
    };
    plan = (struct watch_plan){
        .source = "gpt2, batch 8", .device = 21 * GIB, .low = 21 * GIB, .high = 21 * GIB
    };
    report = (struct watch_report){ .result = &result,
                                    .plan = &plan,
                                    .title = "python train.py --name \"ümläut\"",
                                    .pid = 7,
                                    .interval = 1,
                                    .margin_share = 0.05,
                                    .end = WATCH_EXITED };
    return 0;
}

static int drop(void **state)
{
    arena_finish(&arena);
    return 0;
}

static const char *frame(size_t width, size_t height, bool colour)
{
    struct buf out = { .arena = &arena };
    struct layout layout = { &out, colour };

    watch_frame(&report, &layout, width, height);
    return buf_string(&out);
}

static const char *summary(void)
{
    struct buf out = { .arena = &arena };
    struct layout layout = { &out, false };

    watch_text(&report, &layout);
    return buf_string(&out);
}

/* text() - the summary without its columns and line breaks */
static const char *text(void)
{
    struct buf out = { .arena = &arena };

    for (const char *at = summary(); *at;) {
        size_t length = strcspn(at, " \n"), blank = strspn(at + length, " \n");

        buf_add(&out, at, length);
        if (blank > 0)
            buf_char(&out, ' ');
        at += length + blank;
    }
    return buf_string(&out);
}

/* line() - the @i'th line, from 0; NULL when there are not as many */
static const char *line(const char *lines, size_t i)
{
    for (; *lines; i--) {
        size_t length = strcspn(lines, "\n");

        if (i == 0)
            return arena_copy(&arena, lines, length);
        lines += length + 1;
    }
    return NULL;
}

static void assert_holds(const char *lines, const char *words)
{
    if (!strstr(lines, words))
        fail_msg("'%s' is not in:\n%s", words, lines);
}

static size_t count(const char *in, const char *what)
{
    size_t found = 0;

    while ((in = strstr(in, what))) {
        found++;
        in += strlen(what);
    }
    return found;
}

static void a_frame_has_its_size(void **state)
{
    static const size_t widths[] = { WATCH_FRAME_WIDTH_LEAST, 80, 240 },
                        heights[] = { WATCH_FRAME_LEAST, 8, 20 };

    for (size_t w = 0; w < 3; w++)
        for (size_t h = 0; h < 3; h++) {
            const char *lines = frame(widths[w], heights[h], false);

            for (size_t i = 0; i < heights[h]; i++)
                assert_true(utf8_columns(line(lines, i)) <= widths[w]);
            assert_null(line(lines, heights[h]));
            assert_int_equal(count(lines, "┤"), heights[h] - 2);
            assert_int_equal(count(frame(widths[w], heights[h], true), "\n"), heights[h]);
        }
}

static void a_frame_shows_the_job_and_the_plans_line(void **state)
{
    const char *lines = frame(80, 10, false), *plan_row = NULL;
    size_t bottom = count(line(lines, 8), "█");

    for (size_t i = 1; i < 9; i++)
        if (strstr(line(lines, i), "plan"))
            plan_row = line(lines, i);
    assert_non_null(plan_row);
    assert_true(count(plan_row, "╌") > 60);  /* it is above the job at all times */
    assert_true(bottom > 55 && bottom < 67); /* what fills a row from 1/16 of the run on */
    assert_holds(line(lines, 0), "0:16:39  GPU 0 NVIDIA Double");
    assert_holds(line(lines, 9),
                 "now 20.00 GiB  most 20.00 GiB  plan 21.00 GiB  free 3.00 GiB of 24.00 GiB");
}

static void no_peak_is_lost_however_narrow(void **state)
{
    size_t row = 0;

    points[777].job = 23 * GIB; /* one sample in a thousand */
    gpus[0].peak = 23 * GIB;
    plan = (struct watch_plan){ 0 };
    const char *lines = frame(WATCH_FRAME_WIDTH_LEAST, 18, false);

    while (row < 17 && !strstr(line(lines, row), "▇") && !strstr(line(lines, row), "█") &&
           !strstr(line(lines, row), "▆"))
        row++;
    assert_true(row >= 1 && row <= 3);
    assert_null(strstr(lines, "plan"));
}

static void what_is_above_the_plan_is_red(void **state)
{
    assert_null(strstr(frame(80, 8, true), "\033[1;31m"));
    plan.device = 10 * GIB;
    assert_non_null(strstr(frame(80, 8, true), "\033[1;31m"));
    assert_null(strchr(frame(80, 8, false), '\033'));
}

static void a_frame_before_the_first_sample_is_empty(void **state)
{
    gpus[0].point_count = 0;
    gpus[0].peak = gpus[0].now = 0;
    plan = (struct watch_plan){ 0 };
    assert_int_equal(count(frame(80, 8, false), "┤"), 6);
    assert_null(strstr(frame(80, 8, false), "█"));
}

static void the_summary_compares(void **state)
{
    assert_holds(text(), "watched for 0:16:39, until it ended with status 0");
    assert_holds(text(), "plan 21.00 GiB 1.00 GiB more than it took (5.0 %); gpt2, batch 8");
    assert_null(strstr(text(), "GPU 1"));
    plan.device = plan.low = plan.high = 16 * GIB;
    assert_holds(text(), "4.00 GiB less than it took (20.0 %)");
    plan.high = 22 * GIB;
    assert_holds(text(), "its range is 16.00 GiB to 22.00 GiB");
    plan.device = 20 * GIB;
    assert_holds(text(), "exactly what it took");
    plan.without_context = true;
    assert_holds(text(), "without a CUDA context");
    gpus[0].free_low = GIB;
    assert_holds(text(), "less than the margin");
}

static void the_summary_says_whose_memory_it_is(void **state)
{
    gpus[0].basis = PLM_WATCH_GROWTH;
    gpus[0].why = "Not Supported";
    assert_holds(text(), "device grew by");
    assert_holds(text(), "the driver does not tell the job's own: Not Supported");
    gpus[0].basis = PLM_WATCH_DEVICE;
    assert_holds(text(), "device's most");
}

static void the_summary_tells_of_leaks_and_gaps(void **state)
{
    assert_null(strstr(text(), "Leaks"));
    gpus[0].trend = (struct plm_watch_trend){ .known = true,
                                              .leak = true,
                                              .from = 300,
                                              .to = 999,
                                              .slope = (double)MIB,
                                              .slope_low = 0.9 * (double)MIB,
                                              .slope_high = 1.1 * (double)MIB,
                                              .p = 1e-9 };
    assert_holds(text(), "grows by 60.00 MiB/min (95");
    assert_holds(text(), "54.00 MiB/min to 66.00 MiB/min");
    assert_holds(text(), "the GPU is full in 0:51:12"); /* 3 GiB at 1 MiB a second */
    gpus[0].trend.leak = false;
    assert_null(strstr(text(), "leak"));
    gpus[0].trend.found = true;
    gpus[0].trend.found_at = 450;
    assert_holds(text(), "Looked like a leak at 0:07:30; in the end it falls back to no more");
    gpus[0].trend.since = GIB;
    assert_holds(text(), "falls back to 1.00 GiB more than then, and grows no longer");
    result.failed = 3;
    result.failure = "GPU 0 is lost";
    assert_holds(text(), "3 of 1000 samples are missing: GPU 0 is lost");
}

static void the_summary_fits_the_terminal(void **state)
{
    gpus[0].trend = (struct plm_watch_trend){
        .known = true, .leak = true, .slope = 1e6, .slope_low = 1e5, .slope_high = 1e7, .p = 1e-9
    };
    gpus[0].basis = PLM_WATCH_GROWTH;
    gpus[0].why = "it does not list the job's processes, as in a container";
    plan.high = 40 * GIB;
    const char *lines = summary();

    for (size_t i = 0; line(lines, i); i++)
        assert_true(utf8_columns(line(lines, i)) <= LAYOUT_WIDTH);
}

static void the_json_is_whole(void **state)
{
    struct buf out = { .arena = &arena };
    const struct yaml_node *root, *gpu;
    struct plm_error error;

    watch_json(&report, &out);
    assert_int_equal(yaml_parse("x", buf_string(&out), out.length, &arena, &root, &error), PLM_OK);
    assert_string_equal(yaml_get(root, "job")->text, report.title);
    assert_true(yaml_is_null(yaml_get(root, "signal")));
    assert_int_equal(yaml_get(root, "gpus")->item_count, 2);
    gpu = yaml_get(root, "gpus")->items[0];
    assert_int_equal(yaml_get(gpu, "points")->item_count, POINTS);
    assert_string_equal(yaml_get(gpu, "plan_less_peak_bytes")->text, "1073741824");
    assert_true(yaml_is_null(yaml_get(gpu, "ecc")));
    assert_true(yaml_is_null(yaml_get(gpu, "trend")));
    report.end = WATCH_KILLED;
    report.code = 9;
    out.length = 0;
    watch_json(&report, &out);
    assert_holds(buf_string(&out), "\"signal\": 9");
    assert_holds(buf_string(&out), "\"exit_status\": null");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_frame_has_its_size, make, drop),
        cmocka_unit_test_setup_teardown(a_frame_shows_the_job_and_the_plans_line, make, drop),
        cmocka_unit_test_setup_teardown(no_peak_is_lost_however_narrow, make, drop),
        cmocka_unit_test_setup_teardown(what_is_above_the_plan_is_red, make, drop),
        cmocka_unit_test_setup_teardown(a_frame_before_the_first_sample_is_empty, make, drop),
        cmocka_unit_test_setup_teardown(the_summary_compares, make, drop),
        cmocka_unit_test_setup_teardown(the_summary_says_whose_memory_it_is, make, drop),
        cmocka_unit_test_setup_teardown(the_summary_tells_of_leaks_and_gaps, make, drop),
        cmocka_unit_test_setup_teardown(the_summary_fits_the_terminal, make, drop),
        cmocka_unit_test_setup_teardown(the_json_is_whole, make, drop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
