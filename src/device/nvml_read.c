/*
 * device/nvml_read.c - GPUs, their memory and who uses it, as NVML tells
 *
 * Two generations of two calls are in use. Memory: the second form tells the driver's own part apart (R510). Processes: the
 * second form has the same structure in every driver, while that of the third was another in the first drivers of R535
 * (535.43 to 535.86), so the third is not used.
 */
#include <string.h>

#include "base/error.h"
#include "device/nvml.h"
#include "device/nvml_abi.h"

/* Room is made for a few more than were counted, as processes come between two calls; more often than this they do not. */
enum { PROCESS_TRIES = 5, PROCESS_SPARE = 8, PROCESSES_MOST = 65536 };

/* the sizes that the structures have on 64-bit systems; nvmlMemory_v2 of nvml.h is 0x02000028 there */
#define SIZE_IS(type, size) (sizeof(void *) != 8 || sizeof(type) == (size))
_Static_assert(SIZE_IS(struct nvml_abi_memory, 24), "three sizes");
_Static_assert(SIZE_IS(struct nvml_abi_memory_v2, 0x28), "a version, padding and four sizes");
_Static_assert(SIZE_IS(struct nvml_abi_process, 16), "a number, padding and a size");
_Static_assert(SIZE_IS(struct nvml_abi_process_v2, 24), "and two more numbers");

static enum plm_status fail(const struct nvml *nvml,
                            const struct nvml_gpu *gpu,
                            const char *what,
                            int code,
                            struct plm_error *reterr)
{
    return plm_fail(reterr, PLM_E_DEVICE, "GPU %u: the driver does not tell %s: %.80s", gpu->index,
                    what, nvml->error_string(code));
}

/* ------------------------------------------------------------------ memory */

enum plm_status nvml_read_memory(const struct nvml *nvml,
                                 const struct nvml_gpu *gpu,
                                 struct nvml_memory *ret_memory,
                                 struct plm_error *reterr)
{
    struct nvml_abi_memory_v2 second = { .version = (uint32_t)NVML_ABI_MEMORY_V2 };
    struct nvml_abi_memory first = { 0 };
    int code;

    if (nvml->memory_v2 && nvml->memory_v2(gpu->handle, &second) == NVML_CODE_OK) {
        *ret_memory = (struct nvml_memory){ .total = second.total,
                                            .used = second.used,
                                            .free = second.free,
                                            .reserved = second.reserved };
        return PLM_OK;
    }
    code = nvml->memory(gpu->handle, &first);
    if (code != NVML_CODE_OK)
        return fail(nvml, gpu, "its memory", code, reterr);
    *ret_memory =
        (struct nvml_memory){ .total = first.total, .used = first.used, .free = first.free };
    return PLM_OK;
}

/* ------------------------------------------------------------------ processes */

static bool has(const struct nvml_process *items, size_t count, unsigned pid)
{
    for (size_t i = 0; i < count; i++)
        if (items[i].pid == pid)
            return true;
    return false;
}

/* list_second(), list_first() - the two forms; *ret_count is what there is when @room is too small */
static int list_second(const struct nvml *nvml,
                       nvml_handle handle,
                       struct arena *arena,
                       unsigned room,
                       struct nvml_process *items,
                       unsigned *ret_count)
{
    struct nvml_abi_process_v2 *raw = arena_array(arena, struct nvml_abi_process_v2, room);
    int code;

    *ret_count = room;
    code = nvml->processes_v2(handle, ret_count, raw);
    for (unsigned i = 0; code == NVML_CODE_OK && i < *ret_count && i < room; i++)
        items[i] = (struct nvml_process){ raw[i].pid, raw[i].bytes };
    return code;
}

static int list_first(const struct nvml *nvml,
                      nvml_handle handle,
                      struct arena *arena,
                      unsigned room,
                      struct nvml_process *items,
                      unsigned *ret_count)
{
    struct nvml_abi_process *raw = arena_array(arena, struct nvml_abi_process, room);
    int code;

    *ret_count = room;
    code = nvml->processes(handle, ret_count, raw);
    for (unsigned i = 0; code == NVML_CODE_OK && i < *ret_count && i < room; i++)
        items[i] = (struct nvml_process){ raw[i].pid, raw[i].bytes };
    return code;
}

/* not_told() - the driver works, and has no answer to this question */
static bool not_told(int code)
{
    return code == NVML_CODE_NOT_SUPPORTED || code == NVML_CODE_NO_PERMISSION ||
           code == NVML_CODE_FUNCTION_NOT_FOUND;
}

/* keep() - each process once, for one with several contexts may be listed for each; false: a figure is missing */
static bool keep(struct nvml_process *items, unsigned listed, size_t *ret_count)
{
    size_t count = 0;

    for (unsigned i = 0; i < listed; i++) {
        if (items[i].bytes == NVML_ABI_UNKNOWN)
            return false;
        if (!has(items, count, items[i].pid))
            items[count++] = items[i];
    }
    *ret_count = count;
    return true;
}

enum plm_status nvml_read_processes(const struct nvml *nvml,
                                    const struct nvml_gpu *gpu,
                                    struct arena *arena,
                                    struct nvml_processes *ret_processes,
                                    struct plm_error *reterr)
{
    struct nvml_processes processes = { .told = true };
    struct nvml_process *items = NULL;
    unsigned room = PROCESS_SPARE, listed = 0;
    int code = NVML_CODE_INSUFFICIENT_SIZE;

    if (!nvml->processes_v2 && !nvml->processes) {
        *ret_processes = (struct nvml_processes){ .why = "the driver is too old to tell" };
        return PLM_OK;
    }
    for (int i = 0; i < PROCESS_TRIES && code == NVML_CODE_INSUFFICIENT_SIZE; i++) {
        items = arena_array(arena, struct nvml_process, room);
        code = nvml->processes_v2 ? list_second(nvml, gpu->handle, arena, room, items, &listed)
                                  : list_first(nvml, gpu->handle, arena, room, items, &listed);
        if (listed > PROCESSES_MOST)
            break;
        if (code == NVML_CODE_INSUFFICIENT_SIZE)
            room = (listed > room ? listed : room) + PROCESS_SPARE;
    }
    if (not_told(code)) {
        processes.told = false;
        processes.why =
            arena_copy(arena, nvml->error_string(code), strlen(nvml->error_string(code)));
    } else if (code != NVML_CODE_OK) {
        return fail(nvml, gpu, "which processes use it", code, reterr);
    } else if (!keep(items, listed < room ? listed : room, &processes.count)) {
        processes = (struct nvml_processes){ .why = "it lists processes without their memory" };
    } else {
        processes.items = items;
    }
    *ret_processes = processes;
    return PLM_OK;
}

/* ------------------------------------------------------------------ GPUs */

static const char *text_of(int (*call)(nvml_handle, char *, unsigned),
                           nvml_handle handle,
                           struct arena *arena,
                           int *ret_code)
{
    char text[NVML_TEXT] = "";

    *ret_code = call(handle, text, sizeof text);
    text[sizeof text - 1] = '\0';
    return *ret_code == NVML_CODE_OK ? arena_copy(arena, text, strlen(text)) : "";
}

static const char *compute_mode(const struct nvml *nvml, nvml_handle handle)
{
    /* nvmlComputeMode_t; the second, exclusive for a thread, is gone since CUDA 8 */
    static const char *const modes[] = { "default", "exclusive", "prohibited", "exclusive" };
    unsigned mode;

    if (!nvml->compute_mode || nvml->compute_mode(handle, &mode) != NVML_CODE_OK)
        return NULL;
    return mode < sizeof modes / sizeof *modes ? modes[mode] : NULL;
}

static int ecc(const struct nvml *nvml, nvml_handle handle)
{
    unsigned now, next;

    return nvml->ecc && nvml->ecc(handle, &now, &next) == NVML_CODE_OK ? now != 0 : -1;
}

/* describe() - what does not change while the GPU is watched */
static enum plm_status describe(const struct nvml *nvml,
                                struct arena *arena,
                                struct nvml_gpu *gpu,
                                struct plm_error *reterr)
{
    struct nvml_memory memory = { 0 };
    int code;
    enum plm_status status = nvml_read_memory(nvml, gpu, &memory, reterr);

    if (status != PLM_OK)
        return status;
    gpu->total = memory.total;
    gpu->name = text_of(nvml->name, gpu->handle, arena, &code);
    if (code != NVML_CODE_OK)
        return fail(nvml, gpu, "its name", code, reterr);
    gpu->uuid = text_of(nvml->uuid, gpu->handle, arena, &code);
    if (code != NVML_CODE_OK)
        return fail(nvml, gpu, "its UUID", code, reterr);
    gpu->ecc = ecc(nvml, gpu->handle);
    gpu->compute_mode = compute_mode(nvml, gpu->handle);
    return PLM_OK;
}

/* slice_room() - how many MIG slices to ask for; 0 when the GPU is not cut */
static unsigned slice_room(const struct nvml *nvml, nvml_handle handle)
{
    unsigned now, next, count;

    if (!nvml->mig_mode || !nvml->mig_count || !nvml->mig_by_index)
        return 0;
    if (nvml->mig_mode(handle, &now, &next) != NVML_CODE_OK || now == 0)
        return 0;
    return nvml->mig_count(handle, &count) == NVML_CODE_OK ? count : 0;
}

struct gpus {
    struct nvml_gpu *items;
    size_t count, capacity;
};

/* add_slices() - those of the GPU @whole that this user may see; false: it is not cut */
static bool add_slices(const struct nvml *nvml,
                       struct arena *arena,
                       const struct nvml_gpu *whole,
                       struct gpus *gpus)
{
    unsigned room = slice_room(nvml, whole->handle);
    struct plm_error ignored;

    for (unsigned i = 0; i < room; i++) {
        struct nvml_gpu slice = *whole;

        slice.is_slice = true;
        slice.slice = i;
        if (nvml->mig_by_index(whole->handle, i, &slice.handle) == NVML_CODE_OK &&
            describe(nvml, arena, &slice, &ignored) == PLM_OK)
            arena_push(arena, gpus->items, gpus->count, gpus->capacity, slice);
    }
    return room > 0;
}

enum plm_status nvml_list(const struct nvml *nvml,
                          struct arena *arena,
                          struct nvml_gpu **ret_gpus,
                          size_t *ret_count,
                          struct plm_error *reterr)
{
    struct gpus gpus = { 0 };
    unsigned count = 0;
    enum plm_status status = PLM_OK;
    struct plm_error error;
    int code = nvml->count(&count);

    if (code != NVML_CODE_OK)
        return plm_fail(reterr, PLM_E_DEVICE, "NVIDIA's driver does not count its GPUs: %.80s",
                        nvml->error_string(code));
    for (unsigned i = 0; i < count; i++) {
        struct nvml_gpu gpu = { .index = i };

        code = nvml->by_index(i, &gpu.handle);
        if (code != NVML_CODE_OK) {
            status = fail(nvml, &gpu, "of it", code, &error); /* another's, or it has failed */
            continue;
        }
        if (add_slices(nvml, arena, &gpu, &gpus))
            continue;
        enum plm_status described = describe(nvml, arena, &gpu, &error);

        if (described == PLM_OK)
            arena_push(arena, gpus.items, gpus.count, gpus.capacity, gpu);
        else
            status = described;
    }
    if (gpus.count == 0 && status != PLM_OK) {
        if (reterr)
            *reterr = error;
        return status;
    }
    if (gpus.count == 0)
        return plm_fail(reterr, PLM_E_DEVICE,
                        "no usable GPU: NVIDIA's driver is loaded and shows none");
    *ret_gpus = gpus.items;
    *ret_count = gpus.count;
    return PLM_OK;
}
