/* device/library.h - cuBLAS, cuBLASLt, cuDNN and NCCL, found when the program runs, as cuda_front.h finds CUDA */
#ifndef PLM_DEVICE_LIBRARY_H
#define PLM_DEVICE_LIBRARY_H

#include "device/cuda_front.h"

enum library_id { LIBRARY_CUBLAS, LIBRARY_CUBLASLT, LIBRARY_CUDNN, LIBRARY_NCCL, LIBRARY_COUNT };

/* enum library_type - cudaDataType */
enum library_type {
    LIBRARY_FLOAT32 = 0,
    LIBRARY_FLOAT16 = 2,
    LIBRARY_BFLOAT16 = 14,
    LIBRARY_E4M3 = 28,
};

enum {
    LIBRARY_COMPUTE_32F = 68,      /* CUBLAS_COMPUTE_32F */
    LIBRARY_COMPUTE_32F_TF32 = 77, /* CUBLAS_COMPUTE_32F_FAST_TF32 */
    LIBRARY_GEMM_DEFAULT = -1,     /* CUBLAS_GEMM_DEFAULT */
    LIBRARY_PLAIN = 0,             /* CUBLAS_OP_N */
    LIBRARY_TRANSPOSED = 1,        /* CUBLAS_OP_T */
    LIBRARY_DESC_TRANSPOSE_A = 3,  /* CUBLASLT_MATMUL_DESC_TRANSA */
};

/* struct libraries - the functions of library_calls.def; NULL where a library was not opened */
struct libraries {
#define CALL(library, need, result, symbol, member, arguments) result(*member) arguments;
#include "device/library_calls.def"
#undef CALL
};

/*
 * library_open() - find one library and its functions; others in @libraries stay as they are
 *
 * @runtime_version decides which of two major versions is tried first. PLM_E_DEVICE when there is none, or one that lacks a function.
 */
PLM_MUST_CHECK enum plm_status library_open(enum library_id id,
                                            int runtime_version,
                                            struct libraries *libraries,
                                            struct plm_error *reterr);

#endif
