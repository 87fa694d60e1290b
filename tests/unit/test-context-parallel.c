/*
 * test-context-parallel.c - ring attention against what its source says, and what context parallelism refuses
 *
 * Whole runs are held against PyTorch in tests/reference/parallel.jsonl.
 */
#include <stdio.h>
#include <string.h>

#include "plan/simulate.h"
#include "support/ghost.h"
#include "support/test.h"
#include "yaml/file.h"

enum { BATCH = 1, HEADS = 2, ROWS = 96, SIZE = 64, PAIR_HEADS = 1 };

/* what one rank holds, in bfloat16 */
enum {
    QUERIES = 2 * BATCH * HEADS * ROWS * SIZE,
    KEYS_AND_VALUES = 2 * 2 * BATCH * PAIR_HEADS * ROWS * SIZE,
};

/* attend() - one call of the operator on rank @ring.rank; the output is recorded when @leaf */
static struct tensor *attend(struct ghost *g, struct context_ring ring, bool leaf)
{
    TENSOR_AUTO *query = test_tensor(g, DTYPE_BFLOAT16, BATCH, HEADS, ROWS, SIZE);
    TENSOR_AUTO *key = test_tensor(g, DTYPE_BFLOAT16, BATCH, PAIR_HEADS, ROWS, SIZE);
    TENSOR_AUTO *value = test_tensor(g, DTYPE_BFLOAT16, BATCH, PAIR_HEADS, ROWS, SIZE);
    const struct attr attrs[] = { test_real(KEY_P, 0), test_int(KEY_IS_CAUSAL, 1),
                                  test_int(KEY_ENABLE_GQA, 1) };
    struct tensor *out = NULL;

    g->category = CATEGORY_ACTIVATION;
    if (leaf)
        autograd_leaf(query);
    op_call(g,
            &(struct op_args){ .op = OP_SCALED_DOT_PRODUCT_ATTENTION,
                               .in_count = 3,
                               .attr_count = 3,
                               .out_count = 1,
                               .in = (struct tensor *[]){ query, key, value },
                               .attrs = attrs,
                               .ring = ring },
            &out);
    return out;
}

/* made() - how many allocations of a kind and size there were */
static unsigned made(const struct ghost *g, enum category category, plm_bytes bytes)
{
    unsigned count = 0;

    for (size_t i = 1; i < g->record_count; i++)
        count += g->records[i].category == category && g->records[i].bytes == bytes;
    return count;
}

/*
 * Note [Context parallelism load balance algorithm for causal masking]: its own chunks first; of an earlier rank half of the keys, for
 * all queries; of a later rank all keys, for half of the queries.
 */
static void a_rank_attends_with_half_of_its_queries_to_later_ranks(void **state)
{
    enum { RANKS = 5 };

    for (int64_t rank = 0; rank < RANKS; rank++) {
        struct test_ghost t;

        test_ghost_start(&t);
        TENSOR_AUTO *out = attend(&t.ghost, (struct context_ring){ RANKS, rank, false }, false);

        assert_false(t.ghost.halt);
        /* and the result, cast back from what was merged */
        assert_int_equal(made(&t.ghost, CATEGORY_ACTIVATION, QUERIES), (1 + rank) + 1);
        assert_int_equal(made(&t.ghost, CATEGORY_ACTIVATION, QUERIES / 2), RANKS - 1 - rank);
        tensor_drop(tensor_take(&out));
        test_ghost_finish(&t);
    }
}

static void gathered_keys_and_values_come_once(void **state)
{
    struct test_ghost t;

    test_ghost_start(&t);
    TENSOR_AUTO *out = attend(&t.ghost, (struct context_ring){ 4, 1, false }, false);

    assert_int_equal(made(&t.ghost, CATEGORY_COMMUNICATION, 4 * KEYS_AND_VALUES), 1);
    assert_int_equal(made(&t.ghost, CATEGORY_COMMUNICATION, KEYS_AND_VALUES), 3); /* to be sent */
    tensor_drop(tensor_take(&out));
    test_ghost_finish(&t);
}

static void rotated_keys_and_values_come_from_each_other_rank(void **state)
{
    struct test_ghost t;

    test_ghost_start(&t);
    TENSOR_AUTO *out = attend(&t.ghost, (struct context_ring){ 4, 1, true }, false);

    assert_int_equal(made(&t.ghost, CATEGORY_COMMUNICATION, KEYS_AND_VALUES), 3 + 3);
    assert_int_equal(made(&t.ghost, CATEGORY_COMMUNICATION, 4 * KEYS_AND_VALUES), 0);
    tensor_drop(tensor_take(&out));
    test_ghost_finish(&t);
}

/* The gradients of keys and values travel in float32, once around the ring to the rank that they belong to. */
static void gradients_go_once_around_the_ring(void **state)
{
    enum { RANKS = 3, IN_FLOAT32 = 2 * KEYS_AND_VALUES };
    struct test_ghost t;

    test_ghost_start(&t);
    struct tensor *out = attend(&t.ghost, (struct context_ring){ RANKS, 2, false }, true);
    TENSOR_AUTO *loss = test_op(&t.ghost, OP_SUM, test_in(out));

    tensor_drop(out);
    autograd_backward(&t.ghost, loss, NULL);
    assert_int_equal(made(&t.ghost, CATEGORY_COMMUNICATION, IN_FLOAT32), 2 * RANKS);
    tensor_drop(tensor_take(&loss));
    test_ghost_finish(&t);
}

static void nothing_is_left_of_a_ring(void **state)
{
    struct test_ghost t;
    size_t live = 0;

    test_ghost_start(&t);
    struct tensor *out = attend(&t.ghost, (struct context_ring){ 4, 2, true }, true);

    tensor_drop(out);
    for (size_t i = 0; i < t.schedule.event_count; i++)
        live += (t.schedule.events[i].kind == EVENT_ALLOC) -
                (size_t)(t.schedule.events[i].kind == EVENT_FREE);
    assert_int_equal(live, 0);
    test_ghost_finish(&t);
}

/* ------------------------------------------------------------------ refusals */

static void what_makes_no_sense_is_refused(void **state)
{
    static const struct {
        const char *model;
        struct plm_setting settings[2];
        struct plm_strategy strategy;
        const char *why;
    } rows[] = {
        { "nanogpt", { { 0 } }, { .parallel = { .cp = 2 } }, "does not say how its sequence" },
        { "llama",
          { { "layers", "1" }, { "attention", "eager" } },
          { .seq = 64, .parallel = { .cp = 2 } },
          "takes the place of scaled_dot_product_attention" },
        { "gpt2", /* whose modules accelerate's hook, which drops masks, does not know */
          { { "layers", "1" } },
          { .seq = 256,
            .precision = PLM_PRECISION_BF16,
            .checkpoint = PLM_CHECKPOINT_FULL,
            .parallel = { .cp = 2 } },
          "causal attention without a mask" },
        { "llama",
          { { "layers", "1" } },
          { .seq = 66, .parallel = { .cp = 2 } },
          "66 tokens are not a multiple of 2 × 2" },
        { "llama",
          { { "layers", "1" } },
          { .seq = 96, .parallel = { .cp = 2 } },
          "a rank's part must be a multiple of 64" },
        { "llama",
          { { "layers", "1" }, { "head_dim", "6" } },
          { .seq = 128, .parallel = { .cp = 2 } },
          "needs flash, memory-efficient or cuDNN attention" },
        { "llama",
          { { "layers", "1" } },
          { .seq = 128, .parallel = { .cp = 2, .pp = 2, .schedule = PLM_SCHEDULE_ZERO_BUBBLE } },
          "calls no hook of DistributedDataParallel" },
        { "llama",
          { { "layers", "1" } },
          { .seq = 128, .parallel = { .cp = 2, .fsdp1 = 2 } },
          "--cp and --fsdp1 are not combined" },
        { "llama",
          { { "layers", "1" } },
          { .seq = 128, .parallel = { .cp = 2, .tp = 2 } },
          "--fsdp N too" },
        { "llama",
          { { "layers", "1" } },
          { .seq = 128, .parallel = { .rotate = PLM_ROTATE_ALLTOALL } },
          "cp-rotate: needs --cp N" },
        { "llama",
          { { "layers", "1" } },
          { .seq = 128, .parallel = { .cp = 2, .rank = 2, .has_rank = true } },
          "rank: from 0 to 1" },
        { "megatron-gpt",
          { { "layers", "1" }, { "attention", "local" } },
          { .seq = 128, .parallel = { .cp = 2, .megatron = 1 } },
          "Megatron Core's own asserts context_parallel_size == 1" },
        { "llama",
          { { "layers", "1" } },
          { .seq = 128, .parallel = { .cp = 2, .megatron = 1 } },
          "need Transformer Engine's fused attention" },
        { "megatron-gpt",
          { { "layers", "1" }, { "attention", "fused" } },
          { .seq = 128, .precision = PLM_PRECISION_FP32, .parallel = { .cp = 2, .megatron = 1 } },
          "takes --precision bf16 and fp16 only" },
        { "megatron-gpt",
          { { "layers", "1" }, { "attention", "fused" } },
          { .seq = 126, .parallel = { .cp = 2, .megatron = 1 } },
          "126 tokens are not a multiple of 2 × 2" },
        { "megatron-gpt",
          { { "layers", "1" }, { "attention", "fused" } },
          { .seq = 128, .parallel = { .cp = 2, .megatron = 1, .rotate = PLM_ROTATE_ALLTOALL } },
          "needs PyTorch's ring attention" },
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct arena arena = { 0 };
        struct model_text text = { .file = rows[i].model };
        struct plm_strategy strategy = rows[i].strategy;
        struct subject subject = { 0 };
        struct simulation sim;
        struct plm_error error;
        char path[512];

        snprintf(path, sizeof path, TEST_SOURCE "/models/%s.yaml", rows[i].model);
        strategy.settings = rows[i].settings;
        while (strategy.setting_count < 2 && rows[i].settings[strategy.setting_count].name)
            strategy.setting_count++;
        if (file_read(path, 1 << 20, &arena, &text.text, &text.length, &error) ||
            model_load(&text, NULL, &arena, &subject.model, &error))
            fail_msg("%s", error.message);
        if (simulate(&subject, &strategy, 0, &sim, &error) != PLM_E_USAGE)
            fail_msg("row %zu is not refused: %s", i, rows[i].why);
        if (!strstr(error.message, rows[i].why))
            fail_msg("row %zu: '%s' does not say '%s'", i, error.message, rows[i].why);
        arena_finish(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_attends_with_half_of_its_queries_to_later_ranks),
        cmocka_unit_test(gathered_keys_and_values_come_once),
        cmocka_unit_test(rotated_keys_and_values_come_from_each_other_rank),
        cmocka_unit_test(gradients_go_once_around_the_ring),
        cmocka_unit_test(nothing_is_left_of_a_ring),
        cmocka_unit_test(what_makes_no_sense_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
