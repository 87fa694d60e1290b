/* api/plan.c - plans, timelines and the version, as the public interface gives them */
#include "api/internal.h"
#include "plan/search.h"

enum plm_status plm_estimate_timeline(struct plm_estimate *estimate,
                                      const struct plm_timeline **ret_timeline,
                                      struct plm_error *reterr)
{
    if (!estimate->timeline)
        estimate->timeline = estimate_timeline(&estimate->sim, &estimate->result);
    *ret_timeline = estimate->timeline;
    return PLM_OK;
}

enum plm_status plm_plan(struct plm_model *model,
                         const struct plm_search *search,
                         struct plm_plan **ret_plan,
                         struct plm_error *reterr)
{
    struct arena own = { 0 };
    struct plm_plan *plan = arena_new(&own, struct plm_plan);
    struct plm_strategy strategy = search->strategy;
    enum plm_status status = search_batch(&model->subject, search, &own, &plan->result, reterr);

    if (status == PLM_OK) {
        /* the estimate at the answer, or at the smallest batch when that does not fit */
        strategy.batch = plan->result.batch ? plan->result.batch : plan->result.candidates[0].batch;
        search_micros(&strategy, plan->result.batch ? plan->result.accumulate
                                                    : plan->result.candidates[0].accumulate);
        status = api_estimate(model, &strategy, plan->result.margin + plan->result.reserve,
                              &plan->estimate, reterr);
    }
    if (status != PLM_OK) {
        arena_finish(&own);
        return status;
    }
    plan->result.result = &plan->estimate->result;
    plan->own = own;
    *ret_plan = plan;
    return PLM_OK;
}

const struct plm_plan_result *plm_plan_result(const struct plm_plan *plan)
{
    return &plan->result;
}

void plm_plan_destroy(struct plm_plan *plan)
{
    if (!plan)
        return;
    struct arena own = plan->own; /* the struct itself is in there */

    plm_estimate_destroy(plan->estimate);
    arena_finish(&own);
}

const char *plm_version(void)
{
    return PLM_VERSION;
}
