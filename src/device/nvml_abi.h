/*
 * device/nvml_abi.h - NVML's binary interface, as far as it is used
 *
 * Own declarations of what NVIDIA's NVML reference manual documents, so that nothing of NVIDIA's is needed to build. Only
 * nvml.c and nvml_read.c see them.
 */
#ifndef PLM_DEVICE_NVML_ABI_H
#define PLM_DEVICE_NVML_ABI_H

#include <stdint.h>

typedef void *nvml_handle;

/* codes that are told apart; nvmlErrorString has words for all */
enum nvml_code {
    NVML_CODE_OK = 0,
    NVML_CODE_NOT_SUPPORTED = 3,
    NVML_CODE_NO_PERMISSION = 4,
    NVML_CODE_NOT_FOUND = 6,
    NVML_CODE_INSUFFICIENT_SIZE = 7,
    NVML_CODE_DRIVER_NOT_LOADED = 9,
    NVML_CODE_FUNCTION_NOT_FOUND = 13,
    NVML_CODE_VERSION_MISMATCH = 18, /* library and kernel module are of two drivers */
};

enum {
    NVML_TEXT = 96
}; /* NVML_DEVICE_NAME_V2_BUFFER_SIZE, the longest of the texts that are read */

/* what stands for memory that the driver does not tell (WSL, some MIG slices) */
#define NVML_ABI_UNKNOWN UINT64_MAX

struct nvml_abi_memory {
    uint64_t total, free, used; /* @used holds the driver's own too */
};

struct nvml_abi_memory_v2 {
    uint32_t version; /* NVML_ABI_MEMORY_V2 */
    uint64_t total, reserved, free, used;
};
#define NVML_ABI_MEMORY_V2 (sizeof(struct nvml_abi_memory_v2) | 2u << 24)

struct nvml_abi_process {
    uint32_t pid;
    uint64_t bytes;
};

struct nvml_abi_process_v2 {
    uint32_t pid;
    uint64_t bytes;
    uint32_t gpu_instance, compute_instance;
};

/* struct nvml - the library, and its functions; NULL where it does not have one */
struct nvml {
    void *library;
    const char *(*error_string)(int code);
#define NVML_CALL(member, symbol, required, arguments) int(*member) arguments;
#include "device/nvml.def"
#undef NVML_CALL
    char driver_version[NVML_TEXT];
};

#endif
