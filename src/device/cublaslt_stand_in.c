/*
 * device/cublaslt_stand_in.c - stands in for libcublasLt where cuDNN is asked for plans and there is no GPU
 *
 * cuDNN hands some convolutions, most of them with a 1 x 1 filter, to cuBLASLt. To make the plan of one it asks cuBLASLt for an algorithm
 * of the matrix product, and adds the workspace of that algorithm to its own. cuBLASLt cannot make a handle without a GPU; then cuDNN
 * leaves these engines out and names a plan that no GPU would take first. This file is a shared object of its own under cuBLASLt's name
 * (one for each of its versions), loaded in the process that asks cuDNN and nowhere else. What it assumes:
 *
 *     cuBLASLt computes every product that cuDNN asks it for, by an algorithm that needs no workspace.
 *
 * The real one may name an algorithm that takes a workspace, up to the limit that cuDNN sets (0, 4 MiB and 128 MiB were seen), or know none.
 * So answers that rest on this are marked, with the most that the real one could add (device/cudnn_call.h). Nothing is computed here:
 * functions that a plan does not need are missing.
 */
#include <string.h>

#include "device/cublaslt_stand_in.h"

#define EXPORT __attribute__((visibility("default")))

/*
 * cuDNN compares the version with those whose errors it knows, all of them older than these. No plan of a convolution
 * was another with 11.0, 12.0, 12.4, 13.0 or 13.4.
 */
enum { VERSION = PLM_CUBLASLT * 10000 };

/* Handles, products and layouts are given back to us only: one address does for all. A preference is its limit. */
static char object;
static uint64_t limit;
static struct cublaslt_stand_in own;

static int make(void **ret)
{
    *ret = &object;
    return CUBLASLT_SUCCESS;
}

EXPORT struct cublaslt_stand_in *plimsoll_stand_in(void)
{
    return &own;
}

EXPORT size_t cublasLtGetVersion(void)
{
    return VERSION;
}

EXPORT int cublasLtCreate(void **handle)
{
    return make(handle);
}

EXPORT int cublasLtDestroy(void *handle)
{
    return CUBLASLT_SUCCESS;
}

EXPORT int cublasLtMatmulDescCreate(void **product, int compute_type, int scale_type)
{
    return make(product);
}

EXPORT int cublasLtMatmulDescDestroy(void *product)
{
    return CUBLASLT_SUCCESS;
}

EXPORT int cublasLtMatmulDescSetAttribute(void *product,
                                          int attribute,
                                          const void *value,
                                          size_t bytes)
{
    return CUBLASLT_SUCCESS;
}

EXPORT int cublasLtMatrixLayoutCreate(
    void **layout, int type, uint64_t rows, uint64_t columns, int64_t stride)
{
    return make(layout);
}

EXPORT int cublasLtMatrixLayoutDestroy(void *layout)
{
    return CUBLASLT_SUCCESS;
}

EXPORT int cublasLtMatrixLayoutSetAttribute(void *layout,
                                            int attribute,
                                            const void *value,
                                            size_t bytes)
{
    return CUBLASLT_SUCCESS;
}

EXPORT int cublasLtMatmulPreferenceCreate(void **preference)
{
    limit = 0; /* as documented: no workspace unless it is allowed */
    return make(preference);
}

EXPORT int cublasLtMatmulPreferenceDestroy(void *preference)
{
    return CUBLASLT_SUCCESS;
}

EXPORT int cublasLtMatmulPreferenceSetAttribute(void *preference,
                                                int attribute,
                                                const void *value,
                                                size_t bytes)
{
    if (attribute == CUBLASLT_MAX_WORKSPACE && bytes == sizeof limit)
        memcpy(&limit, value, sizeof limit);
    return CUBLASLT_SUCCESS;
}

EXPORT int cublasLtMatmulAlgoGetHeuristic(void *handle,
                                          void *product,
                                          void *a,
                                          void *b,
                                          void *c,
                                          void *d,
                                          void *preference,
                                          int requested,
                                          struct cublaslt_result *results,
                                          int *ret_count)
{
    if (requested < 1)
        return CUBLASLT_INVALID_VALUE;
    own.products++;
    results[0] = (struct cublaslt_result){ .workspace = own.take_most ? limit + 1 : 0, .waves = 1 };
    *ret_count = 1;
    return CUBLASLT_SUCCESS;
}
