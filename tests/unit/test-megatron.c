/*
 * Megatron-LM's training: where parameters are in the buffer, what each rank has of it, what the model's layers make, and what is
 * refused. Whole runs are held against megatron-core's in tests/reference.
 */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "support/steps.h"
#include "support/test.h"
#include "train/megatron_layout.h"
#include "train/megatron_order.h"

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

/* ------------------------------------------------------------------ the pipeline's order */

static const struct pipeline_shape pp4_vp2 = {
    .schedule = PLM_SCHEDULE_INTERLEAVED, .ranks = 4, .local = 2, .micros = 8
};

/* order() - "F0.1 B1.0 …": of a rank, by local stage and micro-batch */
static const char *order(const struct pipeline_shape *shape, int32_t rank, struct arena *arena)
{
    struct action_list list = { 0 };
    struct buf text = { .arena = arena };

    megatron_computes(shape, rank, arena, &list);
    for (size_t i = 0; i < list.count; i++)
        buf_printf(&text, "%s%s%d.%d", i ? " " : "", action_marks[list.actions[i].kind],
                   list.actions[i].stage / shape->ranks, list.actions[i].micro);
    return buf_string(&text);
}

static void groups_go_through_a_ranks_stages_in_turn(void **state)
{
    /* get_schedule_table()'s own example: PP2 N3M5 with VP2 */
    const struct pipeline_shape shape = {
        .schedule = PLM_SCHEDULE_INTERLEAVED, .ranks = 2, .local = 2, .micros = 5, .group = 3
    };
    const int32_t micros[] = { 0, 1, 2, 0, 1, 2, 3, 4, 3, 4 };
    const int32_t locals[] = { 0, 0, 0, 1, 1, 1, 0, 0, 1, 1 };
    struct arena arena = { 0 };

    for (int32_t k = 0; k < 10; k++) {
        assert_int_equal(megatron_forward_turn(&shape, k).micro, micros[k]);
        assert_int_equal(megatron_forward_turn(&shape, k).local, locals[k]);
        assert_int_equal(megatron_backward_turn(&shape, k).local, 1 - locals[k]);
    }
    assert_string_equal(order(&shape, 1, &arena),
                        "F0.0 F0.1 F0.2 F1.0 B1.0 F1.1 B1.1 F1.2 B1.2 F0.3 B0.0 F0.4 B0.1 F1.3 "
                        "B0.2 F1.4 B1.3 B1.4 B0.3 B0.4");
    arena_finish(&arena);
}

/* arXiv 2104.04473, and get_pp_rank_microbatches(): (V - 1) P + 2 (P - 1 - rank), and the one right before its backward */
static void micro_batches_in_flight_are_those_of_the_paper(void **state)
{
    struct arena arena = { 0 };

    for (int32_t rank = 0; rank < 4; rank++) {
        struct action_list list = { 0 };

        megatron_computes(&pp4_vp2, rank, &arena, &list);
        assert_int_equal(list.count, 2 * 8 * 2);
        assert_int_equal(pipeline_in_flight(&list), 4 + 2 * (3 - rank) + 1);
    }
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

/* ------------------------------------------------------------------ Float16Module */

static void what_the_model_is_given_and_returns_is_converted(void **state)
{
    static const char network[] = TEST_NETWORK("2");
    const struct plm_strategy s = {
        .parallel = { .megatron = 1 },
        .precision = PLM_PRECISION_BF16,
        .optimizer = PLM_OPTIMIZER_SGD,
    };
    struct test_steps t;

    assert_int_equal(test_steps_run(&t, network, &s), PLM_OK);
    assert_int_equal(made(&t, 4 * 5 * 130), 1); /* the batch's x, as it is … */
    assert_int_equal(made(&t, 2 * 5 * 130), 1); /* … and as the model is given it */
    /* the logits in float32, their log-softmax, and the gradients of both */
    assert_int_equal(made(&t, 4 * 5 * 10), 4);
    test_steps_finish(&t);
}

static void only_the_first_stage_is_given_another_type(void **state)
{
    static const char network[] = TEST_NETWORK("2, wrap: true");
    struct plm_strategy s = {
        .parallel = { .megatron = 1, .pp = 2, .microbatches = 2, .has_rank = true },
        .precision = PLM_PRECISION_BF16,
        .optimizer = PLM_OPTIMIZER_SGD,
    };
    struct test_steps t;

    assert_int_equal(test_steps_run(&t, network, &s), PLM_OK);
    assert_int_equal(made(&t, 2 * 5 * 130),
                     2); /* x of both micro-batches, before the first backward */
    test_steps_finish(&t);
    s.parallel.rank = 1;
    assert_int_equal(test_steps_run(&t, network, &s), PLM_OK);
    assert_int_equal(made(&t, 2 * 5 * 130), 0);
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
    test_steps_refused(
        &(struct plm_strategy){
            .parallel = { .megatron = 1, .recompute = PLM_RECOMPUTE_SELECTIVE } },
        layers, "Megatron's own attention");
}

#define ATTENTION_OF_PARTS(cut, name)                                                              \
    "plimsoll: 1\n"                                                                                \
    "model: parts\n"                                                                               \
    "inputs: {x: {dtype: float32, shape: [8, 2, 1, 48]}}\n"                                        \
    "blocks:\n"                                                                                    \
    "  model:\n"                                                                                   \
    "    in: [x]\n"                                                                                \
    "    nodes: [{as: y, op: fused_attention, in: x, query_heads: 1, size: 16}]\n"                 \
    "    out: y\n"                                                                                 \
    "main:\n"                                                                                      \
    "  in: [x]\n"                                                                                  \
    "  nodes: [" cut "{as: y, call: model, in: " name "}, {as: loss, op: sum, in: y}]\n"           \
    "  out: [loss]\n"

static void what_context_parallelism_does_not_cut_is_refused(void **state)
{
    static const struct plm_strategy s = {
        .seq = 8,
        .parallel = { .megatron = 1, .cp = 2 },
        .precision = PLM_PRECISION_BF16,
    };

    test_steps_refused(&s, layers, "need Transformer Engine's fused attention");
    test_steps_refused(&s, ATTENTION_OF_PARTS("", "x"), "how its sequence is shared");
    test_steps_refused(
        &s,
        ATTENTION_OF_PARTS("{as: z, op: alias, in: x}, {op: context_parallel, in: z, dim: 0}, ",
                           "z"),
        "inputs of main only");
}

#define REFUSE(text, ...)                                                                          \
    test_steps_refused(&(struct plm_strategy){ .parallel = { .megatron = 1, __VA_ARGS__ } }, four, \
                       text)

static void what_its_pipelines_do_not_do_is_refused(void **state)
{
    static const char four[] = TEST_NETWORK("4, checkpoint: true, wrap: true");

    REFUSE("neither gpipe nor", .pp = 2, .schedule = PLM_SCHEDULE_GPIPE);
    REFUSE("neither gpipe nor", .pp = 2, .schedule = PLM_SCHEDULE_ZERO_BUBBLE);
    REFUSE("4 layers evenly, which 3 stages do not", .pp = 3);
    REFUSE("leave 1 for the last", .pp = 2, .schedule = PLM_SCHEDULE_INTERLEAVED,
           .virtual_stages = 2, .microbatches = 5);
    REFUSE("from the 2 stages of --pp to all 4", .pp = 2, .schedule = PLM_SCHEDULE_INTERLEAVED,
           .virtual_stages = 2, .microbatches = 4, .microbatch_group = 5);
    REFUSE("chunks of 3 do not divide 4 layers", .recompute = PLM_RECOMPUTE_FULL,
           .recompute_layers = 3);
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
        cmocka_unit_test(groups_go_through_a_ranks_stages_in_turn),
        cmocka_unit_test(micro_batches_in_flight_are_those_of_the_paper),
        cmocka_unit_test(what_the_model_is_given_and_returns_is_converted),
        cmocka_unit_test(only_the_first_stage_is_given_another_type),
        cmocka_unit_test(what_megatron_does_not_do_is_refused),
        cmocka_unit_test(what_context_parallelism_does_not_cut_is_refused),
        cmocka_unit_test(what_its_pipelines_do_not_do_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
