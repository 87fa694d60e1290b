// tests/doubles/abi_stand_in.cc - what stands in for cuBLASLt against cuBLASLt's header; compiling it is the test
#include <cublasLt.h>

#include <cstddef>

#include "alike.hh"

namespace own {
extern "C++" {
#include "device/cublaslt_stand_in.h"
}
} // namespace own

#define CHECK(name)                                                                                                    \
    static_assert(alike<decltype(&own::name), decltype(&::name)>::value, #name);                                       \
    static_assert(parameters<decltype(&own::name), decltype(&::name)>::value, #name)
CHECK(cublasLtGetVersion);
CHECK(cublasLtCreate);
CHECK(cublasLtDestroy);
CHECK(cublasLtMatmulDescCreate);
CHECK(cublasLtMatmulDescDestroy);
CHECK(cublasLtMatmulDescSetAttribute);
CHECK(cublasLtMatrixLayoutCreate);
CHECK(cublasLtMatrixLayoutDestroy);
CHECK(cublasLtMatrixLayoutSetAttribute);
CHECK(cublasLtMatmulPreferenceCreate);
CHECK(cublasLtMatmulPreferenceDestroy);
CHECK(cublasLtMatmulPreferenceSetAttribute);
CHECK(cublasLtMatmulAlgoGetHeuristic);

#define EQUAL(a, b) static_assert((long)(own::a) == (long)(b), #a)
EQUAL(CUBLASLT_SUCCESS, CUBLAS_STATUS_SUCCESS);
EQUAL(CUBLASLT_INVALID_VALUE, CUBLAS_STATUS_INVALID_VALUE);
EQUAL(CUBLASLT_MAX_WORKSPACE, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);

#define PLACE(member, theirs)                                                                                          \
    static_assert(offsetof(own::cublaslt_result, member) == offsetof(cublasLtMatmulHeuristicResult_t, theirs), #member)
static_assert(sizeof(own::cublaslt_result) == sizeof(cublasLtMatmulHeuristicResult_t), "result");
PLACE(algorithm, algo);
PLACE(workspace, workspaceSize);
PLACE(status, state);
PLACE(waves, wavesCount);
