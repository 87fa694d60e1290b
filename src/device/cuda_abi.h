/*
 * device/cuda_abi.h - what this program uses of CUDA's documented binary interface
 *
 * Own declarations, so that the program is the same where there is no toolkit. The values and layouts are those of
 * driver_types.h and cuda.h of CUDA 12 and 13; `tests/doubles/abi.cc` holds them against the headers where these exist. Handles
 * (streams, events, modules, functions, pools) are pointers; device addresses of the driver are 64-bit integers.
 */
#ifndef PLM_DEVICE_CUDA_ABI_H
#define PLM_DEVICE_CUDA_ABI_H

#include <stdint.h>

/* enum cuda_error - cudaError_t; the driver's CUresult has the same numbers where both have the error */
enum cuda_error {
    CUDA_ERROR_NONE = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_MEMORY_ALLOCATION = 2,
    CUDA_ERROR_INITIALIZATION = 3,
    CUDA_ERROR_INSUFFICIENT_DRIVER = 35,
    CUDA_ERROR_NEWER_DRIVER = 36,
    CUDA_ERROR_DEVICES_UNAVAILABLE = 46,
    CUDA_ERROR_STUB_LIBRARY = 34,
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_INVALID_DEVICE = 101,
    CUDA_ERROR_NO_KERNEL_IMAGE = 209,
    CUDA_ERROR_OPERATING_SYSTEM = 304,
    CUDA_ERROR_NOT_PERMITTED = 800,
    CUDA_ERROR_NOT_SUPPORTED = 801,
    CUDA_ERROR_SYSTEM_NOT_READY = 802,
    CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803,
    CUDA_ERROR_UNKNOWN = 999,
};

/* enum cuda_attribute - cudaDeviceAttr and CUdevice_attribute */
enum cuda_attribute {
    CUDA_ATTRIBUTE_PROCESSORS = 16,
    CUDA_ATTRIBUTE_INTEGRATED = 18,
    CUDA_ATTRIBUTE_COMPUTE_MODE = 20,
    CUDA_ATTRIBUTE_ECC = 32,
    CUDA_ATTRIBUTE_L2_BYTES = 38,
    CUDA_ATTRIBUTE_THREADS_PER_PROCESSOR = 39,
    CUDA_ATTRIBUTE_CAPABILITY_MAJOR = 75,
    CUDA_ATTRIBUTE_CAPABILITY_MINOR = 76,
    CUDA_ATTRIBUTE_MANAGED_MEMORY = 83,
    CUDA_ATTRIBUTE_CONCURRENT_MANAGED = 89,
    CUDA_ATTRIBUTE_VIRTUAL_MEMORY = 102, /* of the driver only */
    CUDA_ATTRIBUTE_MEMORY_POOLS = 115,
};

/* enum cuda_compute_mode - cudaComputeMode */
enum cuda_compute_mode {
    CUDA_COMPUTE_MODE_DEFAULT = 0,
    CUDA_COMPUTE_MODE_EXCLUSIVE = 1, /* no longer in use */
    CUDA_COMPUTE_MODE_PROHIBITED = 2,
    CUDA_COMPUTE_MODE_EXCLUSIVE_PROCESS = 3,
};

/* enum cuda_copy - cudaMemcpyKind */
enum cuda_copy {
    CUDA_COPY_TO_DEVICE = 1,
    CUDA_COPY_TO_HOST = 2,
    CUDA_COPY_ON_DEVICE = 3,
};

/* enum cuda_pool_attribute - cudaMemPoolAttr; each of these is 64 bits wide */
enum cuda_pool_attribute {
    CUDA_POOL_RELEASE_THRESHOLD = 4,
    CUDA_POOL_RESERVED = 5,
    CUDA_POOL_USED = 7,
};

enum {
    CUDA_MANAGED_GLOBAL = 1,         /* cudaMemAttachGlobal */
    CUDA_ALLOCATION_PINNED = 1,      /* CU_MEM_ALLOCATION_TYPE_PINNED */
    CUDA_LOCATION_DEVICE = 1,        /* CU_MEM_LOCATION_TYPE_DEVICE */
    CUDA_ACCESS_READ_WRITE = 3,      /* CU_MEM_ACCESS_FLAGS_PROT_READWRITE */
    CUDA_GRANULARITY_MINIMUM = 0,    /* CU_MEM_ALLOC_GRANULARITY_MINIMUM */
    CUDA_GRANULARITY_RECOMMENDED = 1 /* CU_MEM_ALLOC_GRANULARITY_RECOMMENDED */
};

/* struct cuda_uuid - CUuuid */
struct cuda_uuid {
    unsigned char bytes[16];
};

/* struct cuda_location - CUmemLocation */
struct cuda_location {
    int type, id;
};

/* struct cuda_allocation - CUmemAllocationProp */
struct cuda_allocation {
    int type, handle_types;
    struct cuda_location location;
    void *windows_only;
    struct {
        unsigned char compression, rdma;
        unsigned short usage;
        unsigned char reserved[4];
    } flags;
};

/* struct cuda_access - CUmemAccessDesc */
struct cuda_access {
    struct cuda_location location;
    int flags;
};

typedef uint64_t cuda_address; /* CUdeviceptr */

#endif
