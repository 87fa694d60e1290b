/* api/dump.c - a stage of the pipeline as text: stable, one line for each thing */
#include <string.h>

#include "api/internal.h"
#include "base/buf.h"
#include "yaml/document.h"
#include "yaml/file.h"

static const char *event_word(enum event_kind kind)
{
    switch (kind) {
    case EVENT_ALLOC:
        return "alloc";
    case EVENT_TRY_ALLOC:
        return "try";
    case EVENT_FREE:
        return "free";
    case EVENT_USE:
        return "use";
    case EVENT_MARK:
        return "mark";
    case EVENT_EMPTY:
        return "empty";
    }
    return "";
}

static void add_event(struct buf *buf, const struct simulation *sim, size_t i)
{
    const struct ghost *g = train_ghost(sim->run);
    const struct event *event = &sim->schedule.events[i];

    buf_printf(buf, "%zu %s", i, event_word((enum event_kind)event->kind));
    if (event->kind == EVENT_MARK) {
        const struct mark *mark = &sim->schedule.marks[event->allocation];

        buf_printf(buf, " %s step %d micro %u", mark->name, mark->step, mark->micro);
    } else {
        const struct record *record = &g->records[event->allocation];

        buf_printf(buf, " #%u %llu %s %s %s", event->allocation, (unsigned long long)record->bytes,
                   category_name((enum category)record->category), record_op_name(record),
                   names_text(&sim->names, record->path));
        if (event->stream && event->kind != EVENT_FREE)
            buf_printf(buf, " stream %u", event->stream);
    }
}

static void dump_schedule(const struct simulation *sim, struct buf *buf)
{
    for (size_t i = 0; i < sim->schedule.event_count; i++) {
        add_event(buf, sim, i);
        buf_char(buf, '\n');
    }
}

struct memory_dump {
    const struct simulation *sim;
    struct buf *buf;
};

static void dump_moment(void *user, size_t event, const struct memory_stats *stats)
{
    struct memory_dump *dump = user;

    add_event(dump->buf, dump->sim, event);
    buf_printf(dump->buf, " | requested %llu allocated %llu reserved %llu\n",
               (unsigned long long)stats->now.requested, (unsigned long long)stats->now.allocated,
               (unsigned long long)stats->now.reserved);
}

static void dump_memory(struct simulation *sim, struct buf *buf)
{
    struct memory_dump dump = { sim, buf };
    struct memory *memory = memory_new(&sim->arena, &sim->memory_options);
    struct replay replay = { .observer = dump_moment, .user = &dump };

    replay_start(&replay, &sim->schedule, memory, &sim->arena);
    if (!replay_run(&replay, sim->schedule.event_count))
        buf_printf(buf, "%zu out of memory\n", replay.event);
}

static enum plm_status dump_document(struct plm_model *model,
                                     struct buf *buf,
                                     struct plm_error *reterr)
{
    const char *file = model->subject.model->file, *text;
    const struct yaml_node *root;
    size_t length;
    enum plm_status status = file_read(file, YAML_BYTES_MAX, &model->arena, &text, &length, reterr);

    if (status == PLM_OK)
        status = yaml_parse(file, text, length, &model->arena, &root, reterr);
    if (status == PLM_OK)
        document_dump(root, buf);
    return status;
}

static enum plm_status dump_run(struct plm_model *model,
                                const struct plm_strategy *strategy,
                                const char *stage,
                                struct buf *buf,
                                struct plm_error *reterr)
{
    struct simulation sim;
    bool graph_only = strcmp(stage, "graph") == 0;
    enum plm_status status = graph_only ? simulation_graph(&model->subject, strategy, &sim, reterr)
                                        : simulate(&model->subject, strategy, 0, &sim, reterr);

    if (status != PLM_OK)
        return status;
    if (graph_only)
        graph_dump(sim.graph, buf);
    else if (strcmp(stage, "schedule") == 0)
        dump_schedule(&sim, buf);
    else
        dump_memory(&sim, buf);
    simulation_finish(&sim);
    return PLM_OK;
}

enum plm_status plm_dump(struct plm_model *model,
                         const struct plm_strategy *strategy,
                         const char *stage,
                         const char **ret_text,
                         struct plm_error *reterr)
{
    static const char *const stages[] = { "document", "model", "graph", "schedule", "memory" };
    enum { STAGE_COUNT = sizeof stages / sizeof stages[0], DUMP_MOST = 1 << 30 };
    struct buf buf = { .arena = &model->arena, .maximum = DUMP_MOST };
    enum plm_status status = PLM_OK;
    size_t i = 0;

    while (i < STAGE_COUNT && strcmp(stages[i], stage) != 0)
        i++;
    if (i == STAGE_COUNT)
        return plm_fail(
            reterr, PLM_E_USAGE,
            "unknown stage '%.40s'; document, model, graph, schedule or memory was expected",
            stage);
    if (i == 0)
        status = dump_document(model, &buf, reterr);
    else if (i == 1)
        model_dump(model->subject.model, &buf);
    else
        status = dump_run(model, strategy, stage, &buf, reterr);
    if (status != PLM_OK)
        return status;
    if (buf.full)
        return plm_fail(reterr, PLM_E_RANGE, "the text is over 1 GiB");
    *ret_text = buf_string(&buf);
    return PLM_OK;
}
