/* fully_shard and FullyShardedDataParallel: whole steps against recordings */
#include <string.h>

#include "support/steps.h"
#include "support/test.h"

static const char network[] = TEST_NETWORK("3, checkpoint: true, wrap: true");

/* the same with layers that tensor parallelism splits */
static const char split[] =
    "plimsoll: 1\n"
    "model: split\n"
    "defaults: {batch: 5}\n"
    "inputs:\n"
    "  x: {dtype: float32, shape: [batch, 130]}\n"
    "  labels: {dtype: int64, shape: [batch]}\n"
    "blocks:\n"
    "  layer:\n"
    "    in: [x]\n"
    "    nodes:\n"
    "      - {as: x, op: linear, in: x, features: 60, name: fc1, tensor_parallel: column}\n"
    "      - {as: x, op: relu, in: x}\n"
    "      - {as: x, op: linear, in: x, features: 130, bias: false, name: fc2,\n"
    "         tensor_parallel: row}\n"
    "    out: x\n"
    "  model:\n"
    "    in: [x]\n"
    "    nodes:\n"
    "      - {as: x, call: layer, in: x, name: h, repeat: 2, checkpoint: true, wrap: true}\n"
    "      - {as: x, op: linear, in: x, features: 10, bias: false, name: out}\n"
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
        test_steps_expect(strategy.parallel.tp > 0 ? split : network, &strategy, events);          \
    }
#include "fsdp-steps.def"
#undef CASE

/* ------------------------------------------------------------------ ranks and shards */

/* live_at() - bytes that are live at the mark @name; *ret_most, which may be NULL, is the most that was before */
static plm_bytes live_at(struct test_steps *f, const char *name, plm_bytes *ret_most)
{
    plm_bytes *bytes = arena_array(&f->arena, plm_bytes, f->schedule.allocation_count + 1);
    plm_bytes live = 0, most = 0;

    for (size_t i = 0; i < f->schedule.event_count; i++) {
        const struct event *e = &f->schedule.events[i];

        if (e->kind == EVENT_MARK && strcmp(f->schedule.marks[e->allocation].name, name) == 0) {
            if (ret_most)
                *ret_most = most;
            return live;
        }
        if (e->kind == EVENT_ALLOC) {
            bytes[e->allocation] = e->bytes;
            live += e->bytes;
        } else if (e->kind == EVENT_FREE) {
            live -= bytes[e->allocation];
        }
        most = live > most ? live : most;
    }
    fail_msg("there is no mark '%s'", name);
    return 0;
}

static void every_rank_holds_a_padded_shard(void **state)
{
    /* rows of a rank: 28 of 110, 3 of 10; rank 3 has 26 and 1, and as much memory */
    const plm_bytes layer = 4 * (28 * 110 + 3 * 28);
    const plm_bytes shards = 4 * (28 * 130 + 3 * 28) + 2 * layer + 4 * (3 * 110);

    for (int64_t rank = 0; rank < 4; rank += 3) {
        const struct plm_strategy s = { .parallel = { .fsdp = 4, .rank = rank } };
        struct test_steps f;

        assert_int_equal(test_steps_run(&f, network, &s), PLM_OK);
        assert_int_equal(live_at(&f, "fsdp_wrap", NULL), shards);
        arena_finish(&f.arena);
    }
}

/* ------------------------------------------------------------------ the host and the meta device */

static void a_model_that_is_not_loaded_whole_never_is(void **state)
{
    /* units: the first layer, two more, and the model's own `out` */
    const plm_bytes first = 4 * (110 * 130 + 3 * 110), layer = 4 * (110 * 110 + 3 * 110);
    const plm_bytes first_shard = 4 * (28 * 130 + 3 * 28), shard = 4 * (28 * 110 + 3 * 28);
    const plm_bytes out_shard = 4 * (3 * 110), all = first_shard + 2 * shard + out_shard;
    const struct {
        struct plm_parallel parallel;
        plm_bytes at_load, most;
    } rows[] = {
        { { .fsdp = 4 }, first + 2 * layer + 4 * 10 * 110, first + first_shard + 2 * layer + 4400 },
        { { .fsdp = 4, .load = PLM_LOAD_HOST }, 0, first_shard + 2 * shard + layer },
        { { .fsdp = 4, .load = PLM_LOAD_META }, 0, all },
        /* it has 26 rows, which are made, and 28 when a layer is there: the weight of the last while all else is short */
        { { .fsdp = 4, .load = PLM_LOAD_META, .rank = 3 },
          0,
          first_shard + shard + 4 * 26 * (110 + 3) + 4 * 28 * 110 },
        { { .fsdp = 4, .load = PLM_LOAD_META, .cpu_offload = true }, 0, 0 },
        /* of 14630 elements in the first layer and 12430 in another; one unit is there twice: as it comes, and flat */
        { { .fsdp1 = 4, .load = PLM_LOAD_HOST }, 0, 4 * (3658 + 2 * 3108) + 2 * layer },
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct plm_strategy s = { .parallel = rows[i].parallel };
        struct test_steps f;
        plm_bytes most;

        assert_int_equal(test_steps_run(&f, network, &s), PLM_OK);
        assert_int_equal(live_at(&f, "model_load", NULL), rows[i].at_load);
        (void)live_at(&f, "fsdp_wrap", &most);
        assert_int_equal(most, rows[i].most);
        arena_finish(&f.arena);
    }
}

/* ------------------------------------------------------------------ what is refused */

/* PyTorch: "got mixed torch.Tensor and DTensor" */
static void a_split_parameter_is_not_used_outside_of_its_unit(void **state)
{
    static const char text[] =
        "plimsoll: 1\nmodel: m\ninputs: {x: {dtype: float32, shape: [batch, 8]}}\n"
        "blocks:\n"
        "  unit:\n    in: [x]\n    nodes:\n"
        "      - {as: x, op: linear, in: x, features: 8, name: a}\n    out: x\n"
        "  model:\n    in: [x]\n    nodes:\n"
        "      - {as: x, call: unit, in: x, name: u, wrap: true}\n    out: x\n"
        "main:\n  in: [x]\n  nodes:\n"
        "    - {as: y, call: model, in: x}\n"
        "    - {as: y, op: linear, in: y, features: 8, name: b, tie: u.a.weight}\n"
        "    - {as: loss, op: sum, in: y}\n"
        "  out: loss\n";
    static const struct plm_strategy strategies[] = {
        { .parallel.fsdp = 2, .batch = 4 },
        { .parallel.fsdp = 2, .batch = 4, .eval = true },
    };

    for (size_t i = 0; i < 2; i++) {
        struct test_steps t;

        assert_int_equal(test_steps_create(&t, text, &strategies[i]), PLM_OK);
        assert_int_equal(train_load(t.run, &t.error), PLM_OK);
        assert_int_equal(train_step(t.run, &t.error), PLM_E_MODEL);
        assert_non_null(
            strstr(t.error.message, "'u.a.weight' is split over ranks where it is used"));
        test_steps_finish(&t);
    }
}

static void what_pytorch_refuses_is_refused(void **state)
{
    static const char scalar[] = "plimsoll: 1\n"
                                 "model: scalar\n"
                                 "inputs: {x: {dtype: float32, shape: [4, 8]}}\n"
                                 "blocks:\n"
                                 "  model:\n"
                                 "    in: [x]\n"
                                 "    nodes:\n"
                                 "      - {as: s, op: parameter, shape: [], name: scale}\n"
                                 "      - {as: y, op: mul, in: [x, s]}\n"
                                 "    out: y\n"
                                 "main:\n"
                                 "  in: [x]\n"
                                 "  nodes:\n"
                                 "    - {as: y, call: model, in: x}\n"
                                 "    - {as: loss, op: sum, in: y}\n"
                                 "  out: loss\n";

    static const char tied[] = "plimsoll: 1\n"
                               "model: tied\n"
                               "inputs: {x: {dtype: float32, shape: [4, 8]}}\n"
                               "blocks:\n"
                               "  model:\n"
                               "    in: [x]\n"
                               "    nodes:\n"
                               "      - {as: y, op: linear, in: x, features: 8, name: fc}\n"
                               "      - {as: y, op: linear, in: y, features: 8, bias: false,\n"
                               "         name: out, tie: fc.weight}\n"
                               "    out: y\n"
                               "main:\n"
                               "  in: [x]\n"
                               "  nodes:\n"
                               "    - {as: y, call: model, in: x}\n"
                               "    - {as: loss, op: sum, in: y}\n"
                               "  out: loss\n";

    test_steps_refused(&(struct plm_strategy){ .parallel = { .fsdp = 2 } }, scalar,
                       "'scale', which is a scalar");
    test_steps_refused(&(struct plm_strategy){ .parallel = { .fsdp = 2 }, .channels_last = true },
                       network, "contiguous parameters only");
    test_steps_refused(
        &(struct plm_strategy){ .parallel = { .fsdp = 2 }, .optimizer = PLM_OPTIMIZER_ADAFACTOR },
        network, "Adafactor does not run");
    test_steps_refused(
        &(struct plm_strategy){
            .parallel = { .fsdp = 6, .reshard = PLM_RESHARD_TO, .reshard_to = 4 } },
        network, "4 must divide the 6 ranks");
    test_steps_refused(
        &(struct plm_strategy){ .parallel = { .fsdp = 2, .tp = 2 }, .clip_grad_norm = 1 }, split,
        "on two meshes");
    test_steps_refused(&(struct plm_strategy){ .parallel = { .fsdp1 = 1 } }, network,
                       "shards nothing");
    test_steps_refused(
        &(struct plm_strategy){ .parallel = { .fsdp = 2, .hsdp_replicate = 2, .hsdp_shard = 2 } },
        network, "--fsdp and --hsdp exclude each other");
    test_steps_refused(&(struct plm_strategy){ .parallel = { .fsdp = 2, .rank = 2 } }, network,
                       "rank: from 0 to 1");
    test_steps_refused(
        &(struct plm_strategy){ .parallel = { .fsdp1 = 2, .rank = 2, .has_rank = true } }, network,
        "rank: from 0 to 1");
    test_steps_refused(&(struct plm_strategy){ .parallel = { .rank = 1 } }, network,
                       "rank: from 0 to 0");
    test_steps_refused(
        &(struct plm_strategy){
            .parallel = { .fsdp1 = 4, .reshard = PLM_RESHARD_TO, .reshard_to = 2 } },
        network, "FULL_SHARD");
    test_steps_refused(
        &(struct plm_strategy){ .parallel = { .fsdp1 = 4, .reshard = PLM_RESHARD_BUT_LAST } },
        network, "FULL_SHARD");
    test_steps_refused(&(struct plm_strategy){ .parallel = { .fsdp1 = 2 }, .frozen = "fc.bias" },
                       network, "not frozen as it is");
    test_steps_refused(&(struct plm_strategy){ .parallel = { .fsdp1 = 2, .fsdp = 2 } }, network,
                       "exclude each other");
    test_steps_refused(&(struct plm_strategy){ .parallel = { .fsdp1 = 2, .load = PLM_LOAD_META } },
                       tied,
                       "load: from the meta device FullyShardedDataParallel makes 'fc.weight'");
}

/* made() - allocations of @bytes in two steps */
static unsigned made(enum plm_reshard reshard, plm_bytes bytes)
{
    const struct plm_strategy strategy = { .parallel = { .fsdp = 2, .reshard = reshard } };
    struct test_steps t;
    unsigned count = 0;

    assert_int_equal(test_steps_run(&t, network, &strategy), PLM_OK);
    const struct ghost *g = train_ghost(t.run);

    for (size_t i = 1; i < g->record_count; i++)
        count += g->records[i].bytes == bytes;
    test_steps_finish(&t);
    return count;
}

static void the_last_unit_is_gathered_once_a_step(void **state)
{
    const plm_bytes gathered = 4 * (110 * 110 + 3 * 110); /* of the second layer, and of the last */
    const unsigned reduced = 2;                           /* their gradients, of the same size */

    assert_int_equal(made(PLM_RESHARD_DEFAULT, gathered), 2 * (4 + reduced));
    assert_int_equal(made(PLM_RESHARD_BUT_LAST, gathered), 2 * (3 + reduced));
    assert_int_equal(made(PLM_RESHARD_FALSE, gathered), 2 * (2 + reduced));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define CASE(name, strategy, events) cmocka_unit_test(name),
#include "fsdp-steps.def"
#undef CASE
        cmocka_unit_test(the_last_unit_is_gathered_once_a_step),
        cmocka_unit_test(every_rank_holds_a_padded_shard),
        cmocka_unit_test(a_model_that_is_not_loaded_whole_never_is),
        cmocka_unit_test(a_split_parameter_is_not_used_outside_of_its_unit),
        cmocka_unit_test(what_pytorch_refuses_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
