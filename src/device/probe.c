/* device/probe.c - what the probes share: how figures are said, and how calls are checked */
#include <inttypes.h>
#include <stdlib.h>

#include "base/num.h"
#include "device/probe.h"

static void say(const struct probe *probe, struct figure f)
{
    child_say(probe->voice, "figure %s %" PRIu64 " %.17g %.17g %.17g %" PRId64 " %d",
              figure_descs[f.id].name, f.size, f.value, f.low, f.high, f.count, f.at_least);
}

void probe_at(const struct probe *probe, const char *name)
{
    child_say(probe->voice, "at %s", name);
}

void probe_say(const struct probe *probe, enum figure_id id, plm_bytes size, double value)
{
    say(probe,
        (struct figure){
            .id = id, .size = size, .value = value, .low = value, .high = value, .count = 1 });
}

void probe_say_least(const struct probe *probe, enum figure_id id, plm_bytes size, double value)
{
    say(probe, (struct figure){ .id = id,
                                .size = size,
                                .value = value,
                                .low = value,
                                .high = value,
                                .count = 1,
                                .at_least = true });
}

void probe_say_all(
    const struct probe *probe, enum figure_id id, plm_bytes size, double *values, size_t count)
{
    if (count == 0)
        return;
    qsort(values, count, sizeof *values, num_compare_doubles);
    say(probe, (struct figure){ .id = id,
                                .size = size,
                                .value = (values[(count - 1) / 2] + values[count / 2]) / 2,
                                .low = values[0],
                                .high = values[count - 1],
                                .count = (int64_t)count });
}

void probe_skip(const struct probe *probe, enum figure_id id, const char *reason)
{
    child_say(probe->voice, "skip %s %s", figure_descs[id].name, reason);
}

enum plm_status probe_check(const struct probe *probe, int error, const char *call)
{
    return cuda_check(probe->cuda, error, call, probe->reterr);
}

enum plm_status probe_capability(const struct probe *probe, int *ret)
{
    const struct cuda *cuda = probe->cuda;
    int ordinal = probe->options->ordinal, major = 0, minor = 0;
    enum plm_status status = probe_check(
        probe, cuda->cudaDeviceGetAttribute(&major, CUDA_ATTRIBUTE_CAPABILITY_MAJOR, ordinal),
        "cudaDeviceGetAttribute");

    if (status == PLM_OK)
        status = probe_check(
            probe, cuda->cudaDeviceGetAttribute(&minor, CUDA_ATTRIBUTE_CAPABILITY_MINOR, ordinal),
            "cudaDeviceGetAttribute");
    *ret = 10 * major + minor;
    return status;
}

enum plm_status probe_free_bytes(const struct probe *probe, plm_bytes *ret_free)
{
    size_t free_bytes = 0, total = 0;
    enum plm_status status =
        probe_check(probe, probe->cuda->cudaMemGetInfo(&free_bytes, &total), "cudaMemGetInfo");

    if (status == PLM_OK)
        *ret_free = free_bytes;
    return status;
}

enum plm_status probe_room(const struct probe *probe, plm_bytes *ret_room)
{
    plm_bytes free_bytes = 0;
    enum plm_status status = probe_free_bytes(probe, &free_bytes);

    *ret_room = (plm_bytes)((double)free_bytes * probe->options->max_fill);
    return status;
}
