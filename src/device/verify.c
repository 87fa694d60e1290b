/* device/verify.c - the parent's side: starts the two processes and hears what became of the plan */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/calibrate_child.h"
#include "device/verify_child.h"

static const double WATCHDOG = 30;

/* struct hearing - what was said so far */
struct hearing {
    const struct verify_options *options;
    struct plm_verified *result;
    bool exclusive; /* only one process may use the device */
    bool has_verdict;
    struct plm_error *reterr;
};

size_t verify_peak(const struct verify_plan *plan, plm_bytes *ret_reserved)
{
    plm_bytes now = 0, most = 0;
    size_t peak = 0;

    for (size_t i = 0; i < plan->request_count; i++) {
        const struct plm_request *request = &plan->requests[i];
        bool takes = request->kind == PLM_REQUEST_ALLOC || request->kind == PLM_REQUEST_MAP;

        now = takes ? now + request->bytes : now - request->bytes;
        if (now > most) {
            most = now;
            peak = i + 1;
        }
    }
    *ret_reserved = most;
    return peak;
}

static bool hear_verdict(struct hearing *hearing, const char *text)
{
    struct plm_verified *r = hearing->result;
    int verdict;

    if (sscanf(text, "%d %zu %" SCNu64, &verdict, &r->played, &r->failed_free) != 3 ||
        verdict < PLM_VERDICT_HOLDS || verdict > PLM_VERDICT_DISTURBED)
        return false;
    r->verdict = (enum plm_verdict)verdict;
    r->failed = r->played;
    hearing->has_verdict = true;
    return true;
}

static bool hear_peak(struct hearing *hearing, const char *text)
{
    struct plm_verified *r = hearing->result;
    int least;

    if (sscanf(text, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %d", &r->used, &r->free_at_peak, &r->left,
               &least) != 4)
        return false;
    r->left_at_least = least != 0;
    return true;
}

static bool hear_fact(struct hearing *hearing, const char *text)
{
    const char *mode = child_words_after(text, "compute_mode");

    if (mode)
        hearing->exclusive = strtol(mode, NULL, 10) != CUDA_COMPUTE_MODE_DEFAULT;
    return true;
}

/* hear() - one line; false: it is none that is known */
static bool hear(struct hearing *hearing, const char *line)
{
    const struct verify_options *o = hearing->options;
    struct plm_verified *r = hearing->result;
    const char *rest;

    if ((rest = child_words_after(line, "fact")))
        return hear_fact(hearing, rest);
    if ((rest = child_words_after(line, "free")))
        return sscanf(rest, "%" SCNu64 " %" SCNu64, &r->free_before, &r->total) == 2;
    if ((rest = child_words_after(line, "context")))
        return sscanf(rest, "%" SCNu64, &r->context) == 1;
    if ((rest = child_words_after(line, "before")))
        return sscanf(rest, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &r->free_before,
                      &r->held_back, &r->needed, &r->allowed) == 4;
    if ((rest = child_words_after(line, "peak")))
        return hear_peak(hearing, rest);
    if ((rest = child_words_after(line, "verdict")))
        return hear_verdict(hearing, rest);
    if ((rest = child_words_after(line, "played"))) {
        if (o->progress)
            o->progress(o->progress_context, "requests played", (unsigned)strtoul(rest, NULL, 10),
                        (unsigned)r->request_count);
        return true;
    }
    return strcmp(line, "alive") == 0;
}

/* listen() - until @child says a line that begins with @last, or ends */
static enum plm_status listen(struct hearing *hearing, struct child *child, const char *last)
{
    double watchdog = hearing->options->watchdog > 0 ? hearing->options->watchdog : WATCHDOG;
    const char *line, *text;

    for (;;) {
        enum plm_status status = child_line(child, watchdog, &line, hearing->reterr);

        if (status != PLM_OK || !line)
            return status;
        text = child_words_after(line, "error");
        if (text)
            return plm_fail(hearing->reterr, PLM_E_DEVICE, "%s", text);
        if (!hear(hearing, line))
            return plm_fail(hearing->reterr, PLM_E_DEVICE,
                            "the process that plays said '%.60s', which means nothing here", line);
        if (last && child_words_after(line, last))
            return PLM_OK;
    }
}

/* let_go() - the first process gives its context back itself, so that a failure of that is seen */
static enum plm_status let_go(struct hearing *hearing, struct child *first)
{
    child_let_go(first);
    return listen(hearing, first, NULL);
}

/*
 * play() - another context is in place until this one's size is known, where the device allows two; otherwise all that is in use with
 * a context counts as it
 */
static enum plm_status play(struct hearing *hearing,
                            const struct verify_plan *plan,
                            struct child *first)
{
    struct verify_job job = {
        .plan = plan,
        .options = &hearing->options->probe,
        .total = hearing->result->total,
        .free_before = hearing->exclusive ? hearing->result->total : hearing->result->free_before,
    };
    struct child child;
    enum plm_status status = hearing->exclusive ? let_go(hearing, first) : PLM_OK;

    if (status == PLM_OK)
        status = child_start(&child, job_verify, &job, hearing->reterr);
    if (status != PLM_OK)
        return status;
    status = listen(hearing, &child, "context");
    if (status == PLM_OK && !hearing->exclusive)
        status = let_go(hearing, first);
    child_let_go(&child);
    if (status == PLM_OK)
        status = listen(hearing, &child, NULL);
    child_stop(&child);
    if (status == PLM_OK && !hearing->has_verdict)
        status = plm_fail(hearing->reterr, PLM_E_DEVICE, "the process that plays gave no verdict");
    return status;
}

enum plm_status verify_run(const struct verify_plan *plan,
                           const struct verify_options *options,
                           struct plm_verified *ret_verified,
                           struct plm_error *reterr)
{
    struct plm_verified result = { .request_count = plan->request_count };
    struct hearing hearing = { .options = options, .result = &result, .reterr = reterr };
    struct child first;
    enum plm_status status = child_start(&first, job_context, &options->probe, reterr);

    if (status != PLM_OK)
        return status;
    verify_peak(plan, &result.reserved);
    status = listen(&hearing, &first, "free");
    if (status == PLM_OK)
        status = play(&hearing, plan, &first);
    child_stop(&first);
    if (status == PLM_OK)
        *ret_verified = result;
    return status;
}
