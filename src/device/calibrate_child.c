/*
 * device/calibrate_child.c - the jobs of calibration's children
 *
 * Each opens CUDA, makes a context, runs its probes and gives the context back. A failed call ends the job: what it held goes with the
 * process.
 */
#include <stdio.h>
#include <string.h>

#include "device/calibrate_child.h"
#include "device/nvml.h"

enum plm_status probe_begin(struct probe_job *job,
                            const struct child_voice *voice,
                            const struct probe_options *options)
{
    int count = 0, integrated = 0;
    enum plm_status status;

    *job = (struct probe_job){ .probe = { .voice = voice,
                                          .cuda = &job->cuda,
                                          .options = options,
                                          .arena = &job->arena,
                                          .reterr = &job->error,
                                          .granularity = PROBE_PAGE,
                                          .page = PROBE_PAGE } };
    status = cuda_open(&job->cuda, &job->error);
    if (status == PLM_OK)
        status =
            probe_check(&job->probe, job->cuda.cudaGetDeviceCount(&count), "cudaGetDeviceCount");
    if (status == PLM_OK && options->ordinal >= count)
        status = plm_fail(&job->error, PLM_E_DEVICE, "there is no device %d: %s", options->ordinal,
                          count == 1 ? "the only one is 0" : "they are counted from 0");
    if (status == PLM_OK)
        status = probe_check(&job->probe,
                             job->cuda.cudaDeviceGetAttribute(
                                 &integrated, CUDA_ATTRIBUTE_INTEGRATED, options->ordinal),
                             "cudaDeviceGetAttribute");
    if (status == PLM_OK && integrated)
        status = plm_fail(&job->error, PLM_E_DEVICE,
                          "the GPU has no memory of its own: filling it would take the host's");
    if (status == PLM_OK)
        status =
            probe_check(&job->probe, job->cuda.cudaSetDevice(options->ordinal), "cudaSetDevice");
    return status;
}

void probe_end(struct probe_job *job, enum plm_status status)
{
    if (status == PLM_OK)
        status = probe_check(&job->probe, job->cuda.cudaDeviceReset(), "cudaDeviceReset");
    if (status != PLM_OK)
        child_say(job->probe.voice, "error %s", job->error.message);
    arena_finish(&job->arena);
}

/* ------------------------------------------------------------------ the device, and what a context takes */

/* ask_driver() - NVML knows the driver's own version; where there is no NVML, that of CUDA has to do */
static void ask_driver(struct arena *arena, struct cuda_identity *identity)
{
    struct nvml *nvml = NULL;
    struct plm_error error;

    if (nvml_open(arena, &nvml, &error) != PLM_OK)
        return;
    if (nvml_driver_version(nvml) && *nvml_driver_version(nvml))
        snprintf(identity->driver, sizeof identity->driver, "%.*s", CUDA_VERSION_TEXT - 1,
                 nvml_driver_version(nvml));
    nvml_close(nvml);
}

static enum plm_status say_facts(struct probe_job *job)
{
    static const struct {
        const char *key;
        enum cuda_attribute attribute;
    } facts[] = {
        { "capability_major", CUDA_ATTRIBUTE_CAPABILITY_MAJOR },
        { "capability_minor", CUDA_ATTRIBUTE_CAPABILITY_MINOR },
        { "processors", CUDA_ATTRIBUTE_PROCESSORS },
        { "threads", CUDA_ATTRIBUTE_THREADS_PER_PROCESSOR },
        { "ecc", CUDA_ATTRIBUTE_ECC },
        { "compute_mode", CUDA_ATTRIBUTE_COMPUTE_MODE },
    };
    struct cuda_identity identity;
    enum plm_status status =
        cuda_identify(&job->cuda, job->probe.options->ordinal, &identity, &job->error);

    if (status != PLM_OK)
        return status;
    ask_driver(&job->arena, &identity);
    child_say(job->probe.voice, "fact name %s", identity.name);
    child_say(job->probe.voice, "fact cuda %s", identity.cuda);
    child_say(job->probe.voice, "fact uuid %s", identity.uuid);
    child_say(job->probe.voice, "fact driver %s", identity.driver);
    child_say(job->probe.voice, "fact runtime %d", job->cuda.runtime_version);
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        int value = 0;

        status = probe_check(&job->probe,
                             job->cuda.cudaDeviceGetAttribute(&value, (int)facts[i].attribute,
                                                              job->probe.options->ordinal),
                             "cudaDeviceGetAttribute");
        if (status != PLM_OK)
            return status;
        child_say(job->probe.voice, "fact %s %d", facts[i].key, value);
    }
    return PLM_OK;
}

/* say_others() - what NVML counts on the GPU @uuid */
static enum plm_status say_others(struct probe_job *job, const struct nvml *nvml, const char *uuid)
{
    struct probe *probe = &job->probe;
    struct nvml_gpu *gpus = NULL;
    struct nvml_memory memory;
    struct nvml_processes processes;
    size_t count = 0, i = 0;
    double sum = 0;
    enum plm_status status = nvml_list(nvml, &job->arena, &gpus, &count, &job->error);

    while (status == PLM_OK && i < count && strcmp(gpus[i].uuid, uuid) != 0)
        i++;
    if (status == PLM_OK && i == count)
        return plm_fail(&job->error, PLM_E_DEVICE, "NVML does not list %s", uuid);
    if (status == PLM_OK)
        status = nvml_read_memory(nvml, &gpus[i], &memory, &job->error);
    if (status == PLM_OK)
        status = nvml_read_processes(nvml, &gpus[i], &job->arena, &processes, &job->error);
    if (status != PLM_OK)
        return status;
    for (size_t p = 0; processes.told && p < processes.count; p++)
        sum += (double)processes.items[p].bytes;
    probe_say(probe, FIGURE_NVML_USED, 0, (double)memory.used);
    probe_say(probe, FIGURE_NVML_RESERVED, 0, (double)memory.reserved);
    if (processes.told)
        probe_say(probe, FIGURE_NVML_PROCESSES, 0, sum);
    else
        probe_skip(probe, FIGURE_NVML_PROCESSES, processes.why);
    return PLM_OK;
}

void job_others(const struct child_voice *voice, const void *what)
{
    const struct probe_options *options = what;
    struct probe_job job = { .probe = {
                                 .voice = voice, .options = options, .reterr = &job.error } };
    struct cuda_identity identity;
    struct nvml *nvml = NULL;
    enum plm_status status = cuda_open_driver(&job.cuda, &job.error);

    if (status == PLM_OK)
        status = cuda_identify(&job.cuda, options->ordinal, &identity, &job.error);
    if (status == PLM_OK)
        status = nvml_open(&job.arena, &nvml, &job.error);
    if (status == PLM_OK)
        status = say_others(&job, nvml, identity.uuid);
    if (nvml)
        nvml_close(nvml);
    if (status != PLM_OK)
        child_say(voice, "error %s", job.error.message);
    arena_finish(&job.arena);
}

void job_context(const struct child_voice *voice, const void *what)
{
    struct probe_job job;
    size_t free_bytes = 0, total = 0;
    enum plm_status status = probe_begin(&job, voice, what);

    if (status == PLM_OK)
        status = say_facts(&job);
    if (status == PLM_OK)
        status =
            probe_check(&job.probe, job.cuda.cudaMemGetInfo(&free_bytes, &total), "cudaMemGetInfo");
    if (status == PLM_OK) {
        child_say(voice, "free %zu %zu", free_bytes, total);
        child_hold(voice);
    }
    probe_end(&job, status);
}

/* ------------------------------------------------------------------ memory */

/* probe_plain_fit() - of a process with a context alone */
static enum plm_status probe_plain_fit(struct probe *probe)
{
    return probe_fit(probe, false);
}

/* struct named - a probe and how its progress is shown */
struct named {
    const char *name;
    probe_run *run;
};

/* run_probes() - one after the other, in a context of their own; *job is for what comes then */
static enum plm_status run_probes(struct probe_job *job,
                                  const struct child_voice *voice,
                                  const void *what,
                                  const struct named *probes,
                                  size_t count)
{
    enum plm_status status = probe_begin(job, voice, what);

    for (size_t i = 0; status == PLM_OK && i < count; i++) {
        probe_at(&job->probe, probes[i].name);
        status = probes[i].run(&job->probe);
    }
    return status;
}

void job_memory(const struct child_voice *voice, const void *what)
{
    static const struct named probes[] = {
        { "granularity", probe_ladder },          { "addresses", probe_addresses },
        { "mapped memory", probe_vmm },           { "memory pool", probe_pool },
        { "largest block", probe_largest },       { "usable memory", probe_usable },
        { "fragmentation", probe_fragmentation }, { "fit", probe_plain_fit },
        { "managed memory", probe_managed },
    };
    struct probe_job job;
    enum plm_status status = run_probes(&job, voice, what, probes, JOB_MEMORY_STEPS);

    _Static_assert(sizeof probes / sizeof *probes == JOB_MEMORY_STEPS, "as the header says");
    if (status == PLM_OK)
        probe_say(&job.probe, FIGURE_BACKED_OFF, 0, job.probe.backed_off);
    probe_end(&job, status);
}

void job_fit(const struct child_voice *voice, const void *what)
{
    static const struct named probes[] = { { "fit", probe_plain_fit } };
    struct probe_job job;
    enum plm_status status = run_probes(&job, voice, what, probes, 1);

    probe_end(&job, status);
}

void job_libraries(const struct child_voice *voice, const void *what)
{
    static const struct named probes[] = { { "libraries", probe_libraries } };
    struct probe_job job;
    enum plm_status status = run_probes(&job, voice, what, probes, JOB_LIBRARIES_STEPS);

    probe_end(&job, status);
}

void job_matmul(const struct child_voice *voice, const void *what)
{
    static const struct named probes[] = { { "products of fp8", probe_matmul } };
    struct probe_job job;
    enum plm_status status = run_probes(&job, voice, what, probes, JOB_MATMUL_STEPS);

    probe_end(&job, status);
}

void job_speed(const struct child_voice *voice, const void *what)
{
    static const struct named probes[] = {
        { "calls", probe_calls },
        { "copies", probe_copies },
        { "other GPUs", probe_peers },
        { "kernels", probe_kernels },
    };
    struct probe_job job;
    enum plm_status status = run_probes(&job, voice, what, probes, JOB_SPEED_STEPS);

    _Static_assert(sizeof probes / sizeof *probes == JOB_SPEED_STEPS, "as the header says");
    probe_end(&job, status);
}

/* ------------------------------------------------------------------ which GPUs are here */

void job_gpus(const struct child_voice *voice, const void *what)
{
    struct cuda cuda = { 0 };
    struct arena arena = { 0 };
    struct plm_error error;
    int count = 0;
    enum plm_status status = cuda_open_driver(&cuda, &error);

    if (status == PLM_OK)
        status = cuda_check(&cuda, cuda.cuInit(0), "cuInit", &error);
    if (status == PLM_OK)
        status = cuda_check(&cuda, cuda.cuDeviceGetCount(&count), "cuDeviceGetCount", &error);
    for (int i = 0; status == PLM_OK && i < count; i++) {
        struct cuda_identity gpu;

        status = cuda_identify(&cuda, i, &gpu, &error);
        if (status == PLM_OK) {
            ask_driver(&arena, &gpu);
            child_say(voice, "gpu %s %s %s %s", gpu.driver, gpu.cuda, gpu.uuid[0] ? gpu.uuid : "-",
                      gpu.name);
        }
    }
    if (status != PLM_OK)
        child_say(voice, "error %s", error.message);
    arena_finish(&arena);
}
