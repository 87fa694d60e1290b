/*
 * report/text_compare.c - strategies side by side, for people
 *
 * Two tables over the same rows: the first says which strategy fits and how full the device is, the second has the figures.
 * Options that vary are columns of the first; where they are too wide for 80 columns, its last one.
 */
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "base/units.h"
#include "report/compare.h"
#include "report/table.h"
#include "report/text.h"

enum { BAR = 10, FIXED = 6 /* columns */ };

static const char *value_of(const struct compare_row *row, size_t axis)
{
    return row->values[axis][0] ? row->values[axis] : "-";
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

static void bar(struct table *table,
                const struct compare_report *report,
                const struct plm_result *r)
{
    plm_bytes whole = full(report, r);
    double share = r->out_of_memory ? 1 : whole ? (double)r->peak.device / (double)whole : 0;
    struct layout plain = { .out = &(struct buf){ .arena = table->arena } };

    layout_bar(&plain, share, BAR, true);
    table_text(table,
               r->fits == 0                 ? STYLE_BAD
               : share > 0.9 && r->fits > 0 ? STYLE_WARN
                                            : STYLE_GOOD,
               buf_string(plain.out));
}

static void verdict(struct table *table, const struct plm_result *r)
{
    table_text(table,
               r->fits < 0 ? STYLE_DIM
               : r->fits   ? STYLE_GOOD
                           : STYLE_BAD,
               r->fits < 0 ? "-" : (r->fits ? "fits" : "too large"));
}

static void change(struct table *table, const struct growth *growth)
{
    enum style style = growth->grew ? STYLE_BAD : STYLE_PLAIN;

    if (!growth->before)
        table_text(table, style, "new");
    else if (!growth->figure)
        table_text(table, style, "-");
    else if (growth->share == 0 || strcmp(growth->figure, "out of memory") == 0)
        table_text(table, style, growth->share == 0 && !growth->grew ? "same" : "too large");
    else
        table_printf(table, style, "%+.2f %%", 100 * growth->share);
}

static void largest(struct table *table, const struct compare_row *row)
{
    if (!row->has_largest_batch)
        table_text(table, STYLE_PLAIN, "-");
    else if (row->largest_batch == 0)
        table_text(table, STYLE_PLAIN, "none");
    else
        table_printf(table, STYLE_PLAIN, "%lld", (long long)row->largest_batch);
}

/* listed() - a row's values, or (NULL) the options' names, in one cell */
static void listed(struct buf *list,
                   const struct compare_report *report,
                   const struct compare_row *row)
{
    for (size_t i = 0; i < report->axis_count; i++)
        buf_printf(list, "%s%s", i ? " " : "", row ? value_of(row, i) : report->axes[i]);
}

/* glance_row() - but for the options that vary */
static void glance_row(struct table *table,
                       const struct compare_report *report,
                       const struct compare_row *row)
{
    const struct plm_result *r = row->report.result;

    table_printf(table, STYLE_PLAIN, "%zu", row->number);
    if (!r) {
        table_text(table, STYLE_PLAIN, "");
        table_text(table, STYLE_PLAIN, "");
        table_text(table, STYLE_WARN, "refused");
    } else {
        table_bytes(table, STYLE_PLAIN, r->peak.device, NULL);
        bar(table, report, r);
        verdict(table, r);
    }
    if (report->baseline)
        change(table, &row->growth);
    else
        table_text(table, STYLE_PLAIN, "");
    if (report->largest_batch)
        largest(table, row);
    else
        table_text(table, STYLE_PLAIN, "");
}

/* glance_table() - the options that vary are columns, or (@in_one) one that wraps */
static struct table glance_table(struct arena *arena,
                                 const struct compare_report *report,
                                 bool in_one)
{
    const struct table_column fixed[FIXED] = {
        { .title = "#", .align = TABLE_RIGHT, .width = 5 },
        { .title = "device", .align = TABLE_RIGHT, .width = 11 },
        { .width = BAR, .gap = 2 },
        { .title = "verdict", .width = 9, .gap = 2 },
        { .title = report->baseline ? "change" : NULL,
          .align = TABLE_RIGHT,
          .width = report->baseline ? 9 : 0 },
        { .title = report->largest_batch ? "largest" : NULL,
          .align = TABLE_RIGHT,
          .width = report->largest_batch ? 8 : 0 },
    };
    size_t axes = in_one ? 1 : report->axis_count;
    struct table_column *columns = arena_array(arena, struct table_column, FIXED + axes);
    struct table table = {
        .arena = arena, .columns = columns, .column_count = FIXED + axes, .bold = true
    };
    struct buf names = { .arena = arena };

    memcpy(columns, fixed, sizeof fixed);
    listed(&names, report, NULL);
    for (size_t i = 0; i < axes; i++)
        columns[FIXED + i] = (struct table_column){
            .title = in_one ? buf_string(&names) : report->axes[i], .gap = 2, .wraps = in_one
        };
    for (size_t row = 0; row < report->row_count; row++) {
        struct buf values = { .arena = arena };

        glance_row(&table, report, &report->rows[row]);
        listed(&values, report, &report->rows[row]);
        for (size_t i = 0; i < axes; i++)
            table_text(&table, STYLE_PLAIN,
                       in_one ? buf_string(&values) : value_of(&report->rows[row], i));
    }
    return table;
}

static void glance(struct layout *layout, const struct compare_report *report)
{
    struct table table = glance_table(layout->out->arena, report, false);

    if (table_measure(&table) > LAYOUT_WIDTH)
        table = glance_table(layout->out->arena, report, true);
    table_print(&table, layout, NULL);
}

static void figures(struct layout *layout, const struct compare_report *report)
{
    static const struct table_column columns[] = {
        { .title = "#", .align = TABLE_RIGHT, .width = 5 },
        { .title = "requested", .align = TABLE_RIGHT, .width = 11 },
        { .title = "allocated", .align = TABLE_RIGHT, .width = 11 },
        { .title = "reserved", .align = TABLE_RIGHT, .width = 11 },
        { .title = "device", .align = TABLE_RIGHT, .width = 11 },
        { .title = "B/param", .align = TABLE_RIGHT, .width = 8 },
        { .title = "peak in", .gap = 2 },
    };
    struct table table = TABLE(layout, 0, columns);

    for (size_t i = 0; i < report->row_count; i++) {
        const struct compare_row *row = &report->rows[i];
        const struct plm_result *r = row->report.result;

        if (!r)
            continue;
        table_printf(&table, STYLE_PLAIN, "%zu", row->number);
        table_bytes(&table, STYLE_PLAIN, r->peak.requested, NULL);
        table_bytes(&table, STYLE_PLAIN, r->peak.allocated, NULL);
        table_bytes(&table, STYLE_PLAIN, r->peak.reserved, NULL);
        table_bytes(&table, STYLE_PLAIN, r->peak.device, NULL);
        table_printf(&table, STYLE_PLAIN, "%.2f", row->compared->bytes_per_parameter);
        table_printf(&table, STYLE_PLAIN, "%s%s", r->at.phase ? r->at.phase : "",
                     r->out_of_memory ? ", cut short" : "");
    }
    layout_heading(layout, "Peak memory");
    buf_char(layout->out, '\n');
    table_print(&table, layout, NULL);
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
