/* report/text_plan.c - the largest safe batch, for people */
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "report/recipe.h"
#include "report/table.h"
#include "report/text.h"

enum { FLAGS_COLUMNS = 78 }; /* leaves room for a backslash */

static const char *where(const struct report *report)
{
    const struct plm_device *device = report->result->device;

    return device ? device->name : "the device";
}

static size_t digits(int64_t number)
{
    char text[24];

    return (size_t)snprintf(text, sizeof text, "%lld", (long long)number);
}

static void headline(struct layout *layout, const struct report *report)
{
    const struct plm_plan_result *plan = report->plan;
    char capacity[UNITS_TEXT];
    struct buf text = { .arena = layout->out->arena };

    units_format_bytes(plan->capacity, capacity);
    if (plan->batch == 0) {
        layout_style(layout, STYLE_BAD);
        buf_text(layout->out, "No batch");
        layout_style(layout, STYLE_PLAIN);
        buf_printf(&text, "is safe on %s (%s): the smallest that was tried is %lld", where(report),
                   capacity, (long long)report->result->batch);
        buf_char(layout->out, ' ');
        layout_wrap(layout, buf_string(&text), 9, 2);
        return;
    }
    layout_style(layout, STYLE_GOOD);
    buf_printf(layout->out, "Batch %lld", (long long)plan->batch);
    layout_style(layout, STYLE_PLAIN);
    if (report->strategy->parallel.pp > 1)
        buf_printf(&text, "× %lld micro-batches ", (long long)plan->accumulate);
    else if (plan->accumulate > 1)
        buf_printf(&text, "× %lld accumulated ", (long long)plan->accumulate);
    if (plan->data_parallel > 1)
        buf_printf(&text, "× %lld data-parallel ", (long long)plan->data_parallel);
    if (plan->limited && report->search->global_batch == 0)
        buf_printf(&text, "is safe on %s (%s), and nothing larger was tried", where(report),
                   capacity);
    else
        buf_printf(&text, "is the largest that is safe on %s (%s)", where(report), capacity);
    buf_char(layout->out, ' ');
    layout_wrap(layout, buf_string(&text), 7 + digits(plan->batch), 2);
}

static void bar(struct layout *layout, const struct plm_plan_result *plan)
{
    double used = (double)plan->result->peak.device / (double)plan->capacity;

    if (plan->batch == 0 || plan->capacity == 0)
        return;
    layout_style(layout, STYLE_GOOD);
    layout_bar(layout, used, 72, true);
    layout_style(layout, STYLE_PLAIN);
    buf_printf(layout->out, " %5.1f %%\n", 100 * used);
}

/* flags() - a line that is too long goes on after a backslash, before the next option */
static void flags(struct layout *layout, const struct report *report)
{
    size_t column = 2;

    if (report->plan->batch == 0)
        return;
    layout_heading(layout, "Ready to paste");
    buf_text(layout->out, "\n  ");
    for (const char *at = recipe_flags(report, layout->out->arena); *at;) {
        const char *next = strstr(at + 1, " --");
        size_t length = next ? (size_t)(next - at) : strlen(at);

        if (column > 2 && column + length > FLAGS_COLUMNS) {
            buf_text(layout->out, " \\\n   ");
            column = 3;
        }
        buf_printf(layout->out, "%.*s", (int)length, at);
        column += length;
        at += length;
    }
    buf_char(layout->out, '\n');
}

static bool any_accumulate(const struct plm_plan_result *plan)
{
    for (size_t i = 0; i < plan->candidate_count; i++)
        if (plan->candidates[i].accumulate > 1)
            return true;
    return false;
}

static void candidate_row(struct table *table,
                          const struct plm_plan_result *plan,
                          const struct plm_candidate *c,
                          bool accumulate)
{
    bool chosen = c->batch == plan->batch && plan->batch > 0;
    enum style style = chosen ? STYLE_BOLD : STYLE_PLAIN;
    plm_bytes left = plan->capacity > c->peak.device ? plan->capacity - c->peak.device : 0;

    table_text(table, style, chosen ? ">" : "");
    table_printf(table, style, "%lld", (long long)c->batch);
    if (accumulate)
        table_printf(table, style, "×%4lld", (long long)c->accumulate);
    else
        table_text(table, style, "");
    table_bytes(table, style, c->peak.allocated, "-");
    table_bytes(table, style, c->peak.reserved, "-");
    table_bytes(table, style, c->peak.device, "-");
    table_bytes(table, style, c->finishes ? left : 0, c->finishes ? "nothing" : "-");
    table_text(table,
               c->safe       ? STYLE_GOOD
               : c->finishes ? STYLE_WARN
                             : STYLE_BAD,
               c->safe ? "safe" : (c->finishes ? "in the margin" : "out of memory"));
}

static void candidates(struct layout *layout, const struct plm_plan_result *plan)
{
    bool accumulate = any_accumulate(plan);
    const struct table_column columns[] = {
        { .width = 1 },
        { .title = "batch", .align = TABLE_RIGHT, .width = 8 },
        { .title = accumulate ? "accum" : NULL, .align = TABLE_RIGHT },
        { .title = "allocated", .align = TABLE_RIGHT, .width = 11, .dispensed = true },
        { .title = "reserved", .align = TABLE_RIGHT, .width = 11, .dispensed = true },
        { .title = "device", .align = TABLE_RIGHT, .width = 11 },
        { .title = "free", .align = TABLE_RIGHT, .width = 11 },
        { .title = "verdict", .gap = 2 },
    };
    struct table table = TABLE(layout, 0, columns);

    if (plan->candidate_count == 0)
        return;
    buf_char(layout->out, '\n');
    for (size_t i = 0; i < plan->candidate_count; i++)
        candidate_row(&table, plan, &plan->candidates[i], accumulate);
    table_print(&table, layout, NULL);
    for (size_t i = 0; i < plan->candidate_count; i++)
        if (!plan->candidates[i].finishes) {
            layout_style(layout, STYLE_DIM);
            buf_text(layout->out, "  where memory runs out: what was reached until then\n");
            layout_style(layout, STYLE_PLAIN);
            break;
        }
}

static void margin(struct layout *layout, const struct plm_plan_result *plan)
{
    struct buf text = { .arena = layout->out->arena };
    char bytes[UNITS_TEXT];

    layout_heading(layout, "Margin");
    buf_char(layout->out, '\n');
    buf_printf(&text, "%s stay free", units_format_bytes(plan->margin, bytes));
    if (plan->margin_reason && *plan->margin_reason)
        buf_printf(&text, ": %s", plan->margin_reason);
    if (plan->reserve > 0)
        buf_printf(&text, "; and %s on top for others", units_format_bytes(plan->reserve, bytes));
    buf_text(layout->out, "  ");
    layout_wrap(layout, buf_string(&text), 2, 2);
    if (plan->not_monotone) {
        buf_text(layout->out, "  ");
        layout_wrap(
            layout,
            "A smaller batch that was tried is not safe: memory does not always grow with the "
            "batch, so do not take just any smaller one.",
            2, 2);
    }
}

void text_plan(const struct report *report, struct buf *out)
{
    struct layout layout = { out, report->colour };

    headline(&layout, report);
    bar(&layout, report->plan);
    text_peak(&layout, report->result);
    flags(&layout, report);
    candidates(&layout, report->plan);
    margin(&layout, report->plan);
    text_figures(&layout, report->result);
    text_ranks(&layout, report->result);
    text_doubts(&layout, report->result);
    buf_char(out, '\n');
    text_subject(&layout, report, false);
}
