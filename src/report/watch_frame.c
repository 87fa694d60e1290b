/*
 * report/watch_frame.c - a running job's memory as a drawing for the terminal
 *
 *     plimsoll watch 0:12:31  python train.py  GPU 0 NVIDIA A100-SXM4-80GB
 *      26.00 GiB ┤
 *           plan ┤╌╌╌╌╌╌╌╌╌╌╌▁▁▁▁▁▁▁▁
 *                ┤       ▄▄▄▄████████
 *              0 ┤▁▁█████████████████
 *     now 22.31 GiB  most 22.31 GiB  plan 22.50 GiB  free 57.10 GiB of 79.25 GiB
 *
 * A column shows the most within its span of time, so that no peak is lost. What lies above the plan is red.
 */
#include <stdio.h>

#include "base/num.h"
#include "base/units.h"
#include "report/utf8.h"
#include "report/watch.h"

enum { AXIS = 13, EIGHTHS = 8 }; /* columns of "1023.99 GiB ┤" */

static const double HEADROOM = 1.15; /* of what is shown, kept free above it */

void watch_time(struct buf *out, double seconds)
{
    uint64_t whole = seconds > 0 ? (uint64_t)seconds : 0;

    if (whole < 60) {
        buf_printf(out, "%.1f s", seconds > 0 ? seconds : 0);
        return;
    }
    buf_printf(out, "%llu:%02u:%02u", (unsigned long long)(whole / 3600),
               (unsigned)(whole / 60 % 60), (unsigned)(whole % 60));
}

plm_bytes watch_margin(const struct watch_report *report, const struct plm_watch_gpu *gpu)
{
    return num_max((plm_bytes)((double)gpu->total * report->margin_share), report->margin_bytes);
}

void watch_rate(struct buf *out, double bytes_per_second)
{
    char text[UNITS_TEXT];
    double a_minute = bytes_per_second * 60;

    buf_printf(out, "%s%s/min", a_minute < 0 ? "-" : "",
               units_format_bytes((plm_bytes)(a_minute < 0 ? -a_minute : a_minute), text));
}

static const struct plm_watch_gpu *worst(const struct watch_report *report)
{
    return &report->result->gpus[report->result->worst];
}

/* used_gpus() - how many GPUs the job has taken memory of */
static size_t used_gpus(const struct plm_watch_result *result)
{
    size_t count = 0;

    for (size_t i = 0; i < result->gpu_count; i++)
        count += result->gpus[i].peak > 0;
    return count;
}

/* cut() - @text in at most @width columns */
static void cut(struct layout *layout, const char *text, size_t width)
{
    size_t columns = 0;

    while (*text && columns < width) {
        size_t length = utf8_length(text);

        buf_add(layout->out, text, length ? length : 1);
        text += length ? length : 1;
        columns++;
    }
}

static void heading(const struct watch_report *report, struct layout *layout, size_t width)
{
    const struct plm_watch_gpu *gpu = worst(report);
    struct buf text = { .arena = layout->out->arena };
    size_t used = used_gpus(report->result);

    buf_text(&text, "plimsoll watch ");
    watch_time(&text, report->result->seconds);
    buf_printf(&text, "  GPU %s %s", gpu->id, gpu->name);
    if (used > 1)
        buf_printf(&text, " (the fullest of %zu)", used);
    buf_printf(&text, "  %s", report->title);
    layout_style(layout, STYLE_BOLD);
    cut(layout, buf_string(&text), width);
    layout_style(layout, STYLE_PLAIN);
    buf_char(layout->out, '\n'); /* last: what follows a line's end is another line */
}

static void figures(const struct watch_report *report, struct layout *layout, size_t width)
{
    const struct plm_watch_gpu *gpu = worst(report);
    char now[UNITS_TEXT], peak[UNITS_TEXT], plan[UNITS_TEXT], left[UNITS_TEXT], total[UNITS_TEXT];
    struct buf text = { .arena = layout->out->arena };

    buf_printf(&text, "%s %s  most %s", gpu->basis == PLM_WATCH_PROCESSES ? "now" : "device",
               units_format_bytes(gpu->now, now), units_format_bytes(gpu->peak, peak));
    if (report->plan->device > 0)
        buf_printf(&text, "  plan %s", units_format_bytes(report->plan->device, plan));
    buf_printf(&text, "  free %s of %s", units_format_bytes(gpu->free_now, left),
               units_format_bytes(gpu->total, total));
    if (gpu->trend.leak) {
        buf_text(&text, "  leaks ");
        watch_rate(&text, gpu->trend.slope);
    }
    if (gpu->free_now < watch_margin(report, gpu) || gpu->trend.leak)
        layout_style(layout, STYLE_WARN);
    cut(layout, buf_string(&text), width);
    layout_style(layout, STYLE_PLAIN);
    buf_char(layout->out, '\n'); /* last: what follows a line's end is another line */
}

/* struct chart - how the drawing stands to the figures */
struct chart {
    plm_bytes top, plan;
    size_t rows, columns;
    plm_bytes *most; /* [columns] */
};

static plm_bytes find_top(const struct watch_report *report)
{
    const struct plm_watch_gpu *gpu = worst(report);
    double shown = (double)num_max(gpu->peak, report->plan->device) * HEADROOM;

    return shown > 0 && shown < (double)gpu->total ? (plm_bytes)shown : num_max(gpu->total, 1);
}

/* fill() - the most within each column's span; a span without a sample goes on as the one before */
static void fill(const struct plm_watch_gpu *gpu, struct chart *chart)
{
    double from = gpu->point_count ? gpu->points[0].time : 0;
    double span = gpu->point_count ? gpu->points[gpu->point_count - 1].time - from : 0;
    size_t last = chart->columns;

    for (size_t i = 0; i < gpu->point_count; i++) {
        double share = span > 0 ? (gpu->points[i].time - from) / span : 0;
        size_t at = (size_t)(share * (double)(chart->columns - 1));

        for (size_t gap = last + 1; last < chart->columns && gap < at; gap++)
            chart->most[gap] = chart->most[last];
        chart->most[at] = num_max(chart->most[at], gpu->points[i].job);
        last = at;
    }
}

/* eighths() - the height of @bytes in eighths of a row; what is not nothing is seen */
static size_t eighths(const struct chart *chart, plm_bytes bytes)
{
    double share = (double)bytes / (double)chart->top;
    size_t all = chart->rows * EIGHTHS, height = (size_t)(share * (double)all);

    return bytes > 0 && height == 0 ? 1 : height > all ? all : height;
}

/* cell() - of row @row, counted from the bottom */
static void cell(struct layout *layout, const struct chart *chart, plm_bytes bytes, size_t row)
{
    static const char *const blocks[] = { " ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
    size_t height = eighths(chart, bytes), below = row * EIGHTHS;
    size_t part = height <= below ? 0 : height - below > EIGHTHS ? EIGHTHS : height - below;
    bool line = chart->plan > 0 && eighths(chart, chart->plan) / EIGHTHS == row;

    if (part == 0 && line) {
        buf_text(layout->out, "╌");
        return;
    }
    if (part > 0)
        layout_style(layout, chart->plan > 0 && bytes > chart->plan ? STYLE_BAD : STYLE_GOOD);
    buf_text(layout->out, blocks[part]);
    if (part > 0)
        layout_style(layout, STYLE_PLAIN);
}

static void axis(struct layout *layout, const struct chart *chart, size_t row)
{
    char text[UNITS_TEXT];
    const char *label = "";

    if (chart->plan > 0 && eighths(chart, chart->plan) / EIGHTHS == row)
        label = "plan";
    else if (row == chart->rows - 1)
        label = units_format_bytes(chart->top, text);
    else if (row == 0)
        label = "0";
    layout_right(layout, label, AXIS - 2);
    buf_text(layout->out, " ┤");
}

void watch_frame(const struct watch_report *report,
                 struct layout *layout,
                 size_t width,
                 size_t height)
{
    struct chart chart = { .top = find_top(report),
                           .plan = report->plan->device,
                           .rows = height - 2,
                           .columns = width - AXIS };

    chart.most = arena_array(layout->out->arena, plm_bytes, chart.columns);
    fill(worst(report), &chart);
    heading(report, layout, width);
    for (size_t row = chart.rows; row-- > 0;) {
        axis(layout, &chart, row);
        for (size_t i = 0; i < chart.columns; i++)
            cell(layout, &chart, chart.most[i], row);
        buf_char(layout->out, '\n');
    }
    figures(report, layout, width);
}

void watch_line(const struct watch_report *report, struct layout *layout)
{
    struct buf *out = layout->out;

    watch_time(out, report->result->seconds);
    buf_printf(out, "  GPU %s  ", worst(report)->id);
    figures(report, layout, SIZE_MAX);
}
