/*
 * device/nvml.h - what the NVIDIA driver says of its GPUs, through NVML
 *
 * NVML comes with the driver. It is loaded when it is asked for, so that the program starts where there is none. Only its
 * reading functions are used: nothing here changes a GPU, and no CUDA context is made.
 */
#ifndef PLM_DEVICE_NVML_H
#define PLM_DEVICE_NVML_H

#include <stdbool.h>

#include "base/arena.h"
#include "plimsoll/types.h"

struct nvml;

/* struct nvml_gpu - a GPU, or one MIG slice of one */
struct nvml_gpu {
    void *handle;
    unsigned index, slice; /* nvidia-smi's number; with @is_slice the slice's */
    bool is_slice;
    const char *name, *uuid;
    int ecc;                  /* 1, 0, or -1: not told */
    const char *compute_mode; /* "default", "exclusive", "prohibited"; NULL: not told */
    plm_bytes total;
};

/* struct nvml_memory - of a GPU: total = used + free, apart from what the driver keeps for itself */
struct nvml_memory {
    plm_bytes total, used, free;
    plm_bytes reserved; /* the driver's own; 0 where an older driver counts it as used */
};

struct nvml_process {
    unsigned pid; /* in the driver's PID namespace */
    plm_bytes bytes;
};

/* struct nvml_processes - who uses a GPU */
struct nvml_processes {
    const struct nvml_process *items; /* [count]; each process once */
    size_t count;
    bool
        told; /* false: the driver does not tell how much each process uses, and there are no items */
    const char *why; /* unless told */
};

/* nvml_open() - load and start it; PLM_E_DEVICE says what is missing. It is kept in @arena until nvml_close() */
PLM_MUST_CHECK enum plm_status nvml_open(struct arena *arena,
                                         struct nvml **ret_nvml,
                                         struct plm_error *reterr);
void nvml_close(struct nvml *nvml); /* takes NULL */

const char *nvml_driver_version(const struct nvml *nvml);

/* nvml_list() - every GPU that this user may see; of one in MIG mode its slices instead */
PLM_MUST_CHECK enum plm_status nvml_list(const struct nvml *nvml,
                                         struct arena *arena,
                                         struct nvml_gpu **ret_gpus,
                                         size_t *ret_count,
                                         struct plm_error *reterr);

PLM_MUST_CHECK enum plm_status nvml_read_memory(const struct nvml *nvml,
                                                const struct nvml_gpu *gpu,
                                                struct nvml_memory *ret_memory,
                                                struct plm_error *reterr);

/* nvml_read_processes() - the items are in @arena */
PLM_MUST_CHECK enum plm_status nvml_read_processes(const struct nvml *nvml,
                                                   const struct nvml_gpu *gpu,
                                                   struct arena *arena,
                                                   struct nvml_processes *ret_processes,
                                                   struct plm_error *reterr);

#endif
