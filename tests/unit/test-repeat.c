/*
 * What is copied is what a run would have written: the same strategy with and without the copies
 *
 * Forgetting between two steps what the run remembers of earlier ones makes it run everything.
 */
#include <string.h>

#include "support/steps.h"
#include "support/test.h"
#include "train/train.h"

/* run_steps() - three; returns how many operators the second called */
static uint64_t run_steps(struct test_steps *t,
                          const char *text,
                          const struct plm_strategy *strategy,
                          bool remembers)
{
    uint64_t calls = 0;

    if (test_steps_create(t, text, strategy) || train_load(t->run, &t->error))
        fail_msg("%s", t->error.message);
    for (int i = 0; i < 3; i++) {
        uint64_t before = train_ghost(t->run)->op_count;

        if (!remembers)
            train_forget(t->run);
        if (train_step(t->run, &t->error))
            fail_msg("%s", t->error.message);
        if (i == 1)
            calls = train_ghost(t->run)->op_count - before;
    }
    return calls;
}

static void expect_same_schedule(const struct test_steps *a, const struct test_steps *b)
{
    const struct ghost *ga = train_ghost(a->run), *gb = train_ghost(b->run);

    assert_int_equal(a->schedule.event_count, b->schedule.event_count);
    assert_memory_equal(a->schedule.events, b->schedule.events,
                        a->schedule.event_count * sizeof *a->schedule.events);
    assert_int_equal(ga->record_count, gb->record_count);
    for (size_t i = 0; i < ga->record_count; i++) {
        assert_int_equal(ga->records[i].bytes, gb->records[i].bytes);
        assert_int_equal(ga->records[i].path, gb->records[i].path);
        assert_int_equal(ga->records[i].op, gb->records[i].op);
        assert_int_equal(ga->records[i].category, gb->records[i].category);
    }
    assert_int_equal(a->schedule.mark_count, b->schedule.mark_count);
    for (size_t i = 0; i < a->schedule.mark_count; i++) {
        assert_int_equal(a->schedule.marks[i].event, b->schedule.marks[i].event);
        assert_int_equal(a->schedule.marks[i].step, b->schedule.marks[i].step);
    }
}

/* expect_same() - with @micro the second step's first micro-batch, with @step the third step is a copy */
static void expect_same(const char *text, struct plm_strategy strategy, bool micro, bool step)
{
    struct test_steps copied, run;

    uint64_t calls_copied = run_steps(&copied, text, &strategy, true);
    uint64_t calls_run = run_steps(&run, text, &strategy, false);

    assert_int_equal(calls_copied < calls_run, micro);
    assert_int_equal(train_repeated(copied.run), step);
    assert_false(train_repeated(run.run));
    expect_same_schedule(&copied, &run);
    test_steps_finish(&copied);
    test_steps_finish(&run);
}

static const char network[] = TEST_NETWORK("3, checkpoint: true");

static void steps_are_copied_from_the_third_on(void **state)
{
    expect_same(network, (struct plm_strategy){ 0 }, true, true);
    expect_same(network, (struct plm_strategy){ .precision = PLM_PRECISION_BF16 }, true, true);
    expect_same(network, (struct plm_strategy){ .precision = PLM_PRECISION_AMP_BF16 }, true, true);
    expect_same(network, (struct plm_strategy){ .precision = PLM_PRECISION_AMP_FP16 }, true, true);
    expect_same(network, (struct plm_strategy){ .checkpoint = PLM_CHECKPOINT_FULL }, true, true);
    expect_same(network, (struct plm_strategy){ .accumulate = 3, .clip_grad_norm = 1 }, true, true);
    expect_same(network, (struct plm_strategy){ .optimizer = PLM_OPTIMIZER_ADAFACTOR }, true, true);
    expect_same(network, (struct plm_strategy){ .frozen = "fc" }, true, true);
}

static void gradients_that_are_there_are_not_copied(void **state)
{
    expect_same(network, (struct plm_strategy){ .zero_grad = PLM_ZERO_GRAD_ZERO }, false, true);
    expect_same(network, (struct plm_strategy){ .optimizer = PLM_OPTIMIZER_NONE }, false, true);
    expect_same(network, (struct plm_strategy){ .zero_grad_at = PLM_ZERO_GRAD_AT_BEFORE_BACKWARD },
                false, false);
    expect_same(network, (struct plm_strategy){ .zero_grad_at = PLM_ZERO_GRAD_AT_BEGIN }, true,
                false);
}

static void what_else_outlives_a_micro_batch_is_not_copied(void **state)
{
    expect_same(network, (struct plm_strategy){ .keep_outputs = true }, false, false);
    expect_same(network, (struct plm_strategy){ .keep_outputs_in_step = true }, false, true);
    expect_same(network, (struct plm_strategy){ .parallel = { .ddp = 2 } }, false, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_copied_from_the_third_on),
        cmocka_unit_test(gradients_that_are_there_are_not_copied),
        cmocka_unit_test(what_else_outlives_a_micro_batch_is_not_copied),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
