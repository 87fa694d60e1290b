/* api/answers.c - estimates, as the public interface gives them */
#include <string.h>

#include "api/internal.h"
#include "plan/search.h"

/* copy_strategy() - what the caller may let go of after the call goes into the estimate's arena */
static struct plm_strategy copy_strategy(const struct plm_strategy *from, struct arena *arena)
{
    struct plm_strategy s = *from;
    struct plm_setting *settings = arena_array(arena, struct plm_setting, s.setting_count);
    const char **texts[] = { &s.checkpoint_blocks, &s.frozen, &s.allocator, &s.framework,
                             &s.parallel.pp_split };

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (*texts[i])
            *texts[i] = arena_copy(arena, *texts[i], strlen(*texts[i]));
    for (size_t i = 0; i < s.setting_count; i++) {
        settings[i].name =
            arena_copy(arena, from->settings[i].name, strlen(from->settings[i].name));
        settings[i].value =
            arena_copy(arena, from->settings[i].value, strlen(from->settings[i].value));
    }
    s.settings = settings;
    if (from->device) {
        struct plm_device *device = arena_new(arena, struct plm_device);

        *device = *from->device;
        s.device = device;
    }
    return s;
}

enum plm_status api_estimate(struct plm_model *model,
                             const struct plm_strategy *strategy,
                             plm_bytes cut,
                             struct plm_estimate **ret_estimate,
                             struct plm_error *reterr)
{
    struct arena own = { 0 };
    struct plm_estimate *estimate = arena_new(&own, struct plm_estimate);
    struct plm_strategy copy = copy_strategy(strategy, &own), chosen;
    enum plm_status status = search_checkpoint(&model->subject, &copy, cut, &own, &chosen, reterr);

    if (status == PLM_OK)
        status = simulate(&model->subject, &chosen, 0, &estimate->sim, reterr);

    if (status != PLM_OK) {
        arena_finish(&own);
        return status;
    }
    estimate->own = own;
    estimate_result(&estimate->sim, model->warnings, model->warning_count, &estimate->result);
    if (copy.checkpoint == PLM_CHECKPOINT_AUTO)
        estimate->result.checkpoint_chosen = estimate_chosen(&chosen, &estimate->own);
    if (copy.minimum_capacity)
        status = estimate_minimum(&model->subject, &chosen, &estimate->result, reterr);
    if (status == PLM_OK)
        *ret_estimate = estimate;
    else
        plm_estimate_destroy(estimate);
    return status;
}

enum plm_status plm_estimate(struct plm_model *model,
                             const struct plm_strategy *strategy,
                             struct plm_estimate **ret_estimate,
                             struct plm_error *reterr)
{
    return api_estimate(model, strategy, 0, ret_estimate, reterr);
}

const struct plm_result *plm_estimate_result(const struct plm_estimate *estimate)
{
    return &estimate->result;
}

void plm_estimate_destroy(struct plm_estimate *estimate)
{
    if (!estimate)
        return;
    struct arena own = estimate->own; /* the struct itself is in there */

    simulation_finish(&estimate->sim);
    arena_finish(&own);
}

const char *const *plm_frameworks(size_t *ret_count)
{
    static const char *const names[] = {
#define FRAMEWORK(version, ...) version,
#include "ghost/framework.def"
#undef FRAMEWORK
    };

    *ret_count = sizeof names / sizeof names[0];
    return names;
}
