/*
 * report/verify.c - what became of a plan on the GPU
 *
 * The JSON's keys are documented in plimsoll-verify(1).
 */
#include <math.h>

#include "base/units.h"
#include "report/json_report.h"
#include "report/verify.h"

enum { LABEL = 18, FIGURE = 11 };

static const char *verdict_word(enum plm_verdict verdict)
{
    static const char *const words[] = {
        [PLM_VERDICT_HOLDS] = "holds",
        [PLM_VERDICT_FAILS] = "fails",
        [PLM_VERDICT_LIMIT] = "limit",
        [PLM_VERDICT_DISTURBED] = "disturbed",
    };

    return words[verdict];
}

static enum style verdict_style(enum plm_verdict verdict)
{
    switch (verdict) {
    case PLM_VERDICT_HOLDS:
        return STYLE_GOOD;
    case PLM_VERDICT_FAILS:
        return STYLE_BAD;
    case PLM_VERDICT_LIMIT:
    case PLM_VERDICT_DISTURBED:
        break;
    }
    return STYLE_WARN;
}

/* ------------------------------------------------------------------ for people */

/* share() - of what was free beside the context */
static double share(const struct plm_verified *v, plm_bytes bytes)
{
    return (double)bytes / (double)(v->free_before - v->context);
}

/* enough() - the whole percentage of --max-fill that allows what the plan needs */
static unsigned enough(const struct plm_verified *v)
{
    double percent = ceil(100 * share(v, v->needed));

    return percent < 100 ? (unsigned)percent : 100;
}

static void sentence(const struct verify_rung *rung, struct buf *text)
{
    const struct plm_verified *v = &rung->verified;
    char first[UNITS_TEXT], second[UNITS_TEXT];

    switch (v->verdict) {
    case PLM_VERDICT_HOLDS:
        buf_printf(text, "The plan holds, with %s%s to spare", v->left_at_least ? "at least " : "",
                   units_format_bytes(v->left, first));
        return;
    case PLM_VERDICT_FAILS:
        buf_printf(text, "The plan does not hold: ");
        if (rung->failed_phase)
            buf_printf(
                text, "request %zu of %zu, for %s in %s of step %d, finds no memory, with %s free",
                v->failed + 1, v->request_count, units_format_bytes(rung->failed_bytes, first),
                rung->failed_phase, rung->failed_step < 0 ? 0 : rung->failed_step,
                units_format_bytes(v->failed_free, second));
        else
            buf_printf(text,
                       "there is no room beside what libraries and kernels take, with %s free",
                       units_format_bytes(v->failed_free, first));
        return;
    case PLM_VERDICT_LIMIT:
        buf_printf(text,
                   "Not known: beside its context the plan needs %s, %.1f %% of the %s that was "
                   "free, and --max-fill allows %.0f %%; --max-fill %u%% plays it",
                   units_format_bytes(v->needed, first), 100 * share(v, v->needed),
                   units_format_bytes(v->free_before - v->context, second),
                   100 * share(v, v->allowed), enough(v));
        return;
    case PLM_VERDICT_DISTURBED:
        break;
    }
    buf_text(text,
             "Not known: another process took memory meanwhile, and everything was given back");
}

static void row(struct layout *layout, const char *label, plm_bytes bytes, const char *remark)
{
    buf_text(layout->out, "  ");
    layout_left(layout, label, LABEL);
    layout_bytes(layout, bytes, NULL, FIGURE);
    if (remark) {
        buf_text(layout->out, "  ");
        layout_wrap(layout, remark, LABEL + FIGURE + 4, LABEL + FIGURE + 4);
    } else {
        buf_char(layout->out, '\n');
    }
}

static void figures(const struct verify_rung *rung, struct layout *layout)
{
    const struct plm_verified *v = &rung->verified;
    struct buf remark = { .arena = layout->out->arena };
    char size[UNITS_TEXT];

    buf_printf(&remark, "in %zu requests of the allocator, most at once", v->request_count);
    row(layout, "reserved", v->reserved, buf_string(&remark));
    if (v->free_before < v->total)
        row(layout, "others", v->total - v->free_before,
            "in use before: other processes, and what the driver keeps");
    row(layout, "context", v->context, "of the process that played");
    row(layout, "held back", v->held_back,
        "for libraries, kernels and NCCL, which that process has not");
    if (v->verdict != PLM_VERDICT_HOLDS)
        return;
    remark.length = 0;
    buf_printf(&remark, "at the peak; planned were %s", units_format_bytes(rung->planned, size));
    row(layout, "used", v->used, buf_string(&remark));
    row(layout, "free", v->free_at_peak, "at the peak, by cudaMemGetInfo");
    row(layout, "to be had", v->left,
        v->left_at_least ? "of it; more was not tried (--max-fill)"
                         : "of it, in blocks of 1 GiB to 2 MiB");
}

/* proven() - the largest batch that held; NULL when none did */
static const struct verify_rung *proven(const struct verify_report *report)
{
    const struct verify_rung *found = NULL;

    for (size_t i = 0; i < report->rung_count; i++)
        if (report->rungs[i].verified.verdict == PLM_VERDICT_HOLDS)
            found = &report->rungs[i];
    return found;
}

/* instead() - what is known where the plan that was asked for was not played */
static void instead(const struct verify_report *report, struct layout *layout)
{
    const struct verify_rung *rung = proven(report);
    struct buf text = { .arena = layout->out->arena };
    char left[UNITS_TEXT];

    if (!rung || report->rungs[report->asked].verified.verdict != PLM_VERDICT_LIMIT)
        return;
    buf_printf(&text, "Batch %lld holds, with %s%s to spare", (long long)rung->batch,
               rung->verified.left_at_least ? "at least " : "",
               units_format_bytes(rung->verified.left, left));
    layout_style(layout, STYLE_GOOD);
    layout_wrap(layout, buf_string(&text), 0, 2);
    layout_style(layout, STYLE_PLAIN);
}

static void ladder(const struct verify_report *report, struct layout *layout)
{
    layout_heading(layout, "Batches");
    buf_printf(layout->out, "\n  %10s %12s %12s %12s  %s\n", "batch", "planned", "used", "to spare",
               "verdict");
    for (size_t i = 0; i < report->rung_count; i++) {
        const struct verify_rung *rung = &report->rungs[i];
        bool holds = rung->verified.verdict == PLM_VERDICT_HOLDS;

        buf_printf(layout->out, "  %10lld ", (long long)rung->batch);
        layout_bytes(layout, rung->planned, NULL, 12);
        buf_char(layout->out, ' ');
        layout_bytes(layout, holds ? rung->verified.used : 0, "", 12);
        buf_char(layout->out, ' ');
        layout_bytes(layout, holds ? rung->verified.left : 0, "", 12);
        buf_text(layout->out, holds && rung->verified.left_at_least ? "+ " : "  ");
        layout_style(layout, verdict_style(rung->verified.verdict));
        buf_text(layout->out, verdict_word(rung->verified.verdict));
        layout_style(layout, STYLE_PLAIN);
        buf_char(layout->out, '\n');
    }
}

static void kept(const struct verify_report *report, struct layout *layout)
{
    struct buf text = { .arena = layout->out->arena };
    char before[UNITS_TEXT], after[UNITS_TEXT];

    if (!report->profile && report->has_profile)
        return; /* nothing was found out */
    buf_char(layout->out, '\n');
    if (!report->profile) {
        buf_printf(
            &text,
            "Not kept: %s was not measured on this GPU; 'plimsoll calibrate' makes a profile "
            "that was, and --device local takes it",
            report->device);
    } else {
        buf_printf(&text, "Kept in %s; ", report->profile);
        if (report->margin == report->margin_before)
            buf_printf(&text, "the margin of plans stays %s",
                       units_format_bytes(report->margin, after));
        else
            buf_printf(&text, "the margin of plans was %s and is %s (%s)",
                       units_format_bytes(report->margin_before, before),
                       units_format_bytes(report->margin, after), report->margin_reason);
    }
    layout_wrap(layout, buf_string(&text), 0, 2);
}

void verify_text(const struct verify_report *report, struct layout *layout)
{
    const struct verify_rung *asked = &report->rungs[report->asked];
    struct buf text = { .arena = layout->out->arena };

    buf_printf(&text, "%s, batch %lld, planned for %s and played on %s (%s)", report->model,
               (long long)asked->batch, report->device, report->gpu, report->uuid);
    layout_style(layout, STYLE_BOLD);
    layout_wrap(layout, buf_string(&text), 0, 2);
    layout_style(layout, STYLE_PLAIN);
    text.length = 0;
    sentence(asked, &text);
    layout_style(layout, verdict_style(asked->verified.verdict));
    layout_wrap(layout, buf_string(&text), 0, 2);
    layout_style(layout, STYLE_PLAIN);
    instead(report, layout);
    buf_char(layout->out, '\n');
    figures(asked, layout);
    if (report->rung_count > 1)
        ladder(report, layout);
    kept(report, layout);
}

/* ------------------------------------------------------------------ for programs */

/* known() - a figure of a plan that held; otherwise null */
static void known(struct json *json, const char *key, const struct plm_verified *v, plm_bytes bytes)
{
    if (v->verdict == PLM_VERDICT_HOLDS)
        json_field_uint(json, key, bytes);
    else
        json_field_null(json, key);
}

static void write_failure(struct json *json, const struct verify_rung *rung)
{
    const struct plm_verified *v = &rung->verified;

    json_key(json, "failure");
    if (v->verdict != PLM_VERDICT_FAILS) {
        json_null(json);
        return;
    }
    json_open(json, '{');
    json_field_uint(json, "request", v->failed);
    json_field_string(json, "phase", rung->failed_phase);
    if (rung->failed_step < 0)
        json_field_null(json, "step");
    else
        json_field_int(json, "step", rung->failed_step);
    json_field_uint(json, "request_bytes", rung->failed_bytes);
    json_field_uint(json, "free_bytes", v->failed_free);
    json_close(json, '}');
}

static void write_rung(struct json *json, const struct verify_rung *rung)
{
    const struct plm_verified *v = &rung->verified;

    json_open(json, '{');
    json_field_int(json, "batch", rung->batch);
    json_field_string(json, "verdict", verdict_word(v->verdict));
    json_field_uint(json, "planned_bytes", rung->planned);
    json_field_uint(json, "reserved_bytes", v->reserved);
    json_field_uint(json, "requests", v->request_count);
    json_field_uint(json, "played", v->played);
    json_field_uint(json, "total_bytes", v->total);
    json_field_uint(json, "free_before_bytes", v->free_before);
    json_field_uint(json, "context_bytes", v->context);
    json_field_uint(json, "held_back_bytes", v->held_back);
    json_field_uint(json, "needed_bytes", v->needed);
    json_field_uint(json, "allowed_bytes", v->allowed);
    known(json, "used_bytes", v, v->used);
    known(json, "free_at_peak_bytes", v, v->free_at_peak);
    known(json, "left_bytes", v, v->left);
    json_field_bool(json, "left_at_least", v->left_at_least);
    write_failure(json, rung);
    json_close(json, '}');
}

void verify_json(const struct verify_report *report, struct buf *out)
{
    struct json json = { .out = out };

    json_document(&json, "verify");
    json_field_string(&json, "model", report->model);
    json_field_string(&json, "device", report->device);
    json_field_string(&json, "gpu", report->gpu);
    json_field_string(&json, "uuid", report->uuid);
    json_field_int(&json, "batch", report->rungs[report->asked].batch);
    json_field_string(&json, "verdict",
                      verdict_word(report->rungs[report->asked].verified.verdict));
    if (proven(report))
        json_field_int(&json, "proven_batch", proven(report)->batch);
    else
        json_field_null(&json, "proven_batch");
    json_key(&json, "batches");
    json_open(&json, '[');
    for (size_t i = 0; i < report->rung_count; i++)
        write_rung(&json, &report->rungs[i]);
    json_close(&json, ']');
    json_field_string(&json, "profile", report->profile);
    json_field_uint(&json, "margin_before_bytes", report->margin_before);
    json_field_uint(&json, "margin_bytes", report->margin);
    json_close(&json, '}');
    json_finish(&json);
}
