/* device/library.c - finds cuBLAS, cuBLASLt, cuDNN and NCCL; they stay open until the process ends */
#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

#include "device/library.h"

static const struct call {
    enum library_id library;
    const char *symbol;
    size_t offset; /* of the pointer in struct libraries */
} calls[] = {
#define CALL(library_, need, result, symbol_, member, arguments)                                   \
    { LIBRARY_##library_, #symbol_, offsetof(struct libraries, member) },
#include "device/library_calls.def"
#undef CALL
};

/* The first is for CUDA 13, the second for CUDA 12. */
static const char *const names[LIBRARY_COUNT][2] = {
    [LIBRARY_CUBLAS] = { "libcublas.so.13", "libcublas.so.12" },
    [LIBRARY_CUBLASLT] = { "libcublasLt.so.13", "libcublasLt.so.12" },
    [LIBRARY_CUDNN] = { "libcudnn.so.9", "libcudnn.so.9" },
    [LIBRARY_NCCL] = { "libnccl.so.2", "libnccl.so.2" },
};

enum plm_status library_open(enum library_id id,
                             int runtime_version,
                             struct libraries *libraries,
                             struct plm_error *reterr)
{
    const char *name = names[id][runtime_version / 1000 >= 13 ? 0 : 1];
    struct libraries found = *libraries;
    void *handle = cuda_library(name, RTLD_NOW | RTLD_LOCAL);

    if (!handle)
        return plm_fail(reterr, PLM_E_DEVICE, "%s was not found", name);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        void *address = calls[i].library == id ? dlsym(handle, calls[i].symbol) : NULL;

        if (calls[i].library != id)
            continue;
        if (!address)
            return plm_fail(reterr, PLM_E_DEVICE, "%s has no %s", name, calls[i].symbol);
        memcpy((char *)&found + calls[i].offset, &address, sizeof address);
    }
    *libraries = found;
    return PLM_OK;
}
