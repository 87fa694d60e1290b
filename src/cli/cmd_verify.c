/*
 * cli/cmd_verify.c - plimsoll verify: does a plan hold on the GPU in hand
 *
 * The plan is an estimate for the GPU's own profile, unless --device names another; the batch is that of --batch, or the largest that is
 * safe. What was seen is kept in the profile.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/units.h"
#include "cli/answer.h"
#include "cli/clock.h"
#include "cli/here.h"
#include "cli/load.h"
#include "cli/talk.h"
#include "plimsoll/calibrate.h"
#include "plimsoll/verify.h"
#include "report/verify.h"

enum {
    GPUS_MAX = 64,
    RUNGS = 5, /* of a ladder: the batch that was asked for is the middle one */
    ALLOWED_TRIES = 3,
    LADDER_PART = 16, /* rungs are this part of the batch apart */
};

static const plm_bytes CAPACITY_MOST = (plm_bytes)1 << 50; /* that a plan takes */

/* struct verifying - one invocation */
struct verifying {
    struct cli *cli;
    struct plm_model *model;
    struct plm_strategy strategy;
    int ordinal;
    struct plm_gpu gpu;
    struct verify_rung rungs[RUNGS + 1];
    size_t rung_count;
    int64_t asked; /* the batch */
    struct progress progress;
};

/* ------------------------------------------------------------------ which GPU, which profile */

static enum plm_status find_gpu(struct verifying *v, struct plm_error *reterr)
{
    const char *device = v->cli->options.device;
    struct plm_gpu gpus[GPUS_MAX];
    int64_t number = 0;
    size_t count = 0;
    enum plm_status status = plm_gpus(gpus, GPUS_MAX, &count, reterr);

    if (status == PLM_OK && device && here_asked(device))
        status = here_number(device, &number, reterr);
    if (status != PLM_OK)
        return status;
    if ((size_t)number >= count)
        return plm_fail(reterr, PLM_E_DEVICE, "there is no GPU %lld: there are %zu",
                        (long long)number, count);
    v->ordinal = (int)number;
    v->gpu = gpus[number];
    return PLM_OK;
}

static enum plm_status find_profile(struct verifying *v, struct plm_error *reterr)
{
    const struct plm_device *found = here_profile(v->cli, v->gpu.uuid, v->gpu.title, v->gpu.driver);

    if (!found)
        return plm_fail(
            reterr, PLM_E_USAGE,
            "no profile is known of the GPU here (%s): 'plimsoll calibrate' makes one, or "
            "--device names another",
            v->gpu.title);
    v->strategy.device = found;
    return PLM_OK;
}

/* ------------------------------------------------------------------ one batch */

/* place() - in which phase of the plan the request that failed was made */
static enum plm_status place(struct plm_estimate *estimate,
                             struct verify_rung *rung,
                             struct plm_error *reterr)
{
    const struct plm_result *result = plm_estimate_result(estimate);
    const struct plm_request *requests;
    size_t count;
    enum plm_status status;

    if (rung->verified.verdict != PLM_VERDICT_FAILS || rung->verified.played == 0)
        return PLM_OK;
    status = plm_estimate_requests(estimate, &requests, &count, reterr);
    if (status != PLM_OK || rung->verified.failed >= count)
        return status;
    const struct plm_request *request = &requests[rung->verified.failed];

    rung->failed_bytes = request->bytes;
    if (request->phase < result->phase_count) {
        rung->failed_phase = result->phases[request->phase].name;
        rung->failed_step = result->phases[request->phase].step;
    }
    return PLM_OK;
}

static enum plm_status verify_batch(struct verifying *v, int64_t batch, struct plm_error *reterr)
{
    const struct options *o = &v->cli->options;
    struct verify_rung *rung = &v->rungs[v->rung_count];
    struct plm_verify_options options = { .device = v->ordinal,
                                          .max_fill = o->max_fill,
                                          .watchdog = o->watchdog,
                                          .progress = progress_report,
                                          .progress_context = &v->progress };
    struct plm_estimate *estimate;
    enum plm_status status;

    v->strategy.batch = batch;
    status = plm_estimate(v->model, &v->strategy, &estimate, reterr);
    if (status != PLM_OK)
        return status;
    *rung = (struct verify_rung){ .batch = batch,
                                  .planned = plm_estimate_result(estimate)->peak.device };
    if (v->rung_count == 0)
        talk_warnings(plm_estimate_result(estimate)->warnings,
                      plm_estimate_result(estimate)->warning_count);
    status = plm_verify(estimate, &options, &rung->verified, reterr);
    if (status == PLM_OK)
        status = place(estimate, rung, reterr);
    plm_estimate_destroy(estimate);
    if (status == PLM_OK)
        v->rung_count++;
    return status;
}

/* fits() - may this batch be played: a plan that is itself out of memory has nothing to play */
static enum plm_status fits(struct verifying *v,
                            int64_t batch,
                            bool *ret_fits,
                            struct plm_error *reterr)
{
    struct plm_estimate *estimate;
    enum plm_status status;

    v->strategy.batch = batch;
    status = plm_estimate(v->model, &v->strategy, &estimate, reterr);
    if (status != PLM_OK)
        return status;
    *ret_fits = !plm_estimate_result(estimate)->out_of_memory;
    plm_estimate_destroy(estimate);
    return PLM_OK;
}

/* ------------------------------------------------------------------ which batches */

static struct plm_search search_of(struct verifying *v)
{
    const struct options *o = &v->cli->options;

    return (struct plm_search){ .strategy = v->strategy,
                                .margin_share = o->margin_share,
                                .margin_bytes = o->margin_bytes,
                                .has_margin = o->has_margin,
                                .reserve = o->reserve,
                                .multiple_of = o->multiple_of,
                                .max_batch = o->max_batch,
                                .progress = progress_report,
                                .progress_context = &v->progress };
}

/* check_search() - could a batch be looked for, on whatever GPU: its first candidate alone, where memory is no matter */
static enum plm_status check_search(struct verifying *v, struct plm_error *reterr)
{
    struct plm_search search = search_of(v);
    int64_t first = search.multiple_of > 0 ? search.multiple_of : 1;
    struct plm_plan *plan;
    enum plm_status status;

    if (search.max_batch == 0 || search.max_batch > first)
        search.max_batch = first;
    search.strategy.capacity = CAPACITY_MOST;
    status = plm_plan(v->model, &search, &plan, reterr);
    if (status == PLM_OK)
        plm_plan_destroy(plan);
    return status;
}

/* largest_batch() - that a plan calls safe */
static enum plm_status largest_batch(struct verifying *v,
                                     int64_t *ret_batch,
                                     struct plm_error *reterr)
{
    struct plm_search search = search_of(v);
    struct plm_plan *plan;
    enum plm_status status = plm_plan(v->model, &search, &plan, reterr);

    if (status != PLM_OK)
        return status;
    *ret_batch = plm_plan_result(plan)->batch;
    plm_plan_destroy(plan);
    if (*ret_batch == 0)
        return plm_fail(reterr, PLM_E_USAGE,
                        "no batch is safe on %s, so there is no plan; --batch N tries one anyway",
                        v->strategy.device->name);
    return PLM_OK;
}

/* rung_batch() - @i of a ladder around @batch; rungs are multiples of --multiple-of where the batch is */
static int64_t rung_batch(const struct verifying *v, int64_t batch, int i)
{
    int64_t unit = v->cli->options.multiple_of > 0 ? v->cli->options.multiple_of : 1;
    int64_t apart = batch / LADDER_PART / unit * unit;

    return batch + (i - RUNGS / 2) * (apart > 0 ? apart : unit);
}

static enum plm_status climb(struct verifying *v, int64_t batch, struct plm_error *reterr)
{
    for (int i = 0; i < RUNGS; i++) {
        int64_t rung = rung_batch(v, batch, i);
        bool may = true;
        enum plm_status status = PLM_OK;

        if (rung < 1)
            continue;
        if (rung > batch)
            status = fits(v, rung, &may, reterr);
        if (status == PLM_OK && may)
            status = verify_batch(v, rung, reterr);
        if (status != PLM_OK)
            return status;
    }
    return PLM_OK;
}

/* ------------------------------------------------------------------ what --max-fill allows */

static const struct verify_rung *asked_rung(const struct verifying *v)
{
    const struct verify_rung *rung = v->rungs;

    while (rung->batch != v->asked)
        rung++;
    return rung;
}

static bool any_holds(const struct verifying *v)
{
    for (size_t i = 0; i < v->rung_count; i++)
        if (v->rungs[i].verified.verdict == PLM_VERDICT_HOLDS)
            return true;
    return false;
}

/* reserved_by() - the most that the plan for @batch reserves; UINT64_MAX where there is no such plan */
static plm_bytes reserved_by(struct verifying *v, int64_t batch)
{
    struct plm_estimate *estimate;
    struct plm_error unused;
    plm_bytes reserved = UINT64_MAX;

    v->strategy.batch = batch;
    if (plm_estimate(v->model, &v->strategy, &estimate, &unused) != PLM_OK)
        return reserved;
    if (!plm_estimate_result(estimate)->out_of_memory)
        reserved = plm_estimate_result(estimate)->peak.reserved;
    plm_estimate_destroy(estimate);
    return reserved;
}

/* allowed_batch() - the largest, in steps of --multiple-of, that --max-fill allows, judged by the one that was asked for; 0: none */
static int64_t allowed_batch(struct verifying *v)
{
    const struct plm_verified *seen = &asked_rung(v)->verified;
    plm_bytes beside = seen->needed - seen->reserved; /* held back, and what pages are rounded to */
    int64_t unit = v->cli->options.multiple_of > 0 ? v->cli->options.multiple_of : 1;
    int64_t low = 0, high = (v->asked + unit - 1) / unit;

    while (low + 1 < high) {
        int64_t middle = low + (high - low) / 2;
        plm_bytes reserved = reserved_by(v, middle * unit);

        if (reserved <= seen->allowed && reserved + beside <= seen->allowed)
            low = middle;
        else
            high = middle;
    }
    return low * unit;
}

static int by_batch(const void *a, const void *b)
{
    const struct verify_rung *x = a, *y = b;

    return (x->batch > y->batch) - (x->batch < y->batch);
}

/* play_allowed() - where the plan is beyond --max-fill: the largest batch that is not, so that something is proven */
static enum plm_status play_allowed(struct verifying *v, struct plm_error *reterr)
{
    int64_t unit = v->cli->options.multiple_of > 0 ? v->cli->options.multiple_of : 1;
    int64_t batch = allowed_batch(v);
    bool settled = false;

    for (int i = 0; i < ALLOWED_TRIES && batch > 0 && !settled; i++, batch -= unit) {
        enum plm_status status = verify_batch(v, batch, reterr);

        if (status != PLM_OK)
            return status;
        settled = v->rungs[v->rung_count - 1].verified.verdict != PLM_VERDICT_LIMIT;
        v->rung_count -= settled ? 0 : 1;
    }
    qsort(v->rungs, v->rung_count, sizeof *v->rungs, by_batch);
    return PLM_OK;
}

static enum plm_status verify(struct verifying *v, struct plm_error *reterr)
{
    enum plm_status status = PLM_OK;

    v->asked = v->strategy.batch;
    if (v->asked == 0)
        status = largest_batch(v, &v->asked, reterr);
    if (status == PLM_OK)
        status =
            v->cli->options.ladder ? climb(v, v->asked, reterr) : verify_batch(v, v->asked, reterr);
    if (status == PLM_OK && asked_rung(v)->verified.verdict == PLM_VERDICT_LIMIT && !any_holds(v))
        status = play_allowed(v, reterr);
    return status;
}

/* ------------------------------------------------------------------ keeping it */

/* profile_path() - the file of the profile, when it was measured on this GPU; otherwise NULL */
static const char *profile_path(const struct verifying *v)
{
    const struct plm_device *device = v->strategy.device;

    return device->uuid && strcmp(device->uuid, v->gpu.uuid) == 0 ? device->file : NULL;
}

static enum plm_status keep(struct verifying *v,
                            struct verify_report *report,
                            struct plm_error *reterr)
{
    struct cli *cli = v->cli;
    struct plm_verified_plan *plans =
        arena_array(&cli->arena, struct plm_verified_plan, v->rung_count);
    const char *path = profile_path(v), *date = clock_date(&cli->arena), *text;
    const struct plm_device *after;
    size_t length, count = 0;
    enum plm_status status;

    for (size_t i = 0; i < v->rung_count; i++)
        if (v->rungs[i].verified.verdict <= PLM_VERDICT_FAILS)
            plans[count++] = (struct plm_verified_plan){ .date = date,
                                                         .model = report->model,
                                                         .batch = v->rungs[i].batch,
                                                         .planned = v->rungs[i].planned,
                                                         .verified = &v->rungs[i].verified };
    report->margin_before = report->margin = v->strategy.device->margin;
    report->has_profile = path != NULL;
    if (!path || count == 0)
        return PLM_OK;
    status = plm_profile_add(cli->context, path, plans, count, &text, &length, reterr);
    if (status == PLM_OK)
        status = answer_save(path, text, length, reterr);
    if (status == PLM_OK)
        status = plm_device_find(cli->context, path, &after, reterr);
    if (status != PLM_OK)
        return status;
    report->profile = path;
    report->margin = after->margin;
    report->margin_reason = after->margin_reason;
    return PLM_OK;
}

/* ------------------------------------------------------------------ the answer */

static enum exit_status status_of(enum plm_verdict verdict)
{
    switch (verdict) {
    case PLM_VERDICT_HOLDS:
        return EXIT_FITS;
    case PLM_VERDICT_FAILS:
        return EXIT_NO_FIT;
    case PLM_VERDICT_LIMIT:
    case PLM_VERDICT_DISTURBED:
        break;
    }
    return EXIT_TROUBLE;
}

static enum exit_status answer(struct verifying *v)
{
    struct cli *cli = v->cli;
    struct buf text = { .arena = &cli->arena };
    struct layout layout = { &text, cli->colour };
    struct plm_model_info info;
    struct verify_report report = {
        .gpu = v->gpu.title,
        .uuid = v->gpu.uuid,
        .device = v->strategy.device->name,
        .rungs = v->rungs,
        .rung_count = v->rung_count,
        .asked = (size_t)(asked_rung(v) - v->rungs),
    };
    struct plm_error error;
    enum exit_status exit_status = status_of(asked_rung(v)->verified.verdict);
    enum plm_status status = plm_model_describe(v->model, &info, &error);

    report.model = status == PLM_OK ? info.name : cli->arguments[0];
    status = keep(v, &report, &error);
    if (status != PLM_OK)
        talk_error(&error); /* the verdict stands, and is what was asked for */
    if (cli->options.json)
        verify_json(&report, &text);
    else
        verify_text(&report, &layout);
    exit_status = answer_write(cli, &text, exit_status);
    return status == PLM_OK || exit_status != EXIT_FITS ? exit_status : EXIT_TROUBLE;
}

/* check() - what chooses a batch says nothing where one is given */
static enum plm_status check(const struct options *o, int64_t batch, struct plm_error *reterr)
{
    const char *chooser = o->has_margin      ? "--margin"
                          : o->reserve > 0   ? "--reserve"
                          : o->max_batch > 0 ? "--max-batch"
                                             : NULL;

    if (batch > 0 && chooser)
        return plm_fail(reterr, PLM_E_USAGE,
                        "%s and %s do not go together: the batch is given, and none is chosen",
                        chooser, o->strategy.batch > 0 ? "--batch" : "the batch of --deepspeed");
    return PLM_OK;
}

/* read_input() - all that can be wrong without a GPU */
static enum plm_status read_input(struct verifying *v, struct plm_error *reterr)
{
    enum plm_status status = load_input(v->cli, &v->model, &v->strategy, reterr);

    if (status == PLM_OK)
        status = check(&v->cli->options, v->strategy.batch, reterr);
    if (status != PLM_OK)
        return status;
    return v->strategy.batch > 0 ? load_check(v->model, &v->strategy, reterr)
                                 : check_search(v, reterr);
}

/* find_device() - the GPU, and the profile that the plan is for */
static enum plm_status find_device(struct verifying *v, struct plm_error *reterr)
{
    enum plm_status status = find_gpu(v, reterr);

    if (status == PLM_OK)
        status = load_here(v->cli, &v->cli->options, &v->strategy.device, reterr);
    if (status == PLM_OK && !v->strategy.device)
        status = find_profile(v, reterr);
    return status;
}

static enum exit_status run(struct cli *cli)
{
    struct verifying v = { .cli = cli };
    struct plm_error error;
    enum plm_status status = read_input(&v, &error);
    enum exit_status exit_status;

    if (status == PLM_OK) {
        exit_status = answer_try(cli, cli->options.output);
        if (exit_status != EXIT_FITS) {
            plm_model_destroy(v.model);
            return exit_status;
        }
        status = find_device(&v, &error);
    }
    if (status == PLM_OK)
        status = verify(&v, &error);
    progress_finish(&v.progress);
    exit_status = status == PLM_OK ? answer(&v) : talk_fail(status, &error);
    plm_model_destroy(v.model);
    return exit_status;
}

const struct command cmd_verify = {
    .name = "verify",
    .arguments = "MODEL",
    .help = "play a plan's allocations on the GPU in hand",
    .about =
        "Ask the GPU in this machine for the memory that a plan would ask for, in the same blocks and the same order, write to "
        "it, and see how much more could be had at its peak: the plan holds, with so much to spare, or fails at a certain "
        "request. Without --batch the plan is the largest batch that is safe.",
    .least = 1,
    .most = 1,
    .missing = load_missing,
    .run = run,
};
