/*
 * tests/doubles/world.h - the GPUs that the doubles of libcuda.so.1 and libcudart.so.13 pretend to be
 *
 * PLM_DOUBLE names a file of settings, one "KEY VALUE" a line ('#' begins a comment):
 *
 *     state FILE             what the processes that use the double share; made when it is not there; must be given
 *     devices N              1
 *     name TEXT              NVIDIA Double
 *     uuid HEX               16 bytes
 *     driver, runtime N      13000
 *     capability N           90
 *     processors, threads N  132, 2048
 *     ecc, compute_mode, integrated N    1, 0, 0
 *     total SIZE             8GiB; sizes are bytes, or have KiB, MiB, GiB
 *     others SIZE            0: what other processes hold
 *     context SIZE           300MiB: taken by a process's first use of a device
 *     module SIZE            4MiB: taken by each loaded module
 *     granularity SIZE       2MiB: device memory is given in these
 *     small SIZE             1MiB: up to this, several blocks share a granule
 *     alignment SIZE         512
 *     unusable SIZE          0: counted as free, never given
 *     blind 0|1              0; 1: free memory tells a process of nothing but its own
 *     contiguous 0|1         0: pages are given wherever they lie; 1: a block is one stretch, and holes remain
 *     coalesce 0|1           1: freed neighbours become one stretch (with contiguous); 0: not before all is free
 *     reuse 0|1              1: freed addresses are given again
 *     kept SIZE              0: freed memory that does not come back, at most
 *     pool_growth, pool_rounding, pool_threshold SIZE   32MiB, 512, 0: of cudaMallocAsync
 *     pools, vmm, managed 0|1                           1: whether the device has them
 *     vmm_minimum, vmm_recommended SIZE                 2MiB
 *     cublas, cublas_kernels, cublas_workspace, cublaslt, cudnn, nccl SIZE
 *                            8, 16, 32, 2, 4, 40 MiB: of handles; of the first product; of one without a given workspace; of a communicator
 *     bandwidth, h2d, d2h, h2d_pageable, d2h_pageable, peer REAL   bytes a second
 *     fp32, tf32, fp16, bf16, fp8 REAL                  floating-point operations a second
 *     launch REAL            5e-6: seconds that a kernel takes in any case
 *     fail FUNCTION N ERROR  the Nth call (over all processes, from 1) returns ERROR
 *     hang FUNCTION N        the Nth call never returns
 *     die FUNCTION N         the Nth call ends the process by a signal
 *     delay FUNCTION REAL    each call takes so many seconds
 *     others_at FUNCTION N SIZE   from the Nth call on, other processes hold SIZE
 *
 * What the processes share is counted in the state file, so that a context of one is seen by another, a process that was killed
 * holds nothing, and a test can ask afterwards what was left (tests/doubles/state.py prints it).
 *
 * Limits: no address can be read or written, and no kernel computes: copies, fills and launches only move a clock, by the rates above.
 * One stream. Errors are not sticky beyond cudaGetLastError. Managed memory is never resident. Several threads are not supported.
 */
#ifndef PLM_TESTS_DOUBLES_WORLD_H
#define PLM_TESTS_DOUBLES_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "device/cuda_abi.h"

#define EXPORT __attribute__((visibility("default")))

enum call_id {
#define CALL(library, need, result, symbol, member, arguments) CALL_##member,
#include "device/cuda_calls.def"
#include "device/library_calls.def"
#undef CALL
    CALL_COUNT
};

enum { WORLD_DEVICES = 4, WORLD_PROCESSES = 64 };

enum world_rate {
    RATE_BANDWIDTH,
    RATE_H2D,
    RATE_D2H,
    RATE_H2D_PAGEABLE,
    RATE_D2H_PAGEABLE,
    RATE_PEER,
    RATE_FP32,
    RATE_TF32,
    RATE_FP16,
    RATE_BF16,
    RATE_FP8,
    RATE_LAUNCH, /* seconds */
    RATE_COUNT
};

struct world_settings {
    char state[512], name[128];
    unsigned char uuid[16];
    int64_t devices, driver, runtime, capability, processors, threads, ecc, compute_mode,
        integrated, blind;
    uint64_t total, others, context, module, granularity, small, alignment, unusable, kept;
    int64_t contiguous, coalesce, reuse, pools, vmm, managed;
    uint64_t pool_growth, pool_rounding, pool_threshold, vmm_minimum, vmm_recommended;
    uint64_t cublas, cublas_kernels, cublas_workspace, cublaslt, cudnn, nccl;
    double rates[RATE_COUNT];
};

/* struct world_process - what one process holds; in the state file, also after its end */
struct world_process {
    int64_t pid;
    uint64_t used[WORLD_DEVICES]; /* bytes */
    uint64_t most;                /* of used, on any device, at any time */
    int64_t contexts;             /* a bit for each device */
    int64_t blocks, host_blocks, modules, events, mappings, pooled, managed;
    int64_t lost; /* of these, what a cudaDeviceReset swept away */
};

/* struct world_state - the file that processes share */
struct world_state {
    uint64_t calls[CALL_COUNT];
    uint64_t others; /* what others_at has added to the setting */
    struct world_process processes[WORLD_PROCESSES];
};

/* struct world - one process's view */
struct world {
    struct world_settings set;
    struct world_state *state;
    struct world_process *self;
    int device, last_error;
    bool initialised;
    double clock; /* seconds that the device has worked */
};

/* world_enter() - to be called first by every function; NULL settings end the process. Returns what the call shall fail with */
EXPORT int world_enter(enum call_id call);

/* world() - after world_enter() */
EXPORT struct world *world(void);

/* world_context() - make the current device's context, unless it is there */
EXPORT int world_context(void);

/* world_free() - bytes of the current device that nobody has */
EXPORT uint64_t world_free(void);

/* world_seen_free() - what of it a process is told */
EXPORT uint64_t world_seen_free(void);

/* world_take() - count @bytes as this process's; false when there are not so many. world_give() returns them */
EXPORT bool world_take(uint64_t bytes);
EXPORT void world_give(uint64_t bytes);

/* world_allocate() - a block as cudaMalloc gives it; 0 when there is no room */
EXPORT uint64_t world_allocate(uint64_t bytes);

/* world_release() - its end; false when there is no block at @address */
EXPORT bool world_release(uint64_t address);

/* world_reset() - everything of this process on its current device is gone */
EXPORT void world_reset(void);

/* world_work() - the device is busy with @amount at a rate */
EXPORT void world_work(enum world_rate rate, double amount);

#define ENTER(call)                                                                                \
    do {                                                                                           \
        int error_ = world_enter(CALL_##call);                                                     \
        if (error_ != 0)                                                                           \
            return error_;                                                                         \
    } while (0)

#endif
