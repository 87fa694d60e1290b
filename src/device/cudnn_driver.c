/*
 * device/cudnn_driver.c - finding the driver's library, or the CUDA toolkit's stub of it
 *
 * The engines of attention are compiled for the GPU as their plan is made, by functions of libcuda.so.1. cuDNN lists them only where it can
 * load that; to list them, and to say what they take, it calls nothing in it. Where a driver is installed its own library is
 * loaded. Elsewhere the stub does that the toolkit has for linking: it has the same name to the loader, and its functions all return
 * CUDA_ERROR_STUB_LIBRARY.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "device/cudnn_driver.h"

static const char usual_stub[] = "/usr/local/cuda/lib64/stubs/libcuda.so";

void cudnn_driver_load(const char *path)
{
    const char *slash = strrchr(path, '/');
    char stub[4096];

    if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL))
        return;
    /* of a toolkit, or a conda environment, that has cuDNN among its own libraries */
    if (slash &&
        snprintf(stub, sizeof stub, "%.*s/stubs/libcuda.so", (int)(slash - path), path) <
            (int)sizeof stub &&
        dlopen(stub, RTLD_NOW | RTLD_LOCAL))
        return;
    (void)dlopen(usual_stub, RTLD_NOW | RTLD_LOCAL);
}
