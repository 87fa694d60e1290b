/*
 * report/compare_json.c - a comparison, and a difference, as one JSON document
 *
 * The keys are documented in plimsoll-compare(1). import/baseline.c reads what identifies a strategy, and its peak.
 */
#include "report/compare.h"
#include "report/json_report.h"

static void write_phases(struct json *json, const struct plm_result *r)
{
    json_key(json, "phases");
    json_open(json, '[');
    for (size_t i = 0; i < r->phase_count; i++) {
        json_open(json, '{');
        json_field_string(json, "name", r->phases[i].name);
        json_memory(json, &r->phases[i].peak);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void write_categories(struct json *json, const struct plm_result *r)
{
    json_key(json, "live_at_peak");
    json_open(json, '[');
    for (size_t i = 0; i < r->live_by_category_count; i++) {
        json_open(json, '{');
        json_field_string(json, "name", r->live_by_category[i].name);
        json_field_uint(json, "bytes", r->live_by_category[i].bytes);
        json_field_uint(json, "tensors", r->live_by_category[i].count);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void write_capacity(struct json *json, const struct plm_result *r)
{
    json_field_string(json, "device", r->device ? r->device->name : NULL);
    if (r->capacity)
        json_field_uint(json, "capacity_bytes", r->capacity);
    else
        json_field_null(json, "capacity_bytes");
    json_field_uint(json, "context_bytes", r->context);
    json_field_uint(json, "nccl_bytes", r->nccl);
    json_key(json, "fits");
    if (r->fits < 0)
        json_null(json);
    else
        json_bool(json, r->fits != 0);
}

static void write_result(struct json *json, const struct compare_row *row)
{
    const struct plm_result *r = row->report.result;

    json_recipe(json, &row->report);
    json_field_uint(json, "parameters", r->parameters);
    json_field_uint(json, "trainable_parameters", r->trainable_parameters);
    write_capacity(json, r);
    json_peak(json, r);
    json_field_real(json, "bytes_per_parameter", row->compared->bytes_per_parameter);
    if (row->has_largest_batch)
        json_field_int(json, "largest_batch", row->largest_batch);
    else
        json_field_null(json, "largest_batch");
    write_phases(json, r);
    write_categories(json, r);
    json_ledger(json, r);
    json_field_uint(json, "retries", r->retries);
    json_failure(json, r);
    json_field_bool(json, "workspace_unknown", r->workspace_unknown);
    json_texts(json, "unverified", r->unverified, r->unverified_count);
    json_texts(json, "warnings", r->warnings, r->warning_count);
}

static void write_growth(struct json *json, const struct growth *growth)
{
    json_key(json, "growth");
    if (!growth->before) {
        json_null(json);
        return;
    }
    json_open(json, '{');
    json_field_bool(json, "grew", growth->grew);
    json_field_string(json, "figure", growth->figure);
    json_field_uint(json, "from_bytes", growth->from);
    json_field_uint(json, "to_bytes", growth->to);
    json_field_real(json, "share", growth->share);
    json_close(json, '}');
}

static void write_row(struct json *json, const struct compare_row *row)
{
    json_field_uint(json, "number", row->number);
    json_field_string(json, "label", row->label);
    json_field_string(json, "refused", row->report.result ? NULL : row->compared->error.message);
    if (row->report.result)
        write_result(json, row);
    write_growth(json, &row->growth);
}

void json_compare(const struct compare_report *report, struct buf *out)
{
    struct json json = { .out = out };

    json_document(&json, "compare");
    json_field_string(&json, "model", report->model);
    json_texts(&json, "varied", report->axes, report->axis_count);
    json_field_string(&json, "baseline", report->baseline);
    if (report->baseline)
        json_field_real(&json, "allow", report->allow);
    else
        json_field_null(&json, "allow");
    json_key(&json, "strategies");
    json_open(&json, '[');
    for (size_t i = 0; i < report->row_count; i++) {
        const struct compare_row *row = &report->rows[i];

        json_open(&json, '{');
        write_row(&json, row);
        json_close(&json, '}');
    }
    json_close(&json, ']');
    json_close(&json, '}');
    json_finish(&json);
}

static void write_terms(struct json *json, const char *key, const struct plm_term *terms, size_t n)
{
    json_key(json, key);
    json_open(json, '[');
    for (size_t i = 0; i < n; i++) {
        json_open(json, '{');
        json_field_string(json, "name", terms[i].name);
        json_field_uint(json, "a_bytes", terms[i].a);
        json_field_uint(json, "b_bytes", terms[i].b);
        json_close(json, '}');
    }
    json_close(json, ']');
}

void json_difference(const struct difference_report *report, struct buf *out)
{
    const struct plm_difference *d = report->difference;
    struct json json = { .out = out };

    json_document(&json, "compare");
    json_field_string(&json, "model", report->model);
    json_key(&json, "difference");
    json_open(&json, '{');
    write_terms(&json, "categories", d->categories, d->category_count);
    write_terms(&json, "phases", d->phases, d->phase_count);
    json_field_bool(&json, "b_saves", d->b_saves);
    json_field_string(&json, "from_phase", d->from);
    json_field_string(&json, "to_phase", d->to);
    json_field_uint(&json, "saved_there_bytes", d->saved_there);
    json_field_uint(&json, "saved_in_all_bytes", d->saved_in_all);
    json_field_string(&json, "vanishes_in", d->vanishes);
    json_close(&json, '}');
    json_key(&json, "strategies");
    json_open(&json, '[');
    for (int i = 0; i < 2; i++) {
        json_open(&json, '{');
        write_row(&json, i == 0 ? report->a : report->b);
        json_close(&json, '}');
    }
    json_close(&json, ']');
    json_close(&json, '}');
    json_finish(&json);
}
