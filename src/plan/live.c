/*
 * plan/live.c - what is alive at the peak, and the most that each kind of tensor ever takes
 *
 * Both read the schedule once, with the records beside it: bytes are those that were requested.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "plan/estimate.h"

const char *category_name(enum category category)
{
    static const char *const names[CATEGORY_COUNT] = {
        [CATEGORY_PARAMETER] = "parameters",
        [CATEGORY_BUFFER] = "buffers",
        [CATEGORY_INPUT] = "inputs",
        [CATEGORY_ACTIVATION] = "activations",
        [CATEGORY_GRADIENT] = "gradients",
        [CATEGORY_ACTIVATION_GRADIENT] = "activation gradients",
        [CATEGORY_STATE] = "optimizer states",
        [CATEGORY_TEMPORARY] = "temporaries",
        [CATEGORY_WORKSPACE] = "library workspaces",
        [CATEGORY_COMMUNICATION] = "communication",
    };

    return names[category];
}

/* struct tally - bytes under headings, by the heading's number */
struct tally {
    plm_bytes *bytes; /* [count] */
    uint64_t *tensors;
    size_t count;
};

static struct tally tally_new(struct arena *arena, size_t count)
{
    return (struct tally){ arena_array(arena, plm_bytes, count),
                           arena_array(arena, uint64_t, count), count };
}

static void tally_add(struct tally *t, size_t heading, plm_bytes bytes)
{
    t->bytes[heading] += bytes;
    t->tensors[heading]++;
}

static int by_bytes(const void *a, const void *b)
{
    const struct plm_share *x = a, *y = b;

    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return strcmp(x->name, y->name);
}

static const struct plm_share *shares(struct arena *arena,
                                      const struct tally *t,
                                      const char *(*name)(const void *context, size_t heading),
                                      const void *context,
                                      size_t *ret_count)
{
    struct plm_share *list = arena_array(arena, struct plm_share, t->count);
    size_t count = 0;

    for (size_t i = 0; i < t->count; i++)
        if (t->tensors[i] > 0)
            list[count++] = (struct plm_share){ name(context, i), t->bytes[i], t->tensors[i] };
    qsort(list, count, sizeof *list, by_bytes);
    *ret_count = count;
    return list;
}

static const char *name_of_category(const void *context, size_t heading)
{
    return category_name((enum category)heading);
}

static const char *name_of_block(const void *context, size_t heading)
{
    return heading ? names_text(context, (name_id)heading) : "(outside of the model)";
}

static const char *name_of_op(const void *context, size_t heading)
{
    return heading < OP_COUNT ? op_defs[heading].name : "(none)";
}

/*
 * block_of() - the block that a tensor belongs to in a breakdown: its path without the last component
 *
 * "transformer.h.0.mlp.c_fc" is "transformer.h.0.mlp"; a path of one component stays.
 */
static name_id block_of(struct names *names, name_id path)
{
    const char *text = names_text(names, path), *dot = strrchr(text, '.');

    return dot ? names_add(names, text, (size_t)(dot - text)) : path;
}

const bool *estimate_alive(struct simulation *sim, size_t *ret_count)
{
    size_t last = sim->replay.peak_event;
    bool *alive = arena_array(&sim->arena, bool, sim->schedule.allocation_count + 1);
    uint32_t youngest = 0;

    for (size_t i = 0; i <= last && i < sim->schedule.event_count; i++) {
        const struct event *event = &sim->schedule.events[i];

        if (event->kind == EVENT_ALLOC || event->kind == EVENT_TRY_ALLOC)
            alive[youngest = event->allocation] = true;
        else if (event->kind == EVENT_FREE)
            alive[event->allocation] = false;
    }
    *ret_count = (size_t)youngest + 1;
    return alive;
}

void estimate_live(struct simulation *sim, struct plm_result *result)
{
    const struct ghost *g = train_ghost(sim->run);
    size_t count;
    const bool *alive = estimate_alive(sim, &count);
    struct tally categories = tally_new(&sim->arena, CATEGORY_COUNT);
    struct tally ops = tally_new(&sim->arena, OP_COUNT + 1);
    /* blocks' names are among those that there are, or added here: at most one for each */
    size_t path_count = sim->names.text_count;
    struct tally blocks = tally_new(&sim->arena, path_count * 2 + 1);
    name_id *block_of_path = arena_array(&sim->arena, name_id, path_count + 1);

    for (size_t i = 1; i < count; i++) {
        const struct record *record = &g->records[i];

        if (!alive[i])
            continue;
        tally_add(&categories, record->category, record->bytes);
        tally_add(&ops, record->op, record->bytes);
        name_id *block = &block_of_path[record->path];

        if (*block == 0)
            *block = block_of(&sim->names, record->path);
        tally_add(&blocks, *block, record->bytes);
    }
    result->live_by_category =
        shares(&sim->arena, &categories, name_of_category, NULL, &result->live_by_category_count);
    result->live_by_operator =
        shares(&sim->arena, &ops, name_of_op, NULL, &result->live_by_operator_count);
    result->live_by_block =
        shares(&sim->arena, &blocks, name_of_block, &sim->names, &result->live_by_block_count);
}

/* ------------------------------------------------------------------ the ledger */

enum ledger {
    LEDGER_WEIGHTS,
    LEDGER_GRADIENTS,
    LEDGER_STATES,
    LEDGER_COPIES,
    LEDGER_TEMPORARIES,
    LEDGER_COUNT
};

/*
 * ledger_of - which line an allocation counts on; LEDGER_COUNT for none
 *
 * Copies of weights in another type (autocast's) are made by the operator that owns the weight, under its path, and are
 * told from its other results by their size: they are not on a line of their own here.
 */
static const enum ledger ledger_of[CATEGORY_COUNT] = {
    [CATEGORY_PARAMETER] = LEDGER_WEIGHTS,     [CATEGORY_BUFFER] = LEDGER_WEIGHTS,
    [CATEGORY_GRADIENT] = LEDGER_GRADIENTS,    [CATEGORY_STATE] = LEDGER_STATES,
    [CATEGORY_TEMPORARY] = LEDGER_TEMPORARIES, [CATEGORY_INPUT] = LEDGER_COUNT,
    [CATEGORY_ACTIVATION] = LEDGER_COUNT,      [CATEGORY_ACTIVATION_GRADIENT] = LEDGER_COUNT,
    [CATEGORY_WORKSPACE] = LEDGER_COUNT,       [CATEGORY_COMMUNICATION] = LEDGER_COUNT,
};

void estimate_ledger(struct simulation *sim, struct plm_result *result)
{
    static const char *const names[LEDGER_COUNT] = { "weights", "gradients", "optimizer states",
                                                     "master copies", "temporaries" };
    const struct ghost *g = train_ghost(sim->run);
    plm_bytes now[LEDGER_COUNT + 1] = { 0 }, most[LEDGER_COUNT + 1] = { 0 };
    struct plm_ledger_line *lines = arena_array(&sim->arena, struct plm_ledger_line, LEDGER_COUNT);

    /* a step that is a copy begins where the one before began, and takes no more */
    size_t end = num_min(sim->replay.event, sim->events_repeated);

    for (size_t i = 0; i < end; i++) {
        const struct event *event = &sim->schedule.events[i];
        const struct record *record =
            &g->records[event->kind == EVENT_MARK ? 0 : event->allocation];
        enum ledger line = ledger_of[record->category];

        if (event->kind == EVENT_ALLOC || event->kind == EVENT_TRY_ALLOC)
            now[line] += record->bytes;
        else if (event->kind == EVENT_FREE)
            now[line] -= record->bytes;
        if (now[line] > most[line])
            most[line] = now[line];
    }
    for (size_t i = 0; i < LEDGER_COUNT; i++)
        lines[i] = (struct plm_ledger_line){
            .name = names[i],
            .bytes = most[i],
            .per_parameter = result->parameters ? (double)most[i] / (double)result->parameters : 0,
        };
    result->ledger = lines;
    result->ledger_count = LEDGER_COUNT;
}
