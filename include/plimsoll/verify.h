/*
 * plimsoll/verify.h - play an estimate's requests on the GPU in hand, and see how much stays free
 *
 *     if (plm_estimate(model, &strategy, &estimate, &error) != PLM_OK) …
 *     if (plm_verify(estimate, &options, &verified, &error) != PLM_OK) …
 *     printf("%d %llu\n", verified.verdict == PLM_VERDICT_HOLDS, (unsigned long long)verified.left);
 *
 * As in plimsoll/calibrate.h everything that touches the GPU runs in child processes, and the caller must have one thread.
 */
#ifndef PLM_VERIFY_H
#define PLM_VERIFY_H

#include <stdbool.h>

#include "plimsoll/plimsoll.h"

enum plm_request_kind {
    PLM_REQUEST_ALLOC, /* cudaMalloc of a segment */
    PLM_REQUEST_FREE,  /* cudaFree of one */
    PLM_REQUEST_MAP,   /* memory for a page of an expandable segment */
    PLM_REQUEST_UNMAP,
};

/* struct plm_request - what the allocator asks of the device */
struct plm_request {
    enum plm_request_kind kind;
    plm_bytes bytes;
    uint32_t of;    /* of what is given back: the index of its request */
    uint32_t phase; /* index in struct plm_result's phases */
};

/* plm_estimate_requests() - all of them, in order; made anew with each call */
PLM_API PLM_MUST_CHECK enum plm_status plm_estimate_requests(struct plm_estimate *estimate,
                                                             const struct plm_request **ret,
                                                             size_t *ret_count,
                                                             struct plm_error *reterr);

struct plm_verify_options {
    int device;      /* its number, as CUDA counts from 0 */
    double max_fill; /* the share of free memory that may be taken; 0: 0.95 */
    double watchdog; /* seconds without an answer after which the play is ended; 0: 30 */
    void (*progress)(void *context, const char *what, unsigned done, unsigned total);
    void *progress_context;
};

enum plm_verdict {
    PLM_VERDICT_HOLDS,
    PLM_VERDICT_FAILS, /* the GPU had no memory for a request */
    PLM_VERDICT_LIMIT, /* the plan needs more than max_fill allows, and not more than is free: not known */
    PLM_VERDICT_DISTURBED, /* another process took memory meanwhile: everything was given back, and nothing is known */
};

/* struct plm_verified - what happened; figures of the peak are of the first moment with the most reserved memory */
struct plm_verified {
    enum plm_verdict verdict;
    size_t request_count, played;
    size_t failed;                /* index of the request that failed */
    plm_bytes failed_free;        /* what cudaMemGetInfo then called free */
    plm_bytes total, free_before; /* of the device, before this process had a context */
    plm_bytes context;            /* of the process that played */
    plm_bytes
        held_back; /* in place of libraries, kernels and NCCL: the plan has them, that process has not */
    plm_bytes needed, /* of what is free beside the context: held back and reserved, in pages */
        allowed;      /* of that, by max_fill */
    plm_bytes reserved,
        used; /* at the peak: what was asked for, and by how much free memory fell in all */
    plm_bytes free_at_peak; /* by cudaMemGetInfo */
    plm_bytes left;         /* what could still be had then, in blocks of 1 GiB to 2 MiB */
    bool left_at_least;     /* more was not allowed */
};

PLM_API PLM_MUST_CHECK enum plm_status plm_verify(struct plm_estimate *estimate,
                                                  const struct plm_verify_options *options,
                                                  struct plm_verified *ret_verified,
                                                  struct plm_error *reterr);

/* struct plm_verified_plan - one line of a profile's verified: section */
struct plm_verified_plan {
    const char *date, *model; /* the date in UTC, as 2026-12-01T12:30:00Z */
    int64_t batch;
    plm_bytes planned; /* on the device, at the peak */
    const struct plm_verified *verified;
};

/* plm_profile_add() - the text of the profile @file with @plans added; it belongs to @context */
PLM_API PLM_MUST_CHECK enum plm_status plm_profile_add(struct plm_context *context,
                                                       const char *file,
                                                       const struct plm_verified_plan *plans,
                                                       size_t plan_count,
                                                       const char **ret_text,
                                                       size_t *ret_length,
                                                       struct plm_error *reterr);

#endif
