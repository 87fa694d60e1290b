/*
 * device/probe.h - what the probes share; they run in a child and say their figures to its parent
 *
 * The lines: "at NAME", "figure NAME SIZE VALUE LOW HIGH COUNT AT_LEAST", "skip NAME REASON", "fit RESERVED FREE WITH_LIBRARIES",
 * "fact KEY TEXT", "process RESERVED FREE", "error TEXT".
 */
#ifndef PLM_DEVICE_PROBE_H
#define PLM_DEVICE_PROBE_H

#include "base/arena.h"
#include "device/child.h"
#include "device/cuda_front.h"
#include "device/measured.h"

/* struct probe_options - what the user allowed */
struct probe_options {
    int ordinal; /* of the GPU */
    bool quick, managed;
    double max_fill;     /* of free memory */
    const void *kernels; /* image of calib/kernels.cu; NULL: none was built */
};

/* struct probe - one child's surroundings */
struct probe {
    const struct child_voice *voice;
    const struct cuda *cuda;
    const struct probe_options *options;
    struct arena *arena;
    struct plm_error *reterr;
    plm_bytes granularity; /* of device memory, as the ladder found it */
    plm_bytes page;        /* what a large block is rounded up to: that, and at least PROBE_PAGE */
    unsigned backed_off;
};

/* A probe says its figures itself; what it returns is a failed call. */
typedef enum plm_status probe_run(struct probe *probe);

probe_run probe_ladder, probe_largest, probe_usable, probe_fragmentation, probe_addresses;
probe_run probe_vmm, probe_pool, probe_managed;
probe_run probe_libraries, probe_matmul;
probe_run probe_calls, probe_copies, probe_peers, probe_kernels;

/*
 * probe_fit() - what the device counts for what an allocator reserves; the parent holds it against context + libraries + reserved
 *
 * @with_libraries says whether the process has loaded them.
 */
PLM_MUST_CHECK enum plm_status probe_fit(struct probe *probe, bool with_libraries);

/* probe_at() - what is done next; the watchdog's clock starts again */
void probe_at(const struct probe *probe, const char *name);

/* probe_say() - one figure of one measurement */
void probe_say(const struct probe *probe, enum figure_id id, plm_bytes size, double value);

/* probe_say_least() - the same for what may be larger */
void probe_say_least(const struct probe *probe, enum figure_id id, plm_bytes size, double value);

/* probe_say_all() - the median and the range of @values [count], which are sorted */
void probe_say_all(
    const struct probe *probe, enum figure_id id, plm_bytes size, double *values, size_t count);

void probe_skip(const struct probe *probe, enum figure_id id, const char *reason);

/* probe_check() - cuda_check() with the probe's error */
PLM_MUST_CHECK enum plm_status probe_check(const struct probe *probe, int error, const char *call);

/* probe_capability() - the compute capability; 86 is 8.6 */
PLM_MUST_CHECK enum plm_status probe_capability(const struct probe *probe, int *ret);

/* probe_room() - how much may be taken now: --max-fill of what is free */
PLM_MUST_CHECK enum plm_status probe_room(const struct probe *probe, plm_bytes *ret_room);

/* probe_free_bytes() - of the device, now */
PLM_MUST_CHECK enum plm_status probe_free_bytes(const struct probe *probe, plm_bytes *ret_free);

#define PROBE_PAGE ((plm_bytes)2 << 20) /* bytes; the driver maps large blocks in pages of 2 MiB */

#endif
