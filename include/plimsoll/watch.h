/*
 * plimsoll/watch.h - follow a running job's device memory
 *
 *     struct plm_watch_options options = { .pid = 4711 };
 *     struct plm_watch *watch;
 *
 *     if (plm_watch_open(&options, &watch, &error) != PLM_OK) …
 *     while (plm_watch_alive(watch)) {
 *         if (plm_watch_sample(watch, seconds, &error) != PLM_OK) …
 *         sleep(1);
 *     }
 *     result = plm_watch_result(watch);
 *
 * Figures come from NVIDIA's driver (NVML), which is loaded when a watch is opened: PLM_E_DEVICE says what is missing.
 * Nothing on a GPU is changed. A watch is used by one thread.
 */
#ifndef PLM_WATCH_H
#define PLM_WATCH_H

#include <stdbool.h>

#include "plimsoll/types.h"

struct plm_watch;

struct plm_watch_options {
    const char *gpu; /* its number ("0"; "0:1" is a MIG slice) or UUID; NULL: every GPU */
    int64_t
        pid; /* the job: this process and those that it starts; 0: those that the caller starts */
};

/* what is taken for the job's memory */
enum plm_watch_basis {
    PLM_WATCH_PROCESSES, /* what the driver tells of its processes */
    PLM_WATCH_GROWTH, /* it does not tell: what the device has in use, less what that was before the job */
    PLM_WATCH_DEVICE, /* it does not tell, and the job was there first: all that the device has in use */
};

/* struct plm_watch_point - one moment, or the extremes of several in a long run */
struct plm_watch_point {
    double time;            /* seconds, as plm_watch_sample() was given */
    plm_bytes job, job_low; /* the most and the least of the job */
    plm_bytes used, free;   /* the most in use on the device, the least free there */
};

/*
 * struct plm_watch_trend - does the job's memory grow without end
 *
 * Judged by what it falls back to: the run after its first third is cut into equal spans, and the least of each is kept. It
 * leaks when these floors rise in order (Kendall's test), evenly and in parts, and do not come back, and from then on until their growth
 * ends; plimsoll-watch(1) has it in full.
 */
struct plm_watch_trend {
    bool known; /* long enough to judge */
    bool leak;
    double from, to; /* seconds: what was judged */
    double slope;    /* bytes a second: the median of the slopes between floors (Theil and Sen) */
    double slope_low, slope_high; /* its 95 % interval */
    double p;                     /* of so much order by chance */
    plm_bytes growth;             /* between the first floor and the last */
    bool found;                   /* a leak was found, now or earlier in the run */
    double found_at;              /* seconds: when first */
    plm_bytes since;              /* growth of the last floor since then */
};

struct plm_watch_gpu {
    const char *id, *name, *uuid; /* @id is what plm_watch_options takes */
    int ecc;                      /* 1, 0, or -1: not told */
    const char *compute_mode;     /* NULL: not told */
    plm_bytes total;
    plm_bytes driver; /* what the driver keeps for itself; 0: not told */
    enum plm_watch_basis basis;
    const char *why; /* unless by processes: why not */
    const struct plm_watch_point *points;
    size_t point_count;
    plm_bytes now, peak; /* of the job */
    double peak_time;
    plm_bytes used_now, used_peak, free_now, free_low; /* of the device */
    size_t process_count;                              /* of the job, now */
    struct plm_watch_trend trend;
};

struct plm_watch_result {
    const char *driver;
    const struct plm_watch_gpu *gpus;
    size_t gpu_count;
    size_t worst; /* index of the GPU of which the job took most */
    uint64_t samples, failed;
    double seconds;      /* between the first sample and the last */
    const char *failure; /* the last failure's message, or NULL */
};

PLM_API PLM_MUST_CHECK enum plm_status plm_watch_open(const struct plm_watch_options *options,
                                                      struct plm_watch **ret_watch,
                                                      struct plm_error *reterr);
PLM_API void plm_watch_destroy(struct plm_watch *watch);

/* plm_watch_alive() - is the process of options.pid there; true without one */
PLM_API bool plm_watch_alive(const struct plm_watch *watch);

/* plm_watch_sample() - read every GPU; @time never decreases. An error is counted, and the next call tries again */
PLM_API PLM_MUST_CHECK enum plm_status plm_watch_sample(struct plm_watch *watch,
                                                        double time,
                                                        struct plm_error *reterr);

/* plm_watch_result() - so far; it belongs to @watch and changes with its next call */
PLM_API const struct plm_watch_result *plm_watch_result(struct plm_watch *watch);

#endif
