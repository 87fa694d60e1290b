/*
 * Optimizers, gradient clipping and GradScaler against what PyTorch 2.15 and 2.11 were seen to allocate
 *
 * Each expectation is the allocator's history of three parameters, [300, 500], [500] and [70, 30, 3], on an a100-80
 * (some with other sizes), one step of `optimizer.step()` after another. lion is lion-pytorch 0.2.5. adamw-8bit has
 * no such record: its expectation is worked out from the source that optimizers.def names.
 */
#include "support/ghost.h"
#include "support/test.h"
#include "train/internal.h"

enum { MOST = 8 };

struct fixture {
    struct test_ghost test;
    struct plm_strategy strategy;
    struct run run;
    struct param params[MOST];
    struct leaf leaves[MOST], *trained[MOST];
};

static void add(struct fixture *f, enum dtype dtype, unsigned dims, const int64_t *sizes)
{
    size_t i = f->run.param_count++;

    f->params[i].dims = dims;
    f->params[i].dtype = dtype;
    f->params[i].tensor = tensor_new(&f->run.ghost, dtype, dims, sizes);
    autograd_leaf(f->params[i].tensor);
    f->leaves[i].param = &f->params[i];
    f->trained[f->run.trained_count++] = &f->leaves[i];
}

/* start() - a run without a model; its ghost is moved out of the support's */
static void start(struct fixture *f, enum plm_optimizer optimizer, const char *version)
{
    *f = (struct fixture){ 0 };
    test_ghost_start_version(&f->test, version);
    f->strategy.optimizer = optimizer;
    f->run.ghost = f->test.ghost;
    f->run.strategy = &f->strategy;
    f->run.params = f->params;
    f->run.leaves = f->leaves;
    f->run.trained = f->trained;
    f->run.arena = &f->test.arena;
}

static void start_three(struct fixture *f, enum plm_optimizer optimizer, enum dtype dtype)
{
    start(f, optimizer, "pytorch-2.15");
    add(f, dtype, 2, (int64_t[]){ 300, 500 });
    add(f, dtype, 1, (int64_t[]){ 500 });
    add(f, dtype, 3, (int64_t[]){ 70, 30, 3 });
}

static void start_big(struct fixture *f,
                      enum dtype dtype,
                      enum plm_optimizer o,
                      const char *version)
{
    start(f, o, version);
    add(f, dtype, 2, (int64_t[]){ 1024, 768 });
    add(f, dtype, 2, (int64_t[]){ 66000, 2 });
    add(f, dtype, 2, (int64_t[]){ 5, 70000 });
    add(f, dtype, 1, (int64_t[]){ 9000 });
}

static void make_gradients(struct fixture *f)
{
    for (size_t i = 0; i < f->run.trained_count; i++) {
        struct tensor *p = f->trained[i]->param->tensor;

        if (!p->grad)
            p->grad = tensor_like(&f->run.ghost, p, p->dtype);
    }
}

#define expect_events(f, text, ...)                                                                \
    do {                                                                                           \
        make_gradients(f);                                                                         \
        size_t first_ = (f)->test.schedule.event_count;                                            \
        __VA_ARGS__;                                                                               \
        assert_int_equal((f)->run.ghost.halt, HALT_NO);                                            \
        assert_string_equal(test_ghost_trace(&(f)->test, first_), text);                           \
    } while (0)

static void finish(struct fixture *f)
{
    test_ghost_finish(&f->test);
}

static void sgd_needs_nothing(void **state)
{
    struct fixture f;

    start_three(&f, PLM_OPTIMIZER_SGD, DTYPE_FLOAT32);
    expect_events(&f, "", optimizer_create(&f.run));
    expect_events(&f, "", optimizer_step(&f.run));
    expect_events(&f, "-600000 -2000 -25200", optimizer_zero_grad(&f.run));
    finish(&f);
}

static void sgd_with_momentum_clones_the_first_gradients(void **state)
{
    struct fixture f;

    start_three(&f, PLM_OPTIMIZER_SGD_MOMENTUM, DTYPE_FLOAT32);
    expect_events(&f, "+600000 +2000 +25200", optimizer_step(&f.run));
    expect_events(&f, "", optimizer_step(&f.run));
    finish(&f);
}

static void adamw_makes_all_states_and_then_one_copy(void **state)
{
    struct fixture f;

    start_three(&f, PLM_OPTIMIZER_ADAMW, DTYPE_FLOAT32);
    expect_events(&f,
                  "+600000 +600000 +2000 +2000 +25200 +25200 "
                  "+600000 +2000 +25200 -25200 -2000 -600000",
                  optimizer_step(&f.run));
    expect_events(&f, "+600000 +2000 +25200 -25200 -2000 -600000", optimizer_step(&f.run));
    finish(&f);
}

static void adamw_in_a_loop_keeps_the_last_denominator(void **state)
{
    struct fixture f;

    start_three(&f, PLM_OPTIMIZER_ADAMW_LOOP, DTYPE_FLOAT32);
    expect_events(&f,
                  "+600000 +600000 +2000 +2000 +25200 +25200 "
                  "+600000 +600000 -600000 +2000 +2000 -2000 -600000 +25200 +25200 -25200 -2000 "
                  "-25200",
                  optimizer_step(&f.run));
    expect_events(&f,
                  "+600000 +600000 -600000 +2000 +2000 -2000 -600000 +25200 +25200 -25200 -2000 "
                  "-25200",
                  optimizer_step(&f.run));
    finish(&f);
}

static void fused_adam_keeps_its_steps_on_the_device(void **state)
{
    static const enum plm_optimizer fused[] = { PLM_OPTIMIZER_ADAM_FUSED,
                                                PLM_OPTIMIZER_ADAMW_FUSED };
    struct fixture f;

    for (size_t i = 0; i < 2; i++) {
        start_three(&f, fused[i], DTYPE_FLOAT32);
        expect_events(&f, "+4 +600000 +600000 +4 +2000 +2000 +4 +25200 +25200",
                      optimizer_step(&f.run));
        expect_events(&f, "", optimizer_step(&f.run));
        finish(&f);
    }
}

static void rmsprop_copies_its_averages(void **state)
{
    struct fixture f;

    start_three(&f, PLM_OPTIMIZER_RMSPROP, DTYPE_FLOAT32);
    expect_events(&f, "+600000 +2000 +25200 +600000 +2000 +25200 -25200 -2000 -600000",
                  optimizer_step(&f.run));
    expect_events(&f, "+600000 +2000 +25200 -25200 -2000 -600000", optimizer_step(&f.run));
    finish(&f);
}

static void adagrad_begins_in_its_constructor(void **state)
{
    struct fixture f;

    start_three(&f, PLM_OPTIMIZER_ADAGRAD, DTYPE_FLOAT32);
    expect_events(&f, "+600000 +2000 +25200", optimizer_create(&f.run));
    expect_events(&f,
                  "+600000 +2000 +25200 +600000 +2000 +25200 -25200 -2000 -600000 -25200 -2000 "
                  "-600000",
                  optimizer_step(&f.run));
    finish(&f);
}

static void adafactor_loops_and_its_names_overlap(void **state)
{
    struct fixture f;

    start_three(&f, PLM_OPTIMIZER_ADAFACTOR, DTYPE_FLOAT32);
    expect_events(
        &f,
        "+1200 +2000 +2000 +8400 +840 "
        "+4 +76 +4 -4 -76 -4 +1200 +2000 +600000 +8519680 -8519680 +4 -4 "
        "+4 +76 +4 -4 -76 -4 +4 -4 +2000 +2000 -600000 +4 -4 +4 -4 +8400 -1200 +840 -2000 "
        "+25200 +280 -280 -2000 +4 -4 -8400 -840 -2000 -25200",
        optimizer_step(&f.run));
    expect_events(
        &f,
        "+4 +76 +4 -4 -76 -4 +1200 +2000 +600000 +8519680 -8519680 +4 -4 "
        "+4 +76 +4 -4 -76 -4 +4 -4 +2000 +2000 -600000 +4 -4 +4 -4 +8400 -1200 +840 -2000 "
        "+25200 +280 -280 -2000 +4 -4 -8400 -840 -2000 -25200",
        optimizer_step(&f.run));
    finish(&f);
}

static void adafactor_multiplied_batches_by_cublas_until_2_11(void **state)
{
    struct fixture f;

    start(&f, PLM_OPTIMIZER_ADAFACTOR, "pytorch-2.11");
    add(&f, DTYPE_FLOAT32, 3, (int64_t[]){ 70, 30, 3 });
    expect_events(&f,
                  "+8400 +840 +4 -4 +8400 +840 +25200 +8519680 +280 -280 +4 -4 -8400 -840 -25200",
                  optimizer_step(&f.run));
    expect_events(&f, "+4 -4 +8400 +840 +25200 +280 -280 +4 -4 -8400 -840 -25200",
                  optimizer_step(&f.run));
    finish(&f);
}

static void adafactor_reduces_large_parameters_in_steps(void **state)
{
    struct fixture f;

    start_big(&f, DTYPE_BFLOAT16, PLM_OPTIMIZER_ADAFACTOR, "pytorch-2.15");
    expect_events(
        &f,
        "+2048 +1536 +132000 +4 +10 +140000 +18000 +2 +384 +4 -4 -384 -2 +2048 +1536 +6291456 +24 -24 "
        "-6291456 +1572864 +8519680 -8519680 +2 -2 +2 +384 +4 -4 -384 -2 +2 +68 +4 -4 -68 -2 +132000 "
        "-2048 +4 +272 +4 -4 -272 -1536 +264000 +8519680 -8519680 +2 -2 -1572864 +2 +68 +4 -4 -68 -2 "
        "+2 +172 +4 -4 -172 -2 +10 -132000 +140000 -4 +700000 +8519680 -8519680 +2 -2 -264000 +2 +172 "
        "+4 -4 -172 -2 +2 -2 +18000 +18000 -700000 +2 -2 -10 -140000 -18000 -18000",
        optimizer_step(&f.run));
    finish(&f);
}

static void lion_updates_one_parameter_after_another(void **state)
{
    struct fixture f;

    start_three(&f, PLM_OPTIMIZER_LION, DTYPE_FLOAT32);
    expect_events(&f,
                  "+600000 +600000 +600000 -600000 -600000 +2000 +2000 +2000 -2000 -2000 "
                  "+25200 +25200 +25200 -25200 -25200",
                  optimizer_step(&f.run));
    assert_false(f.run.ghost.records[f.run.ghost.record_count - 1].unverified);
    expect_events(&f,
                  "+600000 +600000 -600000 -600000 +2000 +2000 -2000 -2000 "
                  "+25200 +25200 -25200 -25200",
                  optimizer_step(&f.run));
    finish(&f);
}

static void eight_bit_states_come_in_blocks_of_256(void **state)
{
    struct fixture f;

    start_three(&f, PLM_OPTIMIZER_ADAMW_8BIT, DTYPE_FLOAT32);
    /* 150000 / 256 = 585.9, 6300 / 256 = 24.6 */
    expect_events(&f, "+1024 +1024 +150000 +150000 +2344 +2344 +2000 +2000 +6300 +6300 +100 +100",
                  optimizer_step(&f.run));
    expect_events(&f, "", optimizer_step(&f.run));
    assert_true(f.run.ghost.records[f.run.ghost.record_count - 1].unverified);
    finish(&f);
}

static void parameters_without_gradients_take_no_part(void **state)
{
    struct fixture f;

    start_three(&f, PLM_OPTIMIZER_ADAMW, DTYPE_FLOAT32);
    f.trained[1] = f.trained[2]; /* the second is frozen */
    f.run.trained_count = 2;
    expect_events(&f, "+600000 +600000 +25200 +25200 +600000 +25200 -25200 -600000",
                  optimizer_step(&f.run));
    finish(&f);
}

static void clipping_keeps_a_partial_norm_per_chunk(void **state)
{
    struct fixture f;

    start_big(&f, DTYPE_FLOAT32, PLM_OPTIMIZER_ADAMW, "pytorch-2.15");
    expect_events(&f,
                  "+40 +88 +4 +4 +4 +4 -88 -40 +16 +4 -16 -4 -4 -4 -4 +4 +4 +4 -4 -4 +4 -4 -4 -4",
                  clip_gradients(&f.run));
    finish(&f);
}

static void clipping_kept_a_table_until_2_11(void **state)
{
    struct fixture f;

    start_big(&f, DTYPE_FLOAT32, PLM_OPTIMIZER_ADAMW, "pytorch-2.11");
    expect_events(&f, "+192 +4 +4 +4 +4 -192 +16 +4 -16 -4 -4 -4 -4 +4 +4 +4 -4 -4 +4 -4 -4 -4",
                  clip_gradients(&f.run));
    finish(&f);
}

static void clipping_follows_the_gradients_type(void **state)
{
    struct fixture f;

    start(&f, PLM_OPTIMIZER_SGD, "pytorch-2.15");
    add(&f, DTYPE_BFLOAT16, 1, (int64_t[]){ 300 });
    expect_events(&f, "+16 +4 +2 -4 -16 +2 +2 -2 -2 +2 +2 +2 -2 -2 +2 -2 -2 -2",
                  clip_gradients(&f.run));
    finish(&f);
}

static void the_scaler_is_made_when_it_first_scales(void **state)
{
    struct fixture f;

    start_three(&f, PLM_OPTIMIZER_SGD, DTYPE_FLOAT32);
    struct tensor *loss = tensor_new_scalar(&f.run.ghost, DTYPE_FLOAT32);
    struct tensor *scaled = NULL;

    expect_events(&f, "+4 +4 +4", scaled = scaler_scale(&f.run, loss));
    tensor_drop(scaled);
    expect_events(&f, "+4", scaled = scaler_scale(&f.run, loss));
    expect_events(&f, "+8 +8 -8 +4 -8 +4 +4 +4 -4 -4 -4", scaler_unscale(&f.run));
    expect_events(&f, "-4", scaler_step(&f.run));
    finish(&f);
}

static void the_scaler_unscales_before_a_step(void **state)
{
    struct fixture f;

    start_three(&f, PLM_OPTIMIZER_SGD_MOMENTUM, DTYPE_FLOAT32);
    expect_events(&f, "+8 +8 -8 +4 -8 +4 +4 +4 -4 -4 -4 +600000 +2000 +25200 -4",
                  scaler_step(&f.run));
    finish(&f);
}

static void fused_optimizers_are_told_the_scale(void **state)
{
    struct fixture f;

    start_three(&f, PLM_OPTIMIZER_ADAMW_FUSED, DTYPE_FLOAT32);
    expect_events(&f,
                  "+4 +4 +4 +4 -4 -4 -4 +4 +4 "
                  "+4 +600000 +600000 +4 +2000 +2000 +4 +25200 +25200 -4 -4 -4",
                  scaler_step(&f.run));
    expect_events(&f, "+8 +8 -8 +4 -8 +4 +4 +4 -4 -4 -4", scaler_unscale(&f.run));
    expect_events(&f, "+4 -4 -4", scaler_step(&f.run));
    finish(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sgd_needs_nothing),
        cmocka_unit_test(sgd_with_momentum_clones_the_first_gradients),
        cmocka_unit_test(adamw_makes_all_states_and_then_one_copy),
        cmocka_unit_test(adamw_in_a_loop_keeps_the_last_denominator),
        cmocka_unit_test(fused_adam_keeps_its_steps_on_the_device),
        cmocka_unit_test(rmsprop_copies_its_averages),
        cmocka_unit_test(adagrad_begins_in_its_constructor),
        cmocka_unit_test(adafactor_loops_and_its_names_overlap),
        cmocka_unit_test(adafactor_multiplied_batches_by_cublas_until_2_11),
        cmocka_unit_test(adafactor_reduces_large_parameters_in_steps),
        cmocka_unit_test(lion_updates_one_parameter_after_another),
        cmocka_unit_test(eight_bit_states_come_in_blocks_of_256),
        cmocka_unit_test(parameters_without_gradients_take_no_part),
        cmocka_unit_test(clipping_keeps_a_partial_norm_per_chunk),
        cmocka_unit_test(clipping_kept_a_table_until_2_11),
        cmocka_unit_test(clipping_follows_the_gradients_type),
        cmocka_unit_test(the_scaler_is_made_when_it_first_scales),
        cmocka_unit_test(the_scaler_unscales_before_a_step),
        cmocka_unit_test(fused_optimizers_are_told_the_scale),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
