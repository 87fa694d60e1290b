/*
 * DistributedDataParallel and ZeroRedundancyOptimizer: whole steps against recordings, buckets and ranks by their rules
 */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "support/steps.h"
#include "support/test.h"
#include "train/ddp_buckets.h"
#include "train/zero_optimizer.h"

/* ------------------------------------------------------------------ whole steps */

static const char network[] =
    "plimsoll: 1\n"
    "model: network\n"
    "defaults: {batch: 5}\n"
    "inputs:\n"
    "  x: {dtype: float32, shape: [batch, 3, 8, 8]}\n"
    "  labels: {dtype: int64, shape: [batch]}\n"
    "blocks:\n"
    "  layer:\n"
    "    in: [x]\n"
    "    nodes:\n"
    "      - {as: h, op: conv2d, in: x, channels: 8, kernel: 3, bias: false, name: conv}\n"
    "      - {as: h, op: batch_norm, in: h, name: norm}\n"
    "      - {as: h, op: relu, in: h}\n"
    "    out: h\n"
    "  model:\n"
    "    in: [x]\n"
    "    nodes:\n"
    "      - {as: x, call: layer, in: x, name: stem}\n"
    "      - {as: x, op: flatten, in: x, start_dim: 1}\n"
    "      - {as: x, op: linear, in: x, features: 1200, name: fc1}\n"
    "      - {as: x, op: relu, in: x}\n"
    "      - {as: x, op: linear, in: x, features: 10, bias: false, name: fc2}\n"
    "    out: x\n"
    "main:\n"
    "  in: [x, labels]\n"
    "  nodes:\n"
    "    - {as: logits, call: model, in: x}\n"
    "    - {as: loss, op: cross_entropy, in: [logits, labels]}\n"
    "  out: [loss, logits]\n";

#define ARGS(...)                                                                                  \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define CASE(name, strategy_, events)                                                              \
    static void name(void **state)                                                                 \
    {                                                                                              \
        static const struct plm_strategy strategy = strategy_;                                     \
        test_steps_expect(network, &strategy, events);                                             \
    }
#include "ddp-steps.def"
#undef CASE

static void outputs_are_cloned_where_parameters_may_be_unused(void **state)
{
    static const struct plm_strategy strategy = {
        .parallel = { .ddp = 2, .find_unused_parameters = true },
        .optimizer = PLM_OPTIMIZER_SGD,
    };
    /* --dtype fp32 --opt sgd --ddp 2, find_unused_parameters=True, and a Linear(7, 9) that forward leaves alone */
    static const char events[] =
        "+864 +32 +32 +32 +32 +8 +1382400 +4800 +252 +36 +48000 +8 +8 +8 +224 -8 -8 -8 -224 "
        "+1436480 -1436480 +53088 +1383328 +32 +3840 +40 +64 -64 +5760 +5760 +32 +32 +5760 "
        "-5760 +24000 +1048576 -1048576 +24000 -24000 +200 +8519680 -8519680 +200 -200 +200 "
        "+4 +4 -200 +4 +200 -4 +200 -200 -200 +48000 +8519680 -8519680 +24000 +8519680 -200 "
        "-8519680 +24000 -24000 -24000 +5760 +8519680 -8519680 +1382400 +8519680 -8519680 "
        "+4800 -24000 +5760 -5760 -5760 +5760 +32 +32 -32 -32 -5760 -5760 +864 -4 -4 -32 -32 "
        "-40 -864 -3840 -4800 -5760 -48000 -1382400 +3840 +40 +64 -64 +5760 +5760 +32 +32 "
        "+5760 -5760 +24000 +1048576 -1048576 +24000 -24000 +200 +8519680 -8519680 +200 -200 "
        "+200 +4 +4 -200 +4 +200 -4 +200 -200 -200 +48000 +8519680 -8519680 +24000 +8519680 "
        "-200 -8519680 +24000 -24000 -24000 +5760 +8519680 -8519680 +1382400 +8519680 "
        "-8519680 +4800 -24000 +5760 -5760 -5760 +5760 +32 +32 -32 -32 -5760 -5760 +864 -4 -4 "
        "-32 -32 -40 -864 -3840 -4800 -5760 -48000 -1382400";
    static const char before[] = "      - {as: x, op: linear, in: x, features: 10";
    static const char idle[] = "      - {as: w, op: parameter, name: idle.weight, shape: [9, 7]}\n"
                               "      - {as: w, op: parameter, name: idle.bias, shape: [9]}\n";
    size_t head = (size_t)(strstr(network, before) - network);
    char text[sizeof network + sizeof idle];
    struct test_steps f;

    snprintf(text, sizeof text, "%.*s%s%s", (int)head, network, idle, network + head);
    if (test_steps_run(&f, text, &strategy))
        fail_msg("%s", f.error.message);
    assert_string_equal(test_steps_text(&f), events);
    arena_finish(&f.arena);
}

/* ------------------------------------------------------------------ buckets */

struct tensors {
    struct arena arena;
    struct names names;
    struct ghost ghost;
    struct tensor *items[16];
    size_t count;
};

static void tensors_start(struct tensors *t)
{
    const struct surroundings around = { .framework = framework_find("pytorch-2.15") };

    *t = (struct tensors){ 0 };
    ghost_init(&t->ghost, &t->arena, &t->names, NULL, &around);
}

static void add_tensor(struct tensors *t, enum dtype dtype, int64_t numel)
{
    t->items[t->count++] = tensor_new_sizes(&t->ghost, dtype, numel);
}

/* buckets_text() - "0,1;2": members of each */
static const char *buckets_text(struct tensors *t,
                                const uint32_t *order,
                                struct bucket_limits limits)
{
    struct buckets b = buckets_assign(&t->arena, t->items, order, t->count, limits);
    struct buf out = { .arena = &t->arena };

    for (size_t i = 0; i < b.count; i++)
        for (size_t k = 0; k < b.items[i].member_count; k++)
            buf_printf(&out, "%s%u", k ? "," : i ? ";" : "", b.items[i].members[k]);
    return buf_string(&out);
}

static void tensors_finish(struct tensors *t)
{
    for (size_t i = 0; i < t->count; i++)
        tensor_drop(t->items[i]);
    arena_finish(&t->arena);
}

static void a_bucket_closes_with_the_tensor_that_reaches_the_limit(void **state)
{
    static const uint32_t order[] = { 3, 2, 1, 0 };
    struct tensors t;

    tensors_start(&t);
    for (int i = 0; i < 4; i++)
        add_tensor(&t, DTYPE_FLOAT32, 10); /* 40 bytes */
    assert_string_equal(buckets_text(&t, order, (struct bucket_limits){ 40, 41 }), "3;2,1;0");
    assert_string_equal(buckets_text(&t, order, (struct bucket_limits){ 41, 41 }), "3,2;1,0");
    assert_string_equal(buckets_text(&t, NULL, (struct bucket_limits){ 1, 81 }), "0;1,2,3");
    tensors_finish(&t);
}

static void each_dtype_has_buckets_and_a_first_limit_of_its_own(void **state)
{
    static const uint32_t order[] = { 0, 1, 2, 3, 4 };
    struct tensors t;

    tensors_start(&t);
    add_tensor(&t, DTYPE_FLOAT32, 10);
    add_tensor(&t, DTYPE_BFLOAT16, 20);
    add_tensor(&t, DTYPE_FLOAT32, 10);
    add_tensor(&t, DTYPE_BFLOAT16, 20);
    add_tensor(&t, DTYPE_FLOAT32, 10);
    assert_string_equal(buckets_text(&t, order, (struct bucket_limits){ 40, 80 }), "0;1;2,4;3");
    /* in the tensors' own order the last of each dtype are sorted in by their first members */
    assert_string_equal(buckets_text(&t, NULL, (struct bucket_limits){ 80, 80 }), "0,2;1,3;4");
    tensors_finish(&t);
}

/* ------------------------------------------------------------------ ranks */

static void the_largest_parameter_goes_to_the_rank_that_has_least(void **state)
{
    /* what ZeroRedundancyOptimizer._partition_parameters() of PyTorch 2.15 makes of these sizes over three ranks */
    static const int64_t numels[] = { 4, 10, 4, 6, 1, 10, 3 };
    static const uint32_t ranks[] = { 2, 0, 0, 2, 2, 1, 1 };
    struct arena arena = { 0 };
    uint32_t order[7], rank[7];
    int64_t load[3];

    zero_optimizer_assign(numels, 7, 3, &arena, order, rank, load);
    for (int i = 0; i < 7; i++)
        assert_int_equal(rank[i], ranks[i]);
    assert_int_equal(order[0], 1); /* the earlier of equals */
    assert_int_equal(order[1], 5);
    assert_int_equal(load[0] + load[1] + load[2], 38);
    arena_finish(&arena);
}

/* ------------------------------------------------------------------ what is refused */

/* a model with a parameter that gets no gradient */
static const char unused[] = "plimsoll: 1\n"
                             "model: unused\n"
                             "inputs: {x: {dtype: float32, shape: [4, 8]}}\n"
                             "blocks:\n"
                             "  model:\n"
                             "    in: [x]\n"
                             "    nodes:\n"
                             "      - {as: y, op: linear, in: x, features: 8, name: used}\n"
                             "      - {as: z, op: linear, in: x, features: 8, name: idle}\n"
                             "    out: y\n"
                             "main:\n"
                             "  in: [x]\n"
                             "  nodes:\n"
                             "    - {as: y, call: model, in: x}\n"
                             "    - {as: loss, op: sum, in: y}\n"
                             "  out: loss\n";

static void what_pytorch_refuses_is_refused(void **state)
{
    test_steps_refused(&(struct plm_strategy){ .parallel = { .ddp = 2 } }, unused,
                       "'idle.weight' gets no gradient");
    test_steps_refused(&(struct plm_strategy){ .parallel = { .ddp = 2, .zero_optimizer = 4 } },
                       network, "zero-redundancy: works over the ranks of ddp, 2 and not 4");
    test_steps_refused(&(struct plm_strategy){ .parallel = { .ddp = 1 << 20 } }, network,
                       "at most 65536 ranks");
    test_steps_refused(&(struct plm_strategy){ .parallel = { .zero_optimizer = 2 },
                                               .optimizer = PLM_OPTIMIZER_NONE },
                       network, "there is no optimizer to share");
    test_steps_refused(&(struct plm_strategy){ .parallel = { .ddp = 2, .fsdp = 2 } }, network,
                       "exclude each other");
    test_steps_refused(
        &(struct plm_strategy){
            .parallel = { .ddp = 2, .static_graph = true, .find_unused_parameters = true } },
        network, "finds unused parameters by itself");
    test_steps_refused(
        &(struct plm_strategy){ .accumulate = 2, .parallel = { .ddp = 2, .static_graph = true } },
        network, "with no_sync() PyTorch reduces the gradients of the first");
}

static void a_static_graph_allows_parameters_without_gradients(void **state)
{
    const struct plm_strategy s = { .parallel = { .ddp = 2, .static_graph = true } };
    struct test_steps t;

    if (test_steps_run(&t, unused, &s))
        fail_msg("%s", t.error.message);
    test_steps_finish(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define CASE(name, strategy, events) cmocka_unit_test(name),
#include "ddp-steps.def"
#undef CASE
        cmocka_unit_test(outputs_are_cloned_where_parameters_may_be_unused),
        cmocka_unit_test(a_bucket_closes_with_the_tensor_that_reaches_the_limit),
        cmocka_unit_test(each_dtype_has_buckets_and_a_first_limit_of_its_own),
        cmocka_unit_test(the_largest_parameter_goes_to_the_rank_that_has_least),
        cmocka_unit_test(what_pytorch_refuses_is_refused),
        cmocka_unit_test(a_static_graph_allows_parameters_without_gradients),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
