/*
 * benchmark/compare.c - how many strategies one core compares in a second: compare MODELS-FOLDER DEVICES-FOLDER
 *
 * Each figure is the best of several runs on one thread, by processor time. The memory of a short grid and of one ten times as
 * long stands beside it: it should hardly differ.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "plimsoll/plimsoll.h"

enum { REPEATS = 3, SHORT = 40, LONG = 10 * SHORT };

static _Noreturn void give_up(const struct plm_error *error)
{
    fprintf(stderr, "compare: %s:%u: %s\n", error->file, error->line, error->message);
    exit(1);
}

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static long peak_rss_kib(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

/* fill() - every precision with and without checkpoints, at batches from 1 on */
static void fill(struct plm_strategy *strategies, size_t count, int64_t seq)
{
    static const enum plm_precision precisions[] = { PLM_PRECISION_FP32, PLM_PRECISION_BF16,
                                                     PLM_PRECISION_AMP_BF16,
                                                     PLM_PRECISION_AMP_FP16 };

    for (size_t i = 0; i < count; i++)
        strategies[i] = (struct plm_strategy){
            .precision = precisions[i % 4],
            .checkpoint = i / 4 % 2 ? PLM_CHECKPOINT_FULL : PLM_CHECKPOINT_NONE,
            .batch = 1 + (int64_t)(i / 8),
            .seq = seq,
        };
}

/* strategies_in_second() - the best of several comparisons of @count */
static double strategies_in_second(struct plm_model *model, size_t count, int64_t seq)
{
    static struct plm_strategy strategies[LONG];
    const struct plm_comparison comparison = {
        .strategies = strategies,
        .strategy_count = count,
        .jobs = 1,
    };
    double best = 0;

    fill(strategies, count, seq);
    for (int i = 0; i < REPEATS; i++) {
        struct plm_compare *compare;
        struct plm_error error = { 0 };
        double start = now();

        if (plm_compare(model, &comparison, &compare, &error) != PLM_OK)
            give_up(&error);
        double rate = (double)count / (now() - start);

        best = rate > best ? rate : best;
        plm_compare_destroy(compare);
    }
    return best;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *model;
        int64_t seq;
    } workloads[] = { { "gpt2", 1024 }, { "llama-3.1-8b", 2048 } };
    struct plm_context *context = plm_context_create();

    if (argc != 3) {
        fprintf(stderr, "usage: compare MODELS-FOLDER DEVICES-FOLDER\n");
        return 2;
    }
    plm_context_add_models(context, argv[1]);
    plm_context_add_devices(context, argv[2]);
    printf("model          strategies/s   KiB after %d   KiB after %d\n", SHORT, LONG);
    for (size_t i = 0; i < sizeof workloads / sizeof workloads[0]; i++) {
        struct plm_model *model;
        struct plm_error error = { 0 };

        if (plm_model_load(context, workloads[i].model, &model, &error) != PLM_OK)
            give_up(&error);
        double rate = strategies_in_second(model, SHORT, workloads[i].seq);
        long short_kib = peak_rss_kib();

        (void)strategies_in_second(model, LONG, workloads[i].seq);
        printf("%-13s %13.0f %14ld %14ld\n", workloads[i].model, rate, short_kib, peak_rss_kib());
        plm_model_destroy(model);
    }
    plm_context_destroy(context);
    return 0;
}
