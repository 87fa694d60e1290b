/* report/text_difference.c - two strategies term by term, for people */
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "report/compare.h"
#include "report/table.h"
#include "report/text.h"

/* term() - @a, @b, what b has more or less, and what is to be noted */
static void term(struct table *table, const char *name, plm_bytes a, plm_bytes b, const char *noted)
{
    enum style style = a == b ? STYLE_PLAIN : b > a ? STYLE_BAD : STYLE_GOOD;
    char size[UNITS_TEXT];

    table_text(table, STYLE_PLAIN, name);
    table_bytes(table, STYLE_PLAIN, a, "-");
    table_bytes(table, STYLE_PLAIN, b, "-");
    if (a == b)
        table_text(table, style, "same");
    else
        table_printf(table, style, "%c%s", b > a ? '+' : '-',
                     units_format_bytes(b > a ? b - a : a - b, size));
    if (a == b || a == 0)
        table_text(table, STYLE_PLAIN, "");
    else
        table_printf(table, STYLE_PLAIN, "%.1f %%", 100 * ((double)b - (double)a) / (double)a);
    table_text(table, STYLE_PLAIN, noted);
}

static const struct table_column term_columns[] = {
    { .width = 22, .shortens = true },
    { .title = "A", .align = TABLE_RIGHT, .width = 12 },
    { .title = "B", .align = TABLE_RIGHT, .width = 12 },
    { .title = "B - A", .align = TABLE_RIGHT, .width = 13 },
    { .align = TABLE_RIGHT, .width = 9 },
    { .gap = 2 },
};

static struct table terms(struct layout *layout)
{
    return TABLE(layout, 2, term_columns);
}

static void subject(struct layout *layout, const char *letter, const struct compare_row *row)
{
    const struct plm_result *r = row->report.result;
    const char *verdict = r->fits < 0 ? "" : (r->fits ? ": fits" : ": too large");
    struct buf text = { .arena = layout->out->arena };

    layout_style(layout, STYLE_BOLD);
    buf_printf(layout->out, "%s  ", letter);
    layout_style(layout, STYLE_PLAIN);
    buf_printf(&text, "%s%s", row->label[0] ? row->label : "as given", verdict);
    layout_wrap(layout, buf_string(&text), 3, 3);
}

static void phases(struct layout *layout, const struct difference_report *report)
{
    const struct plm_difference *d = report->difference;
    const char *of_a = report->a->report.result->at.phase;
    const char *of_b = report->b->report.result->at.phase;
    struct table table = terms(layout);

    for (size_t i = 0; i < d->phase_count; i++) {
        bool peak_a = strcmp(d->phases[i].name, of_a) == 0;
        bool peak_b = strcmp(d->phases[i].name, of_b) == 0;

        if (d->phases[i].a == 0 && d->phases[i].b == 0)
            continue;
        term(&table, d->phases[i].name, d->phases[i].a, d->phases[i].b,
             peak_a && peak_b ? "peak"
             : peak_a         ? "peak A"
             : peak_b         ? "peak B"
                              : "");
    }
    table_print(&table, layout, "By phase (allocated)");
}

static void peaks(struct layout *layout, const struct plm_memory *a, const struct plm_memory *b)
{
    struct table table = terms(layout);

    term(&table, "requested", a->requested, b->requested, "");
    term(&table, "allocated", a->allocated, b->allocated, "");
    term(&table, "reserved", a->reserved, b->reserved, "");
    term(&table, "device", a->device, b->device, "");
    table_print(&table, layout, "Peak memory");
}

static void categories(struct layout *layout, const struct plm_difference *d)
{
    struct table table = terms(layout);

    for (size_t i = 0; i < d->category_count; i++)
        term(&table, d->categories[i].name, d->categories[i].a, d->categories[i].b, "");
    table_print(&table, layout, "At the peak, by kind");
}

/* saving() - in a sentence: what is saved, and where some of it is lost */
static void saving(struct layout *layout, const struct difference_report *report)
{
    const struct plm_difference *d = report->difference;
    const char *dear = d->b_saves ? "A" : "B", *cheap = d->b_saves ? "B" : "A";
    char there[UNITS_TEXT], in_all[UNITS_TEXT], lost[UNITS_TEXT];
    struct buf text = { .arena = layout->out->arena };

    units_format_bytes(d->saved_there, there);
    units_format_bytes(d->saved_in_all, in_all);
    if (d->saved_in_all == 0 && d->saved_there == 0)
        buf_printf(&text, "Both peaks are the same, in %s.", d->from);
    else if (!d->vanishes)
        buf_printf(&text, "%s saves %s in %s, where both peaks are.", cheap, in_all, d->from);
    else if (d->saved_in_all == 0)
        buf_printf(&text,
                   "%s saves %s in %s, where %s has its peak, and nothing in all: the saving "
                   "vanishes in %s, where %s has its own.",
                   cheap, there, d->from, dear, d->vanishes, cheap);
    else
        buf_printf(&text,
                   "%s saves %s in %s, where %s has its peak, but only %s in all: %s of the "
                   "saving vanishes in %s, where %s has its own.",
                   cheap, there, d->from, dear, in_all,
                   units_format_bytes(d->saved_there - d->saved_in_all, lost), d->vanishes, cheap);
    buf_char(layout->out, '\n');
    layout_style(layout, STYLE_DIM);
    buf_text(layout->out, "> ");
    layout_style(layout, STYLE_PLAIN);
    layout_wrap(layout, buf_string(&text), 2, 2);
}

void text_difference(const struct difference_report *report, struct buf *out)
{
    struct layout layout = { out, report->colour };
    const struct plm_result *a = report->a->report.result, *b = report->b->report.result;

    subject(&layout, "A", report->a);
    subject(&layout, "B", report->b);
    saving(&layout, report);
    if (a->out_of_memory || b->out_of_memory) {
        layout_style(&layout, STYLE_WARN);
        buf_text(out, "! ");
        layout_style(&layout, STYLE_PLAIN);
        layout_wrap(&layout,
                    "One runs out of memory: of it, only what was reached before is counted. "
                    "Without a device the whole run is.",
                    2, 2);
    }
    peaks(&layout, &a->peak, &b->peak);
    categories(&layout, report->difference);
    phases(&layout, report);
}
