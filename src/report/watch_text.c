/* report/watch_text.c - what came out of a watch, for people */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "report/watch.h"

enum { LABEL = 16, FIGURE = 11 };

static void headline(const struct watch_report *report, struct layout *layout)
{
    struct buf text = { .arena = layout->out->arena };

    buf_printf(&text, "%s: watched for ", report->title);
    watch_time(&text, report->result->seconds);
    switch (report->end) {
    case WATCH_RUNS:
        buf_text(&text, ", and it goes on");
        break;
    case WATCH_ENDED:
        buf_text(&text, ", until it ended");
        break;
    case WATCH_EXITED:
        buf_printf(&text, ", until it ended with status %d", report->code);
        break;
    case WATCH_KILLED:
        buf_printf(&text, ", until signal %d (%s) ended it", report->code, strsignal(report->code));
        break;
    }
    layout_style(layout, STYLE_BOLD);
    layout_wrap(layout, buf_string(&text), 0, 2);
    layout_style(layout, STYLE_PLAIN);
}

/* row() - a label, a size, and a remark that is wrapped beside it; @remark may be NULL */
static void row(struct layout *layout, const char *label, plm_bytes bytes, const char *remark)
{
    buf_text(layout->out, "  ");
    layout_left(layout, label, LABEL);
    layout_bytes(layout, bytes, NULL, FIGURE);
    if (remark) {
        buf_text(layout->out, "  ");
        layout_wrap(layout, remark, LABEL + FIGURE + 4, LABEL + FIGURE + 4);
    } else {
        buf_char(layout->out, '\n');
    }
}

static void title(struct layout *layout, const struct plm_watch_gpu *gpu)
{
    struct buf text = { .arena = layout->out->arena };
    char total[UNITS_TEXT];

    buf_printf(&text, "GPU %s %s (%s)", gpu->id, gpu->name, units_format_bytes(gpu->total, total));
    layout_heading(layout, buf_string(&text));
    buf_char(layout->out, '\n');
}

static void peak(struct layout *layout, const struct plm_watch_gpu *gpu)
{
    struct buf text = { .arena = layout->out->arena };
    const char *label = "job's most";

    buf_text(&text, "after ");
    watch_time(&text, gpu->peak_time);
    switch (gpu->basis) {
    case PLM_WATCH_PROCESSES:
        break;
    case PLM_WATCH_GROWTH:
        label = "device grew by";
        buf_printf(&text, "; the driver does not tell the job's own: %s", gpu->why);
        break;
    case PLM_WATCH_DEVICE:
        label = "device's most";
        buf_printf(&text, "; the driver does not tell the job's own: %s", gpu->why);
        break;
    }
    row(layout, label, gpu->peak, buf_string(&text));
}

/* held() - the prediction, and how it compared */
static void held(struct layout *layout,
                 const struct watch_plan *plan,
                 const struct plm_watch_gpu *gpu)
{
    struct buf text = { .arena = layout->out->arena };
    plm_bytes apart =
        plan->device > gpu->peak ? plan->device - gpu->peak : gpu->peak - plan->device;
    bool over = gpu->peak > plan->high;
    char size[UNITS_TEXT], low[UNITS_TEXT], high[UNITS_TEXT];

    if (apart == 0)
        buf_text(&text, "exactly what it took");
    else
        buf_printf(&text, "%s %s than it took (%.1f %%)", units_format_bytes(apart, size),
                   plan->device > gpu->peak ? "more" : "less",
                   100 * (double)apart / (double)(gpu->peak ? gpu->peak : 1));
    buf_printf(&text, "; %s", plan->source);
    if (plan->low != plan->high)
        buf_printf(&text, "; its range is %s to %s", units_format_bytes(plan->low, low),
                   units_format_bytes(plan->high, high));
    if (plan->without_context)
        buf_text(&text, "; without a CUDA context, as no device profile is known");
    if (plan->fails)
        buf_text(&text, "; it said that memory runs out");
    layout_style(layout, over ? STYLE_BAD : STYLE_PLAIN);
    row(layout, "plan", plan->device, buf_string(&text));
    layout_style(layout, STYLE_PLAIN);
}

/* full_in() - when a leak has taken what is free */
static void full_in(struct buf *text, const struct plm_watch_gpu *gpu)
{
    double seconds = (double)gpu->free_now / gpu->trend.slope;

    if (!(gpu->trend.slope > 0) || !isfinite(seconds) || seconds > 1e9)
        return;
    buf_text(text, "; at that pace the GPU is full in ");
    watch_time(text, seconds);
}

/* ended() - of a leak that was warned of and is none any more */
static void ended(struct layout *layout, const struct plm_watch_trend *trend)
{
    struct buf text = { .arena = layout->out->arena };
    char since[UNITS_TEXT];

    if (!trend->found)
        return;
    buf_text(&text, "Looked like a leak at ");
    watch_time(&text, trend->found_at);
    if (trend->since > 0)
        buf_printf(&text, "; in the end it falls back to %s more than then, and grows no longer",
                   units_format_bytes(trend->since, since));
    else
        buf_text(&text, "; in the end it falls back to no more than then");
    buf_text(layout->out, "  ");
    layout_wrap(layout, buf_string(&text), 2, 2);
}

static void trend(struct layout *layout, const struct plm_watch_gpu *gpu)
{
    const struct plm_watch_trend *trend = &gpu->trend;
    struct buf text = { .arena = layout->out->arena };

    if (!trend->leak) {
        ended(layout, trend);
        return;
    }
    buf_text(&text, "Leaks: what it falls back to grows by ");
    watch_rate(&text, trend->slope);
    buf_text(&text, " (95 %: ");
    watch_rate(&text, trend->slope_low);
    buf_text(&text, " to ");
    watch_rate(&text, trend->slope_high);
    buf_text(&text, "), judged from ");
    watch_time(&text, trend->from);
    buf_text(&text, " to ");
    watch_time(&text, trend->to);
    buf_printf(&text, " (Kendall's test, p = %.1g)", trend->p);
    full_in(&text, gpu);
    buf_text(layout->out, "  ");
    layout_style(layout, STYLE_BAD);
    layout_wrap(layout, buf_string(&text), 2, 2);
    layout_style(layout, STYLE_PLAIN);
}

static void one(const struct watch_report *report, struct layout *layout, size_t i)
{
    const struct plm_watch_gpu *gpu = &report->result->gpus[i];

    title(layout, gpu);
    peak(layout, gpu);
    if (report->plan->device > 0)
        held(layout, report->plan, gpu);
    row(layout, "in use, most", gpu->used_peak, "on the device, by all");
    row(layout, "free, least", gpu->free_low,
        gpu->free_low < watch_margin(report, gpu) ? "less than the margin" : NULL);
    trend(layout, gpu);
}

static void trouble(const struct plm_watch_result *result, struct layout *layout)
{
    struct buf text = { .arena = layout->out->arena };

    if (result->failed == 0)
        return;
    buf_printf(&text, "%llu of %llu samples are missing: %s", (unsigned long long)result->failed,
               (unsigned long long)result->samples, result->failure);
    buf_char(layout->out, '\n');
    layout_style(layout, STYLE_WARN);
    layout_wrap(layout, buf_string(&text), 0, 2);
    layout_style(layout, STYLE_PLAIN);
}

/* seen() - was the job ever looked at; of a command the first sample is from before it began */
static bool seen(const struct watch_report *report)
{
    bool command = report->end == WATCH_EXITED || report->end == WATCH_KILLED;

    return report->result->samples > report->result->failed + command;
}

void watch_text(const struct watch_report *report, struct layout *layout)
{
    const struct plm_watch_result *result = report->result;
    size_t shown = 0;

    headline(report, layout);
    for (size_t i = 0; i < result->gpu_count; i++)
        if (result->gpus[i].peak > 0) {
            one(report, layout, i);
            shown++;
        }
    if (shown == 0)
        buf_text(layout->out, seen(report)
                                  ? "It took no GPU memory.\n"
                                  : "Not known: it ended before it was looked at; a shorter "
                                    "--interval sees more.\n");
    trouble(result, layout);
}
