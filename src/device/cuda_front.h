/*
 * device/cuda_front.h - CUDA's driver and runtime, found when the program runs
 *
 * Nothing of CUDA is linked: the two libraries are opened by name, as the dynamic linker searches (LD_LIBRARY_PATH first), then in
 * the toolkit's folder that was known at build. So the same program starts where there is neither, and a test puts its own libraries
 * in their place by that path alone. Opening makes no context and takes no device memory.
 *
 * Only a child process (device/child.h) may open it: a driver that hangs or dies takes its process along.
 */
#ifndef PLM_DEVICE_CUDA_FRONT_H
#define PLM_DEVICE_CUDA_FRONT_H

#include "base/error.h"
#include "device/cuda_abi.h"

/* struct cuda - the functions of cuda_calls.def; those that are optional may be NULL */
struct cuda {
    void *driver, *runtime;              /* of dlopen */
    int driver_version, runtime_version; /* 13000 for 13.0 */
#define CALL(library, need, result, symbol, member, arguments) result(*member) arguments;
#include "device/cuda_calls.def"
#undef CALL
};

/*
 * cuda_open() - find both libraries and every required function
 *
 * PLM_E_DEVICE when there is no driver, no runtime, or one that is too old. Closed by the end of the process.
 */
PLM_MUST_CHECK enum plm_status cuda_open(struct cuda *ret_cuda, struct plm_error *reterr);

/* cuda_open_driver() - the same for the driver alone; the runtime's functions stay NULL */
PLM_MUST_CHECK enum plm_status cuda_open_driver(struct cuda *ret_cuda, struct plm_error *reterr);

/* cuda_library() - dlopen() of a library of CUDA's, as the linker searches and then in the toolkit's folder; NULL: it is in neither */
void *cuda_library(const char *name, int flags);

/*
 * cuda_check() - PLM_OK when @error is 0; otherwise say what @call failed with, in plain words where the cause is known
 *
 *     status = cuda_check(cuda, cuda->cudaFree(block), "cudaFree", reterr);
 *
 * The runtime's sticky error is cleared, so that the next call is judged by itself.
 */
PLM_MUST_CHECK enum plm_status cuda_check(const struct cuda *cuda,
                                          int error,
                                          const char *call,
                                          struct plm_error *reterr);

enum { CUDA_UUID_TEXT = 48, CUDA_NAME_TEXT = 128, CUDA_VERSION_TEXT = 16 };

/* struct cuda_identity - which GPU it is */
struct cuda_identity {
    char name[CUDA_NAME_TEXT];
    char uuid
        [CUDA_UUID_TEXT]; /* "GPU-…", or "MIG-…" for a slice of one; "" when the driver does not tell */
    char cuda[CUDA_VERSION_TEXT]; /* the CUDA version that the driver speaks: "13.0" */
    char driver
        [CUDA_VERSION_TEXT]; /* the driver's own, "580.65.06", where somebody knows it; here the same as cuda */
};

/* cuda_identify() - the GPU with this number; initialises the driver, makes no context */
PLM_MUST_CHECK enum plm_status cuda_identify(const struct cuda *cuda,
                                             int ordinal,
                                             struct cuda_identity *ret_identity,
                                             struct plm_error *reterr);

/* cuda_version() - 13000 as "13.0" */
void cuda_version(int version, char text[CUDA_VERSION_TEXT]);

#endif
