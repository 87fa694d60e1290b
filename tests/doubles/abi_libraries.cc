// tests/doubles/abi_libraries.cc - own declarations of CUDA's libraries against their headers; compiling it is the test
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cudnn.h>
#include <nccl.h>

#include "alike.hh"

namespace own {
extern "C++" {
#include "device/library.h"
}
#define CALL(library, need, result, symbol, member, arguments) result member arguments;
#include "device/library_calls.def"
#undef CALL
} // namespace own

namespace theirs {
#define SAME(name) constexpr auto name = &::name
SAME(cublasCreate_v2);
SAME(cublasDestroy_v2);
SAME(cublasSetWorkspace_v2);
// the headers have two for C++; this is the one that the library exports
constexpr auto cublasGemmEx = static_cast<cublasStatus_t (*)(
    cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int, const void *, const void *, cudaDataType, int,
    const void *, cudaDataType, int, const void *, void *, cudaDataType, int, cublasComputeType_t, cublasGemmAlgo_t)>(
    &::cublasGemmEx);
SAME(cublasLtCreate);
SAME(cublasLtDestroy);
SAME(cublasLtMatmulDescCreate);
SAME(cublasLtMatmulDescDestroy);
SAME(cublasLtMatmulDescSetAttribute);
SAME(cublasLtMatrixLayoutCreate);
SAME(cublasLtMatrixLayoutDestroy);
SAME(cublasLtMatmul);
SAME(cudnnCreate);
SAME(cudnnDestroy);
SAME(ncclCommInitAll);
SAME(ncclCommDestroy);
} // namespace theirs

#define CALL(library, need, result, symbol, member, arguments)                                                         \
    static_assert(alike<decltype(&own::member), std::decay<decltype(theirs::symbol)>::type>::value, #member);           \
    static_assert(parameters<decltype(&own::member), std::decay<decltype(theirs::symbol)>::type>::value, #member);
#include "device/library_calls.def"
#undef CALL

#define EQUAL(a, b) static_assert((long)(own::a) == (long)(b), #a)
EQUAL(LIBRARY_FLOAT32, CUDA_R_32F);
EQUAL(LIBRARY_FLOAT16, CUDA_R_16F);
EQUAL(LIBRARY_BFLOAT16, CUDA_R_16BF);
EQUAL(LIBRARY_COMPUTE_32F, CUBLAS_COMPUTE_32F);
EQUAL(LIBRARY_COMPUTE_32F_TF32, CUBLAS_COMPUTE_32F_FAST_TF32);
EQUAL(LIBRARY_GEMM_DEFAULT, CUBLAS_GEMM_DEFAULT);
EQUAL(LIBRARY_PLAIN, CUBLAS_OP_N);
EQUAL(LIBRARY_TRANSPOSED, CUBLAS_OP_T);
EQUAL(LIBRARY_E4M3, CUDA_R_8F_E4M3);
EQUAL(LIBRARY_DESC_TRANSPOSE_A, CUBLASLT_MATMUL_DESC_TRANSA);
