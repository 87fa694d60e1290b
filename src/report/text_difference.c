/* report/text_difference.c - two strategies term by term, for people */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "report/compare.h"
#include "report/text.h"

/* term() - @a, @b, and what b has more or less */
static void term(struct layout *layout, const char *name, plm_bytes a, plm_bytes b)
{
    char size[UNITS_TEXT], text[UNITS_TEXT + 1];

    buf_text(layout->out, "  ");
    layout_left(layout, name, 22);
    layout_bytes(layout, a, "-", 13);
    layout_bytes(layout, b, "-", 13);
    if (a == b) {
        layout_right(layout, "same", 14);
    } else {
        snprintf(text, sizeof text, "%c%s", b > a ? '+' : '-',
                 units_format_bytes(b > a ? b - a : a - b, size));
        layout_style(layout, b > a ? STYLE_BAD : STYLE_GOOD);
        layout_right(layout, text, 14);
        layout_style(layout, STYLE_PLAIN);
        if (a > 0)
            buf_printf(layout->out, "%8.1f %%", 100 * ((double)b - (double)a) / (double)a);
    }
}

static void heading(struct layout *layout, const char *title)
{
    buf_char(layout->out, '\n');
    layout_style(layout, STYLE_BOLD);
    layout_left(layout, title, 24);
    layout_style(layout, STYLE_PLAIN);
    layout_style(layout, STYLE_DIM);
    buf_printf(layout->out, "%13s%13s%14s\n", "A", "B", "B - A");
    layout_style(layout, STYLE_PLAIN);
}

static void line(struct layout *layout, const char *name, plm_bytes a, plm_bytes b)
{
    term(layout, name, a, b);
    buf_char(layout->out, '\n');
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

    heading(layout, "By phase (allocated)");
    for (size_t i = 0; i < d->phase_count; i++) {
        bool peak_a = strcmp(d->phases[i].name, of_a) == 0;
        bool peak_b = strcmp(d->phases[i].name, of_b) == 0;

        if (d->phases[i].a == 0 && d->phases[i].b == 0)
            continue;
        term(layout, d->phases[i].name, d->phases[i].a, d->phases[i].b);
        if (peak_a || peak_b)
            buf_printf(layout->out, "  peak%s", peak_a && peak_b ? "" : (peak_a ? " A" : " B"));
        buf_char(layout->out, '\n');
    }
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
    const struct plm_difference *d = report->difference;
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
    heading(&layout, "Peak memory");
    line(&layout, "requested", a->peak.requested, b->peak.requested);
    line(&layout, "allocated", a->peak.allocated, b->peak.allocated);
    line(&layout, "reserved", a->peak.reserved, b->peak.reserved);
    line(&layout, "device", a->peak.device, b->peak.device);
    heading(&layout, "At the peak, by kind");
    for (size_t i = 0; i < d->category_count; i++)
        line(&layout, d->categories[i].name, d->categories[i].a, d->categories[i].b);
    phases(&layout, report);
}
