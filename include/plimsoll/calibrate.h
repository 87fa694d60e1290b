/*
 * plimsoll/calibrate.h - measure the GPU in hand, and have its profile
 *
 *     struct plm_calibrate_options options = { .date = "2026-12-01T12:30:00Z" };
 *     struct plm_calibration *calibration;
 *
 *     if (plm_calibrate(&options, &calibration, &error) != PLM_OK) …
 *     text = plm_calibration_profile(calibration, &length);
 *
 * Everything that touches the GPU runs in child processes, which are gone when the call returns, and die with the caller's process.
 * The caller must have one thread (the process forks). PLM_E_DEVICE: there is no usable device, and the message says why.
 */
#ifndef PLM_CALIBRATE_H
#define PLM_CALIBRATE_H

#include <stdbool.h>

#include "plimsoll/types.h"

struct plm_calibration; /* the result, with everything it points to */

struct plm_calibrate_options {
    int device;         /* its number, from 0 */
    bool quick;         /* fewer repeats and sizes */
    bool managed;       /* also managed memory beyond the device's */
    const char *python; /* whose PyTorch trains a small model; NULL: none */
    double max_fill;    /* the share of free memory that may be taken; 0: 0.95 */
    double watchdog;    /* seconds without an answer after which a probe is ended; 0: 30 */
    const char *date;   /* UTC, as it shall stand in the profile */
    void (*progress)(void *context, const char *what, unsigned done, unsigned total);
    void *progress_context;
};

/* struct plm_figure - one thing that was measured: the median of @count repeats between low and high */
struct plm_figure {
    const char *name, *unit, *how;
    plm_bytes size; /* of the block or working set that it is for; 0: none */
    double value, low, high;
    int64_t count;
    bool at_least; /* more was not tried */
};

/* struct plm_calibrated - what a calibration found, in short */
struct plm_calibrated {
    const char *name; /* of the profile: UUID and driver */
    const char *title, *uuid;
    const char *driver;         /* its version, as in struct plm_gpu */
    const char *cuda, *runtime; /* the CUDA versions of driver and runtime */
    plm_bytes total, context, libraries, margin;
    const char *margin_reason;
    const struct plm_figure *figures; /* [figure_count] */
    size_t figure_count;
    const char *const *skipped; /* [skipped_count]: "name: reason" */
    size_t skipped_count;
};

/* struct plm_gpu - a GPU of this machine, as CUDA numbers them */
struct plm_gpu {
    char title[128];
    char uuid[48]; /* "GPU-…"; "" when the driver does not tell */
    char driver
        [16]; /* its version, as NVML tells it; where there is no NVML the CUDA version that it speaks */
};

/*
 * plm_gpus() - the GPUs here, at most @most; makes no context
 *
 * PLM_E_DEVICE where there is no driver or no GPU.
 */
PLM_API PLM_MUST_CHECK enum plm_status plm_gpus(struct plm_gpu *gpus,
                                                size_t most,
                                                size_t *ret_count,
                                                struct plm_error *reterr);

/* plm_calibrate() - takes under a minute; nothing of it stays on the GPU */
PLM_API PLM_MUST_CHECK enum plm_status plm_calibrate(const struct plm_calibrate_options *options,
                                                     struct plm_calibration **ret_calibration,
                                                     struct plm_error *reterr);
PLM_API const struct plm_calibrated *plm_calibration_result(
    const struct plm_calibration *calibration);

/* plm_calibration_profile() - the text of the profile (plimsoll-device(5)) */
PLM_API const char *plm_calibration_profile(const struct plm_calibration *calibration,
                                            size_t *ret_length);
PLM_API void plm_calibration_destroy(struct plm_calibration *calibration);

#endif
