/* device/calibrate_child.h - the jobs of calibration's children; what they are given is a struct probe_options */
#ifndef PLM_DEVICE_CALIBRATE_CHILD_H
#define PLM_DEVICE_CALIBRATE_CHILD_H

#include "device/child.h"
#include "device/probe.h"

/* says "facts" of the device and "free BYTES TOTAL" with a context, then holds that until the parent lets go */
child_job job_context;

child_job job_memory;
child_job job_libraries, job_speed;

/* says what NVML tells before there is a context of ours; fails where there is no NVML */
child_job job_others;

/* says "gpu DRIVER CUDA UUID NAME" for each GPU, with "-" for a UUID that is not told; needs no options */
child_job job_gpus;

enum {
    JOB_MEMORY_STEPS = 9,
    JOB_LIBRARIES_STEPS = 1,
    JOB_SPEED_STEPS = 4
}; /* times that each says "at" */

#endif
