/* device/framework.h - what a process of PyTorch's takes of the GPU beside its tensors */
#ifndef PLM_DEVICE_FRAMEWORK_H
#define PLM_DEVICE_FRAMEWORK_H

#include "device/child.h"

/* struct framework_job - what job_framework is given */
struct framework_job {
    const char *python;
    int ordinal; /* of the GPU */
};

/* becomes that Python, which trains a small model and says "process RESERVED FREE"; or "error …" */
child_job job_framework;

#endif
