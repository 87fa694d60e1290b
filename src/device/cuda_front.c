/*
 * device/cuda_front.c - opens CUDA's libraries and says in plain words what is wrong with them
 *
 * The runtime's major version must not be above that of the driver (CUDA's rule of compatibility), so with an old driver the older
 * runtime is tried first.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "device/cuda_front.h"

enum library { RUNTIME, DRIVER };
enum need { OPTIONAL, REQUIRED };

static const struct call {
    enum library library;
    enum need need;
    const char *symbol;
    size_t offset; /* of the pointer in struct cuda */
} calls[] = {
#define CALL(library_, need_, result, symbol_, member, arguments)                                  \
    { library_, need_, #symbol_, offsetof(struct cuda, member) },
#include "device/cuda_calls.def"
#undef CALL
};

static const char driver_name[] = "libcuda.so.1";
static const char *const runtime_names[] = { "libcudart.so.13", "libcudart.so.12" };
enum { RUNTIMES = sizeof runtime_names / sizeof *runtime_names, NEWEST_MAJOR = 13 };

/* ------------------------------------------------------------------ opening */

static enum plm_status find_calls(struct cuda *cuda,
                                  enum library library,
                                  void *handle,
                                  const char *name,
                                  struct plm_error *reterr)
{
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        void *address = calls[i].library == library ? dlsym(handle, calls[i].symbol) : NULL;

        if (calls[i].library != library)
            continue;
        if (!address && calls[i].need == REQUIRED)
            return plm_fail(reterr, PLM_E_DEVICE,
                            "%s has no %s: it is too old, or not what its name says", name,
                            calls[i].symbol);
        memcpy((char *)cuda + calls[i].offset, &address, sizeof address);
    }
    return PLM_OK;
}

enum plm_status cuda_open_driver(struct cuda *ret_cuda, struct plm_error *reterr)
{
    struct cuda cuda = { .driver = dlopen(driver_name, RTLD_NOW | RTLD_GLOBAL) };
    enum plm_status status;

    if (!cuda.driver)
        return plm_fail(reterr, PLM_E_DEVICE,
                        "no usable CUDA device: there is no NVIDIA driver here (%s was not found)",
                        driver_name);
    status = find_calls(&cuda, DRIVER, cuda.driver, driver_name, reterr);
    if (status == PLM_OK)
        status = cuda_check(&cuda, cuda.cuDriverGetVersion(&cuda.driver_version),
                            "cuDriverGetVersion", reterr);
    if (status == PLM_OK)
        *ret_cuda = cuda;
    return status;
}

void *cuda_library(const char *name, int flags)
{
    void *handle = dlopen(name, flags);
    char path[512];

    if (!handle && PLM_CUDA_LIBRARIES[0] != '\0') {
        snprintf(path, sizeof path, "%s/%s", PLM_CUDA_LIBRARIES, name);
        handle = dlopen(path, flags);
    }
    return handle;
}

/* open_runtime() - @first is tried before the others */
static void *open_runtime(size_t first, const char **ret_name)
{
    for (size_t i = 0; i < RUNTIMES; i++) {
        void *handle;

        *ret_name = runtime_names[(first + i) % RUNTIMES];
        handle = cuda_library(*ret_name, RTLD_NOW | RTLD_GLOBAL);
        if (handle)
            return handle;
    }
    return NULL;
}

enum plm_status cuda_open(struct cuda *ret_cuda, struct plm_error *reterr)
{
    struct cuda cuda;
    const char *name;
    enum plm_status status = cuda_open_driver(&cuda, reterr);

    if (status != PLM_OK)
        return status;
    cuda.runtime = open_runtime(cuda.driver_version / 1000 < NEWEST_MAJOR ? 1 : 0, &name);
    if (!cuda.runtime)
        return plm_fail(reterr, PLM_E_DEVICE,
                        "no CUDA runtime library was found (%s or %s); LD_LIBRARY_PATH says where "
                        "it is, such as PyTorch's nvidia/cu13/lib",
                        runtime_names[0], runtime_names[1]);
    status = find_calls(&cuda, RUNTIME, cuda.runtime, name, reterr);
    if (status == PLM_OK)
        status = cuda_check(&cuda, cuda.cudaRuntimeGetVersion(&cuda.runtime_version),
                            "cudaRuntimeGetVersion", reterr);
    if (status == PLM_OK)
        *ret_cuda = cuda;
    return status;
}

/* ------------------------------------------------------------------ what is wrong */

void cuda_version(int version, char text[CUDA_VERSION_TEXT])
{
    snprintf(text, CUDA_VERSION_TEXT, "%d.%d", version / 1000, version % 1000 / 10);
}

/* may_not_open() - the device files are there, and this user may not open them */
static bool may_not_open(void)
{
    static const char *const files[] = { "/dev/nvidiactl", "/dev/nvidia0" };

    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (access(files[i], R_OK | W_OK) != 0 && (errno == EACCES || errno == EPERM))
            return true;
    return false;
}

/* plain() - the cause in words, where the number tells it; otherwise NULL */
static const char *plain(enum cuda_error error)
{
    switch (error) {
    case CUDA_ERROR_NO_DEVICE:
        return may_not_open() ? "no permission to open the GPU's device files (/dev/nvidia*)"
                              : "the driver has no GPU (CUDA_VISIBLE_DEVICES may hide it)";
    case CUDA_ERROR_INSUFFICIENT_DRIVER:
        return "the NVIDIA driver is too old for the CUDA runtime, or missing";
    case CUDA_ERROR_NEWER_DRIVER:
        return "the NVIDIA driver is too old for this call";
    case CUDA_ERROR_DEVICES_UNAVAILABLE:
        return "the GPU is busy: another process has it for itself, or its compute mode prohibits use";
    case CUDA_ERROR_NOT_PERMITTED:
    case CUDA_ERROR_OPERATING_SYSTEM:
        return "no permission to use the GPU";
    case CUDA_ERROR_SYSTEM_NOT_READY:
        return "the system is not ready for CUDA (NVIDIA's Fabric Manager may not run)";
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
        return "the driver's library and its kernel module are of different versions; a restart "
               "helps after an update";
    case CUDA_ERROR_STUB_LIBRARY:
        return "libcuda.so.1 is the toolkit's stub, not a driver";
    case CUDA_ERROR_INITIALIZATION:
    case CUDA_ERROR_UNKNOWN:
        return may_not_open() ? "no permission to open the GPU's device files (/dev/nvidia*)"
                              : "the driver could not be initialised";
    case CUDA_ERROR_MEMORY_ALLOCATION:
        return "out of memory on the GPU";
    case CUDA_ERROR_NONE:
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_INVALID_DEVICE:
    case CUDA_ERROR_NO_KERNEL_IMAGE:
    case CUDA_ERROR_NOT_SUPPORTED:
        break;
    }
    return NULL;
}

enum plm_status cuda_check(const struct cuda *cuda,
                           int error,
                           const char *call,
                           struct plm_error *reterr)
{
    const char *words, *name;
    char numbered[32];

    if (error == 0)
        return PLM_OK;
    if (cuda->cudaGetLastError)
        (void)cuda->cudaGetLastError();
    snprintf(numbered, sizeof numbered, "error %d", error);
    name = cuda->cudaGetErrorName ? cuda->cudaGetErrorName(error) : NULL;
    words = plain((enum cuda_error)error);
    if (!words && cuda->cudaGetErrorString)
        words = cuda->cudaGetErrorString(error);
    if (error == CUDA_ERROR_INSUFFICIENT_DRIVER && cuda->runtime_version > 0) {
        char driver[CUDA_VERSION_TEXT], runtime[CUDA_VERSION_TEXT];

        cuda_version(cuda->driver_version, driver);
        cuda_version(cuda->runtime_version, runtime);
        return plm_fail(reterr, PLM_E_DEVICE,
                        "no usable CUDA device: the NVIDIA driver is too old: it speaks CUDA %s, "
                        "and the runtime is %s",
                        driver, runtime);
    }
    return plm_fail(reterr, PLM_E_DEVICE, "%s (%s: %s)", words ? words : "a CUDA call failed", call,
                    name ? name : numbered);
}

/* ------------------------------------------------------------------ which GPU */

enum plm_status cuda_identify(const struct cuda *cuda,
                              int ordinal,
                              struct cuda_identity *ret_identity,
                              struct plm_error *reterr)
{
    struct cuda_identity identity = { 0 };
    struct cuda_uuid uuid;
    int device;
    enum plm_status status = cuda_check(cuda, cuda->cuInit(0), "cuInit", reterr);

    if (status == PLM_OK)
        status = cuda_check(cuda, cuda->cuDeviceGet(&device, ordinal), "cuDeviceGet", reterr);
    if (status == PLM_OK)
        status =
            cuda_check(cuda, cuda->cuDeviceGetName(identity.name, sizeof identity.name - 1, device),
                       "cuDeviceGetName", reterr);
    if (status == PLM_OK && cuda->cuDeviceGetUuid)
        status = cuda_check(cuda, cuda->cuDeviceGetUuid(&uuid, device), "cuDeviceGetUuid", reterr);
    if (status != PLM_OK)
        return status;
    cuda_version(cuda->driver_version, identity.cuda);
    cuda_version(cuda->driver_version, identity.driver);
    if (cuda->cuDeviceGetUuid) {
        /* the driver gives a slice's own UUID, which tools write with MIG in front; its name says that it is one */
        const char *kind = strstr(identity.name, " MIG ") ? "MIG" : "GPU";
        const unsigned char *b = uuid.bytes;

        snprintf(identity.uuid, sizeof identity.uuid,
                 "%s-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", kind,
                 b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12],
                 b[13], b[14], b[15]);
    }
    *ret_identity = identity;
    return PLM_OK;
}
