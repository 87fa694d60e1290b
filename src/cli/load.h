/* cli/load.h - what the commands that run a model begin with */
#ifndef PLM_CLI_LOAD_H
#define PLM_CLI_LOAD_H

#include "cli/command.h"

/* load_device() - the one that options name; NULL when they name none */
PLM_MUST_CHECK enum plm_status load_device(struct cli *cli,
                                           const struct options *options,
                                           const struct plm_device **ret_device,
                                           struct plm_error *reterr);

/* load_given() - options as a strategy, with what the file of --deepspeed says, and without a device */
PLM_MUST_CHECK enum plm_status load_given(const struct cli *cli,
                                          const struct options *options,
                                          struct plm_strategy *ret_strategy,
                                          struct plm_error *reterr);

/* load_model() - the model of the first argument; the caller destroys it */
PLM_MUST_CHECK enum plm_status load_model(struct cli *cli,
                                          struct plm_model **ret_model,
                                          struct plm_error *reterr);

/* load_both() - the model and the strategy; the GPU here is asked for last, so that mistakes are found where there is none */
PLM_MUST_CHECK enum plm_status load_both(struct cli *cli,
                                         struct plm_model **ret_model,
                                         struct plm_strategy *ret_strategy,
                                         struct plm_error *reterr);

/* load_input() - the same without asking for the GPU here; load_here() does that where --device means it, else leaves *device */
PLM_MUST_CHECK enum plm_status load_input(struct cli *cli,
                                          struct plm_model **ret_model,
                                          struct plm_strategy *ret_strategy,
                                          struct plm_error *reterr);
PLM_MUST_CHECK enum plm_status load_here(struct cli *cli,
                                         const struct options *options,
                                         const struct plm_device **device,
                                         struct plm_error *reterr);

/* load_check() - can @strategy be run with @model at all, on whatever GPU */
PLM_MUST_CHECK enum plm_status load_check(struct plm_model *model,
                                          const struct plm_strategy *strategy,
                                          struct plm_error *reterr);

extern const char load_missing[]; /* what to say when MODEL is missing */

#endif
