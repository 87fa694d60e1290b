/*
 * device/nvml.c - loads NVML and finds its functions
 *
 * One table (nvml.def) names every function that is used. A library without one of the required ones is refused by
 * the name of what is missing; the others are asked for where they are there.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "base/error.h"
#include "device/nvml.h"
#include "device/nvml_abi.h"

static const char library_name[] =
    "libnvidia-ml.so.1"; /* the name that every driver on Linux installs */

struct call {
    const char *symbol;
    size_t offset;
    bool required;
};

static const struct call calls[] = {
    { "nvmlErrorString", offsetof(struct nvml, error_string), true },
#define NVML_CALL(member, symbol, required, arguments)                                             \
    { #symbol, offsetof(struct nvml, member), required },
#include "device/nvml.def"
#undef NVML_CALL
};

static enum plm_status find_calls(struct nvml *nvml, struct plm_error *reterr)
{
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        void *address = dlsym(nvml->library, calls[i].symbol);

        if (!address && calls[i].required)
            return plm_fail(reterr, PLM_E_DEVICE,
                            "%s has no %s: the driver is too old, R450 or newer is needed",
                            library_name, calls[i].symbol);
        memcpy((char *)nvml + calls[i].offset, &address, sizeof address);
    }
    return PLM_OK;
}

/* start_failed() - say what @code of nvmlInit means for whoever wants a GPU watched */
static enum plm_status start_failed(const struct nvml *nvml, int code, struct plm_error *reterr)
{
    if (code == NVML_CODE_DRIVER_NOT_LOADED)
        return plm_fail(reterr, PLM_E_DEVICE,
                        "no usable GPU: NVIDIA's driver is installed and not loaded");
    if (code == NVML_CODE_NO_PERMISSION)
        return plm_fail(reterr, PLM_E_DEVICE,
                        "no usable GPU: this user may not talk to NVIDIA's driver");
    if (code == NVML_CODE_VERSION_MISMATCH)
        return plm_fail(reterr, PLM_E_DEVICE,
                        "no usable GPU: NVIDIA's library and kernel module are of two versions; a "
                        "restart loads the new one");
    return plm_fail(reterr, PLM_E_DEVICE, "no usable GPU: NVIDIA's driver does not start: %.80s",
                    nvml->error_string(code));
}

static enum plm_status start(struct nvml *nvml, struct plm_error *reterr)
{
    int code = nvml->init();

    if (code != NVML_CODE_OK)
        return start_failed(nvml, code, reterr);
    code = nvml->driver(nvml->driver_version, sizeof nvml->driver_version);
    if (code != NVML_CODE_OK) {
        nvml->shutdown();
        return plm_fail(reterr, PLM_E_DEVICE, "NVIDIA's driver does not tell its version: %.80s",
                        nvml->error_string(code));
    }
    nvml->driver_version[sizeof nvml->driver_version - 1] = '\0';
    return PLM_OK;
}

enum plm_status nvml_open(struct arena *arena, struct nvml **ret_nvml, struct plm_error *reterr)
{
    struct nvml *nvml = arena_new(arena, struct nvml);
    enum plm_status status;

    nvml->library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
    if (!nvml->library) {
        const char *why = dlerror();
        bool missing = !why || strstr(why, "No such file");

        return plm_fail(
            reterr, PLM_E_DEVICE, "no usable GPU: %s, which comes with NVIDIA's driver, %s%.100s",
            library_name, missing ? "is not installed" : "cannot be loaded: ", missing ? "" : why);
    }
    status = find_calls(nvml, reterr);
    if (status == PLM_OK)
        status = start(nvml, reterr);
    if (status != PLM_OK) {
        dlclose(nvml->library);
        return status;
    }
    *ret_nvml = nvml;
    return PLM_OK;
}

void nvml_close(struct nvml *nvml)
{
    if (!nvml)
        return;
    nvml->shutdown();
    dlclose(nvml->library);
}

const char *nvml_driver_version(const struct nvml *nvml)
{
    return nvml->driver_version;
}
