/*
 * ghost/ghost.c - a run's state, and its one way to ask for memory
 *
 * Invariant: with a schedule, record_count == schedule->allocation_count + 1 (record 0 is unused), so that an
 * allocation's number finds its meaning.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ghost/ghost.h"

void ghost_init(struct ghost *g,
                struct arena *arena,
                struct names *names,
                struct schedule *schedule,
                const struct surroundings *around)
{
    *g = (struct ghost){
        .arena = arena,
        .pool = { .arena = arena },
        .schedule = schedule,
        .around = *around,
        .names = names,
        .op = OP_COUNT,
        .precision = DTYPE_FLOAT32,
        .training = true,
        .grad_enabled = true,
        .sequence = 1,
    };
    arena_push(arena, g->records, g->record_count, g->record_capacity, (struct record){ 0 });
}

void ghost_reserve(struct ghost *g, size_t events)
{
    /* every second event is an allocation */
    g->record_capacity = g->record_count + events / 2;
    struct record *records = arena_array(g->arena, struct record, g->record_capacity);

    memcpy(records, g->records, g->record_count * sizeof *records);
    g->records = records;
    schedule_reserve(g->schedule, events);
}

struct tensor *ghost_fail(struct ghost *g, enum plm_status status, const char *format, ...)
{
    if (g->halt == HALT_FAILED)
        return NULL;
    char text[sizeof g->error.message];
    const char *path = g->names ? names_text(g->names, g->path) : "";
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    g->halt = HALT_FAILED;
    if (g->op == OP_COUNT)
        g->status = plm_fail_at(&g->error, status, g->at, "%s", text);
    else if (*path)
        g->status =
            plm_fail_at(&g->error, status, g->at, "%s '%s': %s", op_defs[g->op].name, path, text);
    else
        g->status = plm_fail_at(&g->error, status, g->at, "%s: %s", op_defs[g->op].name, text);
    return NULL;
}

/* record_alloc() - the record of the next allocation */
static void record_alloc(struct ghost *g, plm_bytes bytes)
{
    struct record record = {
        .bytes = bytes,
        .path = g->path,
        .op = (uint16_t)g->op,
        .category = (uint8_t)g->category,
        .backward = g->backward,
    };

    arena_push(g->arena, g->records, g->record_count, g->record_capacity, record);
}

uint32_t ghost_alloc(struct ghost *g, plm_bytes bytes)
{
    if (!g->schedule || g->halt || bytes == 0)
        return 0;
    record_alloc(g, bytes);
    return schedule_alloc(g->schedule, bytes, g->stream);
}

void ghost_free(struct ghost *g, uint32_t allocation)
{
    if (g->schedule && allocation)
        schedule_free(g->schedule, allocation);
}

static void transient(struct ghost *g, plm_bytes bytes, enum category category)
{
    enum category outer = g->category;

    g->category = category;
    ghost_free(g, ghost_alloc(g, bytes));
    g->category = outer;
}

void ghost_scratch(struct ghost *g, plm_bytes bytes)
{
    transient(g, bytes, CATEGORY_TEMPORARY);
}

void ghost_unknown_workspace(struct ghost *g, plm_bytes operands)
{
    g->unknown_workspaces++;
    if (operands > g->operands_most)
        g->operands_most = operands;
}

bool ghost_library_asked(struct ghost *g, const struct library_call *call)
{
    const struct library *library = &g->around.library;
    struct library_plans plans;
    enum category outer = g->category;

    if (!g->schedule || g->halt)
        return true;
    if (!library->plans || !library->plans(library->context, call, &plans))
        return false;
    if (plans.bytes[0] == 0)
        return true;
    g->category = CATEGORY_WORKSPACE;
    record_alloc(g, plans.bytes[0]);
    g->category = outer;
    ghost_free(g, schedule_alloc_chain(g->schedule, plans.bytes, plans.count, g->stream));
    return true;
}

void ghost_library(struct ghost *g, const struct library_call *call, plm_bytes operands)
{
    if (!ghost_library_asked(g, call))
        ghost_unknown_workspace(g, operands);
}

void ghost_workspace(struct ghost *g, plm_bytes bytes)
{
    transient(g, bytes, CATEGORY_WORKSPACE);
}
