/*
 * report/compare_svg.c - strategies as bars
 *
 * The parts of a bar add up to the device figure: what is alive at the allocated peak by category, the rounding of blocks, what
 * the allocator keeps beyond that, and what the process holds beside the allocator.
 */
#include <string.h>

#include "base/num.h"
#include "base/units.h"
#include "report/bands.h"
#include "report/compare.h"
#include "report/svg.h"
#include "report/utf8.h"

enum {
    WIDTH = 1100,
    TOP = 76,
    ROW = 28,
    BAR = 18,
    GLYPH = 7, /* columns of a character */
    LABEL_LEAST = 120,
    LABEL_MOST = 420,
    RIGHT = 930, /* where the scale ends; sizes stand beside it */
    LEGEND_COLUMN = 200,
    PARTS_MOST = 32,
};

struct chart {
    const struct compare_report *report;
    struct buf *out;
    const char *parts[PARTS_MOST]; /* names, from the axis outwards */
    size_t part_count;
    int left;
    double top; /* bytes at RIGHT */
};

static const char *const added[] = { "rounding of blocks", "cached by the allocator",
                                     "context and NCCL" };
enum { ADDED = sizeof added / sizeof *added };

static double x_of(const struct chart *chart, double bytes)
{
    return chart->left + (RIGHT - chart->left) * bytes / chart->top;
}

static double y_of(size_t row)
{
    return TOP + (double)row * ROW;
}

static const char *label_of(const struct compare_row *row, struct arena *arena)
{
    struct buf text = { .arena = arena };

    buf_printf(&text, "%zu  %s", row->number, row->label[0] ? row->label : "as given");
    return buf_string(&text);
}

static size_t find_part(struct chart *chart, const char *name)
{
    size_t i = 0;

    while (i < chart->part_count && strcmp(chart->parts[i], name) != 0)
        i++;
    if (i == chart->part_count && chart->part_count < PARTS_MOST - ADDED)
        chart->parts[chart->part_count++] = name;
    return i < PARTS_MOST - ADDED ? i : PARTS_MOST - ADDED - 1;
}

static void measure(struct chart *chart)
{
    plm_bytes most = 1, capacity = 0;
    size_t columns = 0;

    for (size_t i = 0; i < chart->report->row_count; i++) {
        const struct compare_row *row = &chart->report->rows[i];
        const struct plm_result *r = row->report.result;

        columns = num_max(columns, utf8_columns(label_of(row, chart->out->arena)));
        if (!r)
            continue;
        most = num_max(most, r->peak.device);
        capacity = num_max(capacity, r->capacity);
        for (size_t j = 0; j < r->live_by_category_count; j++)
            find_part(chart, r->live_by_category[j].name);
    }
    for (size_t i = 0; i < ADDED; i++)
        chart->parts[chart->part_count++] = added[i];
    chart->left = 24 + (int)num_min(num_max(columns * GLYPH, LABEL_LEAST), LABEL_MOST);
    chart->top = 1.02 * (double)most;
    if ((double)capacity > chart->top && (double)capacity < 3 * chart->top)
        chart->top = 1.02 * (double)capacity; /* the limit is near enough to be shown */
}

/* split() - the bytes of each part of a bar */
static void split(struct chart *chart, const struct plm_result *r, plm_bytes parts[PARTS_MOST])
{
    plm_bytes live = 0;
    size_t first = chart->part_count - ADDED;

    for (size_t i = 0; i < r->live_by_category_count; i++) {
        parts[find_part(chart, r->live_by_category[i].name)] += r->live_by_category[i].bytes;
        live += r->live_by_category[i].bytes;
    }
    parts[first] = r->peak.allocated > live ? r->peak.allocated - live : 0;
    parts[first + 1] = r->peak.reserved - r->peak.allocated;
    parts[first + 2] = r->peak.device - r->peak.reserved;
}

static void draw_bar(struct chart *chart, size_t row, const struct plm_result *r)
{
    plm_bytes parts[PARTS_MOST] = { 0 };
    char bytes[UNITS_TEXT];
    double at = 0, y = y_of(row) + (ROW - BAR) / 2.0;

    split(chart, r, parts);
    for (size_t i = 0; i < chart->part_count; i++) {
        double from = x_of(chart, at), to = x_of(chart, at + (double)parts[i]);

        at += (double)parts[i];
        if (to - from < 0.05)
            continue;
        buf_printf(chart->out,
                   "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" fill=\"%s\"><title>",
                   from, y, to - from, BAR, bands_colour(chart->parts[i]));
        svg_text(chart->out, chart->parts[i]);
        buf_printf(chart->out, ": %s</title></rect>\n", units_format_bytes(parts[i], bytes));
    }
    buf_printf(chart->out, "<text x=\"%d\" y=\"%.1f\"%s>%s%s</text>\n", RIGHT + 10, y + 13,
               r->fits == 0 ? " class=\"ct\"" : "", units_format_bytes(r->peak.device, bytes),
               r->fits == 0 ? ", too large" : "");
}

/* draw_capacity() - over the height of the row, so that equal ones make one line */
static void draw_capacity(const struct chart *chart, size_t row, const struct plm_result *r)
{
    double x = x_of(chart, (double)r->capacity);

    if (r->capacity == 0 || x > RIGHT)
        return;
    buf_printf(chart->out, "<path class=\"c\" d=\"M%.1f %.1fv%d\"/>\n", x, y_of(row), ROW);
    if (row == 0) {
        char bytes[UNITS_TEXT];

        buf_printf(
            chart->out,
            "<text x=\"%.1f\" y=\"%d\" class=\"ct\" text-anchor=\"end\">capacity %s</text>\n", x,
            TOP - 6, units_format_bytes(r->capacity, bytes));
    }
}

static void draw_rows(struct chart *chart)
{
    for (size_t i = 0; i < chart->report->row_count; i++) {
        const struct compare_row *row = &chart->report->rows[i];
        double y = y_of(i) + ROW / 2.0 + 4;

        buf_printf(chart->out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">", chart->left - 8,
                   y);
        svg_text(chart->out, label_of(row, chart->out->arena));
        buf_text(chart->out, "</text>\n");
        if (row->report.result) {
            draw_bar(chart, i, row->report.result);
            draw_capacity(chart, i, row->report.result);
        } else {
            buf_printf(chart->out, "<text x=\"%d\" y=\"%.1f\" class=\"ct\">refused</text>\n",
                       chart->left + 6, y);
        }
    }
}

static void draw_scale(const struct chart *chart)
{
    double unit = 1, bottom = y_of(chart->report->row_count);
    char bytes[UNITS_TEXT];

    while (chart->top / unit > 6)
        unit *= 2;
    for (double at = 0; at <= chart->top; at += unit)
        buf_printf(chart->out,
                   "<path class=\"g\" d=\"M%.1f %dV%.1f\"/><text x=\"%.1f\" y=\"%.1f\" "
                   "text-anchor=\"middle\">%s</text>\n",
                   x_of(chart, at), TOP, bottom, x_of(chart, at), bottom + 16,
                   at > 0 ? units_format_bytes((plm_bytes)at, bytes) : "0");
}

static double draw_legend(const struct chart *chart)
{
    int across = (WIDTH - 24) / LEGEND_COLUMN;
    double y = y_of(chart->report->row_count) + 40;

    for (size_t i = 0; i < chart->part_count; i++) {
        int x = 24 + (int)(i % (size_t)across) * LEGEND_COLUMN;

        if (i > 0 && i % (size_t)across == 0)
            y += 20;
        buf_printf(chart->out,
                   "<rect x=\"%d\" y=\"%.1f\" width=\"12\" height=\"12\" fill=\"%s\"/>"
                   "<text x=\"%d\" y=\"%.1f\">",
                   x, y - 10, bands_colour(chart->parts[i]), x + 18, y);
        svg_text(chart->out, chart->parts[i]);
        buf_text(chart->out, "</text>\n");
    }
    return y + 20;
}

void compare_write_svg(const struct compare_report *report, struct buf *out)
{
    struct buf body = { .arena = out->arena, .maximum = out->maximum };
    struct chart chart = { .report = report, .out = &body };

    measure(&chart);
    draw_scale(&chart);
    draw_rows(&chart);

    int height = (int)draw_legend(&chart);

    buf_printf(out,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
               "font-family=\"sans-serif\" font-size=\"12\" fill=\"#333\">\n"
               "<style>.g{stroke:#ddd;fill:none}.c{stroke:#c00;fill:none;stroke-width:1.5;"
               "stroke-dasharray:6 4}.ct{fill:#c00}.t{font-size:18px;font-weight:bold}</style>\n"
               "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n"
               "<text x=\"24\" y=\"28\" class=\"t\">",
               WIDTH, height, WIDTH, height);
    svg_text(out, report->model);
    buf_text(out,
             "</text>\n<text x=\"24\" y=\"48\">device memory at its highest, by what was alive "
             "at the allocated peak</text>\n");
    buf_add(out, buf_string(&body), body.length);
    out->full = out->full || body.full;
    buf_text(out, "</svg>\n");
}
