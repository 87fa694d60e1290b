/* device/stopwatch.c - time on the device and on the host */
#include <time.h>

#include "device/stopwatch.h"

enum plm_status stopwatch_create(struct probe *probe, struct stopwatch *ret)
{
    const struct cuda *cuda = probe->cuda;
    struct stopwatch s = { 0 };
    enum plm_status status = probe_check(probe, cuda->cudaEventCreate(&s.from), "cudaEventCreate");

    if (status == PLM_OK)
        status = probe_check(probe, cuda->cudaEventCreate(&s.to), "cudaEventCreate");
    if (status == PLM_OK)
        *ret = s;
    return status;
}

enum plm_status stopwatch_destroy(struct probe *probe, struct stopwatch *s)
{
    const struct cuda *cuda = probe->cuda;
    enum plm_status status =
        probe_check(probe, cuda->cudaEventDestroy(s->from), "cudaEventDestroy");

    if (status == PLM_OK)
        status = probe_check(probe, cuda->cudaEventDestroy(s->to), "cudaEventDestroy");
    return status;
}

enum plm_status stopwatch_start(struct probe *probe, struct stopwatch *s)
{
    return probe_check(probe, probe->cuda->cudaEventRecord(s->from, NULL), "cudaEventRecord");
}

enum plm_status stopwatch_stop(struct probe *probe, struct stopwatch *s, double *ret_seconds)
{
    const struct cuda *cuda = probe->cuda;
    float milliseconds = 0;
    enum plm_status status =
        probe_check(probe, cuda->cudaEventRecord(s->to, NULL), "cudaEventRecord");

    if (status == PLM_OK)
        status = probe_check(probe, cuda->cudaEventSynchronize(s->to), "cudaEventSynchronize");
    if (status == PLM_OK)
        status = probe_check(probe, cuda->cudaEventElapsedTime(&milliseconds, s->from, s->to),
                             "cudaEventElapsedTime");
    *ret_seconds = (double)milliseconds * 1e-3;
    return status;
}

double stopwatch_now(void)
{
    struct timespec time;

    return clock_gettime(CLOCK_MONOTONIC, &time) == 0
               ? (double)time.tv_sec + (double)time.tv_nsec * 1e-9
               : 0;
}
