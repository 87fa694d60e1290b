// tests/doubles/abi.cc - own declarations of CUDA against the toolkit's headers; compiling it is the test
//
// Each function has as many parameters, of the same sizes and kinds (pointer or not), as the header says; structs have the same layout;
// constants the same values. C++, because only templates can take a function's type apart.
#include <cstddef>

#define __CUDA_API_VERSION_INTERNAL // the names of cuda.h without its macros for older ones
#include <cuda.h>
#include <cuda_runtime_api.h>

#include "alike.hh"

namespace own {
extern "C++" {
#include "device/cuda_abi.h"
}
#define CALL(library, need, result, symbol, member, arguments) result member arguments;
#include "device/cuda_calls.def"
#undef CALL
} // namespace own

#define CALL(library, need, result, symbol, member, arguments)                                     \
    static_assert(alike<decltype(&own::member), decltype(&::symbol)>::value, #member ": result or number of parameters");  \
    static_assert(parameters<decltype(&own::member), decltype(&::symbol)>::value, #member ": parameters");
#include "device/cuda_calls.def"
#undef CALL

#define EQUAL(a, b) static_assert((long)(own::a) == (long)(b), #a)
EQUAL(CUDA_ERROR_NONE, cudaSuccess);
EQUAL(CUDA_ERROR_INVALID_VALUE, cudaErrorInvalidValue);
EQUAL(CUDA_ERROR_MEMORY_ALLOCATION, cudaErrorMemoryAllocation);
EQUAL(CUDA_ERROR_MEMORY_ALLOCATION, ::CUDA_ERROR_OUT_OF_MEMORY);
EQUAL(CUDA_ERROR_INITIALIZATION, cudaErrorInitializationError);
EQUAL(CUDA_ERROR_STUB_LIBRARY, cudaErrorStubLibrary);
EQUAL(CUDA_ERROR_STUB_LIBRARY, ::CUDA_ERROR_STUB_LIBRARY);
EQUAL(CUDA_ERROR_INSUFFICIENT_DRIVER, cudaErrorInsufficientDriver);
EQUAL(CUDA_ERROR_NEWER_DRIVER, cudaErrorCallRequiresNewerDriver);
EQUAL(CUDA_ERROR_DEVICES_UNAVAILABLE, cudaErrorDevicesUnavailable);
EQUAL(CUDA_ERROR_NO_DEVICE, cudaErrorNoDevice);
EQUAL(CUDA_ERROR_NO_DEVICE, ::CUDA_ERROR_NO_DEVICE);
EQUAL(CUDA_ERROR_INVALID_DEVICE, cudaErrorInvalidDevice);
EQUAL(CUDA_ERROR_NO_KERNEL_IMAGE, cudaErrorNoKernelImageForDevice);
EQUAL(CUDA_ERROR_OPERATING_SYSTEM, cudaErrorOperatingSystem);
EQUAL(CUDA_ERROR_NOT_PERMITTED, cudaErrorNotPermitted);
EQUAL(CUDA_ERROR_NOT_SUPPORTED, cudaErrorNotSupported);
EQUAL(CUDA_ERROR_SYSTEM_NOT_READY, cudaErrorSystemNotReady);
EQUAL(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, cudaErrorSystemDriverMismatch);
EQUAL(CUDA_ERROR_UNKNOWN, cudaErrorUnknown);
EQUAL(CUDA_ATTRIBUTE_PROCESSORS, cudaDevAttrMultiProcessorCount);
EQUAL(CUDA_ATTRIBUTE_INTEGRATED, cudaDevAttrIntegrated);
EQUAL(CUDA_ATTRIBUTE_COMPUTE_MODE, cudaDevAttrComputeMode);
EQUAL(CUDA_ATTRIBUTE_ECC, cudaDevAttrEccEnabled);
EQUAL(CUDA_ATTRIBUTE_L2_BYTES, cudaDevAttrL2CacheSize);
EQUAL(CUDA_ATTRIBUTE_THREADS_PER_PROCESSOR, cudaDevAttrMaxThreadsPerMultiProcessor);
EQUAL(CUDA_ATTRIBUTE_CAPABILITY_MAJOR, cudaDevAttrComputeCapabilityMajor);
EQUAL(CUDA_ATTRIBUTE_CAPABILITY_MINOR, cudaDevAttrComputeCapabilityMinor);
EQUAL(CUDA_ATTRIBUTE_MANAGED_MEMORY, cudaDevAttrManagedMemory);
EQUAL(CUDA_ATTRIBUTE_CONCURRENT_MANAGED, cudaDevAttrConcurrentManagedAccess);
EQUAL(CUDA_ATTRIBUTE_MEMORY_POOLS, cudaDevAttrMemoryPoolsSupported);
EQUAL(CUDA_ATTRIBUTE_VIRTUAL_MEMORY, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
EQUAL(CUDA_COMPUTE_MODE_DEFAULT, cudaComputeModeDefault);
EQUAL(CUDA_COMPUTE_MODE_PROHIBITED, cudaComputeModeProhibited);
EQUAL(CUDA_COMPUTE_MODE_EXCLUSIVE_PROCESS, cudaComputeModeExclusiveProcess);
EQUAL(CUDA_COPY_TO_DEVICE, cudaMemcpyHostToDevice);
EQUAL(CUDA_COPY_TO_HOST, cudaMemcpyDeviceToHost);
EQUAL(CUDA_COPY_ON_DEVICE, cudaMemcpyDeviceToDevice);
EQUAL(CUDA_POOL_RELEASE_THRESHOLD, cudaMemPoolAttrReleaseThreshold);
EQUAL(CUDA_POOL_RESERVED, cudaMemPoolAttrReservedMemCurrent);
EQUAL(CUDA_POOL_USED, cudaMemPoolAttrUsedMemCurrent);
EQUAL(CUDA_MANAGED_GLOBAL, cudaMemAttachGlobal);
EQUAL(CUDA_ALLOCATION_PINNED, CU_MEM_ALLOCATION_TYPE_PINNED);
EQUAL(CUDA_LOCATION_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE);
EQUAL(CUDA_ACCESS_READ_WRITE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
EQUAL(CUDA_GRANULARITY_MINIMUM, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
EQUAL(CUDA_GRANULARITY_RECOMMENDED, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);

#define SIZE(a, b) static_assert(sizeof(own::a) == sizeof(b), #a)
#define PLACE(a, x, b, y) static_assert(offsetof(own::a, x) == offsetof(b, y), #a "." #x)
SIZE(cuda_uuid, CUuuid);
SIZE(cuda_location, CUmemLocation);
PLACE(cuda_location, id, CUmemLocation, id);
SIZE(cuda_allocation, CUmemAllocationProp);
PLACE(cuda_allocation, handle_types, CUmemAllocationProp, requestedHandleTypes);
PLACE(cuda_allocation, location, CUmemAllocationProp, location);
PLACE(cuda_allocation, windows_only, CUmemAllocationProp, win32HandleMetaData);
PLACE(cuda_allocation, flags, CUmemAllocationProp, allocFlags);
SIZE(cuda_access, CUmemAccessDesc);
PLACE(cuda_access, flags, CUmemAccessDesc, flags);
SIZE(cuda_address, CUdeviceptr);
