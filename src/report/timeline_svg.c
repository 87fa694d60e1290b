/*
 * report/timeline_svg.c - the run as one picture
 *
 * Areas are drawn from the highest edge to the lowest, each down to the axis, so that an area needs its upper edge only.
 */
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "base/units.h"
#include "report/bands.h"
#include "report/svg.h"
#include "report/timeline.h"

enum { WIDTH = 1280, HEIGHT = 640, LEFT = 80, RIGHT = 1020, TOP = 64, BOTTOM = 580 };

struct picture {
    const struct timeline_report *report;
    const struct bands *bands;
    struct buf *out;
    double top; /* bytes at TOP */
};

static double x_of(const struct picture *picture, size_t column)
{
    return LEFT + (double)(RIGHT - LEFT) * (double)column / (double)picture->bands->column_count;
}

static double y_of(const struct picture *picture, double bytes)
{
    return BOTTOM - (BOTTOM - TOP) * bytes / picture->top;
}

/* number() - a coordinate with one decimal */
static void number(struct buf *out, double value)
{
    buf_printf(out, "%.1f", value);
}

typedef plm_bytes edge_bytes(const struct bands *bands, size_t column, size_t band);

static plm_bytes stacked(const struct bands *bands, size_t column, size_t band)
{
    plm_bytes sum = 0;

    for (size_t i = 0; i <= band; i++)
        sum += bands->columns[column].bytes[i];
    return sum;
}

static plm_bytes reserved(const struct bands *bands, size_t column, size_t band)
{
    return bands->columns[column].reserved;
}

/* edge() - a stepped line; a column as high as the one before adds nothing */
static void edge(const struct picture *picture, edge_bytes *bytes, size_t band)
{
    char last[32] = "", y[32];

    for (size_t i = 0; i < picture->bands->column_count; i++) {
        snprintf(y, sizeof y, "%.1f", y_of(picture, (double)bytes(picture->bands, i, band)));
        if (strcmp(y, last) == 0)
            continue;
        buf_text(picture->out, i == 0 ? "M" : "H");
        number(picture->out, x_of(picture, i));
        buf_printf(picture->out, "%s%s", i == 0 ? " " : "V", y);
        memcpy(last, y, sizeof last);
    }
    buf_printf(picture->out, "H%d", RIGHT);
}

static void draw_areas(const struct picture *picture)
{
    const struct bands *bands = picture->bands;
    char bytes[UNITS_TEXT];

    for (size_t i = bands->count; i-- > 0;) {
        buf_printf(picture->out, "<path fill=\"%s\" d=\"", bands_colour(bands->names[i]));
        edge(picture, stacked, i);
        buf_printf(picture->out, "V%dH%dZ\"><title>", BOTTOM, LEFT);
        svg_text(picture->out, bands->names[i]);
        buf_printf(picture->out, ": %s at the peak</title></path>\n",
                   units_format_bytes(bands->peak.bytes[i], bytes));
    }
    buf_text(picture->out, "<path class=\"r\" d=\"");
    edge(picture, reserved, 0);
    buf_text(picture->out, "\"><title>reserved by the allocator</title></path>\n");
}

static void draw_capacity(const struct picture *picture)
{
    const struct plm_result *r = picture->report->result;
    plm_bytes outside = r->context + r->nccl;
    plm_bytes usable = r->capacity > outside ? r->capacity - outside : 0;
    char bytes[UNITS_TEXT];
    double y = y_of(picture, (double)usable);

    if (usable == 0 || (double)usable > picture->top)
        return;
    buf_printf(picture->out,
               "<path class=\"c\" d=\"M%d %.1fH%d\"/>\n"
               "<text x=\"%d\" y=\"%.1f\" class=\"ct\">%s for the allocator</text>\n",
               LEFT, y, RIGHT, LEFT + 6, y - 5, units_format_bytes(usable, bytes));
}

/* draw_scale() - about five lines at round sizes */
static void draw_scale(const struct picture *picture)
{
    double unit = 1;
    char bytes[UNITS_TEXT];

    while (picture->top / unit > 6)
        unit *= 2;
    for (double at = 0; at <= picture->top; at += unit)
        buf_printf(picture->out,
                   "<path class=\"g\" d=\"M%d %.1fH%d\"/><text x=\"%d\" y=\"%.1f\" "
                   "text-anchor=\"end\">%s</text>\n",
                   LEFT, y_of(picture, at), RIGHT, LEFT - 8, y_of(picture, at) + 4,
                   at > 0 ? units_format_bytes((plm_bytes)at, bytes) : "0");
}

/* draw_phases() - a line where each begins, and its name where there is room */
static void draw_phases(const struct picture *picture)
{
    const struct plm_timeline *timeline = picture->report->timeline;
    double scale = (double)(RIGHT - LEFT) / (double)num_max(timeline->event_count, 1);
    int step = -2;

    for (size_t i = 0; i < timeline->phase_count; i++) {
        const struct plm_phase *phase = &timeline->phases[i];
        double from = LEFT + scale * timeline->phase_events[i];
        double to =
            i + 1 < timeline->phase_count ? LEFT + scale * timeline->phase_events[i + 1] : RIGHT;

        buf_printf(picture->out, "<path class=\"%s\" d=\"M%.1f %dV%d\"/>\n",
                   phase->step != step ? "s" : "p", from, TOP,
                   BOTTOM + (phase->step != step ? 30 : 6));
        if (to - from > 7.0 * (double)strlen(phase->name)) {
            buf_printf(picture->out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">",
                       (from + to) / 2, BOTTOM + 16);
            svg_text(picture->out, phase->name);
            buf_text(picture->out, "</text>\n");
        }
        if (phase->step != step && phase->step >= 0)
            buf_printf(picture->out, "<text x=\"%.1f\" y=\"%d\">step %d</text>\n", from + 4,
                       BOTTOM + 32, phase->step);
        step = phase->step;
    }
}

static void draw_legend(const struct picture *picture)
{
    const struct bands *bands = picture->bands;
    char bytes[UNITS_TEXT];
    int y = TOP + 6;

    buf_printf(picture->out, "<text x=\"%d\" y=\"%d\" class=\"b\">at the peak</text>\n", RIGHT + 20,
               y);
    for (size_t i = bands->count; i-- > 0;) {
        y += 20;
        buf_printf(picture->out,
                   "<rect x=\"%d\" y=\"%d\" width=\"12\" height=\"12\" fill=\"%s\"/>"
                   "<text x=\"%d\" y=\"%d\">",
                   RIGHT + 20, y - 10, bands_colour(bands->names[i]), RIGHT + 38, y);
        svg_text(picture->out, bands->names[i]);
        buf_printf(picture->out, "</text><text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n",
                   WIDTH - 12, y, units_format_bytes(bands->peak.bytes[i], bytes));
    }
    y += 24;
    buf_printf(picture->out,
               "<path class=\"r\" d=\"M%d %dh12\"/><text x=\"%d\" y=\"%d\">reserved</text>"
               "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n",
               RIGHT + 20, y - 4, RIGHT + 38, y, WIDTH - 12, y,
               units_format_bytes(bands->reserved, bytes));
}

static void draw_title(const struct picture *picture)
{
    const struct plm_result *r = picture->report->result;
    char allocated[UNITS_TEXT], reserved_text[UNITS_TEXT];

    buf_printf(picture->out, "<text x=\"%d\" y=\"28\" class=\"t\">", LEFT);
    svg_text(picture->out, r->model);
    buf_printf(picture->out, ", batch %lld", (long long)r->batch);
    if (r->seq > 0)
        buf_printf(picture->out, ", seq %lld", (long long)r->seq);
    buf_printf(picture->out, "</text>\n<text x=\"%d\" y=\"48\">", LEFT);
    if (r->out_of_memory)
        buf_printf(picture->out, "<tspan class=\"ct\">%s</tspan>; ",
                   timeline_failure(r, picture->out->arena));
    buf_printf(picture->out,
               "%s allocated and %s reserved at most; the horizontal axis counts allocations and "
               "frees, not time</text>\n",
               units_format_bytes(r->peak.allocated, allocated),
               units_format_bytes(r->peak.reserved, reserved_text));
}

void timeline_write_svg(const struct timeline_report *report, struct buf *out)
{
    struct picture picture = { .report = report, .out = out };
    const struct plm_result *r = report->result;
    plm_bytes outside = r->context + r->nccl;
    plm_bytes usable = r->capacity > outside ? r->capacity - outside : 0;

    picture.bands = bands_make(report->timeline, RIGHT - LEFT, out->arena);
    picture.top = 1.06 * (double)num_max(picture.bands->reserved, 1);
    if ((double)usable < 1.5 * picture.top && (double)usable * 1.04 > picture.top)
        picture.top = 1.04 * (double)usable; /* the limit is near enough to be shown */
    buf_printf(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
        "font-family=\"sans-serif\" font-size=\"12\" fill=\"#333\">\n"
        "<style>.g{stroke:#ddd;fill:none}.p{stroke:#000;stroke-opacity:.13;fill:none}.s{stroke:#000;stroke-opacity:.4;fill:none}"
        ".r{stroke:#222;fill:none;stroke-width:1.5}.c{stroke:#c00;fill:none;stroke-dasharray:6 "
        "4}.ct{fill:#c00}.t{font-size:18px;font-weight:bold}.b{font-weight:bold}</style>\n"
        "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n",
        WIDTH, HEIGHT, WIDTH, HEIGHT);
    draw_title(&picture);
    draw_scale(&picture);
    if (picture.bands->column_count > 0)
        draw_areas(&picture);
    draw_phases(&picture);
    draw_capacity(&picture);
    draw_legend(&picture);
    buf_text(out, "</svg>\n");
}
