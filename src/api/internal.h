/* api/internal.h - what is behind the public interface's opaque types */
#ifndef PLM_API_INTERNAL_H
#define PLM_API_INTERNAL_H

#include "plan/estimate.h"

struct plm_context {
    struct arena arena;
    const char **models, **devices; /* folders, in the order added */
    size_t model_count, model_capacity, device_count, device_capacity;
    struct cudnn *cudnn; /* who knows its workspaces */
};

struct plm_model {
    struct arena arena;
    struct plm_context *context;
    struct subject subject;
    const char *const *warnings; /* of a config.json's import */
    size_t warning_count;
};

struct plm_estimate {
    struct simulation sim; /* its arena holds everything but this struct */
    struct arena own;      /* holds this struct */
    struct plm_result result;
    const struct plm_timeline *timeline; /* NULL until asked for */
};

struct plm_plan {
    struct arena own; /* holds this struct and what result points to */
    struct plm_plan_result result;
    struct plm_estimate *estimate; /* at the answer */
};

/* api_estimate() - an estimate; what PLM_CHECKPOINT_AUTO chooses leaves @cut of the capacity free */
PLM_MUST_CHECK enum plm_status api_estimate(struct plm_model *model,
                                            const struct plm_strategy *strategy,
                                            plm_bytes cut,
                                            struct plm_estimate **ret_estimate,
                                            struct plm_error *reterr);

#endif
