/*
 * report/text_compare.c - strategies side by side, for people
 *
 * Two tables over the same rows: the first says which strategy fits and how full the device is, the second has the figures.
 * Options that vary are columns of the first; where they are too wide for 80 columns, a list at its end.
 */
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "base/units.h"
#include "report/compare.h"
#include "report/text.h"
#include "report/utf8.h"

enum { NUMBER = 5, DEVICE = 12, BAR = 10, VERDICT = 9, CHANGE = 10, LARGEST = 9, GAP = 2 };

static const char *value_of(const struct compare_row *row, size_t axis)
{
    return row->values[axis][0] ? row->values[axis] : "-";
}

static size_t axis_width(const struct compare_report *report, size_t axis)
{
    size_t width = utf8_columns(report->axes[axis]);

    for (size_t i = 0; i < report->row_count; i++)
        width = num_max(width, utf8_columns(value_of(&report->rows[i], axis)));
    return width;
}

/* fixed_width() - of the first table, without the options that vary */
static size_t fixed_width(const struct compare_report *report)
{
    size_t width = NUMBER + DEVICE + GAP + BAR + GAP + VERDICT;

    if (report->baseline)
        width += CHANGE;
    if (report->largest_batch)
        width += LARGEST;
    return width;
}

static bool axes_fit(const struct compare_report *report)
{
    size_t width = fixed_width(report);

    for (size_t i = 0; i < report->axis_count; i++)
        width += GAP + axis_width(report, i);
    return width <= LAYOUT_WIDTH;
}

static void spaces(struct layout *layout, size_t count)
{
    layout_left(layout, "", count);
}

/* axes() - the row's values, or the names of the options when @row is NULL; and the line's end */
static void axes(struct layout *layout,
                 const struct compare_report *report,
                 const struct compare_row *row)
{
    size_t column = fixed_width(report) + GAP;
    bool fit = axes_fit(report);
    struct buf list = { .arena = layout->out->arena };

    for (size_t i = 0; i < report->axis_count; i++) {
        const char *text = row ? value_of(row, i) : report->axes[i];

        if (!fit) {
            buf_printf(&list, "%s%s", i ? " " : "", text);
            continue;
        }
        spaces(layout, GAP);
        if (i + 1 == report->axis_count)
            buf_text(layout->out, text);
        else
            layout_left(layout, text, axis_width(report, i));
    }
    if (fit) {
        buf_char(layout->out, '\n');
        return;
    }
    spaces(layout, GAP);
    layout_wrap(layout, buf_string(&list), column, column);
}

/* full() - the device figure that a whole bar stands for */
static plm_bytes full(const struct compare_report *report, const struct plm_result *r)
{
    plm_bytes most = 0;

    if (r->capacity > 0)
        return r->capacity;
    for (size_t i = 0; i < report->row_count; i++)
        if (report->rows[i].report.result)
            most = num_max(most, report->rows[i].report.result->peak.device);
    return most;
}

static void bar(struct layout *layout,
                const struct compare_report *report,
                const struct plm_result *r)
{
    plm_bytes whole = full(report, r);
    double share = r->out_of_memory ? 1 : whole ? (double)r->peak.device / (double)whole : 0;

    layout_style(layout, r->fits == 0                 ? STYLE_BAD
                         : share > 0.9 && r->fits > 0 ? STYLE_WARN
                                                      : STYLE_GOOD);
    layout_bar(layout, share, BAR, true);
    layout_style(layout, STYLE_PLAIN);
}

static void verdict(struct layout *layout, const struct plm_result *r)
{
    layout_style(layout, r->fits < 0 ? STYLE_DIM : r->fits ? STYLE_GOOD : STYLE_BAD);
    layout_left(layout, r->fits < 0 ? "-" : (r->fits ? "fits" : "too large"), VERDICT);
    layout_style(layout, STYLE_PLAIN);
}

static void change(struct layout *layout, const struct growth *growth)
{
    char text[32];

    if (!growth->before)
        snprintf(text, sizeof text, "new");
    else if (!growth->figure)
        snprintf(text, sizeof text, "-");
    else if (growth->share == 0 || strcmp(growth->figure, "out of memory") == 0)
        snprintf(text, sizeof text, "%s",
                 growth->share == 0 && !growth->grew ? "same" : "too large");
    else
        snprintf(text, sizeof text, "%+.2f %%", 100 * growth->share);
    if (growth->grew)
        layout_style(layout, STYLE_BAD);
    layout_right(layout, text, CHANGE);
    layout_style(layout, STYLE_PLAIN);
}

static void number(struct layout *layout, const struct compare_row *row)
{
    char text[24];

    snprintf(text, sizeof text, "%zu", row->number);
    layout_right(layout, text, NUMBER);
}

static void glance_row(struct layout *layout,
                       const struct compare_report *report,
                       const struct compare_row *row)
{
    const struct plm_result *r = row->report.result;
    char text[24];

    number(layout, row);
    if (!r) {
        spaces(layout, DEVICE + GAP + BAR + GAP);
        layout_style(layout, STYLE_WARN);
        layout_left(layout, "refused", VERDICT);
        layout_style(layout, STYLE_PLAIN);
    } else {
        layout_bytes(layout, r->peak.device, NULL, DEVICE);
        spaces(layout, GAP);
        bar(layout, report, r);
        spaces(layout, GAP);
        verdict(layout, r);
    }
    if (report->baseline)
        change(layout, &row->growth);
    if (report->largest_batch) {
        snprintf(text, sizeof text, "%lld", (long long)row->largest_batch);
        layout_right(layout, !row->has_largest_batch ? "-" : (row->largest_batch ? text : "none"),
                     LARGEST);
    }
    axes(layout, report, row);
}

static void glance(struct layout *layout, const struct compare_report *report)
{
    layout_style(layout, STYLE_BOLD);
    layout_right(layout, "#", NUMBER);
    layout_right(layout, "device", DEVICE);
    spaces(layout, GAP + BAR + GAP);
    layout_left(layout, "verdict", VERDICT);
    if (report->baseline)
        layout_right(layout, "change", CHANGE);
    if (report->largest_batch)
        layout_right(layout, "largest", LARGEST);
    axes(layout, report, NULL);
    layout_style(layout, STYLE_PLAIN);
    for (size_t i = 0; i < report->row_count; i++)
        glance_row(layout, report, &report->rows[i]);
}

static void figures(struct layout *layout, const struct compare_report *report)
{
    layout_heading(layout, "Peak memory");
    buf_char(layout->out, '\n');
    layout_style(layout, STYLE_DIM);
    layout_right(layout, "#", NUMBER);
    buf_printf(layout->out, "%12s%12s%12s%12s%9s  %s\n", "requested", "allocated", "reserved",
               "device", "B/param", "peak in");
    layout_style(layout, STYLE_PLAIN);
    for (size_t i = 0; i < report->row_count; i++) {
        const struct compare_row *row = &report->rows[i];
        const struct plm_result *r = row->report.result;

        if (!r)
            continue;
        number(layout, row);
        layout_bytes(layout, r->peak.requested, NULL, 12);
        layout_bytes(layout, r->peak.allocated, NULL, 12);
        layout_bytes(layout, r->peak.reserved, NULL, 12);
        layout_bytes(layout, r->peak.device, NULL, 12);
        buf_printf(layout->out, "%9.2f  %s%s\n", row->compared->bytes_per_parameter,
                   r->at.phase ? r->at.phase : "", r->out_of_memory ? ", cut short" : "");
    }
}

static const struct compare_row *first_answer(const struct compare_report *report)
{
    for (size_t i = 0; i < report->row_count; i++)
        if (report->rows[i].report.result)
            return &report->rows[i];
    return NULL;
}

static bool varies(const struct compare_report *report, const char *option)
{
    for (size_t i = 0; i < report->axis_count; i++)
        if (strcmp(report->axes[i], option) == 0)
            return true;
    return false;
}

/* common() - the model, and the options that are the same for all and not the default */
static void common(struct layout *layout, const struct compare_report *report)
{
    const struct compare_row *row = first_answer(report);
    struct arena *arena = layout->out->arena;
    struct buf text = { .arena = arena };
    char bytes[UNITS_TEXT];
    size_t count;

    if (!row)
        return;
    const struct plm_result *r = row->report.result;
    const struct recipe_item *items = recipe_items(&row->report, arena, &count);

    buf_printf(&text, "%s: %s parameters", r->model, units_format_grouped(r->parameters, bytes));
    for (size_t i = 0; i < count; i++)
        if (!items[i].usual && strcmp(items[i].key, "checkpoint_chosen") != 0 &&
            !varies(report, recipe_option(&items[i], arena)))
            text_item(&text, &items[i]);
    for (size_t i = 0; !varies(report, "set") && i < row->report.strategy->setting_count; i++)
        buf_printf(&text, ", %s=%s", row->report.strategy->settings[i].name,
                   row->report.strategy->settings[i].value);
    if (r->capacity > 0 && !varies(report, "device") && !varies(report, "capacity"))
        buf_printf(&text, ", on %s with %s", r->device ? r->device->name : "a device",
                   units_format_bytes(r->capacity, bytes));
    layout_style(layout, STYLE_DIM);
    layout_wrap(layout, buf_string(&text), 0, 2);
    layout_style(layout, STYLE_PLAIN);
}

static bool told_before(const struct compare_report *report, size_t row, const char *rule)
{
    for (size_t i = 0; i < row; i++) {
        const struct plm_result *r = report->rows[i].report.result;

        for (size_t j = 0; r && j < r->unverified_count; j++)
            if (strcmp(r->unverified[j], rule) == 0)
                return true;
    }
    return false;
}

/* doubts() - what the figures of some strategy rest on, each once */
static void doubts(struct layout *layout, const struct compare_report *report)
{
    struct buf text = { .arena = layout->out->arena };
    bool any = false, workspace = false, range = false;

    for (size_t i = 0; i < report->row_count; i++) {
        const struct plm_result *r = report->rows[i].report.result;

        workspace = workspace || (r && r->workspace_unknown);
        range = range || (r && r->workspace_high > 0);
        for (size_t j = 0; r && j < r->unverified_count; j++) {
            if (told_before(report, i, r->unverified[j]))
                continue;
            buf_printf(&text, "%s%s",
                       any ? "; " : "not confirmed by a measurement: ", r->unverified[j]);
            any = true;
        }
    }
    if (workspace)
        buf_printf(&text, "%s%s", any ? "; " : "",
                   range ? "cuDNN chooses workspaces that are not known: they come on top"
                         : "some workspaces of cuDNN are not known");
    if (!any && !workspace)
        return;
    layout_style(layout, STYLE_WARN);
    buf_text(layout->out, "! ");
    layout_style(layout, STYLE_PLAIN);
    layout_wrap(layout, buf_string(&text), 2, 2);
}

void text_compare(const struct compare_report *report, struct buf *out)
{
    struct layout layout = { out, report->colour };

    glance(&layout, report);
    if (first_answer(report))
        figures(&layout, report);
    buf_char(out, '\n');
    doubts(&layout, report);
    common(&layout, report);
}
