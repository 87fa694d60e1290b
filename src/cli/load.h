/* cli/load.h - what the commands that run a model begin with */
#ifndef PLM_CLI_LOAD_H
#define PLM_CLI_LOAD_H

#include "cli/command.h"

/* load_strategy() - the options' strategy with its device, if one was named */
PLM_MUST_CHECK enum plm_status load_strategy(struct cli *cli,
                                             struct plm_strategy *ret_strategy,
                                             struct plm_error *reterr);

/* load_strategy_with() - the same for other options than the command line's */
PLM_MUST_CHECK enum plm_status load_strategy_with(struct cli *cli,
                                                  const struct options *options,
                                                  struct plm_strategy *ret_strategy,
                                                  struct plm_error *reterr);

/* load_model() - the model of the first argument; the caller destroys it */
PLM_MUST_CHECK enum plm_status load_model(struct cli *cli,
                                          struct plm_model **ret_model,
                                          struct plm_error *reterr);

/* load_both() - the model and the strategy */
PLM_MUST_CHECK enum plm_status load_both(struct cli *cli,
                                         struct plm_model **ret_model,
                                         struct plm_strategy *ret_strategy,
                                         struct plm_error *reterr);

extern const char load_missing[]; /* what to say when MODEL is missing */

#endif
