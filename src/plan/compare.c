/*
 * plan/compare.c - several strategies of one model, on several threads
 *
 * Workers take the next strategy that nobody has taken. Results go to the strategy's own place, so their order does not depend
 * on who was faster; a simulation, megabytes large, is let go of as soon as its result is copied.
 */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/num.h"
#include "plan/compare.h"
#include "plan/estimate.h"
#include "plan/search.h"

enum { JOBS_MOST = 256 };

struct work {
    const struct subject *subject;
    const struct plm_comparison *comparison;
    const char *const *warnings;
    size_t warning_count;
    struct plm_compared *items;
    pthread_mutex_t lock; /* of what follows, and of the caller's progress */
    size_t next, done;
};

struct worker {
    struct work *work;
    struct arena *arena;
    pthread_t thread;
    bool started;
};

unsigned compare_jobs(const struct plm_comparison *comparison)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t jobs = comparison->jobs > 0 ? comparison->jobs
                    : processors > 0     ? (uint64_t)processors
                                         : 1;

    return (unsigned)num_min(num_min(jobs, JOBS_MOST), num_max(comparison->strategy_count, 1));
}

/* per_parameter() - of what stays from step to step; temporaries do not */
static double per_parameter(const struct plm_result *result)
{
    double sum = 0;

    for (size_t i = 0; i < result->ledger_count; i++)
        if (strcmp(result->ledger[i].name, "temporaries") != 0)
            sum += result->ledger[i].per_parameter;
    return sum;
}

static enum plm_status run_estimate(const struct work *work,
                                    const struct plm_strategy *strategy,
                                    struct arena *keep,
                                    struct plm_compared *item)
{
    struct arena scratch = { 0 };
    struct plm_strategy chosen;
    struct simulation sim;
    struct plm_result result;
    enum plm_status status =
        search_checkpoint(work->subject, strategy, 0, &scratch, &chosen, &item->error);

    if (status == PLM_OK)
        status = simulate(work->subject, &chosen, 0, &sim, &item->error);
    if (status == PLM_OK) {
        estimate_result(&sim, work->warnings, work->warning_count, &result);
        if (strategy->checkpoint == PLM_CHECKPOINT_AUTO)
            result.checkpoint_chosen = estimate_chosen(&chosen, &scratch);
        item->result = compare_keep(&result, keep);
        item->bytes_per_parameter = per_parameter(&result);
        simulation_finish(&sim);
    }
    arena_finish(&scratch);
    return status;
}

static enum plm_status run_search(const struct work *work,
                                  const struct plm_strategy *strategy,
                                  struct plm_compared *item)
{
    struct plm_search search = work->comparison->search;
    struct plm_plan_result plan = { 0 };
    struct arena scratch = { 0 };

    search.strategy = *strategy;
    search.progress = NULL;
    enum plm_status status = search_batch(work->subject, &search, &scratch, &plan, &item->error);

    item->has_largest_batch = status == PLM_OK;
    item->largest_batch = plan.batch;
    arena_finish(&scratch);
    return status;
}

static void run_one(const struct work *work, size_t i, struct arena *keep)
{
    const struct plm_strategy *strategy = &work->comparison->strategies[i];
    struct plm_compared *item = &work->items[i];

    item->status = run_estimate(work, strategy, keep, item);
    if (item->status == PLM_OK && work->comparison->largest_batch &&
        work->comparison->largest_batch[i])
        item->status = run_search(work, strategy, item);
    if (item->status != PLM_OK)
        item->result = NULL;
}

static void tell(struct work *work)
{
    const struct plm_comparison *c = work->comparison;

    if (c->progress)
        c->progress(c->progress_context, "strategies", (unsigned)work->done,
                    (unsigned)c->strategy_count);
}

static void *work_on(void *context)
{
    struct worker *worker = context;
    struct work *work = worker->work;

    pthread_mutex_lock(&work->lock);
    while (work->next < work->comparison->strategy_count) {
        size_t i = work->next++;

        pthread_mutex_unlock(&work->lock);
        run_one(work, i, worker->arena);
        pthread_mutex_lock(&work->lock);
        work->done++;
        tell(work);
    }
    pthread_mutex_unlock(&work->lock);
    return NULL;
}

void compare_run(const struct subject *subject,
                 const struct plm_comparison *comparison,
                 const char *const *warnings,
                 size_t warning_count,
                 struct arena *arenas,
                 unsigned jobs,
                 struct plm_compared *items)
{
    struct work work = { .subject = subject,
                         .comparison = comparison,
                         .warnings = warnings,
                         .warning_count = warning_count,
                         .items = items,
                         .lock = PTHREAD_MUTEX_INITIALIZER };
    struct worker *workers = arena_array(&arenas[0], struct worker, jobs);

    tell(&work);
    for (unsigned i = 0; i < jobs; i++)
        workers[i] = (struct worker){ .work = &work, .arena = &arenas[i] };
    /* the caller's own thread is the first worker; where no more can be had, fewer do the work */
    for (unsigned i = 1; i < jobs; i++)
        workers[i].started = pthread_create(&workers[i].thread, NULL, work_on, &workers[i]) == 0;
    work_on(&workers[0]);
    for (unsigned i = 1; i < jobs; i++)
        if (workers[i].started)
            pthread_join(workers[i].thread, NULL);
    pthread_mutex_destroy(&work.lock);
}
