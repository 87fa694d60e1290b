/* tests/doubles/cuda.c - a double of libcuda.so.1: devices, modules and virtual memory, as far as this program calls them */
#include <stdio.h>
#include <string.h>

#include "world.h"

#define CALL(library, need, result, symbol, member, arguments)                                     \
    PROTOTYPE_##library(result, symbol, arguments)
#define PROTOTYPE_DRIVER(result, symbol, arguments) EXPORT result symbol arguments;
#define PROTOTYPE_RUNTIME(result, symbol, arguments)
#include "device/cuda_calls.def"
#undef CALL

static bool known(int device)
{
    return device >= 0 && device < world()->set.devices;
}

int cuInit(unsigned flags)
{
    ENTER(cuInit);
    world()->initialised = true;
    return world()->set.devices > 0 ? 0 : CUDA_ERROR_NO_DEVICE;
}

int cuDriverGetVersion(int *version)
{
    ENTER(cuDriverGetVersion);
    *version = (int)world()->set.driver;
    return 0;
}

int cuDeviceGetCount(int *count)
{
    ENTER(cuDeviceGetCount);
    if (!world()->initialised)
        return CUDA_ERROR_INITIALIZATION;
    *count = (int)world()->set.devices;
    return 0;
}

int cuDeviceGet(int *device, int ordinal)
{
    ENTER(cuDeviceGet);
    if (!world()->initialised)
        return CUDA_ERROR_INITIALIZATION;
    if (!known(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return 0;
}

int cuDeviceGetName(char *name, int length, int device)
{
    ENTER(cuDeviceGetName);
    if (!known(device))
        return CUDA_ERROR_INVALID_DEVICE;
    snprintf(name, (size_t)length, "%s", world()->set.name);
    return 0;
}

int cuDeviceGetUuid_v2(struct cuda_uuid *uuid, int device)
{
    ENTER(cuDeviceGetUuid);
    if (!known(device))
        return CUDA_ERROR_INVALID_DEVICE;
    memcpy(uuid->bytes, world()->set.uuid, sizeof uuid->bytes);
    uuid->bytes[15] = (unsigned char)(uuid->bytes[15] + device);
    return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    ENTER(cuDeviceGetAttribute);
    if (!known(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *value = attribute == CUDA_ATTRIBUTE_VIRTUAL_MEMORY     ? (int)world()->set.vmm
             : attribute == CUDA_ATTRIBUTE_CAPABILITY_MAJOR ? (int)world()->set.capability / 10
             : attribute == CUDA_ATTRIBUTE_CAPABILITY_MINOR ? (int)world()->set.capability % 10
             : attribute == CUDA_ATTRIBUTE_PROCESSORS       ? (int)world()->set.processors
                                                            : 0;
    return 0;
}

/* ------------------------------------------------------------------ kernels */

/* struct kernel - of calib/kernels.cu, by name; how its launch moves the clock */
static const struct kernel {
    const char *name;
    enum world_rate rate;
    bool
        product; /* arguments 3 to 5 are the sizes of a matrix product; otherwise argument 2 is a number of bytes */
    double passes; /* over these bytes */
} kernels[] = {
    { "plimsoll_empty", RATE_LAUNCH, false, 0 },    { "plimsoll_copy", RATE_BANDWIDTH, false, 2 },
    { "plimsoll_scale", RATE_BANDWIDTH, false, 2 }, { "plimsoll_gemm_fp32", RATE_FP32, true, 0 },
    { "plimsoll_gemm_tf32", RATE_TF32, true, 0 },   { "plimsoll_gemm_fp16", RATE_FP16, true, 0 },
    { "plimsoll_gemm_bf16", RATE_BF16, true, 0 },   { "plimsoll_gemm_fp8", RATE_FP8, true, 0 },
};

int cuModuleLoadData(void **module, const void *image)
{
    ENTER(cuModuleLoadData);
    if (!image)
        return CUDA_ERROR_INVALID_VALUE;
    if (!world_take(world()->set.module))
        return CUDA_ERROR_MEMORY_ALLOCATION;
    world()->self->modules++;
    *module = (void *)&kernels;
    return 0;
}

int cuModuleUnload(void *module)
{
    ENTER(cuModuleUnload);
    if (module != (const void *)&kernels || world()->self->modules == 0)
        return CUDA_ERROR_INVALID_VALUE;
    world()->self->modules--;
    world_give(world()->set.module);
    return 0;
}

int cuModuleGetFunction(void **function, void *module, const char *name)
{
    ENTER(cuModuleGetFunction);
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (strcmp(kernels[i].name, name) == 0) {
            *function = (void *)&kernels[i];
            return 0;
        }
    return 500; /* CUDA_ERROR_NOT_FOUND */
}

int cuLaunchKernel(void *function,
                   unsigned gx,
                   unsigned gy,
                   unsigned gz,
                   unsigned bx,
                   unsigned by,
                   unsigned bz,
                   unsigned shared,
                   void *stream,
                   void **arguments,
                   void **extra)
{
    const struct kernel *kernel = function;
    ENTER(cuLaunchKernel);
    if (gx == 0 || gy == 0 || gz == 0 || bx * by * bz == 0 || bx * by * bz > 1024)
        return CUDA_ERROR_INVALID_VALUE;
    world_work(RATE_LAUNCH, world()->set.rates[RATE_LAUNCH]);
    if (kernel->product)
        world_work(kernel->rate, 2.0 * *(const int *)arguments[3] * *(const int *)arguments[4] *
                                     *(const int *)arguments[5]);
    else if (kernel->rate != RATE_LAUNCH)
        world_work(kernel->rate,
                   kernel->passes * (double)*(const unsigned long long *)arguments[2]);
    return 0;
}

/* ------------------------------------------------------------------ virtual memory */

enum { RESERVED_AT = 1 << 20 }; /* addresses are not checked: any number will do */

int cuMemGetAllocationGranularity(size_t *granularity,
                                  const struct cuda_allocation *what,
                                  int option)
{
    ENTER(cuMemGetAllocationGranularity);
    if (what->type != CUDA_ALLOCATION_PINNED || what->location.type != CUDA_LOCATION_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    *granularity = option == CUDA_GRANULARITY_MINIMUM ? world()->set.vmm_minimum
                                                      : world()->set.vmm_recommended;
    return 0;
}

/* A handle is its number of bytes: they tell everything that is modelled. */
int cuMemCreate(unsigned long long *handle,
                size_t bytes,
                const struct cuda_allocation *what,
                unsigned long long flags)
{
    ENTER(cuMemCreate);
    if (bytes == 0 || bytes % world()->set.vmm_minimum != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!world_take(bytes))
        return CUDA_ERROR_MEMORY_ALLOCATION;
    world()->self->mappings++;
    *handle = bytes;
    return 0;
}

int cuMemRelease(unsigned long long handle)
{
    ENTER(cuMemRelease);
    world()->self->mappings--;
    world_give(handle);
    return 0;
}

int cuMemAddressReserve(cuda_address *address,
                        size_t bytes,
                        size_t alignment,
                        cuda_address wish,
                        unsigned long long flags)
{
    ENTER(cuMemAddressReserve);
    if (bytes == 0 || bytes % world()->set.vmm_minimum != 0)
        return CUDA_ERROR_INVALID_VALUE;
    world()->self->mappings++;
    *address = (cuda_address)RESERVED_AT * world()->set.vmm_minimum;
    return 0;
}

int cuMemAddressFree(cuda_address address, size_t bytes)
{
    ENTER(cuMemAddressFree);
    world()->self->mappings--;
    return 0;
}

int cuMemMap(cuda_address address,
             size_t bytes,
             size_t offset,
             unsigned long long handle,
             unsigned long long flags)
{
    ENTER(cuMemMap);
    if (bytes > handle || bytes % world()->set.vmm_minimum != 0)
        return CUDA_ERROR_INVALID_VALUE;
    world()->self->mappings++;
    return 0;
}

int cuMemUnmap(cuda_address address, size_t bytes)
{
    ENTER(cuMemUnmap);
    world()->self->mappings--;
    return 0;
}

int cuMemSetAccess(cuda_address address,
                   size_t bytes,
                   const struct cuda_access *access,
                   size_t count)
{
    ENTER(cuMemSetAccess);
    return access->flags == CUDA_ACCESS_READ_WRITE && count == 1 ? 0 : CUDA_ERROR_INVALID_VALUE;
}
