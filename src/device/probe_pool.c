/* device/probe_pool.c - memory that does not come from cudaMalloc: mapped granules, cudaMallocAsync's pool, managed memory */
#include "base/num.h"
#include "device/stopwatch.h"

/* ------------------------------------------------------------------ virtual memory, as expandable segments use it */

static bool has_vmm(const struct cuda *cuda)
{
    return cuda->cuMemGetAllocationGranularity && cuda->cuMemCreate && cuda->cuMemRelease &&
           cuda->cuMemAddressReserve && cuda->cuMemAddressFree && cuda->cuMemMap &&
           cuda->cuMemUnmap && cuda->cuMemSetAccess && cuda->cuDeviceGetAttribute;
}

/* map_one() - a granule from cuMemCreate to an address that may be used, and back; *ret_taken is what it took */
static enum plm_status map_one(struct probe *probe,
                               const struct cuda_allocation *what,
                               size_t bytes,
                               double *ret_taken)
{
    const struct cuda *cuda = probe->cuda;
    struct cuda_access access = { .location = what->location, .flags = CUDA_ACCESS_READ_WRITE };
    unsigned long long handle = 0;
    cuda_address address = 0;
    plm_bytes before = 0, after = 0;
    enum plm_status status = probe_free_bytes(probe, &before);

    if (status == PLM_OK)
        status = probe_check(probe, cuda->cuMemAddressReserve(&address, bytes, 0, 0, 0),
                             "cuMemAddressReserve");
    if (status == PLM_OK)
        status = probe_check(probe, cuda->cuMemCreate(&handle, bytes, what, 0), "cuMemCreate");
    if (status == PLM_OK)
        status = probe_check(probe, cuda->cuMemMap(address, bytes, 0, handle, 0), "cuMemMap");
    if (status == PLM_OK)
        status =
            probe_check(probe, cuda->cuMemSetAccess(address, bytes, &access, 1), "cuMemSetAccess");
    if (status == PLM_OK)
        status = probe_free_bytes(probe, &after);
    if (status == PLM_OK)
        status = probe_check(probe, cuda->cuMemUnmap(address, bytes), "cuMemUnmap");
    if (status == PLM_OK)
        status = probe_check(probe, cuda->cuMemRelease(handle), "cuMemRelease");
    if (status == PLM_OK)
        status = probe_check(probe, cuda->cuMemAddressFree(address, bytes), "cuMemAddressFree");
    *ret_taken = before > after ? (double)(before - after) : 0;
    return status;
}

enum plm_status probe_vmm(struct probe *probe)
{
    const struct cuda *cuda = probe->cuda;
    struct cuda_allocation what = {
        .type = CUDA_ALLOCATION_PINNED,
        .location = { .type = CUDA_LOCATION_DEVICE, .id = probe->options->ordinal },
    };
    size_t least = 0, better = 0;
    double taken = 0;
    int device, supported = 0;
    enum plm_status status;

    if (!has_vmm(cuda)) {
        probe_skip(probe, FIGURE_VMM_MINIMUM, "the driver has no virtual memory management");
        return PLM_OK;
    }
    status = probe_check(probe, cuda->cuDeviceGet(&device, probe->options->ordinal), "cuDeviceGet");
    if (status == PLM_OK)
        status = probe_check(
            probe, cuda->cuDeviceGetAttribute(&supported, CUDA_ATTRIBUTE_VIRTUAL_MEMORY, device),
            "cuDeviceGetAttribute");
    if (status == PLM_OK && !supported)
        probe_skip(probe, FIGURE_VMM_MINIMUM, "the device has no virtual memory management");
    if (status != PLM_OK || !supported)
        return status;
    status = probe_check(
        probe, cuda->cuMemGetAllocationGranularity(&least, &what, CUDA_GRANULARITY_MINIMUM),
        "cuMemGetAllocationGranularity");
    if (status == PLM_OK)
        status = probe_check(
            probe,
            cuda->cuMemGetAllocationGranularity(&better, &what, CUDA_GRANULARITY_RECOMMENDED),
            "cuMemGetAllocationGranularity");
    if (status == PLM_OK)
        status = map_one(probe, &what, better, &taken);
    if (status != PLM_OK)
        return status;
    probe_say(probe, FIGURE_VMM_MINIMUM, 0, (double)least);
    probe_say(probe, FIGURE_VMM_RECOMMENDED, 0, (double)better);
    probe_say(probe, FIGURE_VMM_TAKEN, better, taken);
    return PLM_OK;
}

/* ------------------------------------------------------------------ cudaMallocAsync */

static enum plm_status pool_number(struct probe *probe,
                                   void *pool,
                                   enum cuda_pool_attribute attribute,
                                   plm_bytes *ret)
{
    uint64_t number = 0;
    enum plm_status status =
        probe_check(probe, probe->cuda->cudaMemPoolGetAttribute(pool, (int)attribute, &number),
                    "cudaMemPoolGetAttribute");

    *ret = number;
    return status;
}

/* pool_block() - one block of @bytes in an empty pool: what is used and reserved for it, and what stays */
static enum plm_status pool_block(struct probe *probe, void *pool, plm_bytes bytes)
{
    const struct cuda *cuda = probe->cuda;
    plm_bytes used = 0, reserved = 0, kept = 0;
    void *block = NULL;
    enum plm_status status =
        probe_check(probe, cuda->cudaMemPoolTrimTo(pool, 0), "cudaMemPoolTrimTo");

    if (status == PLM_OK)
        status = probe_check(probe, cuda->cudaMallocAsync(&block, bytes, NULL), "cudaMallocAsync");
    if (status == PLM_OK)
        status = pool_number(probe, pool, CUDA_POOL_USED, &used);
    if (status == PLM_OK)
        status = pool_number(probe, pool, CUDA_POOL_RESERVED, &reserved);
    if (status == PLM_OK)
        status = probe_check(probe, cuda->cudaFreeAsync(block, NULL), "cudaFreeAsync");
    if (status == PLM_OK)
        status = probe_check(probe, cuda->cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    if (status == PLM_OK)
        status = pool_number(probe, pool, CUDA_POOL_RESERVED, &kept);
    if (status != PLM_OK)
        return status;
    probe_say(probe, FIGURE_POOL_ROUNDING, bytes, (double)used);
    probe_say(probe, FIGURE_POOL_GROWTH, bytes, (double)reserved);
    probe_say(probe, FIGURE_POOL_KEPT, bytes, (double)kept);
    return PLM_OK;
}

enum plm_status probe_pool(struct probe *probe)
{
    static const plm_bytes sizes[] = { 1, 513, (plm_bytes)1 << 20, ((plm_bytes)2 << 20) + 1,
                                       (plm_bytes)48 << 20 };
    const struct cuda *cuda = probe->cuda;
    bool has = cuda->cudaMallocAsync && cuda->cudaFreeAsync && cuda->cudaDeviceGetDefaultMemPool &&
               cuda->cudaMemPoolGetAttribute && cuda->cudaMemPoolTrimTo;
    int supported = 0;
    void *pool = NULL;
    plm_bytes threshold = 0, room = 0;
    enum plm_status status =
        probe_check(probe,
                    cuda->cudaDeviceGetAttribute(&supported, CUDA_ATTRIBUTE_MEMORY_POOLS,
                                                 probe->options->ordinal),
                    "cudaDeviceGetAttribute");

    if (status == PLM_OK && (!has || !supported))
        probe_skip(probe, FIGURE_POOL_GROWTH, "the runtime or the device has no memory pools");
    if (status != PLM_OK || !has || !supported)
        return status;
    status = probe_check(probe, cuda->cudaDeviceGetDefaultMemPool(&pool, probe->options->ordinal),
                         "cudaDeviceGetDefaultMemPool");
    if (status == PLM_OK)
        status = pool_number(probe, pool, CUDA_POOL_RELEASE_THRESHOLD, &threshold);
    if (status == PLM_OK)
        status = probe_room(probe, &room);
    if (status != PLM_OK)
        return status;
    probe_say(probe, FIGURE_POOL_THRESHOLD, 0, (double)threshold);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && status == PLM_OK; i++)
        if (sizes[i] * 4 < room)
            status = pool_block(probe, pool, sizes[i]);
    if (status == PLM_OK)
        status = probe_check(probe, cuda->cudaMemPoolTrimTo(pool, 0), "cudaMemPoolTrimTo");
    return status;
}

/* ------------------------------------------------------------------ managed memory */

/* fill_managed() - all of @block, with the time that it took on the device */
static enum plm_status fill_managed(struct probe *probe,
                                    void *block,
                                    plm_bytes bytes,
                                    double *ret_seconds)
{
    struct stopwatch watch;
    enum plm_status status = stopwatch_create(probe, &watch);

    if (status == PLM_OK)
        status = stopwatch_start(probe, &watch);
    if (status == PLM_OK)
        status = probe_check(probe, probe->cuda->cudaMemset(block, 0, bytes), "cudaMemset");
    if (status == PLM_OK)
        status = stopwatch_stop(probe, &watch, ret_seconds);
    return status == PLM_OK ? stopwatch_destroy(probe, &watch) : status;
}

enum plm_status probe_managed(struct probe *probe)
{
    const struct cuda *cuda = probe->cuda;
    const plm_bytes beyond = (plm_bytes)1 << 30;
    plm_bytes bytes = 0;
    int supported = 0, error;
    void *block = NULL;
    double seconds = 0;
    enum plm_status status;

    if (!probe->options->managed || !cuda->cudaMallocManaged) {
        probe_skip(probe, FIGURE_MANAGED_BEYOND,
                   cuda->cudaMallocManaged ? "only with --managed" : "the runtime has none");
        return PLM_OK;
    }
    status = probe_check(probe,
                         cuda->cudaDeviceGetAttribute(&supported, CUDA_ATTRIBUTE_CONCURRENT_MANAGED,
                                                      probe->options->ordinal),
                         "cudaDeviceGetAttribute");
    if (status == PLM_OK && !supported)
        probe_skip(probe, FIGURE_MANAGED_BEYOND,
                   "the device cannot use more managed memory than it has");
    if (status == PLM_OK && supported)
        status = probe_free_bytes(probe, &bytes);
    if (status != PLM_OK || !supported)
        return status;
    bytes += beyond;
    error = cuda->cudaMallocManaged(&block, bytes, CUDA_MANAGED_GLOBAL);
    if (error == CUDA_ERROR_MEMORY_ALLOCATION) {
        (void)cuda->cudaGetLastError();
        probe_skip(probe, FIGURE_MANAGED_BEYOND, "cudaMallocManaged refused so much");
        return PLM_OK;
    }
    status = probe_check(probe, error, "cudaMallocManaged");
    if (status == PLM_OK)
        status = fill_managed(probe, block, bytes, &seconds);
    if (status == PLM_OK)
        status = probe_check(probe, cuda->cudaFree(block), "cudaFree");
    if (status != PLM_OK)
        return status;
    probe_say(probe, FIGURE_MANAGED_BEYOND, 0, (double)beyond);
    if (seconds > 0)
        probe_say(probe, FIGURE_MANAGED_RATE, 0, (double)bytes / seconds);
    return PLM_OK;
}
