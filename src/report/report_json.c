/*
 * report/report_json.c - the answer as one JSON document
 *
 * Keys are stable: they are documented in plimsoll-estimate(1) and plimsoll-plan(1). Bytes are integers and their keys end in
 * "_bytes". What does not apply is null, not left out.
 */
#include <stdio.h>
#include <string.h>

#include "report/json_report.h"
#include "report/recipe.h"

void json_recipe(struct json *json, const struct report *report)
{
    const struct plm_strategy *s = report->strategy;
    size_t count;
    const struct recipe_item *items = recipe_items(report, json->out->arena, &count);

    json_key(json, "recipe");
    json_open(json, '{');
    for (size_t i = 0; i < count; i++) {
        switch (items[i].kind) {
        case RECIPE_TEXT:
            json_field_string(json, items[i].key, items[i].text);
            break;
        case RECIPE_COUNT:
            json_field_int(json, items[i].key, items[i].count);
            break;
        case RECIPE_REAL:
            json_field_real(json, items[i].key, items[i].real);
            break;
        case RECIPE_BOOL:
            json_field_bool(json, items[i].key, items[i].count != 0);
            break;
        case RECIPE_ABSENT:
            json_field_null(json, items[i].key);
            break;
        }
    }
    json_key(json, "set");
    json_open(json, '{');
    for (size_t i = 0; i < s->setting_count; i++)
        json_field_string(json, s->settings[i].name, s->settings[i].value);
    json_close(json, '}');
    json_close(json, '}');
}

void json_memory(struct json *json, const struct plm_memory *memory)
{
    json_field_uint(json, "requested_bytes", memory->requested);
    json_field_uint(json, "allocated_bytes", memory->allocated);
    json_field_uint(json, "reserved_bytes", memory->reserved);
    json_field_uint(json, "device_bytes", memory->device);
}

static void write_step(struct json *json, const char *key, int step)
{
    if (step < 0)
        json_field_null(json, key);
    else
        json_field_int(json, key, step);
}

void json_peak(struct json *json, const struct plm_result *r)
{
    json_key(json, "peak");
    json_open(json, '{');
    json_memory(json, &r->peak);
    json_field_string(json, "phase", r->at.phase);
    write_step(json, "step", r->at.step);
    json_field_uint(json, "micro", r->at.micro);
    json_field_string(json, "operator", r->at.op);
    json_field_string(json, "block", r->at.block);
    if (r->has_minimum_capacity)
        json_field_uint(json, "minimum_capacity_bytes", r->minimum_capacity);
    else
        json_field_null(json, "minimum_capacity_bytes");
    json_close(json, '}');
}

static void write_device(struct json *json, const struct plm_result *r)
{
    json_key(json, "device");
    if (!r->device) {
        json_null(json);
    } else {
        json_open(json, '{');
        json_field_string(json, "name", r->device->name);
        json_field_string(json, "title", r->device->title);
        json_field_string(json, "source", r->device->source);
        json_field_string(json, "context_source", r->device->context_source);
        json_field_bool(json, "calibrated", r->device->calibrated);
        json_close(json, '}');
    }
    if (r->capacity)
        json_field_uint(json, "capacity_bytes", r->capacity);
    else
        json_field_null(json, "capacity_bytes");
    json_field_uint(json, "context_bytes", r->context);
    json_field_uint(json, "nccl_bytes", r->nccl);
    json_field_uint(json, "nccl_low_bytes", r->nccl_low);
    json_field_uint(json, "nccl_high_bytes", r->nccl_high);
}

static void write_steps(struct json *json, const struct plm_result *r)
{
    json_key(json, "steps");
    json_open(json, '[');
    for (size_t i = 0; i < r->step_count; i++) {
        json_open(json, '{');
        json_field_uint(json, "step", i);
        json_field_uint(json, "requested_bytes", r->steps[i].requested);
        json_field_uint(json, "allocated_bytes", r->steps[i].allocated);
        json_field_uint(json, "reserved_bytes", r->steps[i].reserved);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void write_phases(struct json *json, const struct plm_result *r)
{
    json_key(json, "phases");
    json_open(json, '[');
    for (size_t i = 0; i < r->phase_count; i++) {
        const struct plm_phase *phase = &r->phases[i];

        json_open(json, '{');
        json_field_string(json, "name", phase->name);
        write_step(json, "step", phase->step);
        json_field_uint(json, "micro", phase->micro);
        json_memory(json, &phase->peak);
        json_field_uint(json, "allocated_end_bytes", phase->allocated_end);
        json_field_uint(json, "reserved_end_bytes", phase->reserved_end);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void write_shares(struct json *json,
                         const char *by,
                         const struct plm_share *shares,
                         size_t share_count)
{
    for (size_t i = 0; i < share_count; i++) {
        json_open(json, '{');
        json_field_string(json, "by", by);
        json_field_string(json, "name", shares[i].name);
        json_field_uint(json, "bytes", shares[i].bytes);
        json_field_uint(json, "tensors", shares[i].count);
        json_close(json, '}');
    }
}

static void write_live(struct json *json, const struct plm_result *r)
{
    json_key(json, "live_at_peak");
    json_open(json, '[');
    write_shares(json, "category", r->live_by_category, r->live_by_category_count);
    write_shares(json, "block", r->live_by_block, r->live_by_block_count);
    write_shares(json, "operator", r->live_by_operator, r->live_by_operator_count);
    json_close(json, ']');
}

void json_ledger(struct json *json, const struct plm_result *r)
{
    json_key(json, "ledger");
    json_open(json, '[');
    for (size_t i = 0; i < r->ledger_count; i++) {
        json_open(json, '{');
        json_field_string(json, "name", r->ledger[i].name);
        json_field_uint(json, "bytes", r->ledger[i].bytes);
        json_field_real(json, "bytes_per_parameter", r->ledger[i].per_parameter);
        json_close(json, '}');
    }
    json_close(json, ']');
}

void json_failure(struct json *json, const struct plm_result *r)
{
    json_key(json, "failure");
    if (!r->out_of_memory) {
        json_null(json);
        return;
    }
    json_open(json, '{');
    json_field_string(json, "phase", r->failure.phase);
    write_step(json, "step", r->failure.step);
    json_field_string(json, "operator", r->failure.op);
    json_field_string(json, "block", r->failure.block);
    json_field_uint(json, "request_bytes", r->failure.request);
    json_field_uint(json, "segment_bytes", r->failure.segment);
    json_close(json, '}');
}

void json_texts(struct json *json, const char *key, const char *const *texts, size_t text_count)
{
    json_key(json, key);
    json_open(json, '[');
    for (size_t i = 0; i < text_count; i++)
        json_string(json, texts[i]);
    json_close(json, ']');
}

/* write_version() - "9.26.0"; null: nobody answered */
static void write_version(struct json *json, const char *key, int version)
{
    char text[32];

    if (version == 0) {
        json_field_null(json, key);
        return;
    }
    snprintf(text, sizeof text, "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
    json_field_string(json, key, text);
}

static void write_doubts(struct json *json, const struct plm_result *r)
{
    json_key(json, "workspace");
    json_open(json, '{');
    json_field_bool(json, "unknown", r->workspace_unknown);
    json_field_uint(json, "low_bytes", r->workspace_low);
    json_field_uint(json, "high_bytes", r->workspace_high);
    write_version(json, "library", r->cudnn.library);
    json_field_uint(json, "library_calls", r->cudnn.asked);
    write_version(json, "table", r->cudnn.table);
    json_field_uint(json, "table_calls", r->cudnn.looked_up);
    json_field_uint(json, "unknown_calls", r->cudnn.unknown);
    json_field_uint(json, "blas_calls", r->cudnn.blas);
    json_field_uint(json, "blas_most_bytes", r->cudnn.blas_most);
    json_field_uint(json, "left_out_calls", r->cudnn.left_out);
    json_close(json, '}');
    json_texts(json, "unverified", r->unverified, r->unverified_count);
    json_texts(json, "warnings", r->warnings, r->warning_count);
}

static void write_ranks(struct json *json, const struct plm_result *r)
{
    json_key(json, "ranks");
    json_open(json, '[');
    for (size_t i = 0; i < r->rank_count; i++) {
        const struct plm_rank *rank = &r->ranks[i];

        json_open(json, '{');
        json_field_string(json, "class", rank->name);
        json_field_int(json, "rank", rank->rank);
        json_field_string(json, "about", rank->about);
        json_field_bool(json, "worst", rank->worst);
        json_field_bool(json, "out_of_memory", rank->out_of_memory);
        json_memory(json, &rank->peak);
        json_field_string(json, "phase", rank->phase);
        write_step(json, "step", rank->step);
        json_close(json, '}');
    }
    json_close(json, ']');
    if (r->rank_reason)
        json_field_string(json, "rank_reason", r->rank_reason);
    else
        json_field_null(json, "rank_reason");
}

/* write_result() - the members that estimate and plan share */
static void write_result(struct json *json, const struct report *report)
{
    const struct plm_result *r = report->result;

    json_field_string(json, "model", r->model);
    json_recipe(json, report);
    json_field_uint(json, "parameters", r->parameters);
    json_field_uint(json, "trainable_parameters", r->trainable_parameters);
    write_device(json, r);
    json_key(json, "fits");
    if (r->fits < 0)
        json_null(json);
    else
        json_bool(json, r->fits != 0);
    json_peak(json, r);
    write_ranks(json, r);
    write_steps(json, r);
    write_phases(json, r);
    write_live(json, r);
    json_ledger(json, r);
    json_field_uint(json, "retries", r->retries);
    json_field_uint(json, "fallbacks", r->fallbacks);
    json_failure(json, r);
    json_field_string(json, "advice", r->advice);
    write_doubts(json, r);
}

void json_document(struct json *json, const char *command)
{
    json_open(json, '{');
    json_field_int(json, "schema_version", REPORT_SCHEMA_VERSION);
    json_field_string(json, "plimsoll", plm_version());
    json_field_string(json, "command", command);
}

static void json_estimate(const struct report *report, struct buf *out)
{
    struct json json = { .out = out };

    json_document(&json, "estimate");
    write_result(&json, report);
    json_close(&json, '}');
    json_finish(&json);
}

static void write_candidates(struct json *json, const struct plm_plan_result *plan)
{
    json_key(json, "candidates");
    json_open(json, '[');
    for (size_t i = 0; i < plan->candidate_count; i++) {
        const struct plm_candidate *candidate = &plan->candidates[i];

        json_open(json, '{');
        json_field_int(json, "batch", candidate->batch);
        json_field_int(json, "accumulate", candidate->accumulate);
        json_memory(json, &candidate->peak);
        json_field_bool(json, "finishes", candidate->finishes);
        json_field_bool(json, "safe", candidate->safe);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void json_plan(const struct report *report, struct buf *out)
{
    struct json json = { .out = out };
    const struct plm_plan_result *plan = report->plan;

    json_document(&json, "plan");
    json_field_int(&json, "batch", plan->batch);
    json_field_int(&json, "accumulate", plan->accumulate);
    json_field_int(&json, "data_parallel", plan->data_parallel);
    json_field_int(&json, "gpus", plan->gpus);
    json_field_int(&json, "global_batch", plan->batch * plan->accumulate * plan->data_parallel);
    json_field_uint(&json, "margin_bytes", plan->margin);
    json_field_uint(&json, "reserve_bytes", plan->reserve);
    json_field_string(&json, "margin_reason", plan->margin_reason);
    json_field_string(&json, "flags", recipe_flags(report, out->arena));
    json_field_bool(&json, "not_monotone", plan->not_monotone);
    json_field_bool(&json, "limited", plan->limited);
    write_candidates(&json, plan);
    write_result(&json, report);
    json_close(&json, '}');
    json_finish(&json);
}

static void json_list(const struct list *list, struct buf *out)
{
    struct json json = { .out = out };

    json_open(&json, '{');
    json_field_int(&json, "schema_version", REPORT_SCHEMA_VERSION);
    json_key(&json, list->name);
    json_open(&json, '[');
    for (size_t row = 0; row < list->row_count; row++) {
        json_open(&json, '{');
        for (size_t i = 0; i < list->column_count; i++) {
            const struct cell *cell = &list->cells[row * list->column_count + i];

            if (list->columns[i].kind == CELL_TEXT)
                json_field_string(&json, list->columns[i].key, cell->text);
            else
                json_field_uint(&json, list->columns[i].key, cell->number);
        }
        json_close(&json, '}');
    }
    json_close(&json, ']');
    json_close(&json, '}');
    json_finish(&json);
}

const struct renderer renderer_json = {
    json_estimate, json_plan, json_list, json_compare, json_difference,
};
