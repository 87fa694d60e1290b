/*
 * cli/watch_loop.c - samples, drawing and warnings while a job runs
 *
 * On a terminal the drawing has its bottom lines; elsewhere a line is written now and then. A sample that fails is told once and
 * counted; the job is not disturbed by it.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/units.h"
#include "cli/clock.h"
#include "cli/job.h"
#include "cli/screen.h"
#include "cli/talk.h"
#include "cli/watch_loop.h"

enum {
    FRAME_HEIGHT = 8,
    CANNOT_EXECUTE = 126, /* what a shell says of a program that cannot be run … */
    NOT_FOUND = 127,      /* … and of one that is not there */
    SIGNALLED = 128,      /* … and of one that a signal has ended: this and the signal's number */
};

static const double LINE_EVERY = 60, DRAW_EVERY = 0.2; /* seconds */

/* struct told - of one GPU; each is said once */
struct told {
    bool leak, plan, margin;
};

/* struct loop - a watch that goes on */
struct loop {
    struct cli *cli;
    struct plm_watch *watch;
    struct watch_report *report;
    struct job job;
    struct screen screen;
    struct arena scratch;
    double started, drawn, line;
    struct told *told; /* [gpu_count] */
    bool told_failure;
};

bool watch_colour(const struct cli *cli)
{
    const char *off = getenv("NO_COLOR");

    switch ((enum color_when)cli->options.color) {
    case COLOR_ALWAYS:
        return true;
    case COLOR_NEVER:
        return false;
    case COLOR_AUTO:
        break;
    }
    return isatty(STDERR_FILENO) && !(off && *off);
}

/* ------------------------------------------------------------------ what is said meanwhile */

static void warn(bool *told, const char *format, ...) PLM_PRINTF(2, 3);

static void warn(bool *told, const char *format, ...)
{
    char text[256];
    const char *const texts[] = { text };
    va_list values;

    if (*told)
        return;
    *told = true;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    talk_warnings(texts, 1);
}

static void warn_of_gpu(struct loop *loop, const struct plm_watch_gpu *gpu, struct told *told)
{
    const struct watch_report *report = loop->report;
    char first[UNITS_TEXT], second[UNITS_TEXT];
    struct buf rate = { .arena = &loop->scratch };

    if (gpu->now == 0)
        return;
    if (gpu->free_now < watch_margin(report, gpu))
        warn(&told->margin, "GPU %s: %s is free, less than the margin of %s", gpu->id,
             units_format_bytes(gpu->free_now, first),
             units_format_bytes(watch_margin(report, gpu), second));
    if (report->plan->device > 0 && gpu->now > report->plan->high)
        warn(&told->plan, "GPU %s: the job takes %s, more than the plan's %s", gpu->id,
             units_format_bytes(gpu->now, first), units_format_bytes(report->plan->high, second));
    if (gpu->trend.leak) {
        watch_rate(&rate, gpu->trend.slope);
        warn(&told->leak, "GPU %s: memory leaks: what the job falls back to grows by %s", gpu->id,
             buf_string(&rate));
    }
}

static void draw(struct loop *loop, double time)
{
    struct buf text = { .arena = &loop->scratch };
    struct layout layout = { &text, watch_colour(loop->cli) };

    if (loop->screen.height > 0) {
        if (time - loop->drawn < DRAW_EVERY && loop->drawn > 0)
            return;
        loop->drawn = time;
        watch_frame(loop->report, &layout, loop->screen.columns, loop->screen.height);
        screen_draw(&loop->screen, buf_string(&text), &loop->scratch);
    } else if (time - loop->line >= LINE_EVERY) {
        loop->line = time;
        watch_line(loop->report, &layout);
        fprintf(stderr, "plimsoll: %s", buf_string(&text));
    }
}

static void sample(struct loop *loop)
{
    struct plm_error error;
    double time = clock_seconds() - loop->started;
    enum plm_status status = plm_watch_sample(loop->watch, time, &error);
    const struct plm_watch_result *result = plm_watch_result(loop->watch);

    if (status != PLM_OK)
        warn(&loop->told_failure, "%s; the job is not disturbed", error.message);
    for (size_t i = 0; i < result->gpu_count; i++)
        warn_of_gpu(loop, &result->gpus[i], &loop->told[i]);
    draw(loop, time);
    arena_reset(&loop->scratch);
}

/* ------------------------------------------------------------------ the job's life */

static void open_screen(struct loop *loop)
{
    screen_open(&loop->screen, FRAME_HEIGHT, WATCH_FRAME_WIDTH_LEAST);
    loop->drawn = 0;
}

/* react() - to what happened; false: the job has ended, or is no longer to be watched */
static bool react(struct loop *loop, enum job_event event)
{
    switch (event) {
    case JOB_TIME:
        if (!plm_watch_alive(loop->watch)) {
            loop->report->end = WATCH_ENDED;
            return false;
        }
        sample(loop);
        return true;
    case JOB_RESIZE:
        screen_close(&loop->screen);
        open_screen(loop);
        return true;
    case JOB_SUSPEND:
        screen_close(&loop->screen);
        job_suspend();
        open_screen(loop);
        return true;
    case JOB_STOP:
        loop->report->end = WATCH_RUNS;
        return false;
    case JOB_ENDED:
        break;
    }
    loop->report->end = WIFSIGNALED(loop->job.status) ? WATCH_KILLED : WATCH_EXITED;
    loop->report->code =
        WIFSIGNALED(loop->job.status) ? WTERMSIG(loop->job.status) : WEXITSTATUS(loop->job.status);
    return false;
}

/* go_on() - until the job ends; samples keep to their times, and those that were missed are not made up for */
static void go_on(struct loop *loop)
{
    double interval = loop->report->interval, next = clock_seconds() + interval;
    enum job_event event;

    do {
        double left = next - clock_seconds();

        event = job_wait(&loop->job, left > 0 ? left : 0);
        if (event == JOB_TIME)
            next = clock_seconds() > next + interval ? clock_seconds() + interval : next + interval;
    } while (react(loop, event));
}

/* title_of() - what is followed, in one line */
static const char *title_of(struct cli *cli)
{
    struct buf text = { .arena = &cli->arena };

    if (cli->tail_count == 0)
        buf_printf(&text, "process %lld", (long long)cli->options.pid);
    for (size_t i = 0; i < cli->tail_count; i++)
        buf_printf(&text, "%s%s", i ? " " : "", cli->tail[i]);
    return buf_string(&text);
}

/* start() - the command, after a first sample: what is there before it; returns the status of a failure, or 0 */
static enum exit_status start(struct loop *loop)
{
    struct plm_error error;
    enum plm_status status;
    int cause = 0;

    status = plm_watch_sample(loop->watch, 0, &error);
    if (status == PLM_OK && loop->cli->tail_count > 0) {
        status = job_start(&loop->job, loop->cli->tail, &cause, &error);
        loop->report->pid = loop->job.child;
    }
    if (status != PLM_OK) {
        talk_error(&error);
        return EXIT_TROUBLE;
    }
    if (cause == 0)
        return EXIT_FITS;
    plm_fail(&error, PLM_E_USAGE, "cannot run '%.120s': %s", loop->cli->tail[0], strerror(cause));
    talk_error(&error);
    return (enum exit_status)(cause == ENOENT ? NOT_FOUND : CANNOT_EXECUTE);
}

static enum exit_status status_of(const struct watch_report *report)
{
    switch (report->end) {
    case WATCH_RUNS:
    case WATCH_ENDED:
        return EXIT_FITS;
    case WATCH_EXITED:
        return (enum exit_status)report->code;
    case WATCH_KILLED:
        break;
    }
    return (enum exit_status)(SIGNALLED + report->code);
}

enum exit_status watch_loop(struct cli *cli,
                            struct plm_watch *watch,
                            struct watch_report *report,
                            bool *ret_began)
{
    struct loop loop = {
        .cli = cli,
        .watch = watch,
        .report = report,
        .told = arena_array(&cli->arena, struct told, report->result->gpu_count),
        .started = clock_seconds(),
    };
    struct plm_error error;
    enum exit_status failed;

    *ret_began = false;
    report->title = title_of(cli);
    if (job_begin(&loop.job, &error) != PLM_OK) {
        talk_error(&error);
        return EXIT_TROUBLE;
    }
    failed = start(&loop);
    if (failed == EXIT_FITS) {
        open_screen(&loop);
        go_on(&loop);
        screen_close(&loop.screen);
        *ret_began = true;
    }
    job_finish(&loop.job);
    arena_finish(&loop.scratch);
    report->result = plm_watch_result(watch);
    return failed == EXIT_FITS ? status_of(report) : failed;
}
