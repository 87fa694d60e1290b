/* fully_shard and FullyShardedDataParallel: whole steps against recordings */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "model/model.h"
#include "support/test.h"
#include "train/train.h"

struct fixture {
    struct arena arena;
    struct names names;
    struct schedule schedule;
    struct run *run;
    struct plm_error error;
};

static const char network[] =
    "plimsoll: 1\n"
    "model: network\n"
    "defaults: {batch: 5}\n"
    "inputs:\n"
    "  x: {dtype: float32, shape: [batch, 130]}\n"
    "  labels: {dtype: int64, shape: [batch]}\n"
    "blocks:\n"
    "  layer:\n"
    "    in: [x]\n"
    "    nodes:\n"
    "      - {as: x, op: linear, in: x, features: 110, name: fc}\n"
    "      - {as: x, op: layer_norm, in: x, name: norm}\n"
    "      - {as: x, op: relu, in: x}\n"
    "    out: x\n"
    "  model:\n"
    "    in: [x]\n"
    "    nodes:\n"
    "      - {as: x, call: layer, in: x, name: h, repeat: 3, checkpoint: true, wrap: true}\n"
    "      - {as: x, op: linear, in: x, features: 10, bias: false, name: out}\n"
    "    out: x\n"
    "main:\n"
    "  in: [x, labels]\n"
    "  nodes:\n"
    "    - {as: logits, call: model, in: x}\n"
    "    - {as: loss, op: cross_entropy, in: [logits, labels]}\n"
    "  out: [loss, logits]\n";

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

static enum plm_status create(struct fixture *f, const char *text, const struct plm_strategy *s)
{
    const struct surroundings around = {
        .framework = framework_find("pytorch-2.15"),
        .cc = 80,
        .sm_count = 108,
        .threads_per_sm = 2048,
        .ghostgpu = true,
        .workspace_mode = WORKSPACE_NONE,
    };
    const struct graph_settings settings = {
        .training = !s->eval,
        .checkpointing = s->checkpoint != PLM_CHECKPOINT_NONE,
        .tp = s->parallel.tp,
    };
    const struct model_text model_text = { "test.yaml", text, strlen(text) };
    const struct model *model;
    const struct graph *graph;
    enum plm_status status;

    *f = (struct fixture){ .schedule = { .arena = &f->arena } };
    status = model_load(&model_text, NULL, &f->arena, &model, &f->error);
    if (status)
        return status;
    status = graph_build(model, &settings, &f->arena, &graph, &f->error);
    if (status)
        return status;
    f->names = *graph->names;
    return train_create(graph, s, &around, &f->names, &f->schedule, &f->arena, &f->run, &f->error);
}

/* run_steps() - load and two steps; the first failure */
static enum plm_status run_steps(struct fixture *f, const char *text, const struct plm_strategy *s)
{
    enum plm_status status = create(f, text, s);

    if (!status)
        status = train_load(f->run, &f->error);
    for (int i = 0; i < 2 && !status; i++)
        status = train_step(f->run, &f->error);
    return status;
}

static int by_size(const void *a, const void *b)
{
    plm_bytes x = *(const plm_bytes *)a, y = *(const plm_bytes *)b;

    return x < y ? -1 : x > y;
}

static void write_frees(struct buf *out, plm_bytes *frees, size_t *count)
{
    qsort(frees, *count, sizeof *frees, by_size);
    for (size_t i = 0; i < *count; i++)
        buf_printf(out, "-%llu ", (unsigned long long)frees[i]);
    *count = 0;
}

/* canonical() - all events, as the recordings have them */
static char *canonical(struct fixture *f)
{
    struct buf out = { .arena = &f->arena };
    plm_bytes *bytes = arena_array(&f->arena, plm_bytes, f->schedule.allocation_count + 1);
    plm_bytes *frees = arena_array(&f->arena, plm_bytes, f->schedule.allocation_count + 1);
    size_t free_count = 0;
    unsigned streams[8] = { 0 }, stream_count = 0; /* numbers from 1 */

    for (size_t i = 0; i < f->schedule.event_count; i++) {
        const struct event *e = &f->schedule.events[i];

        if (e->kind == EVENT_FREE)
            frees[free_count++] = bytes[e->allocation];
        if (e->kind != EVENT_ALLOC)
            continue;
        write_frees(&out, frees, &free_count);
        bytes[e->allocation] = e->bytes;
        if (streams[e->stream] == 0)
            streams[e->stream] = ++stream_count;
        buf_printf(&out, "+%llu", (unsigned long long)e->bytes);
        if (streams[e->stream] > 1)
            buf_printf(&out, "@%u", streams[e->stream] - 1);
        buf_char(&out, ' ');
    }
    write_frees(&out, frees, &free_count);
    out.text[out.length - 1] = '\0';
    return out.text;
}

#define ARGS(...)                                                                                  \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define CASE(name, strategy_, events)                                                              \
    static void name(void **state)                                                                 \
    {                                                                                              \
        static const struct plm_strategy strategy = strategy_;                                     \
        struct fixture f;                                                                          \
                                                                                                   \
        if (run_steps(&f, strategy.parallel.tp > 0 ? split : network, &strategy))                  \
            fail_msg("%s", f.error.message);                                                       \
        assert_string_equal(canonical(&f), events);                                                \
        arena_finish(&f.arena);                                                                    \
    }
#include "fsdp-steps.def"
#undef CASE

/* ------------------------------------------------------------------ ranks and shards */

/* bytes_of() - what is live at the mark @name of the first step, or before it */
static plm_bytes live_at(struct fixture *f, const char *name)
{
    plm_bytes *bytes = arena_array(&f->arena, plm_bytes, f->schedule.allocation_count + 1);
    plm_bytes live = 0;

    for (size_t i = 0; i < f->schedule.event_count; i++) {
        const struct event *e = &f->schedule.events[i];

        if (e->kind == EVENT_MARK && strcmp(f->schedule.marks[e->allocation].name, name) == 0)
            return live;
        if (e->kind == EVENT_ALLOC) {
            bytes[e->allocation] = e->bytes;
            live += e->bytes;
        } else if (e->kind == EVENT_FREE) {
            live -= bytes[e->allocation];
        }
    }
    return 0;
}

static void every_rank_holds_a_padded_shard(void **state)
{
    /* rows of a rank: 28 of 110, 3 of 10; rank 3 has 26 and 1, and as much memory */
    const plm_bytes layer = 4 * (28 * 110 + 3 * 28);
    const plm_bytes shards = 4 * (28 * 130 + 3 * 28) + 2 * layer + 4 * (3 * 110);

    for (int64_t rank = 0; rank < 4; rank += 3) {
        const struct plm_strategy s = { .parallel = { .fsdp = 4, .rank = rank } };
        struct fixture f;

        assert_int_equal(run_steps(&f, network, &s), PLM_OK);
        assert_int_equal(live_at(&f, "fsdp_wrap"), shards);
        arena_finish(&f.arena);
    }
}

/* ------------------------------------------------------------------ what is refused */

static void refuse(const struct plm_strategy *strategy, const char *text, const char *part)
{
    struct fixture f;

    assert_int_equal(run_steps(&f, text, strategy), PLM_E_USAGE);
    if (!strstr(f.error.message, part))
        fail_msg("%s", f.error.message);
    arena_finish(&f.arena);
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

    refuse(&(struct plm_strategy){ .parallel = { .fsdp = 2 } }, scalar,
           "'scale', which is a scalar");
    refuse(&(struct plm_strategy){ .parallel = { .fsdp = 2 }, .channels_last = true }, network,
           "contiguous parameters only");
    refuse(
        &(struct plm_strategy){ .parallel = { .fsdp = 2 }, .optimizer = PLM_OPTIMIZER_ADAFACTOR },
        network, "Adafactor does not run");
    refuse(
        &(struct plm_strategy){
            .parallel = { .fsdp = 6, .reshard = PLM_RESHARD_TO, .reshard_to = 4 } },
        network, "4 must divide the 6 ranks");
    refuse(&(struct plm_strategy){ .parallel = { .fsdp = 2, .tp = 2 }, .clip_grad_norm = 1 }, split,
           "on two meshes");
    refuse(&(struct plm_strategy){ .parallel = { .fsdp1 = 1 } }, network, "shards nothing");
    refuse(
        &(struct plm_strategy){
            .parallel = { .fsdp1 = 4, .reshard = PLM_RESHARD_TO, .reshard_to = 2 } },
        network, "FULL_SHARD");
    refuse(&(struct plm_strategy){ .parallel = { .fsdp1 = 2 }, .frozen = "fc.bias" }, network,
           "not frozen as it is");
    refuse(&(struct plm_strategy){ .parallel = { .fsdp1 = 2, .fsdp = 2 } }, network,
           "exclude each other");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define CASE(name, strategy, events) cmocka_unit_test(name),
#include "fsdp-steps.def"
#undef CASE
        cmocka_unit_test(every_rank_holds_a_padded_shard),
        cmocka_unit_test(what_pytorch_refuses_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
