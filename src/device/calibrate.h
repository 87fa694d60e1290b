/*
 * device/calibrate.h - measures the GPU in hand
 *
 * The parent's side: it starts the children that probe, hears their figures, and has a whole result or an error. It never touches
 * CUDA itself.
 */
#ifndef PLM_DEVICE_CALIBRATE_H
#define PLM_DEVICE_CALIBRATE_H

#include "device/child.h"
#include "device/cuda_front.h"
#include "device/measured.h"
#include "device/probe.h"

/* struct calibration - what is known at the end; texts are in the arena */
struct calibration {
    struct cuda_identity identity;
    int capability; /* 86 is 8.6 */
    int processors, threads_per_processor;
    plm_bytes total, context; /* context: with libraries */
    struct measured measured;
};

struct calibrate_options {
    struct probe_options probe;
    const char *python; /* whose PyTorch trains a small model; NULL: none */
    double watchdog;    /* seconds without a word after which a child is ended; 0: 30 */
    const char *date;   /* UTC */
    void (*progress)(void *context, const char *what, unsigned done, unsigned total);
    void *progress_context;
};

/* calibrate_run() - everything; PLM_E_DEVICE says in plain words why there is no result */
PLM_MUST_CHECK enum plm_status calibrate_run(const struct calibrate_options *options,
                                             struct arena *arena,
                                             struct calibration *ret_calibration,
                                             struct plm_error *reterr);

/* calibrate_gpus() - which GPUs are here, at most @most; asks the driver in a child, which makes no context */
PLM_MUST_CHECK enum plm_status calibrate_gpus(struct cuda_identity *gpus,
                                              size_t most,
                                              size_t *ret_count,
                                              struct plm_error *reterr);

/* calibrate_name() - the profile's name: UUID and driver, as "GPU-…-13.0" */
const char *calibrate_name(const char *uuid, const char *driver, struct arena *arena);

/* calibrate_write() - the whole profile */
void calibrate_write(const struct calibration *calibration, struct buf *out);

#endif
