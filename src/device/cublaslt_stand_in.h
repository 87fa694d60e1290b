/*
 * device/cublaslt_stand_in.h - what cuDNN calls of cuBLASLt while it makes a plan, declared here
 *
 * Names and arguments are those of NVIDIA's documentation of cuBLASLt (https://docs.nvidia.com/cuda/cublas/, "Using the cuBLASLt API");
 * enumerations are int. tests/doubles/abi_stand_in.cc holds them against the toolkit's header.
 */
#ifndef PLM_DEVICE_CUBLASLT_STAND_IN_H
#define PLM_DEVICE_CUBLASLT_STAND_IN_H

#include <stddef.h>
#include <stdint.h>

/* struct cublaslt_result - cublasLtMatmulHeuristicResult_t */
struct cublaslt_result {
    uint64_t algorithm[8];
    size_t workspace;
    int status;
    float waves;
    int reserved[4];
};

enum {
    CUBLASLT_SUCCESS = 0,       /* CUBLAS_STATUS_SUCCESS */
    CUBLASLT_INVALID_VALUE = 7, /* CUBLAS_STATUS_INVALID_VALUE */
    CUBLASLT_MAX_WORKSPACE = 1, /* CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES */
};

size_t cublasLtGetVersion(void);
int cublasLtCreate(void **handle);
int cublasLtDestroy(void *handle);
int cublasLtMatmulDescCreate(void **product, int compute_type, int scale_type);
int cublasLtMatmulDescDestroy(void *product);
int cublasLtMatmulDescSetAttribute(void *product, int attribute, const void *value, size_t bytes);
int cublasLtMatrixLayoutCreate(
    void **layout, int type, uint64_t rows, uint64_t columns, int64_t stride);
int cublasLtMatrixLayoutDestroy(void *layout);
int cublasLtMatrixLayoutSetAttribute(void *layout, int attribute, const void *value, size_t bytes);
int cublasLtMatmulPreferenceCreate(void **preference);
int cublasLtMatmulPreferenceDestroy(void *preference);
int cublasLtMatmulPreferenceSetAttribute(void *preference,
                                         int attribute,
                                         const void *value,
                                         size_t bytes);
int cublasLtMatmulAlgoGetHeuristic(void *handle,
                                   void *product,
                                   void *a,
                                   void *b,
                                   void *c,
                                   void *d,
                                   void *preference,
                                   int requested,
                                   struct cublaslt_result *results,
                                   int *ret_count);

/* ------------------------------------------------------------------ ours */

/* struct cublaslt_stand_in - between the stand-in and the process that asks cuDNN */
struct cublaslt_stand_in {
    uint64_t products; /* for which it named an algorithm */
    int take_most; /* set by the process: the algorithm takes a byte more than it may, not nothing */
};

/* plimsoll_stand_in() - the process finds it by this name, which cuBLASLt does not have */
struct cublaslt_stand_in *plimsoll_stand_in(void);

#endif
