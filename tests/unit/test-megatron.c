/*
 * Megatron-LM's training: where parameters are in the buffer, what each rank has of it, what the model's layers make, and what is
 * refused. Whole runs are held against megatron-core's in tests/reference.
 */
#include <stdio.h>
#include <string.h>

#include "support/steps.h"
#include "support/test.h"
#include "train/megatron_layout.h"

/* ------------------------------------------------------------------ the buffer */

static void without_a_distributed_optimizer_nothing_is_padded(void **state)
{
    const int64_t numels[] = { 1000, 7, 300 };
    const bool alone[] = { false, false, false };
    const struct buffer_shape shape = { numels, alone, 3, .ranks = 8 };
    struct arena arena = { 0 };
    struct buffer_layout layout;

    buffer_layout(&shape, &arena, &layout);
    assert_int_equal(layout.numel, 1307);
    assert_int_equal(layout.params[2].begin, 0); /* the last parameter is first */
    assert_int_equal(layout.params[1].begin, 300);
    assert_int_equal(layout.params[0].begin, 307);
    assert_int_equal(layout.bucket_count, 1);
    arena_finish(&arena);
}

static void parameters_begin_at_64_and_buckets_end_at_multiples_of_ranks_and_128(void **state)
{
    const int64_t numels[] = { 1000, 7, 300 };
    const bool alone[] = { false, false, false };
    const struct buffer_shape shape = { numels, alone, 3, .ranks = 6, .sharded = true };
    struct arena arena = { 0 };
    struct buffer_layout layout;

    buffer_layout(&shape, &arena, &layout);
    assert_int_equal(layout.params[1].begin, 320); /* 300, padded */
    assert_int_equal(layout.params[0].begin, 384); /* 327, padded */
    assert_int_equal(layout.numel, 1536);          /* 1384 to a multiple of lcm(6, 128) = 384 */
    arena_finish(&arena);
}

static void a_bucket_closes_when_it_is_full_and_a_shared_embedding_is_alone(void **state)
{
    const int64_t numels[] = { 500, 100, 100, 100 };
    const bool alone[] = { true, false, false, false };
    const struct buffer_shape shape = { numels,         alone, 4, .ranks = 2, .bucket_size = 200,
                                        .sharded = true };
    struct arena arena = { 0 };
    struct buffer_layout layout;

    buffer_layout(&shape, &arena, &layout);
    assert_int_equal(layout.bucket_count, 3);
    assert_int_equal(layout.buckets[0].end, 256); /* 100 at 0 and 100 at 128 */
    assert_int_equal(layout.buckets[1].end, 384);
    assert_int_equal(layout.buckets[2].begin, 384);
    assert_int_equal(layout.bucket_of[0], 2);
    arena_finish(&arena);
}

static void ranks_have_equal_parts_that_cut_parameters(void **state)
{
    const int64_t numels[] = { 1000, 7, 300 };
    const bool alone[] = { false, false, false };
    const struct buffer_shape shape = { numels, alone, 3, .ranks = 2, .sharded = true };
    struct arena arena = { 0 };
    struct buffer_layout layout;
    int64_t sum = 0;

    buffer_layout(&shape, &arena, &layout); /* 1408 elements: parts of 704 */
    for (int64_t rank = 0; rank < 2; rank++)
        for (size_t i = 0; i < 3; i++) {
            struct buffer_range part = buffer_part(&layout, i, rank, 2);

            sum += part.end > part.begin ? part.end - part.begin : 0;
        }
    assert_int_equal(layout.numel, 1408);
    assert_int_equal(sum, 1307);
    assert_int_equal(buffer_part(&layout, 0, 0, 2).end, 704);
    assert_int_equal(buffer_part(&layout, 0, 1, 2).begin, 704);
    assert_true(buffer_part(&layout, 2, 1, 2).begin >= buffer_part(&layout, 2, 1, 2).end);
    arena_finish(&arena);
}

/* ------------------------------------------------------------------ the layers */

/* [seq, batch, width] = [8, 2, 16]: a column and a row layer between sequence-parallel regions */
static const char layers[] =
    "plimsoll: 1\n"
    "model: layers\n"
    "inputs:\n"
    "  x: {dtype: float32, shape: [4, 2, 16]}\n"
    "blocks:\n"
    "  model:\n"
    "    in: [x]\n"
    "    nodes:\n"
    "      - {as: w, op: parameter, name: fc1.weight, shape: [64, 16], tensor_parallel: column}\n"
    "      - {as: h, op: parallel_linear, in: [x, w], tensor_parallel: column}\n"
    "      - {as: w, op: parameter, name: fc2.weight, shape: [16, 64], tensor_parallel: row}\n"
    "      - {as: y, op: parallel_linear, in: [h, w], tensor_parallel: row}\n"
    "    out: y\n"
    "main:\n"
    "  in: [x]\n"
    "  nodes:\n"
    "    - {as: y, call: model, in: x, del: x}\n"
    "    - {as: loss, op: sum, in: y}\n"
    "  out: [loss]\n";

/* made() - how many allocations of @bytes forward and backward of the first step make */
static unsigned made(struct test_steps *t, plm_bytes bytes)
{
    unsigned count = 0;

    for (size_t i = 0; i < t->schedule.event_count; i++) {
        const struct event *e = &t->schedule.events[i];

        if (e->kind == EVENT_MARK &&
            strcmp(t->schedule.marks[e->allocation].name, "optimizer_init") == 0)
            count = 0;
        else if (e->kind == EVENT_ALLOC)
            count += e->bytes == bytes;
        else if (e->kind == EVENT_MARK && strcmp(t->schedule.marks[e->allocation].name, "bwd") == 0)
            return count;
    }
    return count;
}

static void a_gathered_input_is_made_once_and_only_the_shard_is_kept(void **state)
{
    const struct plm_strategy s = {
        .parallel = { .megatron = 1, .tp = 2, .sequence_parallel = true },
        .optimizer = PLM_OPTIMIZER_SGD,
    };
    const plm_bytes gathered = 4 * (8 * 2 * 16);
    struct test_steps t;

    assert_int_equal(test_steps_run(&t, layers, &s), PLM_OK);
    /* the buffer, which forward and backward both gather into; the row layer's product, that is scattered; the gathered
       gradient of that; the column layer's input gradient, that is scattered */
    assert_int_equal(made(&t, gathered), 4);
    test_steps_finish(&t);
}

static void without_sequence_parallelism_all_reduces_are_in_place(void **state)
{
    const struct plm_strategy s = {
        .parallel = { .megatron = 1, .tp = 2 },
        .optimizer = PLM_OPTIMIZER_SGD,
    };
    struct test_steps t;

    assert_int_equal(test_steps_run(&t, layers, &s), PLM_OK);
    /* input, row layer's product, the sum's expanded gradient copied for each of two products, column layer's input gradient */
    assert_int_equal(made(&t, 4 * (4 * 2 * 16)), 5);
    test_steps_finish(&t);
}

/* ------------------------------------------------------------------ what is refused */

static void what_megatron_does_not_do_is_refused(void **state)
{
    static const char dtensor[] =
        "plimsoll: 1\n"
        "model: dtensor\n"
        "inputs: {x: {dtype: float32, shape: [4, 16]}}\n"
        "blocks:\n"
        "  model:\n"
        "    in: [x]\n"
        "    nodes: [{as: y, op: linear, in: x, features: 16, name: fc, tensor_parallel: column}]\n"
        "    out: y\n"
        "main:\n"
        "  in: [x]\n"
        "  nodes: [{as: y, call: model, in: x}, {as: loss, op: sum, in: y}]\n"
        "  out: [loss]\n";

    test_steps_refused(&(struct plm_strategy){ .parallel = { .megatron = 3, .rank = 3 } }, layers,
                       "rank: from 0 to 2");
    test_steps_refused(&(struct plm_strategy){ .parallel = { .megatron = 1 }, .eval = true },
                       layers, "only training");
    test_steps_refused(&(struct plm_strategy){ .parallel = { .megatron = 1 },
                                               .precision = PLM_PRECISION_AMP_BF16 },
                       layers, "no autocast");
    test_steps_refused(&(struct plm_strategy){ .parallel = { .megatron = 1 }, .frozen = "fc1" },
                       layers, "--frozen");
    test_steps_refused(
        &(struct plm_strategy){ .parallel = { .megatron = 1 }, .zero_grad = PLM_ZERO_GRAD_ZERO },
        layers, "zeroed in their buffer");
    test_steps_refused(
        &(struct plm_strategy){ .parallel = { .megatron = 1 }, .keep_outputs = true }, layers,
        "--keep-outputs");
    test_steps_refused(&(struct plm_strategy){ .parallel = { .megatron = 1 },
                                               .optimizer = PLM_OPTIMIZER_ADAFACTOR },
                       layers, "its optimizers are");
    test_steps_refused(
        &(struct plm_strategy){ .parallel = { .megatron = 1, .sequence_parallel = true } }, layers,
        "several ranks of --tp");
    test_steps_refused(
        &(struct plm_strategy){ .parallel = { .megatron = 1, .recompute = PLM_RECOMPUTE_FULL },
                                .checkpoint = PLM_CHECKPOINT_FULL },
        layers, "--recompute selective or full");
    test_steps_refused(&(struct plm_strategy){ .parallel = { .megatron = 1, .tp = 2 } }, dtensor,
                       "not Megatron's");
    test_steps_refused(&(struct plm_strategy){ .parallel = { .tp = 2 } }, layers,
                       "with --megatron N");
    test_steps_refused(&(struct plm_strategy){ .parallel = { .megatron = 1, .ddp = 2 } }, layers,
                       "exclude each other");
    test_steps_refused(&(struct plm_strategy){ .parallel = { .megatron = 1, .tp = 3 } }, layers,
                       "cannot be split evenly");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_distributed_optimizer_nothing_is_padded),
        cmocka_unit_test(parameters_begin_at_64_and_buckets_end_at_multiples_of_ranks_and_128),
        cmocka_unit_test(a_bucket_closes_when_it_is_full_and_a_shared_embedding_is_alone),
        cmocka_unit_test(ranks_have_equal_parts_that_cut_parameters),
        cmocka_unit_test(a_gathered_input_is_made_once_and_only_the_shard_is_kept),
        cmocka_unit_test(without_sequence_parallelism_all_reduces_are_in_place),
        cmocka_unit_test(what_megatron_does_not_do_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
