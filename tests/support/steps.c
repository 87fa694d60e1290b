/* support/steps.c - whole training steps of a small model */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "support/steps.h"
#include "support/test.h"

enum plm_status test_steps_create(struct test_steps *t,
                                  const char *text,
                                  const struct plm_strategy *strategy)
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
        .training = !strategy->eval,
        .checkpointing = strategy->checkpoint != PLM_CHECKPOINT_NONE,
        .autocast = strategy->precision >= PLM_PRECISION_AMP_BF16,
        .tp = strategy->parallel.tp,
    };
    const struct model_text model_text = { "test.yaml", text, strlen(text) };
    const struct model *model;
    const struct graph *graph;

    *t = (struct test_steps){ .schedule = { .arena = &t->arena } };
    enum plm_status status = model_load(&model_text, NULL, &t->arena, &model, &t->error);

    if (!status)
        status = graph_build(model, &settings, &t->arena, &graph, &t->error);
    if (status)
        return status;
    t->names = *graph->names;
    return train_create(graph, strategy, &around, &t->names, &t->schedule, &t->arena, &t->run,
                        &t->error);
}

enum plm_status test_steps_run(struct test_steps *t,
                               const char *text,
                               const struct plm_strategy *strategy)
{
    enum plm_status status = test_steps_create(t, text, strategy);

    if (!status)
        status = train_load(t->run, &t->error);
    for (int i = 0; i < 2 && !status; i++)
        status = train_step(t->run, &t->error);
    return status;
}

void test_steps_finish(struct test_steps *t)
{
    assert_int_equal(schedule_check(&t->schedule, &t->arena, NULL), PLM_OK);
    arena_finish(&t->arena);
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
        buf_printf(out, "-%" PRIu64 " ", frees[i]);
    *count = 0;
}

const char *test_steps_text(struct test_steps *t)
{
    const struct schedule *s = &t->schedule;
    struct buf out = { .arena = &t->arena };
    plm_bytes *bytes = arena_array(&t->arena, plm_bytes, s->allocation_count + 1);
    plm_bytes *frees = arena_array(&t->arena, plm_bytes, s->allocation_count + 1);
    size_t free_count = 0;
    unsigned *streams = arena_array(&t->arena, unsigned, UINT16_MAX + 1); /* numbers from 1 */
    unsigned stream_count = 0;

    for (size_t i = 0; i < s->event_count; i++) {
        const struct event *e = &s->events[i];

        if (e->kind == EVENT_FREE)
            frees[free_count++] = bytes[e->allocation];
        if (e->kind != EVENT_ALLOC)
            continue;
        write_frees(&out, frees, &free_count);
        bytes[e->allocation] = e->bytes;
        if (streams[e->stream] == 0)
            streams[e->stream] = ++stream_count;
        buf_printf(&out, "+%" PRIu64, e->bytes);
        if (streams[e->stream] > 1)
            buf_printf(&out, "@%u", streams[e->stream] - 1);
        buf_char(&out, ' ');
    }
    write_frees(&out, frees, &free_count);
    out.text[out.length - 1] = '\0';
    return out.text;
}

void test_steps_expect(const char *text, const struct plm_strategy *strategy, const char *events)
{
    struct test_steps t;

    if (test_steps_run(&t, text, strategy))
        fail_msg("%s", t.error.message);
    assert_string_equal(test_steps_text(&t), events);
    test_steps_finish(&t);
}

void test_steps_refused(const struct plm_strategy *strategy, const char *text, const char *part)
{
    struct test_steps t;

    assert_int_equal(test_steps_run(&t, text, strategy), PLM_E_USAGE);
    if (!strstr(t.error.message, part))
        fail_msg("%s", t.error.message);
    arena_finish(&t.arena);
}
