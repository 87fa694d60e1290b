/*
 * device/calibrate.c - the parent's side of calibration: children are started, and what they say becomes one result
 *
 *     context   = free memory of one process's view less that of the next, which has made a context too
 *     others    = total - free - context, seen by the first; and again after each job whose fit it is for
 *     residual  = (total - free - others) - (context + libraries + reserved), at each point of the fit
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "device/calibrate.h"
#include "device/calibrate_child.h"
#include "device/framework.h"

enum {
    CONTEXTS = 4,
    CONTEXTS_QUICK = 3,
    STEPS = 2 + JOB_MEMORY_STEPS + JOB_LIBRARIES_STEPS + JOB_MATMUL_STEPS + JOB_SPEED_STEPS
};
static const double WATCHDOG = 30;

/* What is free differs by so much from one process to the next without anybody else. */
static const plm_bytes OTHERS_SLACK = (plm_bytes)16 << 20;

/* struct facts - numbers that a child tells of the GPU, as CUDA has them */
struct facts {
    int runtime, capability_major, capability_minor, processors, threads, ecc, compute_mode;
};

/* struct stretch - points of the fit that one job has told, and what others held meanwhile */
struct stretch {
    size_t first; /* of the points; the next stretch begins where it ends */
    plm_bytes others;
    bool disturbed; /* they did not hold the same before and after */
};

enum { STRETCHES = 2, FIT_TRIES = 3 };

/* struct run - one calibration in progress */
struct run {
    const struct calibrate_options *options;
    struct arena *arena;
    struct calibration *result;
    struct plm_error *reterr;
    struct figure *figures;
    size_t figure_count, figure_capacity;
    struct skipped *skipped;
    size_t skipped_count, skipped_capacity;
    struct fit_point *points; /* used: free memory, until finish_fit() */
    size_t point_count, point_capacity;
    struct stretch stretches[STRETCHES];
    size_t stretch_count;
    struct facts facts;
    const char *at; /* what the child does */
    unsigned steps;
    plm_bytes free_bytes, others;
    struct fit_point framework; /* a process of PyTorch's; used: free memory, until finish_fit() */
    plm_bytes framework_others;
    bool has_framework;
};

static const char *copy(const struct run *run, const char *text)
{
    return arena_copy(run->arena, text, strlen(text));
}

static void add_figure(struct run *run, struct figure figure)
{
    arena_push(run->arena, run->figures, run->figure_count, run->figure_capacity, figure);
}

static void add_one(struct run *run, enum figure_id id, double value)
{
    add_figure(
        run, (struct figure){ .id = id, .value = value, .low = value, .high = value, .count = 1 });
}

static void progress(struct run *run, const char *what)
{
    const struct calibrate_options *o = run->options;

    run->at = copy(run, what);
    if (o->progress)
        o->progress(o->progress_context, run->at, run->steps < STEPS ? run->steps : STEPS, STEPS);
    run->steps++;
}

/* ------------------------------------------------------------------ what a child says */

/* A fact is a text of the GPU's identity, or a number. */
static const struct {
    const char *key;
    size_t offset, room;
} text_facts[] = {
    { "name", offsetof(struct cuda_identity, name), CUDA_NAME_TEXT },
    { "uuid", offsetof(struct cuda_identity, uuid), CUDA_UUID_TEXT },
    { "cuda", offsetof(struct cuda_identity, cuda), CUDA_VERSION_TEXT },
    { "driver", offsetof(struct cuda_identity, driver), CUDA_VERSION_TEXT },
};

static const struct {
    const char *key;
    size_t offset;
} number_facts[] = {
    { "runtime", offsetof(struct facts, runtime) },
    { "capability_major", offsetof(struct facts, capability_major) },
    { "capability_minor", offsetof(struct facts, capability_minor) },
    { "processors", offsetof(struct facts, processors) },
    { "threads", offsetof(struct facts, threads) },
    { "ecc", offsetof(struct facts, ecc) },
    { "compute_mode", offsetof(struct facts, compute_mode) },
};

static bool hear_fact(struct run *run, const char *text)
{
    char key[32], value[CUDA_NAME_TEXT] = ""; /* a driver may not tell the UUID */

    if (sscanf(text, "%31s %127[^\n]", key, value) < 1)
        return false;
    for (size_t i = 0; i < sizeof text_facts / sizeof *text_facts; i++)
        if (strcmp(key, text_facts[i].key) == 0) {
            snprintf((char *)&run->result->identity + text_facts[i].offset, text_facts[i].room,
                     "%s", value);
            return true;
        }
    for (size_t i = 0; i < sizeof number_facts / sizeof *number_facts; i++)
        if (strcmp(key, number_facts[i].key) == 0) {
            *(int *)((char *)&run->facts + number_facts[i].offset) = (int)strtol(value, NULL, 10);
            return true;
        }
    return false;
}

/* take_facts() - once a process has told all of them */
static void take_facts(struct run *run)
{
    struct calibration *c = run->result;
    const struct facts *f = &run->facts;
    char version[CUDA_VERSION_TEXT];

    cuda_version(f->runtime, version);
    c->measured.runtime = copy(run, version);
    c->capability = 10 * f->capability_major + f->capability_minor;
    c->processors = f->processors;
    c->threads_per_processor = f->threads;
    c->measured.ecc = f->ecc != 0;
    c->measured.compute_mode = f->compute_mode == CUDA_COMPUTE_MODE_DEFAULT ? "default"
                               : f->compute_mode == CUDA_COMPUTE_MODE_PROHIBITED
                                   ? "prohibited"
                                   : "exclusive process";
}

static bool hear_figure(struct run *run, const char *text)
{
    struct figure f = { 0 };
    char name[64];
    int least;

    if (sscanf(text, "%63s %" SCNu64 " %lf %lf %lf %" SCNd64 " %d", name, &f.size, &f.value, &f.low,
               &f.high, &f.count, &least) != 7)
        return false;
    f.id = figure_find(name);
    f.at_least = least != 0;
    if (f.id == FIGURE_COUNT)
        return false;
    add_figure(run, f);
    return true;
}

static bool hear_skip(struct run *run, const char *text)
{
    char name[64], reason[256];
    struct skipped skipped;

    if (sscanf(text, "%63s %255[^\n]", name, reason) != 2)
        return false;
    skipped = (struct skipped){ .id = figure_find(name), .reason = copy(run, reason) };
    if (skipped.id == FIGURE_COUNT)
        return false;
    arena_push(run->arena, run->skipped, run->skipped_count, run->skipped_capacity, skipped);
    return true;
}

static void skip(struct run *run, enum figure_id id, const char *reason)
{
    arena_push(run->arena, run->skipped, run->skipped_count, run->skipped_capacity,
               (struct skipped){ .id = id, .reason = copy(run, reason) });
}

static bool hear_fit(struct run *run, const char *text)
{
    struct fit_point point = { 0 };

    int libraries;

    if (sscanf(text, "%" SCNu64 " %" SCNu64 " %d", &point.reserved, &point.used, &libraries) != 3)
        return false;
    point.libraries = libraries != 0;
    arena_push(run->arena, run->points, run->point_count, run->point_capacity, point);
    return true;
}

static bool hear_process(struct run *run, const char *text)
{
    run->has_framework =
        sscanf(text, "%" SCNu64 " %" SCNu64, &run->framework.reserved, &run->framework.used) == 2;
    return run->has_framework;
}

static bool hear_at(struct run *run, const char *text)
{
    progress(run, text);
    return true;
}

/* hear() - one line; false: it is none that is known */
static bool hear(struct run *run, const char *line)
{
    static const struct {
        const char *word;
        bool (*hear)(struct run *run, const char *text);
    } words[] = {
        { "at", hear_at },   { "figure", hear_figure }, { "skip", hear_skip },
        { "fit", hear_fit }, { "fact", hear_fact },     { "process", hear_process },
    };

    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *text = child_words_after(line, words[i].word);

        if (text)
            return words[i].hear(run, text);
    }
    return strcmp(line, "alive") == 0;
}

/*
 * next_line() - hear @child until it says a line that begins with @wanted, or ends (*ret_line is NULL then)
 *
 * What failed is said together with what was being measured.
 */
static enum plm_status next_line(struct run *run,
                                 struct child *child,
                                 const char *wanted,
                                 const char **ret_line)
{
    double watchdog = run->options->watchdog > 0 ? run->options->watchdog : WATCHDOG;

    for (;;) {
        struct plm_error error;
        const char *line, *text;
        enum plm_status status = child_line(child, watchdog, &line, &error);

        if (status != PLM_OK)
            return plm_fail(run->reterr, status, "while measuring %s: %s", run->at, error.message);
        if (line && (text = child_words_after(line, "error")))
            return run->steps <= 1 ? plm_fail(run->reterr, PLM_E_DEVICE, "%s", text)
                                   : plm_fail(run->reterr, PLM_E_DEVICE, "while measuring %s: %s",
                                              run->at, text);
        if (!line || (wanted && child_words_after(line, wanted))) {
            *ret_line = line;
            return PLM_OK;
        }
        if (!hear(run, line))
            return plm_fail(run->reterr, PLM_E_DEVICE,
                            "while measuring %s: the probe said '%.60s', which means nothing here",
                            run->at, line);
    }
}

/* run_child() - one job from its start to its end; @given is the job's, @what it measures, until it says so itself */
static enum plm_status run_child(struct run *run,
                                 child_job *job,
                                 const void *given,
                                 const char *what)
{
    struct child child;
    const char *line = NULL;
    enum plm_status status = child_start(&child, job, given, run->reterr);

    if (status != PLM_OK)
        return status;
    run->at = what;
    status = next_line(run, &child, NULL, &line);
    child_stop(&child);
    return status;
}

/*
 * run_extra() - a job without which the result is still of use
 *
 * When it fails, what it had not said yet is left out, and the reason stands at @id.
 */
static enum plm_status run_extra(
    struct run *run, child_job *job, const void *given, const char *what, enum figure_id id)
{
    struct plm_error error = { 0 }, *own = run->reterr;
    enum plm_status status;

    run->reterr = &error;
    status = run_child(run, job, given, what);
    run->reterr = own;
    if (status != PLM_OK)
        skip(run, id, error.message);
    return PLM_OK;
}

/* ------------------------------------------------------------------ contexts */

/* hold_contexts() - several processes with a context each, one after the other; what each saw free */
static enum plm_status hold_contexts(struct run *run,
                                     struct child *children,
                                     size_t count,
                                     double *ret_free)
{
    for (size_t i = 0; i < count; i++) {
        const char *line = NULL;
        enum plm_status status =
            child_start(&children[i], job_context, &run->options->probe, run->reterr);
        size_t free_bytes, total;

        if (status == PLM_OK)
            status = next_line(run, &children[i], "free", &line);
        if (status != PLM_OK)
            return status;
        if (!line || sscanf(line, "free %zu %zu", &free_bytes, &total) != 2)
            return plm_fail(run->reterr, PLM_E_DEVICE, "the GPU's process said nothing of memory");
        run->result->total = total;
        ret_free[i] = (double)free_bytes;
    }
    return PLM_OK;
}

/* end_contexts() - each gives its context back itself, so that a failure of that is seen */
static enum plm_status end_contexts(struct run *run, struct child *children, size_t count)
{
    enum plm_status status = PLM_OK;

    for (size_t i = 0; i < count && status == PLM_OK; i++) {
        const char *line;

        child_let_go(&children[i]);
        status = next_line(run, &children[i], NULL, &line);
    }
    return status;
}

/* take_others() - what they hold where a process with a context and nothing else sees so much free */
static void take_others(struct run *run, plm_bytes free_bytes)
{
    plm_bytes away = free_bytes + run->result->measured.context, total = run->result->total;

    run->free_bytes = free_bytes;
    run->others = total > away ? total - away : 0;
}

/*
 * measure_context() - the fall of free memory from each process to the next
 *
 * A device that only one process may use has no second one, and some count each process for itself: the context is then all that is
 * not free, which may include what others hold.
 */
static enum plm_status measure_context(struct run *run)
{
    struct child children[CONTEXTS] = { 0 };
    struct calibration *c = run->result;
    size_t count = run->options->probe.quick ? CONTEXTS_QUICK : CONTEXTS;
    double seen[CONTEXTS], takes[CONTEXTS];
    struct figure f = { .id = FIGURE_CONTEXT };
    enum plm_status status;

    progress(run, "context");
    status = hold_contexts(run, children, 1, seen);
    take_facts(run);
    if (status == PLM_OK && run->facts.compute_mode != CUDA_COMPUTE_MODE_DEFAULT)
        count = 1;
    if (status == PLM_OK)
        status = hold_contexts(run, children + 1, count - 1, seen + 1);
    if (status == PLM_OK)
        status = end_contexts(run, children, count);
    for (size_t i = 0; i < CONTEXTS; i++)
        child_stop(&children[i]);
    if (status != PLM_OK)
        return status;
    takes[0] = (double)c->total - seen[0];
    for (size_t i = 1; i < count; i++)
        takes[i - 1] = seen[i - 1] > seen[i] ? seen[i - 1] - seen[i] : 0;
    f.count = count > 1 ? (int64_t)count - 1 : 1;
    qsort(takes, (size_t)f.count, sizeof *takes, num_compare_doubles);
    if (takes[f.count / 2] == 0) { /* free memory does not tell of other processes here */
        takes[0] = (double)c->total - seen[0];
        f.count = 1;
    }
    f.value = (takes[(f.count - 1) / 2] + takes[f.count / 2]) / 2;
    f.low = takes[0];
    f.high = takes[f.count - 1];
    c->measured.context = (plm_bytes)f.value;
    take_others(run, (plm_bytes)seen[0]);
    add_one(run, FIGURE_TOTAL, (double)c->total);
    add_one(run, FIGURE_FREE, seen[0]);
    add_one(run, FIGURE_OTHERS, (double)run->others);
    add_one(run, FIGURE_LIMIT, seen[0] * run->options->probe.max_fill);
    add_figure(run, f);
    return PLM_OK;
}

/* ------------------------------------------------------------------ what others hold meanwhile */

static const char meanwhile[] = "other processes took or gave back memory meanwhile";

/* look_again() - NULL when others hold what they held when that was last looked at, otherwise what is the matter */
static const char *look_again(struct run *run)
{
    struct child child = { 0 };
    struct plm_error error = { 0 }, *own = run->reterr;
    plm_bytes before = run->free_bytes;
    double seen = 0;
    enum plm_status status;

    run->at = "what others hold";
    run->reterr = &error;
    status = hold_contexts(run, &child, 1, &seen);
    if (status == PLM_OK)
        status = end_contexts(run, &child, 1);
    child_stop(&child);
    run->reterr = own;
    if (status != PLM_OK)
        return copy(run, error.message);
    take_others(run, (plm_bytes)seen);
    if (num_max(before, run->free_bytes) - num_min(before, run->free_bytes) <= OTHERS_SLACK)
        return NULL;
    return meanwhile;
}

/*
 * run_stretch() - a job with a fit; when others did not hold the same before and after, @again runs, FIT_TRIES times in all
 *
 * A failure of the job is one of the calibration, unless there is an @id to stand for it.
 */
static enum plm_status run_stretch(
    struct run *run, child_job *job, child_job *again, const char *what, enum figure_id id)
{
    const struct run before = *run;
    struct stretch s = { .first = run->point_count };
    const char *why = NULL;
    enum plm_status status = PLM_OK;

    for (unsigned i = 0; i < FIT_TRIES && status == PLM_OK && (i == 0 || why == meanwhile); i++) {
        child_job *now = i == 0 ? job : again;

        run->point_count = before.point_count;
        if (now == job) { /* says its figures anew, too */
            run->figure_count = before.figure_count;
            run->skipped_count = before.skipped_count;
        }
        s.others = run->others;
        status = id == FIGURE_COUNT ? run_child(run, now, &run->options->probe, what)
                                    : run_extra(run, now, &run->options->probe, what, id);
        why = status == PLM_OK && run->point_count > s.first ? look_again(run) : NULL;
    }
    if (status != PLM_OK || run->point_count == s.first)
        return status;
    s.disturbed = why;
    if (why)
        skip(run, FIGURE_OTHERS, why);
    run->stretches[run->stretch_count++] = s;
    return PLM_OK;
}

static enum plm_status run_framework(struct run *run)
{
    struct framework_job job = { run->options->python, run->options->probe.ordinal };

    progress(run, "PyTorch");
    (void)look_again(
        run); /* the last time was some jobs ago; whether it works is seen afterwards */
    run->framework_others = run->others;
    enum plm_status status = run_extra(run, job_framework, &job, "PyTorch", FIGURE_FRAMEWORK);
    const char *why = run->has_framework ? look_again(run) : NULL;

    if (why) {
        run->has_framework = false;
        skip(run, FIGURE_FRAMEWORK, why);
    }
    return status;
}

/* ------------------------------------------------------------------ the result */

/* finish_point() - what was heard as free memory becomes what the process used, and its residual */
static void finish_point(const struct run *run, plm_bytes others, struct fit_point *p)
{
    const struct measured *m = &run->result->measured;
    plm_bytes away = p->used + others;

    p->used = run->result->total > away ? run->result->total - away : 0;
    p->residual = fit_residual(p, m->context, m->libraries);
}

/* finish_stretch() - where others were not the same, the first point, at which nothing is reserved, tells what they held */
static void finish_stretch(const struct run *run, const struct stretch *s, size_t end)
{
    const struct measured *m = &run->result->measured;
    const struct fit_point *first = &run->points[s->first];
    plm_bytes own = m->context + (first->libraries ? m->libraries : 0) + first->reserved;
    plm_bytes away = first->used + own, others = s->others;

    if (s->disturbed)
        others = run->result->total > away ? run->result->total - away : 0;
    for (size_t i = s->first; i < end; i++)
        finish_point(run, others, &run->points[i]);
}

static void finish_fit(struct run *run)
{
    static const enum figure_id libraries[] = { FIGURE_CUBLAS_HANDLE, FIGURE_CUBLAS_KERNELS,
                                                FIGURE_CUBLASLT_HANDLE, FIGURE_CUDNN_HANDLE };
    struct measured *m = &run->result->measured;

    m->figures = run->figures;
    m->figure_count = run->figure_count;
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        const struct figure *f = measured_figure(m, libraries[i], 0);

        m->libraries += f ? (plm_bytes)f->value : 0;
    }
    for (size_t i = 0; i < run->stretch_count; i++)
        finish_stretch(run, &run->stretches[i],
                       i + 1 < run->stretch_count ? run->stretches[i + 1].first : run->point_count);
    if (run->has_framework) {
        run->framework.libraries = true;
        finish_point(run, run->framework_others, &run->framework);
        add_one(run, FIGURE_FRAMEWORK, fmax(run->framework.residual, 0));
        m->figures = run->figures;
        m->figure_count = run->figure_count;
    }
    m->points = run->points;
    m->point_count = run->point_count;
    m->skipped = run->skipped;
    m->skipped_count = run->skipped_count;
}

enum plm_status calibrate_run(const struct calibrate_options *options,
                              struct arena *arena,
                              struct calibration *ret_calibration,
                              struct plm_error *reterr)
{
    struct calibration result = { .measured = { .date = options->date,
                                                .program = PLM_VERSION,
                                                .quick = options->probe.quick,
                                                .max_fill = options->probe.max_fill } };
    struct run run = { .options = options, .arena = arena, .result = &result, .reterr = reterr };
    enum plm_status status =
        run_extra(&run, job_others, &options->probe, "others", FIGURE_NVML_USED);

    if (status == PLM_OK)
        status = measure_context(&run);
    if (status == PLM_OK)
        status = run_stretch(&run, job_memory, job_fit, "memory", FIGURE_COUNT);
    if (status == PLM_OK)
        status = run_stretch(&run, job_libraries, job_libraries, "libraries", FIGURE_CUBLAS_HANDLE);
    if (status == PLM_OK)
        status = run_extra(&run, job_matmul, &options->probe, "products of fp8", FIGURE_CUBLAS_FP8);
    if (status == PLM_OK)
        status = run_extra(&run, job_speed, &options->probe, "speed", FIGURE_COPY_RATE);
    if (status == PLM_OK && options->python)
        status = run_framework(&run);
    if (status != PLM_OK)
        return status;
    result.measured.uuid = copy(&run, result.identity.uuid);
    result.measured.driver = copy(&run, result.identity.driver);
    result.measured.cuda = copy(&run, result.identity.cuda);
    result.measured.mig = strncmp(result.identity.uuid, "MIG", 3) == 0;
    finish_fit(&run);
    result.context = measured_context(&result.measured);
    *ret_calibration = result;
    return PLM_OK;
}
