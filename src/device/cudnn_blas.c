/*
 * device/cudnn_blas.c - puts the stand-in where cuDNN finds it
 *
 * cuDNN opens libcublasLt.so.12 or .13 by that name when it makes the first plan with it. The dynamic linker then takes a library that is
 * loaded already and says that this is its name, and searches no further. Both stand-ins are loaded; it takes the one it asks for.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "device/cuda_front.h"
#include "device/cudnn_blas.h"
#include "device/cudnn_plan.h"

bool cudnn_blas_is_here(const struct cudnn_gpu *gpu)
{
    struct cuda cuda;
    struct plm_error error;
    int count, device, major, minor, processors;

    if (cuda_open_driver(&cuda, &error) != PLM_OK || !cuda.cuDeviceGetAttribute)
        return false;
    return cuda.cuInit(0) == 0 && cuda.cuDeviceGetCount(&count) == 0 && count > 0 &&
           cuda.cuDeviceGet(&device, 0) == 0 &&
           cuda.cuDeviceGetAttribute(&major, CUDA_ATTRIBUTE_CAPABILITY_MAJOR, device) == 0 &&
           cuda.cuDeviceGetAttribute(&minor, CUDA_ATTRIBUTE_CAPABILITY_MINOR, device) == 0 &&
           cuda.cuDeviceGetAttribute(&processors, CUDA_ATTRIBUTE_PROCESSORS, device) == 0 &&
           major * 10 + minor == gpu->cc && processors == gpu->sm_count;
}

void cudnn_blas_load(struct cudnn_blas *blas, const char *folder)
{
    static const int versions[CUDNN_STAND_INS] = { 12, 13 };

    for (int i = 0; folder && i < CUDNN_STAND_INS; i++) {
        char path[4096];
        struct cublaslt_stand_in *(*find)(void);
        int length = snprintf(path, sizeof path, "%s/cublaslt-stand-in-%d.so", folder, versions[i]);
        void *library = length < (int)sizeof path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
        void *address = library ? dlsym(library, "plimsoll_stand_in") : NULL;

        if (!address)
            continue;
        memcpy(&find, &address, sizeof find); /* ISO C has no such cast */
        blas->stand_ins[blas->count++] = find();
    }
}

void cudnn_blas_take_most(const struct cudnn_blas *blas, bool most)
{
    for (int i = 0; i < blas->count; i++)
        *blas->stand_ins[i] = (struct cublaslt_stand_in){ .take_most = most };
}

bool cudnn_blas_was_asked(const struct cudnn_blas *blas)
{
    for (int i = 0; i < blas->count; i++)
        if (blas->stand_ins[i]->products > 0)
            return true;
    return false;
}
