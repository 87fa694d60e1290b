/*
 * train/repeat.c - a step that is the same as the last is copied, not run
 *
 * A step is closed when it released all that it allocated and nothing that was there before. Then the memory that it leaves is
 * what it found, and the next step, which depends on nothing else, makes the same requests again: its events are those of
 * the closed one with later numbers. (A first step that makes optimizer states is not closed; nor is one that keeps outputs.)
 */
#include <string.h>

#include "train/internal.h"

static bool is_closed(const struct schedule *s, const struct step_extent *last)
{
    uint32_t born = 0, freed = 0;

    for (size_t i = last->event; i < s->event_count; i++) {
        const struct event *event = &s->events[i];

        switch ((enum event_kind)event->kind) {
        case EVENT_ALLOC:
            born++;
            break;
        case EVENT_FREE:
            if (event->allocation <= last->allocation)
                return false;
            freed++;
            break;
        case EVENT_TRY_ALLOC:
        case EVENT_USE:
        case EVENT_EMPTY:
            return false;
        case EVENT_MARK:
            break;
        }
    }
    return born == freed && born == s->allocation_count - last->allocation;
}

static void copy_events(struct run *run, const struct step_extent *last)
{
    struct ghost *g = &run->ghost;
    struct schedule *s = g->schedule;
    size_t end = s->event_count;
    uint32_t born = s->allocation_count - last->allocation;

    for (size_t i = last->event; i < end; i++) {
        struct event event = s->events[i];

        if (event.kind == EVENT_MARK) {
            const struct mark mark = s->marks[event.allocation];

            schedule_mark(s, mark.name, run->step, mark.micro);
            continue;
        }
        if (event.kind == EVENT_ALLOC) {
            struct record record = g->records[event.allocation];

            arena_push(g->arena, g->records, g->record_count, g->record_capacity, record);
            s->allocation_count++;
        }
        event.allocation += born;
        arena_push(s->arena, s->events, s->event_count, s->event_capacity, event);
    }
}

bool step_repeat(struct run *run)
{
    struct schedule *s = run->ghost.schedule;
    struct step_extent last = run->last_step;

    /* the first step of a pipeline connects its ranks; a wrapper may count steps of its own */
    if (!s || run->wrapper || last.event == 0 || (run->pipeline && run->step == 1) ||
        !is_closed(s, &last))
        return false;
    run->last_step = (struct step_extent){ s->event_count, s->allocation_count };
    copy_events(run, &last);
    return true;
}
