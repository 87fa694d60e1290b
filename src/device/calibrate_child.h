/* device/calibrate_child.h - the jobs of calibration's children; what they are given is a struct probe_options */
#ifndef PLM_DEVICE_CALIBRATE_CHILD_H
#define PLM_DEVICE_CALIBRATE_CHILD_H

#include "device/child.h"
#include "device/probe.h"

/* struct probe_job - a child's state; on its stack */
struct probe_job {
    struct cuda cuda;
    struct arena arena;
    struct plm_error error;
    struct probe probe;
};

/* probe_begin() - open CUDA and make a context on the device; probe_end() must follow */
PLM_MUST_CHECK enum plm_status probe_begin(struct probe_job *job,
                                           const struct child_voice *voice,
                                           const struct probe_options *options);

/* probe_end() - give the context back; or say what failed */
void probe_end(struct probe_job *job, enum plm_status status);

/* says "facts" of the device and "free BYTES TOTAL" with a context, then holds that until the parent lets go */
child_job job_context;

child_job job_memory;
child_job job_fit; /* the last of job_memory's probes alone */
child_job job_libraries, job_matmul, job_speed;

/* says what NVML tells before there is a context of ours; fails where there is no NVML */
child_job job_others;

/* says "gpu DRIVER CUDA UUID NAME" for each GPU, with "-" for a UUID that is not told; needs no options */
child_job job_gpus;

enum {
    JOB_MEMORY_STEPS = 9,
    JOB_LIBRARIES_STEPS = 1,
    JOB_MATMUL_STEPS = 1,
    JOB_SPEED_STEPS = 4
}; /* times that each says "at" */

#endif
