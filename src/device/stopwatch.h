/* device/stopwatch.h - time on the device, between two events of the default stream */
#ifndef PLM_DEVICE_STOPWATCH_H
#define PLM_DEVICE_STOPWATCH_H

#include "device/probe.h"

struct stopwatch {
    void *from, *to; /* events */
};

/* stopwatch_create() - ended by stopwatch_destroy() */
PLM_MUST_CHECK enum plm_status stopwatch_create(struct probe *probe, struct stopwatch *ret);
PLM_MUST_CHECK enum plm_status stopwatch_destroy(struct probe *probe, struct stopwatch *stopwatch);

PLM_MUST_CHECK enum plm_status stopwatch_start(struct probe *probe, struct stopwatch *stopwatch);

/* stopwatch_stop() - waits for the device; seconds since the start */
PLM_MUST_CHECK enum plm_status stopwatch_stop(struct probe *probe,
                                              struct stopwatch *stopwatch,
                                              double *ret_seconds);

/* stopwatch_now() - seconds of the host's monotonic clock */
double stopwatch_now(void);

#endif
