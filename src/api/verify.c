/* api/verify.c - a plan played on the GPU, as the public interface gives it */
#include <string.h>

#include "api/internal.h"
#include "base/buf.h"
#include "base/error.h"
#include "device/verified.h"
#include "device/verify.h"
#include "plan/requests.h"
#include "yaml/file.h"

static const double MAX_FILL = 0.95;

enum plm_status plm_estimate_requests(struct plm_estimate *estimate,
                                      const struct plm_request **ret,
                                      size_t *ret_count,
                                      struct plm_error *reterr)
{
    if (requests_of(&estimate->sim, ret, ret_count))
        return PLM_OK;
    return plm_fail(reterr, PLM_E_USAGE,
                    "the driver's own allocator (backend:cudaMallocAsync) asks for no segments");
}

static enum plm_status check(const struct plm_verify_options *options, struct plm_error *reterr)
{
    if (options->device < 0)
        return plm_fail(reterr, PLM_E_USAGE, "devices are counted from 0");
    if (!(options->max_fill >= 0 && options->max_fill <= 1))
        return plm_fail(reterr, PLM_E_USAGE, "max-fill is a share of free memory, at most 100 %%");
    if (!(options->watchdog >= 0))
        return plm_fail(reterr, PLM_E_USAGE, "a watchdog waits for 0 seconds or more");
    return PLM_OK;
}

enum plm_status plm_verify(struct plm_estimate *estimate,
                           const struct plm_verify_options *options,
                           struct plm_verified *ret_verified,
                           struct plm_error *reterr)
{
    struct verify_plan plan = { .outside = simulation_outside(&estimate->sim) };
    struct verify_options own = {
        .probe = { .ordinal = options->device,
                   .max_fill = options->max_fill > 0 ? options->max_fill : MAX_FILL },
        .watchdog = options->watchdog,
        .progress = options->progress,
        .progress_context = options->progress_context,
    };
    enum plm_status status = check(options, reterr);

    if (status == PLM_OK && estimate->result.out_of_memory)
        status = plm_fail(reterr, PLM_E_USAGE,
                          "the plan itself is out of memory: there is nothing to play");
    if (status == PLM_OK)
        status = plm_estimate_requests(estimate, &plan.requests, &plan.request_count, reterr);
    return status == PLM_OK ? verify_run(&plan, &own, ret_verified, reterr) : status;
}

enum { PROFILE_BYTES_MAX = 1 << 20 };

static struct verified_line line_of(const struct plm_verified_plan *plan)
{
    const struct plm_verified *v = plan->verified;
    bool holds = v->verdict == PLM_VERDICT_HOLDS;

    return (struct verified_line){ .date = plan->date,
                                   .model = plan->model,
                                   .batch = plan->batch,
                                   .holds = holds,
                                   .planned = plan->planned,
                                   .used = holds ? v->used : 0,
                                   .free = holds ? v->free_at_peak : 0,
                                   .left = holds ? v->left : 0,
                                   .left_at_least = holds && v->left_at_least };
}

enum plm_status plm_profile_add(struct plm_context *context,
                                const char *file,
                                const struct plm_verified_plan *plans,
                                size_t plan_count,
                                const char **ret_text,
                                size_t *ret_length,
                                struct plm_error *reterr)
{
    const char *text;
    size_t length;
    enum plm_status status =
        file_read(file, PROFILE_BYTES_MAX, &context->arena, &text, &length, reterr);

    if (status != PLM_OK)
        return status;
    for (size_t i = 0; i < plan_count; i++) {
        struct buf out = { .arena = &context->arena };
        struct verified_line line = line_of(&plans[i]);

        verified_add(text, &line, &out);
        text = buf_string(&out);
    }
    *ret_text = text;
    *ret_length = strlen(text);
    return PLM_OK;
}
