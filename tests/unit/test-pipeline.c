/* pipelines: orders and whole steps against recordings, what a cut gives each stage, and what is refused */
#include "base/buf.h"
#include "support/steps.h"
#include "support/test.h"
#include "train/pipeline_order.h"

/* ------------------------------------------------------------------ orders */

static const char *order(const struct pipeline_shape *shape, int32_t rank, struct arena *arena)
{
    struct action_list list = { 0 };
    struct buf text = { .arena = arena };
    struct plm_error error;

    if (pipeline_check(shape, &error))
        fail_msg("%s", error.message);
    pipeline_lower(shape, rank, arena, &list);
    for (size_t i = 0; i < list.count; i++) {
        const struct action *a = &list.actions[i];

        buf_printf(&text, "%s%d%s", i ? " " : "", a->stage, action_marks[a->kind]);
        if (a->micro >= 0)
            buf_printf(&text, "%d", a->micro);
    }
    return buf_string(&text);
}

/* as pipeline_order_with_comms of torch.distributed.pipelining 2.15 printed them */
static void lowered_orders_are_those_of_pytorch(void **state)
{
    static const struct {
        struct pipeline_shape shape;
        int32_t rank;
        const char *order;
    } rows[] = {
        { { PLM_SCHEDULE_INTERLEAVED, 2, 2, 2, 0 },
          1,
          "1UNSHARD 3UNSHARD 1RECV_F0 1F0 1SEND_F0 1RECV_F1 1F1 1SEND_F1 3RECV_F0 3F0 3RECV_F1 "
          "3B0 3SEND_B0 1RECV_B0 3F1 3B1 3SEND_B1 1RECV_B1 3REDUCE_GRAD 3WAIT_REDUCE_GRAD "
          "3RESHARD 1B0 1WAIT_SEND_F0 1SEND_B0 1B1 1WAIT_SEND_F1 1SEND_B1 1REDUCE_GRAD "
          "1WAIT_REDUCE_GRAD 1RESHARD 3WAIT_SEND_B0 3WAIT_SEND_B1 1WAIT_SEND_B0 1WAIT_SEND_B1" },
        { { PLM_SCHEDULE_INTERLEAVED, 3, 2, 3, 0 },
          1,
          "1UNSHARD 4UNSHARD 1RECV_F0 1F0 1SEND_F0 1RECV_F1 1F1 1SEND_F1 1RECV_F2 1F2 1SEND_F2 "
          "4RECV_F0 4F0 4SEND_F0 4RECV_F1 4F1 4SEND_F1 4RECV_B0 4RECV_F2 4F2 4SEND_F2 4B0 "
          "4WAIT_SEND_F0 4SEND_B0 4RECV_B1 4B1 4WAIT_SEND_F1 4SEND_B1 4RECV_B2 4B2 "
          "4WAIT_SEND_F2 4SEND_B2 4REDUCE_GRAD 4WAIT_REDUCE_GRAD 4RESHARD 1RECV_B0 1B0 "
          "1WAIT_SEND_F0 1SEND_B0 1RECV_B1 1B1 1WAIT_SEND_F1 1SEND_B1 1RECV_B2 1B2 "
          "1WAIT_SEND_F2 1SEND_B2 1REDUCE_GRAD 1WAIT_REDUCE_GRAD 1RESHARD 4WAIT_SEND_B0 "
          "4WAIT_SEND_B1 4WAIT_SEND_B2 1WAIT_SEND_B0 1WAIT_SEND_B1 1WAIT_SEND_B2" },
        { { PLM_SCHEDULE_ZERO_BUBBLE, 2, 1, 3, 0 },
          0,
          "0UNSHARD 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0I0 0WAIT_SEND_F0 0W0 0RECV_B1 0F2 "
          "0SEND_F2 0I1 0WAIT_SEND_F1 0W1 0RECV_B2 0I2 0WAIT_SEND_F2 0W2 0REDUCE_GRAD "
          "0WAIT_REDUCE_GRAD 0RESHARD" },
        { { PLM_SCHEDULE_ZERO_BUBBLE, 2, 1, 3, 0 },
          1,
          "1UNSHARD 1RECV_F0 1F0 1RECV_F1 1I0 1SEND_B0 1F1 1I1 1SEND_B1 1RECV_F2 1W0 1F2 1I2 "
          "1SEND_B2 1W1 1W2 1REDUCE_GRAD 1WAIT_REDUCE_GRAD 1RESHARD 1WAIT_SEND_B0 1WAIT_SEND_B1 "
          "1WAIT_SEND_B2" },
        { { PLM_SCHEDULE_ZERO_BUBBLE, 3, 1, 4, 0 },
          1,
          "1UNSHARD 1RECV_F0 1F0 1SEND_F0 1RECV_F1 1F1 1SEND_F1 1RECV_B0 1RECV_F2 1I0 "
          "1WAIT_SEND_F0 1SEND_B0 1F2 1SEND_F2 1RECV_B1 1I1 1WAIT_SEND_F1 1SEND_B1 1RECV_F3 1W0 "
          "1RECV_B2 1F3 1SEND_F3 1I2 1WAIT_SEND_F2 1SEND_B2 1W1 1RECV_B3 1I3 1WAIT_SEND_F3 "
          "1SEND_B3 1W2 1W3 1REDUCE_GRAD 1WAIT_REDUCE_GRAD 1RESHARD 1WAIT_SEND_B0 1WAIT_SEND_B1 "
          "1WAIT_SEND_B2 1WAIT_SEND_B3" },
        { { PLM_SCHEDULE_INTERLEAVED, 2, 4, 2, 0 },
          0,
          "0UNSHARD 2UNSHARD 4UNSHARD 0F0 0SEND_F0 2RECV_F0 0F1 0SEND_F1 2RECV_F1 0RESHARD "
          "6UNSHARD 2F0 2SEND_F0 4RECV_F0 2F1 2SEND_F1 4RECV_F1 4F0 4SEND_F0 6RECV_F0 4F1 "
          "4SEND_F1 6RECV_F1 6F0 6SEND_F0 6F1 6SEND_F1 6RECV_B0 6B0 6WAIT_SEND_F0 6SEND_B0 "
          "6RECV_B1 6B1 6WAIT_SEND_F1 6SEND_B1 6REDUCE_GRAD 6WAIT_REDUCE_GRAD 6RESHARD 0UNSHARD "
          "4RECV_B0 4B0 4WAIT_SEND_F0 4SEND_B0 4RECV_B1 4B1 4WAIT_SEND_F1 4SEND_B1 4REDUCE_GRAD "
          "4WAIT_REDUCE_GRAD 4RESHARD 2RECV_B0 2B0 2WAIT_SEND_F0 2SEND_B0 2RECV_B1 2B1 "
          "2WAIT_SEND_F1 2SEND_B1 2REDUCE_GRAD 2WAIT_REDUCE_GRAD 2RESHARD 0RECV_B0 0B0 "
          "0WAIT_SEND_F0 0RECV_B1 0B1 0WAIT_SEND_F1 0REDUCE_GRAD 0WAIT_REDUCE_GRAD 0RESHARD "
          "6WAIT_SEND_B0 6WAIT_SEND_B1 4WAIT_SEND_B0 4WAIT_SEND_B1 2WAIT_SEND_B0 2WAIT_SEND_B1" },
    };
    struct arena arena = { 0 };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(order(&rows[i].shape, rows[i].rank, &arena), rows[i].order);
    arena_finish(&arena);
}

static int32_t in_flight(
    enum plm_schedule schedule, int32_t ranks, int32_t local, int32_t micros, int32_t rank)
{
    const struct pipeline_shape shape = { schedule, ranks, local, micros, 0 };
    struct arena arena = { 0 };
    struct action_list list = { 0 };

    pipeline_computes(&shape, rank, &arena, &list);
    int32_t most = pipeline_in_flight(&list);

    arena_finish(&arena);
    return most;
}

/* the papers: GPipe holds all; 1F1B min(M, P - stage) (PipeDream-Flush); interleaved (V - 1) P + 2 (P - 1 - rank) + 1 (Megatron) */
static void micro_batches_in_flight_are_those_of_the_papers(void **state)
{
    for (int32_t rank = 0; rank < 4; rank++) {
        assert_int_equal(in_flight(PLM_SCHEDULE_GPIPE, 4, 1, 8, rank), 8);
        assert_int_equal(in_flight(PLM_SCHEDULE_1F1B, 4, 1, 8, rank), 4 - rank);
        assert_int_equal(in_flight(PLM_SCHEDULE_INTERLEAVED, 4, 2, 8, rank),
                         4 + 2 * (3 - rank) + 1);
        /* ZB-H1 (ZB1P): weights wait, so that every rank holds as many as the first */
        assert_int_equal(in_flight(PLM_SCHEDULE_ZERO_BUBBLE, 4, 1, 8, rank), 4);
    }
    assert_int_equal(in_flight(PLM_SCHEDULE_1F1B, 4, 1, 4, 0), 4);
}

/* ------------------------------------------------------------------ whole steps */

static const char network[] = TEST_NETWORK("4, checkpoint: true, wrap: true");

/* a mask that no gradient goes through, a table made from a buffer, and a head that is tied to the embedding */
static const char tied[] =
    "plimsoll: 1\n"
    "model: tied\n"
    "defaults: {batch: 2, seq: 16}\n"
    "inputs:\n"
    "  ids: {dtype: int64, shape: [batch, seq]}\n"
    "  labels: {dtype: int64, shape: [batch, seq]}\n"
    "blocks:\n"
    "  layer:\n"
    "    in: [x, table]\n"
    "    nodes:\n"
    "      - {as: h, op: linear, in: x, features: 8, name: fc}\n"
    "      - {as: h, op: mul, in: [h, table]}\n"
    "      - {as: x, op: add, in: [x, h]}\n"
    "    out: x\n"
    "  model:\n"
    "    in: [ids]\n"
    "    nodes:\n"
    "      - {as: x, op: embedding, in: ids, num: 100, features: 8, name: wte}\n"
    "      - {as: freq, op: buffer, name: freq, shape: [8]}\n"
    "      - {as: table, op: type_as, in: [freq, x], del: freq}\n"
    "      - {as: x, call: layer, in: [x, table], name: h, repeat: 4, wrap: true}\n"
    "    out: x\n"
    "main:\n"
    "  in: [ids, labels]\n"
    "  nodes:\n"
    "    - {as: x, call: model, in: ids, name: body}\n"
    "    - {as: x, op: linear, in: x, features: 100, bias: false, name: head, tie: body.wte.weight}\n"
    "    - {as: x, op: view, in: x, shape: [batch*seq, 100]}\n"
    "    - {as: labels, op: view, in: labels, shape: [batch*seq]}\n"
    "    - {as: loss, op: cross_entropy, in: [x, labels]}\n"
    "  out: [loss, x]\n";

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
#include "pipeline-steps.def"
#undef CASE

/* ------------------------------------------------------------------ what each stage has */

/* names_here() - of the parameters and buffers that are loaded, in their order */
static const char *names_here(struct test_steps *f)
{
    struct buf out = { .arena = &f->arena };
    size_t count;
    const struct param *params = train_params(f->run, &count);

    for (size_t i = 0; i < count; i++)
        if (!params[i].elsewhere)
            buf_printf(&out, "%s%s", out.length ? " " : "", names_text(&f->names, params[i].name));
    return buf_string(&out);
}

static void a_stage_has_its_own_parameters_and_a_copy_of_what_is_tied(void **state)
{
    static const char *const here[] = {
        "body.wte.weight body.freq body.h.0.fc.weight body.h.0.fc.bias body.h.1.fc.weight "
        "body.h.1.fc.bias",
        "body.freq body.h.2.fc.weight body.h.2.fc.bias body.h.3.fc.weight body.h.3.fc.bias "
        "head.weight",
    };

    for (int64_t rank = 0; rank < 2; rank++) {
        const struct plm_strategy s = { .parallel = { .pp = 2, .rank = rank } };
        struct test_steps f;

        if (test_steps_run(&f, tied, &s))
            fail_msg("%s", f.error.message);
        assert_string_equal(names_here(&f), here[rank]);
        arena_finish(&f.arena);
    }
}

static void only_what_needs_a_gradient_is_received(void **state)
{
    const struct plm_strategy s = { .parallel = { .pp = 2, .rank = 1 } };
    const plm_bytes hidden = 2 * 16 * 8 * 4;
    struct test_steps f;
    size_t received = 0;

    if (test_steps_run(&f, tied, &s))
        fail_msg("%s", f.error.message);
    for (uint32_t i = 1; i <= f.schedule.allocation_count; i++) {
        const struct record *record = &train_ghost(f.run)->records[i];

        if (record->category != CATEGORY_COMMUNICATION || record->bytes == 4)
            continue;
        assert_int_equal(record->bytes, hidden);
        received++;
    }
    assert_int_equal(received,
                     2 * 2); /* steps × micro-batches; the gradient is sent from where it is */
    arena_finish(&f.arena);
}

static const char *events_of(struct test_steps *f, const struct plm_strategy *s)
{
    if (test_steps_run(f, network, s))
        fail_msg("%s", f->error.message);
    return test_steps_text(f);
}

/* blocks 0-2 and 3 in groups of two: the last stage's group is its one block, as when each is checkpointed alone */
static void a_group_of_checkpoints_ends_at_the_cut(void **state)
{
    struct plm_strategy s = { .parallel = { .pp = 2, .pp_split = "3,1", .rank = 1 } };
    struct test_steps group, full, none;
    const char *without = events_of(&none, &s);

    s.checkpoint = PLM_CHECKPOINT_FULL;
    const char *alone = events_of(&full, &s);

    s.checkpoint = PLM_CHECKPOINT_GROUP;
    s.checkpoint_count = 2;
    assert_string_equal(events_of(&group, &s), alone);
    assert_string_not_equal(alone, without);
    arena_finish(&group.arena);
    arena_finish(&full.arena);
    arena_finish(&none.arena);
}

/* ------------------------------------------------------------------ what is refused */

#define REFUSE(part, ...) test_steps_refused(&(struct plm_strategy){ __VA_ARGS__ }, network, part)

static void what_makes_no_sense_is_refused(void **state)
{
    static const char shared[] =
        "plimsoll: 1\n"
        "model: shared\n"
        "inputs: {x: {dtype: float32, shape: [4, 8]}}\n"
        "blocks:\n"
        "  layer:\n"
        "    in: [x]\n"
        "    nodes:\n"
        "      - {as: x, op: linear, in: x, features: 8, name: fc}\n"
        "    out: x\n"
        "  model:\n"
        "    in: [x]\n"
        "    nodes:\n"
        "      - {as: x, call: layer, in: x, name: h, repeat: 4, share: true, wrap: true}\n"
        "    out: x\n"
        "main:\n"
        "  in: [x]\n"
        "  nodes:\n"
        "    - {as: x, call: model, in: x}\n"
        "    - {as: loss, op: sum, in: x}\n"
        "  out: loss\n";

    REFUSE("need as many blocks", .parallel = { .pp = 5 });
    REFUSE("makes 3 blocks; the model has 4", .parallel = { .pp = 2, .pp_split = "1,2" });
    REFUSE("written like", .parallel = { .pp = 2, .pp_split = "4,0" });
    REFUSE("written like", .parallel = { .pp = 2, .pp_split = "1,2,1" });
    REFUSE("at least as many", .parallel = { .pp = 3, .microbatches = 2 });
    REFUSE("multiple of 2", .parallel = { .pp = 2,
                                          .microbatches = 5,
                                          .schedule = PLM_SCHEDULE_INTERLEAVED,
                                          .virtual_stages = 2 });
    REFUSE("needs a pipeline", .parallel = { .microbatches = 4 });
    REFUSE("--microbatches", .accumulate = 2, .parallel = { .pp = 2 });
    REFUSE("GradScaler", .precision = PLM_PRECISION_AMP_FP16, .parallel = { .pp = 2 });
    REFUSE("rank: from 0 to 1", .parallel = { .pp = 2, .rank = 2 });
    REFUSE("--reshard-after-forward false",
           .parallel = { .pp = 2, .fsdp = 2, .schedule = PLM_SCHEDULE_ZERO_BUBBLE });
    REFUSE("several micro-batches in flight", .parallel = { .pp = 2, .fsdp1 = 2 });
    REFUSE("no hook", .parallel = { .pp = 2, .ddp = 2, .schedule = PLM_SCHEDULE_ZERO_BUBBLE });
    test_steps_refused(&(struct plm_strategy){ .parallel = { .pp = 2 } }, shared,
                       "share the parameters");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lowered_orders_are_those_of_pytorch),
        cmocka_unit_test(micro_batches_in_flight_are_those_of_the_papers),
#define CASE(name, strategy, events) cmocka_unit_test(name),
#include "pipeline-steps.def"
#undef CASE
        cmocka_unit_test(a_stage_has_its_own_parameters_and_a_copy_of_what_is_tied),
        cmocka_unit_test(only_what_needs_a_gradient_is_received),
        cmocka_unit_test(a_group_of_checkpoints_ends_at_the_cut),
        cmocka_unit_test(what_makes_no_sense_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
