/* report/compare_csv.c - a comparison as rows, one for each strategy; a difference as rows, one for each term */
#include <inttypes.h>

#include "report/compare.h"
#include "report/csv.h"

static const char *yes_or_no(bool value)
{
    return value ? "true" : "false";
}

static void result_fields(struct buf *out, const struct compare_row *row)
{
    const struct plm_result *r = row->report.result;

    if (!r) {
        buf_text(out, ",,,,,,,,,,,,,");
        return;
    }
    buf_printf(out, ",%" PRId64 ",", r->batch);
    if (r->seq > 0)
        buf_printf(out, "%" PRId64, r->seq);
    buf_printf(out, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64, r->parameters,
               r->peak.requested, r->peak.allocated, r->peak.reserved, r->peak.device);
    buf_printf(out, ",%.6g,", row->compared->bytes_per_parameter);
    csv_field(out, r->at.phase);
    buf_char(out, ',');
    if (r->at.step >= 0)
        buf_printf(out, "%d", r->at.step);
    buf_printf(out, ",%s,%s,", r->fits < 0 ? "" : yes_or_no(r->fits != 0),
               yes_or_no(r->out_of_memory));
    if (r->capacity > 0)
        buf_printf(out, "%" PRIu64, r->capacity);
    buf_char(out, ',');
    if (row->has_largest_batch)
        buf_printf(out, "%" PRId64, row->largest_batch);
}

static void growth_fields(struct buf *out, const struct growth *growth)
{
    buf_printf(out, ",%s,", growth->before ? yes_or_no(growth->grew) : "");
    csv_field(out, growth->figure);
    buf_char(out, ',');
    if (growth->figure)
        buf_printf(out, "%.6g", growth->share);
}

void csv_compare(const struct compare_report *report, struct buf *out)
{
    buf_text(out, "number,model");
    for (size_t i = 0; i < report->axis_count; i++) {
        buf_text(out, ",vary_");
        buf_text(out, report->axes[i]);
    }
    buf_text(out, ",batch,seq,parameters,requested_bytes,allocated_bytes,reserved_bytes,"
                  "device_bytes,bytes_per_parameter,phase,step,fits,out_of_memory,capacity_bytes,"
                  "largest_batch");
    if (report->baseline)
        buf_text(out, ",grew,grown_figure,grown_share");
    buf_text(out, ",refused\n");
    for (size_t i = 0; i < report->row_count; i++) {
        const struct compare_row *row = &report->rows[i];

        buf_printf(out, "%zu,", row->number);
        csv_field(out, report->model);
        for (size_t axis = 0; axis < report->axis_count; axis++) {
            buf_char(out, ',');
            csv_field(out, row->values[axis]);
        }
        result_fields(out, row);
        if (report->baseline)
            growth_fields(out, &row->growth);
        buf_char(out, ',');
        if (!row->report.result)
            csv_field(out, row->compared->error.message);
        buf_char(out, '\n');
    }
}

static void term(struct buf *out, const char *kind, const char *name, plm_bytes a, plm_bytes b)
{
    buf_printf(out, "%s,", kind);
    csv_field(out, name);
    buf_printf(out, ",%" PRIu64 ",%" PRIu64 ",%s%" PRIu64 "\n", a, b, b < a ? "-" : "",
               b < a ? a - b : b - a);
}

void csv_difference(const struct difference_report *report, struct buf *out)
{
    const struct plm_difference *d = report->difference;
    const struct plm_memory *a = &report->a->report.result->peak;
    const struct plm_memory *b = &report->b->report.result->peak;

    buf_text(out, "kind,name,a_bytes,b_bytes,difference_bytes\n");
    term(out, "figure", "requested", a->requested, b->requested);
    term(out, "figure", "allocated", a->allocated, b->allocated);
    term(out, "figure", "reserved", a->reserved, b->reserved);
    term(out, "figure", "device", a->device, b->device);
    for (size_t i = 0; i < d->category_count; i++)
        term(out, "category", d->categories[i].name, d->categories[i].a, d->categories[i].b);
    for (size_t i = 0; i < d->phase_count; i++)
        term(out, "phase", d->phases[i].name, d->phases[i].a, d->phases[i].b);
}
