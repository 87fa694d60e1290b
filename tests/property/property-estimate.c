/*
 * property/property-estimate.c - what holds for every model under every strategy
 *
 *     requested <= allocated <= reserved,   device = reserved + context
 *
 * The same question gets the same answer. A run with a capacity never reserves more than it, fits in the smallest
 * capacity that was found, and without a limit nothing ever fails. The bytes of tensors (temporaries of kernels and
 * workspaces of libraries apart) grow with the batch. A failure prints the seed and the strategy.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "plimsoll/plimsoll.h"
#include "support/test.h"

enum { SEEDS = 120, PAGE = 2 << 20, STEPS = 8 /* as many as are run without --steps */ };

/* models with dims that make a run short */
static const struct subject {
    const char *model;
    int64_t seq;
    struct plm_setting settings[4];
    size_t setting_count;
} subjects[] = {
    { "mlp", 0, { { 0 } }, 0 },
    { "nanogpt", 96, { { "layers", "2" }, { "width", "96" }, { "heads", "3" } }, 3 },
    { "gpt2", 80, { { "layers", "3" }, { "width", "96" }, { "heads", "3" } }, 3 },
    { "gpt2", 64, { { "layers", "2" }, { "attention", "eager" } }, 2 },
    { "bert-cls", 48, { { "layers", "2" } }, 1 },
    { "llama",
      64,
      { { "layers", "2" }, { "width", "128" }, { "ffn", "200" }, { "vocab", "999" } },
      4 },
    { "resnet18", 0, { { "image", "64" } }, 1 },
    { "unet", 0, { { "image", "64" } }, 1 },
};

static struct plm_context *context;

static uint32_t draw(uint64_t *random, uint32_t below)
{
    *random ^= *random << 13; /* xorshift64 */
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return (uint32_t)(*random >> 33) % below;
}

/* under_deepspeed() - @s as one of two ranks of ZeRO's @stage, without what DeepSpeed's engine refuses */
static struct plm_strategy under_deepspeed(struct plm_strategy s, int stage, uint64_t *random)
{
    s.parallel.zero = stage;
    s.parallel.gpus = 2;
    if (draw(random, 4) == 0)
        s.parallel.deepspeed.offload = PLM_OFFLOAD_OPTIMIZER;
    if (s.precision == PLM_PRECISION_AMP_BF16)
        s.precision = PLM_PRECISION_BF16;
    if (s.precision == PLM_PRECISION_AMP_FP16)
        s.precision = PLM_PRECISION_FP16;
    if (s.optimizer == PLM_OPTIMIZER_NONE || s.optimizer == PLM_OPTIMIZER_ADAFACTOR ||
        s.optimizer == PLM_OPTIMIZER_ADAGRAD)
        s.optimizer = PLM_OPTIMIZER_ADAMW;
    s.checkpoint_reentrant = false;
    s.zero_grad = PLM_ZERO_GRAD_SET_TO_NONE;
    s.zero_grad_at = PLM_ZERO_GRAD_AT_END;
    s.eval = false;
    s.channels_last = false;
    return s;
}

static struct plm_strategy draw_strategy(uint64_t *random, const struct subject *subject)
{
    static const char *const allocators[] = { NULL, "expandable_segments:True",
                                              "max_split_size_mb:32",
                                              "roundup_power2_divisions:4" };
    static const char *const frameworks[] = { "pytorch-2.15", "pytorch-2.11", "pytorch-2.6" };
    static const enum plm_checkpoint checkpoints[] = {
        PLM_CHECKPOINT_NONE, PLM_CHECKPOINT_NONE,  PLM_CHECKPOINT_FULL,  PLM_CHECKPOINT_FULL,
        PLM_CHECKPOINT_SQRT, PLM_CHECKPOINT_EVERY, PLM_CHECKPOINT_GROUP, PLM_CHECKPOINT_BLOCKS
    };
    bool ddp = draw(random, 5) == 0, fsdp = !ddp && draw(random, 6) == 0;
    struct plm_strategy s = {
        .batch = 1 + draw(random, 6),
        .seq = subject->seq,
        .precision = (enum plm_precision)draw(random, PLM_PRECISION_AMP_FP16 + 1),
        .optimizer = (enum plm_optimizer)draw(random, PLM_OPTIMIZER_ADAMW_8BIT + 1),
        .checkpoint = checkpoints[draw(random, 8)],
        .checkpoint_count = 2,
        .checkpoint_blocks = "0",
        .checkpoint_reentrant = draw(random, 2),
        .accumulate = draw(random, 4) ? 1 + draw(random, 3) : 1 + draw(random, 16),
        .clip_grad_norm = draw(random, 2) ? 1 : 0,
        .zero_grad = (enum plm_zero_grad)draw(random, 2),
        .zero_grad_at = (enum plm_zero_grad_at)draw(random, 3),
        .keep_outputs = draw(random, 2),
        .keep_outputs_in_step = draw(random, 4) == 0,
        .eval = draw(random, 8) == 0,
        .channels_last = draw(random, 4) == 0,
        .settings = subject->settings,
        .setting_count = subject->setting_count,
        .allocator = allocators[draw(random, 4)],
        .framework = frameworks[draw(random, 3)],
        .cudnn_workspace = PLM_WORKSPACE_NONE,
        .parallel = { .ddp = ddp ? 2 : 0, .fsdp = fsdp ? 2 : 0 },
    };

    if (s.keep_outputs)
        s.keep_outputs_in_step = false;
    /* what PyTorch refuses there */
    if (ddp)
        s.checkpoint_reentrant = false; /* parameters of a first block get no gradient */
    if (fsdp) {
        s.channels_last = false;
        if (s.optimizer == PLM_OPTIMIZER_ADAFACTOR)
            s.optimizer = PLM_OPTIMIZER_ADAMW;
    }
    if (!ddp && !fsdp && draw(random, 4) == 0)
        s = under_deepspeed(s, 1 + (int)draw(random, 3), random);
    return s;
}

static void describe(unsigned seed, const struct subject *subject, const struct plm_strategy *s)
{
    print_message(
        "# seed %u: %s batch %" PRId64
        " precision %d optimizer %d checkpoint %d%s accumulate %" PRId64
        " clip %g zero_grad %d at %d keep %d in step %d eval %d channels_last %d ddp %d fsdp %d "
        "zero %d%s allocator %s %s\n",
        seed, subject->model, s->batch, s->precision, s->optimizer, s->checkpoint,
        s->checkpoint_reentrant ? " reentrant" : "", s->accumulate, s->clip_grad_norm, s->zero_grad,
        s->zero_grad_at, s->keep_outputs, s->keep_outputs_in_step, s->eval, s->channels_last,
        (int)s->parallel.ddp, (int)s->parallel.fsdp, (int)s->parallel.zero,
        s->parallel.deepspeed.offload ? " offload" : "", s->allocator ? s->allocator : "default",
        s->framework);
}

static struct plm_estimate *estimate(struct plm_model *model, const struct plm_strategy *strategy)
{
    struct plm_estimate *answer;
    struct plm_error error = { 0 };

    if (plm_estimate(model, strategy, &answer, &error) != PLM_OK)
        fail_msg("%s:%u: %s", error.file, error.line, error.message);
    return answer;
}

/* tensor_peak() - the most bytes of tensors that are alive at once */
static plm_bytes tensor_peak(struct plm_model *model, const struct plm_strategy *strategy)
{
    struct plm_estimate *answer = estimate(model, strategy);
    const struct plm_timeline *timeline;
    struct arena arena = { 0 };

    assert_int_equal(plm_estimate_timeline(answer, &timeline, NULL), PLM_OK);
    int64_t *change = arena_array(&arena, int64_t, timeline->event_count + 1);
    int64_t now = 0, peak = 0;

    for (size_t i = 0; i < timeline->life_count; i++) {
        const struct plm_life *life = &timeline->lives[i];

        if (strcmp(life->category, "temporaries") == 0 ||
            strcmp(life->category, "library workspaces") == 0)
            continue;
        change[life->born] += (int64_t)life->requested;
        if (life->died != UINT32_MAX)
            change[life->died] -= (int64_t)life->requested;
    }
    for (size_t i = 0; i <= timeline->event_count; i++) {
        now += change[i];
        if (now > peak)
            peak = now;
    }
    assert_int_equal(now >= 0, 1);
    arena_finish(&arena);
    plm_estimate_destroy(answer);
    return (plm_bytes)peak;
}

static void check_figures(const struct plm_result *result)
{
    const struct plm_memory *peak = &result->peak;

    assert_false(result->out_of_memory);
    assert_true(peak->requested > 0);
    assert_true(peak->requested <= peak->allocated);
    assert_true(peak->allocated <= peak->reserved);
    assert_true(peak->device == peak->reserved + result->context + result->nccl);
    for (size_t i = 0; i < result->step_count; i++) {
        assert_true(result->steps[i].requested <= result->steps[i].allocated);
        assert_true(result->steps[i].allocated <= result->steps[i].reserved);
        assert_true(result->steps[i].reserved <= peak->reserved);
    }
    for (size_t i = 0; i < result->phase_count; i++) {
        assert_true(result->phases[i].peak.allocated <= peak->allocated);
        assert_true(result->phases[i].allocated_end <= result->phases[i].peak.allocated);
    }
}

static void check_capacity(struct plm_model *model, struct plm_strategy strategy)
{
    /* a device, for the allocator reserves address space in proportion to it */
    strategy.capacity = (plm_bytes)1 << 40;
    strategy.has_context = true;
    strategy.minimum_capacity = true;
    struct plm_estimate *answer = estimate(model, &strategy);
    const struct plm_result *result = plm_estimate_result(answer);

    assert_true(result->has_minimum_capacity);
    assert_true(result->minimum_capacity >= result->peak.requested);
    assert_true(result->minimum_capacity % PAGE == 0);
    strategy.minimum_capacity = false;
    strategy.capacity = result->minimum_capacity + result->nccl;
    /* in it the run finishes, however long; in a page less it does not, and in neither is it exceeded */
    strategy.steps = STEPS;
    for (int less = 0; less < 2; less++, strategy.capacity -= PAGE) {
        struct plm_estimate *tight = estimate(model, &strategy);

        assert_int_equal(plm_estimate_result(tight)->fits, !less);
        assert_true(plm_estimate_result(tight)->peak.device <= strategy.capacity);
        plm_estimate_destroy(tight);
    }
    plm_estimate_destroy(answer);
}

static void every_strategy_keeps_the_rules(void **state)
{
    for (unsigned seed = 1; seed <= SEEDS; seed++) {
        uint64_t random = seed * UINT64_C(0x9e3779b97f4a7c15);
        const struct subject *subject = &subjects[seed % (sizeof subjects / sizeof subjects[0])];
        struct plm_strategy strategy = draw_strategy(&random, subject);
        struct plm_model *model;
        struct plm_error error = { 0 };

        describe(seed, subject, &strategy);
        if (plm_model_load(context, subject->model, &model, &error) != PLM_OK)
            fail_msg("%s:%u: %s", error.file, error.line, error.message);
        struct plm_estimate *first = estimate(model, &strategy);
        struct plm_estimate *second = estimate(model, &strategy);

        check_figures(plm_estimate_result(first));
        assert_memory_equal(&plm_estimate_result(first)->peak, &plm_estimate_result(second)->peak,
                            sizeof(struct plm_memory));
        plm_estimate_destroy(second);
        plm_estimate_destroy(first);
        check_capacity(model, strategy);

        struct plm_strategy larger = strategy;

        larger.batch += 1 + draw(&random, 3);
        assert_true(tensor_peak(model, &strategy) <= tensor_peak(model, &larger));
        plm_model_destroy(model);
    }
}

static int open_context(void **state)
{
    context = plm_context_create();
    plm_context_add_models(context, TEST_SOURCE "/models");
    return 0;
}

static int close_context(void **state)
{
    plm_context_destroy(context);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_strategy_keeps_the_rules) };

    return cmocka_run_group_tests(tests, open_context, close_context);
}
