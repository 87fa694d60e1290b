/*
 * device/verify.h - plays an allocator's requests on the GPU
 *
 * First one process makes a context, so that the next one's can be seen by how much free memory falls; then it ends. The next one plays:
 * what the plan has outside the allocator beyond that context is held back, then each request is made, what is given is written to, and at the
 * moment with the most reserved memory it is seen how much more could be had.
 */
#ifndef PLM_DEVICE_VERIFY_H
#define PLM_DEVICE_VERIFY_H

#include "device/probe.h"
#include "plimsoll/verify.h"

struct verify_plan {
    const struct plm_request *requests; /* [request_count] */
    size_t request_count;
    plm_bytes outside; /* context, libraries and NCCL, as the plan has them */
};

struct verify_options {
    struct probe_options probe;
    double watchdog; /* seconds without a word after which a child is ended; 0: 30 */
    void (*progress)(void *context, const char *what, unsigned done, unsigned total);
    void *progress_context;
};

/* verify_run() - PLM_E_DEVICE when there is no usable device or a call failed; a plan that does not hold is an answer */
PLM_MUST_CHECK enum plm_status verify_run(const struct verify_plan *plan,
                                          const struct verify_options *options,
                                          struct plm_verified *ret_verified,
                                          struct plm_error *reterr);

/* verify_peak() - index after the request at which reserved memory is first at its most; *ret_reserved is that */
size_t verify_peak(const struct verify_plan *plan, plm_bytes *ret_reserved);

#endif
