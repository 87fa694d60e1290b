/* cli/here.h - the profile of the GPU in this machine, and whether a profile is of one that is here */
#ifndef PLM_CLI_HERE_H
#define PLM_CLI_HERE_H

#include "cli/command.h"

/* here_asked() - does @name ask for the GPU here: "local", or "local:N" */
bool here_asked(const char *name);

/* here_number() - N of "local:N", 0 of "local" */
PLM_MUST_CHECK enum plm_status here_number(const char *name,
                                           int64_t *ret_number,
                                           struct plm_error *reterr);

/*
 * here_find() - the calibrated profile of the GPU that "local" or "local:N" means
 *
 * One for an older driver is taken with a warning. Where there is no GPU, the only calibrated profile is, also with a warning.
 */
PLM_MUST_CHECK enum plm_status here_find(struct cli *cli,
                                         const char *name,
                                         const struct plm_device **ret_device,
                                         struct plm_error *reterr);

/*
 * here_profile() - what is known of the GPU @uuid, which CUDA calls @title
 *
 * Calibrated on it, best with @driver; otherwise the built-in profile with its name; NULL when there is neither. Files that are wrong
 * are warned of.
 */
const struct plm_device *here_profile(struct cli *cli,
                                      const char *uuid,
                                      const char *title,
                                      const char *driver);

/* here_compare() - warn when @device was measured on another GPU than those here, or with another driver */
void here_compare(struct cli *cli, const struct plm_device *device);

#endif
