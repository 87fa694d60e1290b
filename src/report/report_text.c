/*
 * report/report_text.c - the answer for people: 80 columns, the verdict first
 *
 * What must be seen in five seconds comes first: does it fit, how much is left, where the peak is, what would
 * lower it. The tables below it say why.
 */
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "report/layout.h"
#include "report/phases.h"
#include "report/recipe.h"
#include "report/table.h"
#include "report/text.h"

enum { KINDS = 12, BLOCKS = 6, OPERATORS = 6 }; /* rows of a table before "others" */

static void line(struct layout *layout)
{
    buf_char(layout->out, '\n');
}

/* text_item() - ", batch 8": one option that is not the default */
void text_item(struct buf *text, const struct recipe_item *item)
{
    const char *key = recipe_option(item, text->arena);

    switch (item->kind) {
    case RECIPE_TEXT:
        if (strcmp(item->key, "precision") == 0 || strcmp(item->key, "optimizer") == 0 ||
            strcmp(item->key, "framework") == 0)
            buf_printf(text, ", %s", item->text);
        else
            buf_printf(text, ", %s %s", key, item->text);
        break;
    case RECIPE_COUNT:
        buf_printf(text, ", %s %lld", key, (long long)item->count);
        break;
    case RECIPE_REAL:
        buf_printf(text, ", %s %g", key, item->real);
        break;
    case RECIPE_BOOL:
        buf_printf(text, ", %s", key);
        break;
    case RECIPE_ABSENT:
        break;
    }
}

/* text_subject() - what was run: model, size, batch, and every option that is not the default */
void text_subject(struct layout *layout, const struct report *report, bool batch)
{
    const struct plm_result *r = report->result;
    size_t count;
    const struct recipe_item *items = recipe_items(report, layout->out->arena, &count);
    struct buf text = { .arena = layout->out->arena };
    char parameters[UNITS_TEXT];

    buf_printf(&text, "%s: %s parameters", r->model,
               units_format_grouped(r->parameters, parameters));
    if (r->trainable_parameters != r->parameters)
        buf_printf(&text, " (%s trained)",
                   units_format_grouped(r->trainable_parameters, parameters));
    for (size_t i = 0; i < count; i++) {
        const struct recipe_item *item = &items[i];

        if (item->usual || (!batch && i == 0))
            continue;
        text_item(&text, item);
    }
    for (size_t i = 0; i < report->strategy->setting_count; i++)
        buf_printf(&text, ", %s=%s", report->strategy->settings[i].name,
                   report->strategy->settings[i].value);
    layout_style(layout, STYLE_DIM);
    layout_wrap(layout, buf_string(&text), 0, 2);
    layout_style(layout, STYLE_PLAIN);
}

/* text_place() - "the backward of step 1, in linear (h.11.mlp)" */
void text_place(struct buf *out, const char *phase, int step, const char *op, const char *block)
{
    buf_printf(out, "%s", phase ? phase : "the run");
    if (step >= 0)
        buf_printf(out, " of step %d", step);
    if (op && *op)
        buf_printf(out, ", in %s", op);
    if (block && *block)
        buf_printf(out, " (%s)", block);
}

static const char *device_name(const struct plm_result *r)
{
    return r->device ? r->device->name : "the device";
}

static void verdict(struct layout *layout, const struct plm_result *r)
{
    const char *least = r->workspace_unknown ? "at least " : "";
    char need[UNITS_TEXT], capacity[UNITS_TEXT], other[UNITS_TEXT];
    struct buf text = { .arena = layout->out->arena };

    units_format_bytes(r->peak.device, need);
    units_format_bytes(r->capacity, capacity);
    if (r->fits < 0) {
        layout_style(layout, STYLE_BOLD);
        buf_printf(layout->out, "Needs %s%s", least, need);
        layout_style(layout, STYLE_PLAIN);
        buf_text(layout->out, "; name a --device to see whether that fits\n");
        return;
    }
    layout_style(layout, r->fits ? STYLE_GOOD : STYLE_BAD);
    buf_text(layout->out, r->fits ? "Fits" : "Does not fit");
    layout_style(layout, STYLE_PLAIN);
    if (r->fits)
        buf_printf(&text, "on %s: %s%s of %s, %s stay free", device_name(r), least, need, capacity,
                   units_format_bytes(
                       r->capacity > r->peak.device ? r->capacity - r->peak.device : 0, other));
    else if (r->out_of_memory) {
        buf_printf(&text, "on %s (%s): out of memory in ", device_name(r), capacity);
        text_place(&text, r->failure.phase, r->failure.step, r->failure.op, r->failure.block);
        buf_printf(&text, ", which asked for %s", units_format_bytes(r->failure.request, other));
        if (r->failure.segment > r->failure.request)
            buf_printf(&text, " (a segment of %s)", units_format_bytes(r->failure.segment, other));
    } else {
        buf_printf(&text, "on %s: %s%s of %s", device_name(r), least, need, capacity);
    }
    buf_char(layout->out, ' ');
    layout_wrap(layout, buf_string(&text), r->fits ? 5 : 13, 2);
}

static void capacity_bar(struct layout *layout, const struct plm_result *r)
{
    double share;

    if (r->capacity == 0)
        return;
    share = (double)r->peak.device / (double)r->capacity;
    layout_style(layout, r->fits == 0 ? STYLE_BAD : share > 0.9 ? STYLE_WARN : STYLE_GOOD);
    layout_bar(layout, share, 72, true);
    layout_style(layout, STYLE_PLAIN);
    buf_printf(layout->out, " %5.1f %%\n", 100 * share);
}

static void figure(struct table *table, const char *name, plm_bytes bytes, const char *meaning)
{
    char exact[UNITS_TEXT];

    table_text(table, STYLE_PLAIN, name);
    table_bytes(table, STYLE_BOLD, bytes, NULL);
    table_printf(table, STYLE_PLAIN, "%s", units_format_grouped(bytes, exact));
    table_printf(table, STYLE_DIM, "%s", meaning);
}

/* text_figures() - the four figures that people confuse */
void text_figures(struct layout *layout, const struct plm_result *r)
{
    static const struct table_column columns[] = {
        { .width = 10 },
        { .align = TABLE_RIGHT, .width = 11 },
        { .align = TABLE_RIGHT, .width = 18 },
        { .gap = 2 },
    };
    struct table table = TABLE(layout, 2, columns);
    char context[UNITS_TEXT], low[UNITS_TEXT], high[UNITS_TEXT], meaning[64];

    figure(&table, "requested", r->peak.requested, "what live tensors asked for");
    figure(&table, "allocated", r->peak.allocated, "max_memory_allocated()");
    figure(&table, "reserved", r->peak.reserved, "max_memory_reserved()");
    if (r->context > 0)
        snprintf(meaning, sizeof meaning, "nvidia-smi; %s of context",
                 units_format_bytes(r->context, context));
    else
        snprintf(meaning, sizeof meaning, "reserved; no context counted");
    figure(&table, "device", r->peak.device, meaning);
    if (r->nccl > 0) {
        snprintf(meaning, sizeof meaning, "of it; may be %s to %s",
                 units_format_bytes(r->nccl_low, low), units_format_bytes(r->nccl_high, high));
        figure(&table, "NCCL", r->nccl, meaning);
    }
    if (r->has_minimum_capacity)
        figure(&table, "minimum", r->minimum_capacity, "the allocator gets by with this");
    table_print(&table, layout, r->out_of_memory ? "Reached before it failed" : "Peak memory");
}

static void step_label(const struct phase_row *row, char label[24])
{
    if (row->first < 0)
        snprintf(label, 24, "setup");
    else if (row->first == row->last)
        snprintf(label, 24, "step %d", row->first);
    else
        snprintf(label, 24, "step %d-%d", row->first, row->last);
}

static void phases(struct layout *layout, const struct plm_result *r)
{
    static const struct table_column columns[] = {
        { .width = 10 },
        { .width = 15 },
        { .title = "requested", .align = TABLE_RIGHT, .width = 11 },
        { .title = "allocated", .align = TABLE_RIGHT, .width = 11 },
        { .title = "reserved", .align = TABLE_RIGHT, .width = 11 },
        { .title = "left after", .align = TABLE_RIGHT, .width = 10 },
        { .width = 0 },
    };
    struct table table = TABLE(layout, 2, columns);
    size_t count;
    const struct phase_row *rows = phases_fold(r, layout->out->arena, &count);
    char label[24], shown[24] = "";

    for (size_t i = 0; i < count; i++) {
        bool peak = r->at.phase && strcmp(rows[i].name, r->at.phase) == 0 &&
                    rows[i].first <= r->at.step && r->at.step <= rows[i].last;
        enum style style = peak ? STYLE_BOLD : STYLE_PLAIN;

        if (rows[i].peak.allocated == 0)
            continue;
        step_label(&rows[i], label);
        table_printf(&table, STYLE_PLAIN, "%s", strcmp(label, shown) == 0 ? "" : label);
        snprintf(shown, sizeof shown, "%s", label);
        table_text(&table, style, rows[i].name);
        table_bytes(&table, style, rows[i].peak.requested, "-");
        table_bytes(&table, style, rows[i].peak.allocated, "-");
        table_bytes(&table, style, rows[i].peak.reserved, "-");
        table_bytes(&table, style, rows[i].allocated_end, "-");
        table_text(&table, style, peak ? "peak" : "");
    }
    table_print(&table, layout, "Phases");
}

enum { SHARE_BAR = 17 };

static const char *share_bar(struct layout *layout, double share)
{
    struct layout plain = { .out = &(struct buf){ .arena = layout->out->arena } };

    if (share * SHARE_BAR * 8 >= 1) /* an eighth of a column is the least that can be drawn */
        layout_bar(&plain, share, SHARE_BAR, false);
    return buf_string(plain.out);
}

static void share_row(struct table *table,
                      struct layout *layout,
                      const struct plm_share *item,
                      double share)
{
    table_text(table, STYLE_PLAIN, item->name && *item->name ? item->name : "(none)");
    table_bytes(table, STYLE_PLAIN, item->bytes, NULL);
    table_printf(table, STYLE_PLAIN, "%.1f %%", 100 * share);
    table_printf(table, STYLE_PLAIN, "%llu", (unsigned long long)item->count);
    table_text(table, STYLE_GOOD, share_bar(layout, share));
}

static void shares(struct layout *layout,
                   const char *by,
                   const struct plm_share *items,
                   size_t count,
                   size_t most,
                   plm_bytes of)
{
    static const struct table_column columns[] = {
        { .width = 28, .shortens = true },
        { .align = TABLE_RIGHT, .width = 12 },
        { .title = "share", .align = TABLE_RIGHT, .width = 7 },
        { .title = "tensors", .align = TABLE_RIGHT, .width = 9 },
        { .width = SHARE_BAR, .gap = 2 },
    };
    struct table table = TABLE(layout, 2, columns);
    plm_bytes rest = 0;

    if (count == 0)
        return;
    for (size_t i = 0; i < count; i++)
        if (i < most)
            share_row(&table, layout, &items[i], of ? (double)items[i].bytes / (double)of : 0);
        else
            rest += items[i].bytes;
    if (count > most) {
        table_printf(&table, STYLE_DIM, "%zu other%s", count - most, count - most == 1 ? "" : "s");
        table_bytes(&table, STYLE_DIM, rest, NULL);
        table_printf(&table, STYLE_DIM, "%.1f %%", of ? 100 * (double)rest / (double)of : 0);
        table_text(&table, STYLE_DIM, "");
        table_text(&table, STYLE_DIM, "");
    }
    table_print(&table, layout, by);
}

static void ledger(struct layout *layout, const struct plm_result *r)
{
    static const struct table_column columns[] = {
        { .width = 28 },
        { .align = TABLE_RIGHT, .width = 12 },
        { .align = TABLE_RIGHT, .width = 7 },
    };
    struct table table = TABLE(layout, 2, columns);

    for (size_t i = 0; i < r->ledger_count; i++) {
        table_text(&table, STYLE_PLAIN, r->ledger[i].name);
        table_bytes(&table, STYLE_PLAIN, r->ledger[i].bytes, "-");
        table_printf(&table, STYLE_PLAIN, "%.2f", r->ledger[i].per_parameter);
    }
    table_print(&table, layout, "Bytes per parameter");
}

static void note(struct layout *layout, const char *sign, enum style style, const char *text)
{
    layout_style(layout, style);
    buf_text(layout->out, sign);
    layout_style(layout, STYLE_PLAIN);
    layout_wrap(layout, text, strlen(sign), strlen(sign));
}

/* unknown_workspaces() - what is missing in the figures; a part of them only, when most were known */
static void unknown_workspaces(struct layout *layout, const struct plm_result *r)
{
    struct buf text = { .arena = layout->out->arena };
    char low[UNITS_TEXT], high[UNITS_TEXT];
    bool some = r->cudnn.asked > 0 || r->cudnn.looked_up > 0;

    if (r->workspace_high == 0)
        buf_text(&text, "Some workspaces of cuDNN are not known; the figures are without them.");
    else
        buf_printf(&text,
                   "cuDNN chooses %sworkspaces here that are not known: they add %s to %s. The "
                   "figures are without them.",
                   some ? "some " : "", units_format_bytes(r->workspace_low, low),
                   units_format_bytes(r->workspace_high, high));
    note(layout, "  ! ", STYLE_WARN, buf_string(&text));
}

/* known_workspaces() - who said what cuDNN takes */
static void known_workspaces(struct layout *layout, const struct plm_result *r)
{
    struct buf text = { .arena = layout->out->arena };
    char most[UNITS_TEXT];

    buf_text(&text, "cuDNN's workspaces are ");
    if (r->cudnn.asked > 0)
        buf_printf(&text, "what cuDNN %d.%d.%d plans", r->cudnn.library / 10000,
                   r->cudnn.library / 100 % 100, r->cudnn.library % 100);
    if (r->cudnn.looked_up > 0)
        buf_printf(&text, "%sfrom the table of cuDNN %d.%d", r->cudnn.asked > 0 ? ", and " : "",
                   r->cudnn.table / 10000, r->cudnn.table / 100 % 100);
    buf_text(&text, " for this device.");
    if (r->cudnn.blas > 0)
        buf_text(&text, " Some of its plans use cuBLASLt, which is taken to need no workspace");
    if (r->cudnn.blas_most > 0)
        buf_printf(&text, "; it may take up to %s", units_format_bytes(r->cudnn.blas_most, most));
    if (r->cudnn.blas > 0)
        buf_char(&text, '.');
    note(layout, "  = ", STYLE_PLAIN, buf_string(&text));
}

/* text_doubts() - what stands behind the figures, and what does not */
void text_doubts(struct layout *layout, const struct plm_result *r)
{
    struct buf text = { .arena = layout->out->arena };
    bool known = r->cudnn.asked > 0 || r->cudnn.looked_up > 0;

    if (!known && !r->workspace_unknown && r->unverified_count == 0 && r->retries == 0 &&
        r->fallbacks == 0)
        return;
    layout_heading(layout, "Before you rely on it");
    line(layout);
    if (known)
        known_workspaces(layout, r);
    if (r->workspace_unknown)
        unknown_workspaces(layout, r);
    if (r->retries > 0) {
        text.length = 0;
        buf_printf(
            &text,
            "The allocator ran full and emptied its cache %llu time%s; that is slow, and less "
            "certain than a run with room to spare.",
            (unsigned long long)r->retries, r->retries == 1 ? "" : "s");
        note(layout, "  ! ", STYLE_WARN, buf_string(&text));
    }
    if (r->fallbacks > 0) {
        text.length = 0;
        buf_printf(&text,
                   "%llu time%s memory was short and cuDNN took a plan with a smaller workspace.",
                   (unsigned long long)r->fallbacks, r->fallbacks == 1 ? "" : "s");
        note(layout, "  ! ", STYLE_WARN, buf_string(&text));
    }
    for (size_t i = 0; i < r->unverified_count; i++) {
        text.length = 0;
        buf_printf(&text, "not confirmed by a measurement: %s", r->unverified[i]);
        note(layout, "  ? ", STYLE_WARN, buf_string(&text));
    }
}

/* text_peak() - where the peak is, and what would lower it */
void text_peak(struct layout *layout, const struct plm_result *r)
{
    struct buf text = { .arena = layout->out->arena };

    if (r->advice && *r->advice) { /* says where, too */
        note(layout, "> ", STYLE_DIM, r->advice);
        return;
    }
    buf_text(&text, r->out_of_memory ? "highest in " : "the peak is in ");
    text_place(&text, r->at.phase, r->at.step, r->at.op, r->at.block);
    note(layout, "> ", STYLE_DIM, buf_string(&text));
}

static void text_estimate(const struct report *report, struct buf *out)
{
    const struct plm_result *r = report->result;
    struct layout layout = { out, report->colour };

    verdict(&layout, r);
    capacity_bar(&layout, r);
    text_peak(&layout, r);
    text_figures(&layout, r);
    text_ranks(&layout, r);
    phases(&layout, r);
    shares(&layout, "Alive at the peak, by kind", r->live_by_category, r->live_by_category_count,
           KINDS, r->peak.requested);
    shares(&layout, "by block", r->live_by_block, r->live_by_block_count, BLOCKS,
           r->peak.requested);
    shares(&layout, "by operator", r->live_by_operator, r->live_by_operator_count, OPERATORS,
           r->peak.requested);
    ledger(&layout, r);
    text_doubts(&layout, r);
    line(&layout);
    text_subject(&layout, report, true);
}

const struct renderer renderer_text = {
    text_estimate, text_plan, text_list, text_compare, text_difference,
};
