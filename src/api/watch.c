/*
 * api/watch.c - a job's memory on every GPU, sample by sample, as the public interface gives it
 *
 * What is taken for the job's memory is decided anew with every sample, for all samples so far (enum plm_watch_basis): the driver
 * may list processes and hide the job's, or give it a number that means nothing here, as in a container with process numbers of
 * its own. Then what is in use beyond all that is listed has grown, although the job was never listed.
 */
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/num.h"
#include "base/units.h"
#include "device/nvml.h"
#include "watch/family.h"
#include "watch/series.h"
#include "watch/trend.h"

/*
 * Growth beyond what is listed that stands for a hidden process: no CUDA context is as small (426 MiB is the smallest that
 * calib/devices names), and a driver's own needs vary by less.
 */
static const plm_bytes HIDDEN_LEAST = (plm_bytes)64 << 20;

/* struct followed - one GPU that is watched */
struct followed {
    struct nvml_gpu gpu;
    struct series series;
    const char *why_not; /* the list of processes was refused, or NULL */
    bool has_first;      /* of the two below */
    plm_bytes first_used,
        first_unlisted; /* in use at the first sample, and beyond what was listed */
    plm_bytes unlisted_most;
    struct trend_memory trend;
    enum plm_watch_basis judged;    /* what @trend is of */
    struct plm_watch_point *points; /* [point_capacity] */
    size_t point_capacity;
};

struct plm_watch {
    struct arena own;     /* holds this struct and what lasts as long as it */
    struct arena scratch; /* of one sample */
    struct nvml *nvml;
    struct family family;
    bool has_pid; /* otherwise the first sample is from before the job */
    bool seen;    /* the driver has listed one of its processes */
    struct followed *gpus;
    struct plm_watch_gpu *views; /* [gpu_count] */
    size_t gpu_count;
    double first_time;
    struct plm_watch_result result;
    char failure[sizeof(((struct plm_error *)0)->message)];
};

/* ------------------------------------------------------------------ which GPUs */

static const char *id_of(const struct nvml_gpu *gpu, struct arena *arena)
{
    struct buf text = { .arena = arena };

    buf_printf(&text, "%u", gpu->index);
    if (gpu->is_slice)
        buf_printf(&text, ":%u", gpu->slice);
    return buf_string(&text);
}

/* wanted() - is it the one that was asked for; the number of a GPU that is cut means all its slices */
static bool wanted(const struct nvml_gpu *gpu, const char *name, struct arena *arena)
{
    int64_t index;

    if (!name || strcmp(name, id_of(gpu, arena)) == 0 || strcmp(name, gpu->uuid) == 0)
        return true;
    return gpu->is_slice && units_parse_int(name, &index) && index == (int64_t)gpu->index;
}

static enum plm_status unknown_gpu(const struct nvml_gpu *gpus,
                                   size_t count,
                                   const char *name,
                                   struct arena *arena,
                                   struct plm_error *reterr)
{
    struct buf list = { .arena = arena };

    for (size_t i = 0; i < count; i++)
        buf_printf(&list, "%s%s (%s)", i ? ", " : "", id_of(&gpus[i], arena), gpus[i].uuid);
    return plm_fail(reterr, PLM_E_USAGE, "there is no GPU '%.60s'; accepted: %.150s", name,
                    buf_string(&list));
}

static enum plm_status choose(struct plm_watch *watch, const char *name, struct plm_error *reterr)
{
    struct nvml_gpu *gpus;
    size_t count;
    enum plm_status status = nvml_list(watch->nvml, &watch->own, &gpus, &count, reterr);

    if (status != PLM_OK)
        return status;
    watch->gpus = arena_array(&watch->own, struct followed, count);
    for (size_t i = 0; i < count; i++)
        if (wanted(&gpus[i], name, &watch->own))
            watch->gpus[watch->gpu_count++].gpu = gpus[i];
    if (watch->gpu_count == 0)
        return unknown_gpu(gpus, count, name, &watch->own, reterr);
    watch->views = arena_array(&watch->own, struct plm_watch_gpu, watch->gpu_count);
    for (size_t i = 0; i < watch->gpu_count; i++) {
        const struct nvml_gpu *gpu = &watch->gpus[i].gpu;

        watch->views[i] = (struct plm_watch_gpu){ .id = id_of(gpu, &watch->own),
                                                  .name = gpu->name,
                                                  .uuid = gpu->uuid,
                                                  .ecc = gpu->ecc,
                                                  .compute_mode = gpu->compute_mode,
                                                  .total = gpu->total };
    }
    return PLM_OK;
}

/* ------------------------------------------------------------------ life of a watch */

static enum plm_status open_in(struct plm_watch *watch,
                               const struct plm_watch_options *options,
                               struct plm_error *reterr)
{
    enum plm_status status;

    watch->has_pid = options->pid != 0;
    if (!family_begin(&watch->family, watch->has_pid ? options->pid : getpid(), &watch->own))
        return plm_fail(reterr, PLM_E_USAGE, "there is no process %lld", (long long)options->pid);
    status = nvml_open(&watch->own, &watch->nvml, reterr);
    return status == PLM_OK ? choose(watch, options->gpu, reterr) : status;
}

enum plm_status plm_watch_open(const struct plm_watch_options *options,
                               struct plm_watch **ret_watch,
                               struct plm_error *reterr)
{
    struct arena own = { 0 };
    struct plm_watch *watch = arena_new(&own, struct plm_watch);
    enum plm_status status;

    watch->own = own; /* from here on only this copy is used */
    status = open_in(watch, options, reterr);
    if (status != PLM_OK) {
        plm_watch_destroy(watch);
        return status;
    }
    watch->result.driver = nvml_driver_version(watch->nvml);
    watch->result.gpus = watch->views;
    watch->result.gpu_count = watch->gpu_count;
    *ret_watch = watch;
    return PLM_OK;
}

void plm_watch_destroy(struct plm_watch *watch)
{
    if (!watch)
        return;
    nvml_close(watch->nvml);
    arena_finish(&watch->scratch);

    struct arena own = watch->own; /* the struct itself is in there */

    arena_finish(&own);
}

bool plm_watch_alive(const struct plm_watch *watch)
{
    return !watch->has_pid || family_alive(&watch->family);
}

/* ------------------------------------------------------------------ a sample */

/* add_up() - the job's bytes of @processes, and those of everyone who is known here: in a container the host's numbers mean nobody */
static void add_up(struct plm_watch *watch,
                   const struct nvml_processes *processes,
                   plm_bytes *ret_job,
                   plm_bytes *ret_listed,
                   size_t *ret_count)
{
    plm_bytes job = 0, listed = 0;
    size_t count = 0;

    for (size_t i = 0; i < processes->count; i++) {
        const struct nvml_process *process = &processes->items[i];

        if (process_exists(process->pid))
            listed += process->bytes;
        if (!family_has(&watch->family, process->pid))
            continue;
        job += process->bytes;
        count++;
    }
    *ret_job = job;
    *ret_listed = listed;
    *ret_count = count;
}

static void note_processes(struct plm_watch *watch,
                           struct followed *followed,
                           const struct nvml_processes *processes,
                           struct moment *moment,
                           size_t *ret_count)
{
    plm_bytes listed, unlisted;

    if (!processes->told) {
        if (!followed->why_not)
            followed->why_not = arena_copy(&watch->own, processes->why, strlen(processes->why));
        return;
    }
    add_up(watch, processes, &moment->job, &listed, ret_count);
    moment->job_low = moment->job;
    watch->seen |= *ret_count > 0;
    unlisted = moment->used > listed ? moment->used - listed : 0;
    if (!followed->has_first)
        followed->first_unlisted = unlisted;
    followed->unlisted_most = num_max(followed->unlisted_most, unlisted);
}

static enum plm_status sample_one(struct plm_watch *watch,
                                  size_t i,
                                  double time,
                                  struct plm_error *reterr)
{
    struct followed *followed = &watch->gpus[i];
    struct plm_watch_gpu *view = &watch->views[i];
    struct nvml_memory memory;
    struct nvml_processes processes;
    size_t count = 0;
    enum plm_status status = nvml_read_memory(watch->nvml, &followed->gpu, &memory, reterr);

    if (status == PLM_OK)
        status =
            nvml_read_processes(watch->nvml, &followed->gpu, &watch->scratch, &processes, reterr);
    if (status != PLM_OK)
        return status;

    struct moment moment = {
        .time = time, .used = memory.used, .used_low = memory.used, .free = memory.free
    };

    note_processes(watch, followed, &processes, &moment, &count);
    if (!followed->has_first)
        followed->first_used = memory.used;
    followed->has_first = true;
    series_add(&followed->series, &moment, &watch->own);
    view->driver = memory.reserved;
    view->process_count = count;
    view->used_now = memory.used;
    view->free_now = memory.free;
    return PLM_OK;
}

enum plm_status plm_watch_sample(struct plm_watch *watch, double time, struct plm_error *reterr)
{
    enum plm_status status = PLM_OK;
    struct plm_error error;

    for (size_t i = 0; i < watch->gpu_count; i++) {
        enum plm_status one = sample_one(watch, i, time, &error);

        if (one == PLM_OK)
            continue;
        status = one;
        memcpy(watch->failure, error.message, sizeof watch->failure);
        watch->result.failure = watch->failure;
    }
    arena_reset(&watch->scratch);
    if (watch->result.samples == 0)
        watch->first_time = time;
    watch->result.samples++;
    watch->result.seconds = time - watch->first_time;
    if (status == PLM_OK)
        return PLM_OK;
    watch->result.failed++;
    if (reterr)
        *reterr = error;
    return status;
}

/* ------------------------------------------------------------------ what came out */

static enum plm_watch_basis basis_of(const struct plm_watch *watch,
                                     const struct followed *followed,
                                     const char **ret_why)
{
    enum plm_watch_basis instead = watch->has_pid ? PLM_WATCH_DEVICE : PLM_WATCH_GROWTH;

    plm_bytes before = watch->has_pid ? 0 : followed->first_unlisted;

    *ret_why = followed->why_not;
    if (followed->why_not)
        return instead;
    if (watch->seen || followed->unlisted_most < before + HIDDEN_LEAST)
        return PLM_WATCH_PROCESSES;
    *ret_why = "it does not list the job's processes, as in a container";
    return instead;
}

/* point_of() - a moment, with what is taken for the job's */
static struct plm_watch_point point_of(const struct moment *moment,
                                       enum plm_watch_basis basis,
                                       plm_bytes before)
{
    struct plm_watch_point point = { .time = moment->time,
                                     .job = moment->job,
                                     .job_low = moment->job_low,
                                     .used = moment->used,
                                     .free = moment->free };

    switch (basis) {
    case PLM_WATCH_PROCESSES:
        return point;
    case PLM_WATCH_DEVICE:
        before = 0;
        break;
    case PLM_WATCH_GROWTH:
        break;
    }
    point.job = moment->used > before ? moment->used - before : 0;
    point.job_low = moment->used_low > before ? moment->used_low - before : 0;
    return point;
}

static void fill_points(struct plm_watch *watch,
                        struct followed *followed,
                        struct plm_watch_gpu *view)
{
    size_t count = followed->series.count;

    if (followed->point_capacity < count) {
        followed->point_capacity = followed->series.capacity;
        followed->points =
            arena_array(&watch->own, struct plm_watch_point, followed->point_capacity);
    }
    for (size_t i = 0; i < count; i++)
        followed->points[i] =
            point_of(&followed->series.items[i], view->basis, followed->first_used);
    view->points = followed->points;
    view->point_count = count;
}

static void sum_up(struct plm_watch_gpu *view)
{
    view->peak = view->used_peak = 0;
    view->free_low = view->total;
    for (size_t i = 0; i < view->point_count; i++) {
        const struct plm_watch_point *point = &view->points[i];

        if (point->job > view->peak) {
            view->peak = point->job;
            view->peak_time = point->time;
        }
        view->used_peak = num_max(view->used_peak, point->used);
        view->free_low = num_min(view->free_low, point->free);
    }
    view->now = view->point_count ? view->points[view->point_count - 1].job : 0;
}

const struct plm_watch_result *plm_watch_result(struct plm_watch *watch)
{
    for (size_t i = 0; i < watch->gpu_count; i++) {
        struct followed *followed = &watch->gpus[i];
        struct plm_watch_gpu *view = &watch->views[i];

        view->basis = basis_of(watch, followed, &view->why);
        fill_points(watch, followed, view);
        sum_up(view);
        if (view->basis != followed->judged)
            followed->trend = (struct trend_memory){ 0 }; /* it was of another series */
        followed->judged = view->basis;
        view->trend = trend_find(view->points, view->point_count, &followed->trend);
        if (view->peak > watch->views[watch->result.worst].peak)
            watch->result.worst = i;
    }
    return &watch->result;
}
