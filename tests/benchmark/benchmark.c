/*
 * benchmark/benchmark.c - what an estimate costs, stage by stage: benchmark MODELS-FOLDER DEVICES-FOLDER [MODEL]
 *
 * Each figure is the least of several runs in one process, which keeps its memory as `plimsoll` does, in microseconds of
 * processor time. "parsing" is the file with what it extends; "numbers" fills in dims; "ghost run" is load and three
 * steps; "replay" is its schedule through the allocator; "bisection" finds the smallest capacity. "estimate" and "plan"
 * are those of the public interface, from a loaded model. With MODEL: one estimate of that model alone, for callgrind.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "ghost/ghost.h"
#include "memory/capacity.h"
#include "memory/replay.h"
#include "model/model.h"
#include "train/train.h"
#include "yaml/file.h"

enum { REPEATS = 5, STEPS = 3 };

static const struct workload {
    const char *model;
    int64_t batch, seq;
} workloads[] = {
    { "gpt2", 8, 1024 },
    { "llama-3.1-8b", 1, 2048 },
    { "llama-3.1-70b", 1, 2048 },
};

static const char *models_folder, *devices_folder;

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec * 1e-3;
}

static void least(double *figure, double value)
{
    if (*figure == 0 || value < *figure)
        *figure = value;
}

static _Noreturn void give_up(const struct plm_error *error)
{
    fprintf(stderr, "benchmark: %s:%u: %s\n", error->file, error->line, error->message);
    exit(1);
}

/* find_model() - for `extends:`; names are files of the folder */
static enum plm_status find_model(void *context,
                                  const char *name,
                                  const char *from,
                                  struct arena *arena,
                                  struct model_text *ret_text,
                                  struct plm_error *reterr)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/%s.yaml", models_folder, name);
    ret_text->file = arena_copy(arena, path, strlen(path));
    return file_read(ret_text->file, 1 << 20, arena, &ret_text->text, &ret_text->length, reterr);
}

/* struct stages - microseconds, and what they were spent on */
struct stages {
    double parsing, numbers, ghost, replay, bisection, estimate, plan;
    uint64_t operators, events;
};

static const struct graph *build_graph(const struct workload *workload,
                                       struct arena *arena,
                                       struct stages *stages)
{
    const struct model_finder finder = { .find = find_model };
    const struct graph_settings settings = { .batch = workload->batch,
                                             .seq = workload->seq,
                                             .training = true };
    const struct model *model;
    const struct graph *graph;
    struct model_text text;
    struct plm_error error = { 0 };
    double start = now();

    if (find_model(NULL, workload->model, NULL, arena, &text, &error) != PLM_OK ||
        model_load(&text, &finder, arena, &model, &error) != PLM_OK)
        give_up(&error);
    least(&stages->parsing, now() - start);
    start = now();
    if (graph_build(model, &settings, arena, &graph, &error) != PLM_OK)
        give_up(&error);
    least(&stages->numbers, now() - start);
    return graph;
}

static void run_ghosts(const struct workload *workload,
                       const struct graph *graph,
                       struct arena *arena,
                       struct schedule *schedule,
                       struct stages *stages)
{
    const struct plm_strategy strategy = { .precision = PLM_PRECISION_BF16,
                                           .batch = workload->batch,
                                           .seq = workload->seq };
    const struct surroundings around = {
        .framework = framework_find("pytorch-2.15"),
        .cc = 80,
        .sm_count = 108,
        .threads_per_sm = 2048,
    };
    struct names *names = arena_new(arena, struct names);
    struct plm_error error = { 0 };
    struct run *run;
    double start = now();

    *names = *graph->names;
    if (train_create(graph, &strategy, &around, names, schedule, arena, &run, &error) != PLM_OK ||
        train_load(run, &error) != PLM_OK)
        give_up(&error);
    for (int i = 0; i < STEPS; i++)
        if (train_step(run, &error) != PLM_OK)
            give_up(&error);
    least(&stages->ghost, now() - start);
    stages->operators = train_ghost(run)->op_count;
    stages->events = schedule->event_count;
}

static void replay_schedule(const struct schedule *schedule, struct stages *stages)
{
    const struct memory_options options = { .rules = memory_rules_newest };
    struct arena arena = { 0 };
    struct replay replay = { 0 };
    struct memory_minimum minimum;
    double start = now();

    replay_start(&replay, schedule, memory_new(&arena, &options), &arena);
    if (!replay_run(&replay, schedule->event_count))
        give_up(&(struct plm_error){ .message = "an allocator without a limit is full" });
    least(&stages->replay, now() - start);
    start = now();
    if (!memory_minimum_capacity(schedule, &options, &arena, &minimum))
        give_up(&(struct plm_error){ .message = "no capacity is enough" });
    least(&stages->bisection, now() - start);
    arena_finish(&arena);
}

static void measure_stages(const struct workload *workload, struct stages *stages)
{
    struct arena arena = { 0 };
    struct schedule schedule = { .arena = &arena };
    const struct graph *graph = build_graph(workload, &arena, stages);

    run_ghosts(workload, graph, &arena, &schedule, stages);
    replay_schedule(&schedule, stages);
    arena_finish(&arena);
}

static struct plm_context *open_context(void)
{
    struct plm_context *context = plm_context_create();

    plm_context_add_models(context, models_folder);
    plm_context_add_devices(context, devices_folder);
    return context;
}

/* measure_answers() - estimate and plan, as a program would ask for them */
static void measure_answers(const struct workload *workload, bool with_plan, struct stages *stages)
{
    struct plm_context *context = open_context();
    const struct plm_device *device;
    struct plm_model *model;
    struct plm_estimate *estimate;
    struct plm_plan *plan;
    struct plm_error error = { 0 };

    if (plm_device_find(context, "h200", &device, &error) != PLM_OK ||
        plm_model_load(context, workload->model, &model, &error) != PLM_OK)
        give_up(&error);
    struct plm_search search = {
        .strategy = {
            .precision = PLM_PRECISION_BF16,
            .batch = workload->batch,
            .seq = workload->seq,
        },
    };
    double start = now();

    if (plm_estimate(model, &search.strategy, &estimate, &error) != PLM_OK)
        give_up(&error);
    least(&stages->estimate, now() - start);
    plm_estimate_destroy(estimate);
    if (with_plan) {
        search.strategy.device = device;
        start = now();
        if (plm_plan(model, &search, &plan, &error) != PLM_OK)
            give_up(&error);
        least(&stages->plan, now() - start);
        plm_plan_destroy(plan);
    }
    plm_model_destroy(model);
    plm_context_destroy(context);
}

static long peak_rss_kib(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: benchmark MODELS-FOLDER DEVICES-FOLDER [MODEL]\n");
        return 2;
    }
    models_folder = argv[1];
    devices_folder = argv[2];
    if (argc > 3) {
        struct stages stages = { 0 };

        for (size_t i = 0; i < sizeof workloads / sizeof workloads[0]; i++)
            if (strcmp(workloads[i].model, argv[3]) == 0)
                measure_answers(&workloads[i], false, &stages);
        printf("%.0f us, peak RSS %ld KiB\n", stages.estimate, peak_rss_kib());
        return stages.estimate > 0 ? 0 : 2;
    }
    printf("microseconds   parsing  numbers  ghost run  replay  bisection  estimate     plan"
           "  ns/operator  ns/event\n");
    for (size_t i = 0; i < sizeof workloads / sizeof workloads[0]; i++) {
        struct stages stages = { 0 };

        for (int repeat = 0; repeat < REPEATS; repeat++) {
            measure_stages(&workloads[i], &stages);
            measure_answers(&workloads[i], true, &stages);
        }
        printf("%-13s %8.0f %8.0f %10.0f %7.0f %10.0f %9.0f %8.0f %12.1f %9.1f\n",
               workloads[i].model, stages.parsing, stages.numbers, stages.ghost, stages.replay,
               stages.bisection, stages.estimate, stages.plan,
               stages.ghost * 1e3 / (double)stages.operators,
               stages.replay * 1e3 / (double)stages.events);
        printf("              %" PRIu64 " operators, %" PRIu64 " events in %d steps\n",
               stages.operators, stages.events, STEPS);
    }
    printf("peak RSS %ld KiB\n", peak_rss_kib());
    return 0;
}
