/* test-simulate.c - what is left out of a run changes nothing; what cannot be is refused */
#include <stdio.h>
#include <string.h>

#include "plan/simulate.h"
#include "support/test.h"
#include "yaml/file.h"

struct fixture {
    struct arena arena;
    struct subject subject;
    struct plm_error error;
};

static void load(struct fixture *f, const char *name)
{
    char path[512];
    struct model_text text = { .file = name };

    snprintf(path, sizeof path, TEST_SOURCE "/models/%s.yaml", name);
    if (file_read(path, 1 << 20, &f->arena, &text.text, &text.length, &f->error) ||
        model_load(&text, NULL, &f->arena, &f->subject.model, &f->error))
        fail_msg("%s", f->error.message);
}

/* assert_same_as_whole() - @sim's peak is that of the same steps with every micro-batch run */
static void assert_same_as_whole(struct simulation *sim)
{
    struct arena arena = { 0 };
    struct names names = sim->names;
    struct schedule schedule = { .arena = &arena };
    struct replay replay = { 0 };
    struct run *run;
    struct plm_error error;

    enum plm_status status = train_create(sim->graph, &sim->strategy, &sim->around, &names,
                                          &schedule, &arena, &run, &error);

    if (!status)
        status = train_load(run, &error);
    for (unsigned i = 0; !status && i < sim->steps; i++)
        status = train_step(run, &error);
    if (status)
        fail_msg("%s", error.message);
    replay_start(&replay, &schedule, memory_new(&arena, &sim->memory_options), &arena);
    assert_true(replay_run(&replay, schedule.event_count));
    assert_true(schedule.event_count > sim->schedule.event_count);
    assert_memory_equal(&replay.peak, &sim->replay.peak, sizeof replay.peak);
    arena_finish(&arena);
}

static void micro_batches_that_repeat_are_left_out(void **state)
{
    static const struct plm_setting small[] = { { "layers", "2" }, { "width", "96" } };
    static const enum plm_optimizer optimizers[] = { PLM_OPTIMIZER_ADAMW, PLM_OPTIMIZER_SGD };
    struct fixture f = { 0 };

    load(&f, "mlp");
    for (int64_t accumulate = 29; accumulate <= 32; accumulate++)
        for (unsigned i = 0; i < 2; i++) {
            const struct plm_strategy strategy = {
                .batch = 5,
                .accumulate = accumulate,
                .precision = i ? PLM_PRECISION_AMP_FP16 : PLM_PRECISION_FP32,
                .optimizer = optimizers[i],
                .keep_outputs = i,
                .settings = small,
                .setting_count = 2,
            };
            struct simulation sim;

            assert_int_equal(simulate(&f.subject, &strategy, 0, &sim, &f.error), PLM_OK);
            assert_same_as_whole(&sim);
            simulation_finish(&sim);
        }
    arena_finish(&f.arena);
}

/* assert_phases_as_played() - @sim's phases are those of its schedule, played from end to end */
static void assert_phases_as_played(struct simulation *sim)
{
    struct arena arena = { 0 };
    struct replay replay = { 0 };

    replay_start(&replay, &sim->schedule, memory_new(&arena, &sim->memory_options), &arena);
    assert_true(replay_run(&replay, sim->schedule.event_count));
    assert_int_equal(sim->replay.phase_count, replay.phase_count);
    /* the last phase is open */
    assert_memory_equal(sim->replay.phases, replay.phases,
                        (replay.phase_count - 1) * sizeof *replay.phases);
    arena_finish(&arena);
}

static void a_settled_step_is_as_if_it_were_played(void **state)
{
    struct fixture f = { 0 };
    unsigned settled = 0;

    load(&f, "gpt2");
    for (int64_t batch = 1; batch <= 6; batch++)
        for (int64_t steps = 0; steps <= 7; steps += 7) {
            const struct plm_strategy strategy = {
                .batch = batch,
                .steps = steps,
                .accumulate = batch > 4 ? 3 : 1,
                .precision = batch % 2 ? PLM_PRECISION_BF16 : PLM_PRECISION_AMP_BF16,
                .optimizer = batch % 3 ? PLM_OPTIMIZER_ADAMW : PLM_OPTIMIZER_SGD_MOMENTUM,
            };
            struct simulation sim;

            assert_int_equal(simulate(&f.subject, &strategy, 0, &sim, &f.error), PLM_OK);
            assert_phases_as_played(&sim);
            settled += sim.settled;
            simulation_finish(&sim);
        }
    assert_true(settled > 0);
    arena_finish(&f.arena);
}

static void assert_refused(struct fixture *f, struct plm_strategy strategy, const char *message)
{
    struct simulation sim;

    assert_int_not_equal(simulate(&f->subject, &strategy, 0, &sim, &f->error), PLM_OK);
    assert_string_equal(f->error.message, message);
}

static void numbers_that_no_run_has_are_refused(void **state)
{
    struct fixture f = { 0 };

    load(&f, "mlp");
    assert_refused(&f, (struct plm_strategy){ .steps = INT64_C(1) << 40 },
                   "steps: from 1 to 1000; what comes after is the same again");
    assert_refused(&f, (struct plm_strategy){ .capacity = UINT64_MAX },
                   "capacity: no device has more than 1PiB");
    assert_refused(&f, (struct plm_strategy){ .has_context = true, .context = UINT64_MAX },
                   "context: no device has more than 1PiB");
    assert_refused(&f, (struct plm_strategy){ .accumulate = INT64_C(1) << 31 },
                   "accumulate: the number of micro-batches is from 1 to 2147483647");
    assert_refused(&f, (struct plm_strategy){ .batch = INT64_C(1) << 42 },
                   "the run needs more memory than there are addresses: a request of "
                   "12.25 PiB comes when 208.00 MiB are reserved");
    arena_finish(&f.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(micro_batches_that_repeat_are_left_out),
        cmocka_unit_test(a_settled_step_is_as_if_it_were_played),
        cmocka_unit_test(numbers_that_no_run_has_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
