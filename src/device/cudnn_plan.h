/*
 * device/cudnn_plan.h - asking a cuDNN that is loaded into this process for the plans of a call
 *
 * Only the process that cudnn_process.h starts does so.
 */
#ifndef PLM_DEVICE_CUDNN_PLAN_H
#define PLM_DEVICE_CUDNN_PLAN_H

#include "device/cudnn_backend.h"
#include "device/cudnn_blas.h"
#include "device/cudnn_call.h"

/* struct cudnn_gpu - the device that is planned for */
struct cudnn_gpu {
    int cc; /* 80 for 8.0 */
    int sm_count, threads_per_sm;
};

enum { CUDNN_MESSAGE_MAX = 256 };

/*
 * cudnn_plan_load() - load the library at @path; NULL, or why it cannot be asked, in static or @message's memory
 *
 * The library stays loaded. It needs neither a driver nor a GPU.
 */
const char *cudnn_plan_load(const char *path,
                            struct backend *ret_backend,
                            char message[CUDNN_MESSAGE_MAX]);

/* cudnn_plan_device() - describe @gpu to cuDNN; the descriptor, or NULL with @message filled in */
backend_desc cudnn_plan_device(const struct backend *backend,
                               const struct cudnn_gpu *gpu,
                               char message[CUDNN_MESSAGE_MAX]);

/*
 * cudnn_plan_call() - the workspaces of the plans that PyTorch would try on @device, of compute capability @cc
 *
 * False with @message filled in when there is none. @blas is the cuBLASLt that cuDNN finds.
 */
bool cudnn_plan_call(const struct backend *backend,
                     const struct cudnn_blas *blas,
                     backend_desc device,
                     int cc,
                     const struct cudnn_call *call,
                     struct cudnn_workspaces *ret_workspaces,
                     char message[CUDNN_MESSAGE_MAX]);

#endif
