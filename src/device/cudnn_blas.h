/*
 * device/cudnn_blas.h - which cuBLASLt cuDNN finds in the process that asks it: the real one, or the stand-in
 *
 * The real one works on the GPU of this machine alone. So it answers when that is the GPU that is planned for; otherwise
 * the stand-in does (device/cublaslt_stand_in.c).
 */
#ifndef PLM_DEVICE_CUDNN_BLAS_H
#define PLM_DEVICE_CUDNN_BLAS_H

#include <stdbool.h>

#include "device/cublaslt_stand_in.h"

struct cudnn_gpu;

enum { CUDNN_STAND_INS = 2 }; /* of CUDA 12 and of CUDA 13 */

/* struct cudnn_blas - zero-initialised: neither */
struct cudnn_blas {
    bool real;
    struct cublaslt_stand_in *stand_ins[CUDNN_STAND_INS]; /* [count], that are loaded */
    int count;
};

/* cudnn_blas_is_here() - is @gpu the GPU that cuBLASLt would use? It asks the driver, where there is one, and makes no context */
bool cudnn_blas_is_here(const struct cudnn_gpu *gpu);

/* cudnn_blas_load() - load the stand-ins in @folder, which may be NULL; those that cannot be loaded are not there */
void cudnn_blas_load(struct cudnn_blas *blas, const char *folder);

/* cudnn_blas_take_most() - whether algorithms take all the workspace that they may from now on, and nobody was asked yet */
void cudnn_blas_take_most(const struct cudnn_blas *blas, bool most);

/* cudnn_blas_was_asked() - a stand-in, since cudnn_blas_take_most() */
bool cudnn_blas_was_asked(const struct cudnn_blas *blas);

#endif
