/* tests/doubles/cudart.c - a double of libcudart.so.13: memory, copies and events, as far as this program calls them */
#include <stdlib.h>
#include <string.h>

#include "world.h"

#define RUNTIME(name) EXPORT int name

EXPORT const char *cudaGetErrorName(int error);
EXPORT const char *cudaGetErrorString(int error);
#define CALL(library, need, result, symbol, member, arguments)                                     \
    PROTOTYPE_##library(result, symbol, arguments)
#define PROTOTYPE_RUNTIME(result, symbol, arguments) EXPORT result symbol arguments;
#define PROTOTYPE_DRIVER(result, symbol, arguments)
#include "device/cuda_calls.def"
#undef CALL

static int failed(int error)
{
    world()->last_error = error;
    return error;
}

#define NEED_CONTEXT()                                                                             \
    do {                                                                                           \
        int error_ = world_context();                                                              \
        if (error_ != 0)                                                                           \
            return error_;                                                                         \
    } while (0)

static bool known(int device)
{
    return device >= 0 && device < world()->set.devices;
}

/* ------------------------------------------------------------------ versions, errors, devices */

int cudaRuntimeGetVersion(int *version)
{
    ENTER(cudaRuntimeGetVersion);
    *version = (int)world()->set.runtime;
    return 0;
}

const char *cudaGetErrorName(int error)
{
    switch (error) {
    case CUDA_ERROR_MEMORY_ALLOCATION:
        return "cudaErrorMemoryAllocation";
    case CUDA_ERROR_INSUFFICIENT_DRIVER:
        return "cudaErrorInsufficientDriver";
    case CUDA_ERROR_DEVICES_UNAVAILABLE:
        return "cudaErrorDevicesUnavailable";
    case CUDA_ERROR_NO_DEVICE:
        return "cudaErrorNoDevice";
    case CUDA_ERROR_NOT_PERMITTED:
        return "cudaErrorNotPermitted";
    case CUDA_ERROR_NOT_SUPPORTED:
        return "cudaErrorNotSupported";
    default:
        return "cudaErrorDouble";
    }
}

const char *cudaGetErrorString(int error)
{
    return error == 0 ? "no error" : "an error of the double";
}

int cudaGetLastError(void)
{
    int error;

    ENTER(cudaGetLastError);
    error = world()->last_error;
    world()->last_error = 0;
    return error;
}

int cudaGetDeviceCount(int *count)
{
    ENTER(cudaGetDeviceCount);
    if (world()->set.driver / 1000 < world()->set.runtime / 1000)
        return failed(CUDA_ERROR_INSUFFICIENT_DRIVER);
    world()->initialised = true; /* the runtime calls cuInit itself */
    *count = (int)world()->set.devices;
    return *count > 0 ? 0 : failed(CUDA_ERROR_NO_DEVICE);
}

int cudaDeviceGetAttribute(int *value, int attribute, int device)
{
    const struct world_settings *s;

    ENTER(cudaDeviceGetAttribute);
    s = &world()->set;
    if (!known(device))
        return failed(CUDA_ERROR_INVALID_DEVICE);
    switch ((enum cuda_attribute)attribute) {
    case CUDA_ATTRIBUTE_PROCESSORS:
        *value = (int)s->processors;
        return 0;
    case CUDA_ATTRIBUTE_INTEGRATED:
        *value = (int)s->integrated;
        return 0;
    case CUDA_ATTRIBUTE_COMPUTE_MODE:
        *value = (int)s->compute_mode;
        return 0;
    case CUDA_ATTRIBUTE_ECC:
        *value = (int)s->ecc;
        return 0;
    case CUDA_ATTRIBUTE_L2_BYTES:
        *value = 50 << 20;
        return 0;
    case CUDA_ATTRIBUTE_THREADS_PER_PROCESSOR:
        *value = (int)s->threads;
        return 0;
    case CUDA_ATTRIBUTE_CAPABILITY_MAJOR:
        *value = (int)s->capability / 10;
        return 0;
    case CUDA_ATTRIBUTE_CAPABILITY_MINOR:
        *value = (int)s->capability % 10;
        return 0;
    case CUDA_ATTRIBUTE_MANAGED_MEMORY:
    case CUDA_ATTRIBUTE_CONCURRENT_MANAGED:
        *value = (int)s->managed;
        return 0;
    case CUDA_ATTRIBUTE_MEMORY_POOLS:
        *value = (int)s->pools;
        return 0;
    case CUDA_ATTRIBUTE_VIRTUAL_MEMORY:
        break;
    }
    return failed(CUDA_ERROR_INVALID_VALUE);
}

int cudaSetDevice(int device)
{
    ENTER(cudaSetDevice);
    if (!known(device))
        return failed(CUDA_ERROR_INVALID_DEVICE);
    world()->device = device;
    NEED_CONTEXT(); /* as since CUDA 12 */
    return 0;
}

/* struct pool - the default pool of a device, of cudaMallocAsync */
static struct pool {
    uint64_t used, reserved;
} pools[WORLD_DEVICES];

static void trim(struct pool *pool, uint64_t keep)
{
    uint64_t unit = world()->set.pool_growth, least = (pool->used + unit - 1) / unit * unit;

    if (least < keep)
        least = keep;
    if (pool->reserved > least) {
        world_give(pool->reserved - least);
        pool->reserved = least;
    }
}

int cudaDeviceSynchronize(void)
{
    ENTER(cudaDeviceSynchronize);
    NEED_CONTEXT();
    trim(&pools[world()->device], world()->set.pool_threshold);
    return 0;
}

int cudaDeviceReset(void)
{
    ENTER(cudaDeviceReset);
    world_reset();
    pools[world()->device] = (struct pool){ 0 };
    return 0;
}

/* ------------------------------------------------------------------ memory */

int cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
    ENTER(cudaMemGetInfo);
    NEED_CONTEXT();
    *free_bytes = world_seen_free();
    *total = world()->set.total;
    return 0;
}

int cudaMalloc(void **address, size_t bytes)
{
    uint64_t at;

    ENTER(cudaMalloc);
    NEED_CONTEXT();
    at = bytes > 0 ? world_allocate(bytes) : 0;
    if (at == 0 && bytes > 0)
        return failed(CUDA_ERROR_MEMORY_ALLOCATION);
    *address = (void *)(uintptr_t)at;
    return 0;
}

int cudaFree(void *address)
{
    ENTER(cudaFree);
    if (address && !world_release((uint64_t)(uintptr_t)address))
        return failed(CUDA_ERROR_INVALID_VALUE);
    return 0;
}

int cudaMallocHost(void **address, size_t bytes)
{
    ENTER(cudaMallocHost);
    NEED_CONTEXT();
    *address = malloc(bytes);
    if (!*address)
        return failed(CUDA_ERROR_MEMORY_ALLOCATION);
    world()->self->host_blocks++;
    return 0;
}

int cudaFreeHost(void *address)
{
    ENTER(cudaFreeHost);
    free(address);
    world()->self->host_blocks--;
    return 0;
}

/* Managed memory is never resident, so it takes nothing; only more than four times the device is refused. */
int cudaMallocManaged(void **address, size_t bytes, unsigned flags)
{
    ENTER(cudaMallocManaged);
    NEED_CONTEXT();
    if (!world()->set.managed)
        return failed(CUDA_ERROR_NOT_SUPPORTED);
    if (bytes > 4 * world()->set.total)
        return failed(CUDA_ERROR_MEMORY_ALLOCATION);
    *address = (void *)(uintptr_t)world_allocate(1);
    return 0;
}

int cudaMallocAsync(void **address, size_t bytes, void *stream)
{
    struct world *w;
    struct pool *pool;
    uint64_t rounded, needed;

    ENTER(cudaMallocAsync);
    NEED_CONTEXT();
    w = world();
    pool = &pools[w->device];
    rounded = (bytes + w->set.pool_rounding - 1) / w->set.pool_rounding * w->set.pool_rounding;
    needed = pool->used + rounded > pool->reserved ? pool->used + rounded - pool->reserved : 0;
    needed = (needed + w->set.pool_growth - 1) / w->set.pool_growth * w->set.pool_growth;
    if (!world_take(needed))
        return failed(CUDA_ERROR_MEMORY_ALLOCATION);
    pool->reserved += needed;
    pool->used += rounded;
    w->self->pooled++;
    *address = (void *)(uintptr_t)
        rounded; /* the address is the size: it tells everything that is modelled */
    return 0;
}

int cudaFreeAsync(void *address, void *stream)
{
    ENTER(cudaFreeAsync);
    pools[world()->device].used -= (uint64_t)(uintptr_t)address;
    world()->self->pooled--;
    return 0;
}

int cudaDeviceGetDefaultMemPool(void **pool, int device)
{
    ENTER(cudaDeviceGetDefaultMemPool);
    if (!world()->set.pools)
        return failed(CUDA_ERROR_NOT_SUPPORTED);
    *pool = &pools[device];
    return 0;
}

int cudaMemPoolGetAttribute(void *pool, int attribute, void *value)
{
    const struct pool *p = pool;
    uint64_t *number = value;

    ENTER(cudaMemPoolGetAttribute);
    switch ((enum cuda_pool_attribute)attribute) {
    case CUDA_POOL_RELEASE_THRESHOLD:
        *number = world()->set.pool_threshold;
        return 0;
    case CUDA_POOL_RESERVED:
        *number = p->reserved;
        return 0;
    case CUDA_POOL_USED:
        *number = p->used;
        return 0;
    }
    return failed(CUDA_ERROR_INVALID_VALUE);
}

int cudaMemPoolTrimTo(void *pool, size_t bytes)
{
    ENTER(cudaMemPoolTrimTo);
    trim(pool, bytes);
    return 0;
}

/* ------------------------------------------------------------------ copies and events */

/* is_pinned() - cudaMallocHost is malloc here, so the rates for pinned memory are those of cudaMemcpyAsync */
static void copy(size_t bytes, int kind, bool pinned)
{
    switch ((enum cuda_copy)kind) {
    case CUDA_COPY_TO_DEVICE:
        world_work(pinned ? RATE_H2D : RATE_H2D_PAGEABLE, (double)bytes);
        break;
    case CUDA_COPY_TO_HOST:
        world_work(pinned ? RATE_D2H : RATE_D2H_PAGEABLE, (double)bytes);
        break;
    case CUDA_COPY_ON_DEVICE:
        world_work(RATE_BANDWIDTH, 2 * (double)bytes);
        break;
    }
}

int cudaMemset(void *address, int value, size_t bytes)
{
    ENTER(cudaMemset);
    NEED_CONTEXT();
    world_work(RATE_BANDWIDTH, (double)bytes);
    return 0;
}

int cudaMemcpy(void *to, const void *from, size_t bytes, int kind)
{
    ENTER(cudaMemcpy);
    NEED_CONTEXT();
    copy(bytes, kind, false);
    return 0;
}

int cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream)
{
    ENTER(cudaMemcpyAsync);
    NEED_CONTEXT();
    copy(bytes, kind, true);
    return 0;
}

int cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    ENTER(cudaDeviceCanAccessPeer);
    *can = device != peer;
    return 0;
}

int cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    ENTER(cudaDeviceEnablePeerAccess);
    return known(peer) ? 0 : failed(CUDA_ERROR_INVALID_DEVICE);
}

int cudaDeviceDisablePeerAccess(int peer)
{
    ENTER(cudaDeviceDisablePeerAccess);
    return known(peer) ? 0 : failed(CUDA_ERROR_INVALID_DEVICE);
}

int cudaMemcpyPeerAsync(
    void *to, int to_device, const void *from, int from_device, size_t bytes, void *stream)
{
    ENTER(cudaMemcpyPeerAsync);
    world_work(RATE_PEER, (double)bytes);
    return 0;
}

int cudaEventCreate(void **event)
{
    ENTER(cudaEventCreate);
    NEED_CONTEXT();
    *event = calloc(1, sizeof(double));
    world()->self->events++;
    return 0;
}

int cudaEventDestroy(void *event)
{
    ENTER(cudaEventDestroy);
    free(event);
    world()->self->events--;
    return 0;
}

int cudaEventRecord(void *event, void *stream)
{
    ENTER(cudaEventRecord);
    *(double *)event = world()->clock;
    return 0;
}

int cudaEventSynchronize(void *event)
{
    ENTER(cudaEventSynchronize);
    return 0;
}

int cudaEventElapsedTime(float *milliseconds, void *from, void *to)
{
    ENTER(cudaEventElapsedTime);
    *milliseconds = (float)((*(const double *)to - *(const double *)from) * 1e3);
    return 0;
}
