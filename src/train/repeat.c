/*
 * train/repeat.c - what must be the same as before is copied, not run
 *
 * A step is closed when it released all that it allocated and nothing that was there before. Then the memory that it leaves is
 * what it found, and the next step, which depends on nothing else, makes the same requests again: its events are those of
 * the closed one with later numbers. (A first step that makes optimizer states is not closed; nor is one that keeps outputs.)
 *
 * The second step's first micro-batch finds what the first step's found, optimizer states apart, which forward and backward do
 * not look at. What outlives it are the batch and the gradients, whose ghosts are made anew, and what is made once and stays: the
 * workspaces that libraries keep and the gradient scaler's numbers.
 */
#include <string.h>

#include "train/mesh.h"
#include "train/wrapper.h"

/* struct span - a part of the schedule: events [event, event_end) make the allocations after @last, @born of them */
struct span {
    size_t event, event_end;
    uint32_t last, born;
};

static struct span span_from(const struct run *run, struct step_extent start)
{
    const struct schedule *s = run->ghost.schedule;

    return (struct span){ start.event, s->event_count, start.allocation,
                          s->allocation_count - start.allocation };
}

/*
 * outliving() - how many allocations of @span outlive it, each marked in @lives [born + 1]; -1 when that cannot be said
 *
 * It cannot when the span touches older allocations, nor, with @settled, when the allocator decides what comes next.
 */
static int64_t outliving(const struct schedule *s,
                         const struct span *span,
                         bool settled,
                         bool *lives)
{
    int64_t count = span->born;

    memset(lives, true, (span->born + 1) * sizeof *lives);
    for (size_t i = span->event; i < span->event_end; i++) {
        const struct event *event = &s->events[i];

        switch ((enum event_kind)event->kind) {
        case EVENT_ALLOC:
        case EVENT_MARK:
            break;
        case EVENT_TRY_ALLOC:
            if (settled)
                return -1;
            break;
        case EVENT_FREE:
            if (event->allocation <= span->last)
                return -1;
            lives[event->allocation - span->last] = false;
            count--;
            break;
        case EVENT_USE:
        case EVENT_EMPTY:
            return -1;
        }
    }
    return count;
}

/* renumber() - the number that each allocation of @span gets in a copy; 0 for what is @left_out, which may be NULL */
static uint32_t *renumber(struct run *run, const struct span *span, const bool *left_out)
{
    uint32_t *numbers = arena_array(run->arena, uint32_t, span->born + 1);
    uint32_t next = run->ghost.schedule->allocation_count;

    for (uint32_t i = 1; i <= span->born; i++)
        if (!left_out || !left_out[i])
            numbers[i] = ++next;
    return numbers;
}

static void copy_records(struct ghost *g, const struct span *span, const uint32_t *numbers)
{
    arena_reserve(g->arena, g->records, g->record_count, g->record_capacity, span->born);
    const struct record *from = &g->records[span->last];
    struct record *to = &g->records[g->record_count];

    for (uint32_t i = 1; i <= span->born; i++)
        if (numbers[i] != 0)
            *to++ = from[i];
    g->record_count = (size_t)(to - g->records);
    g->schedule->allocation_count = (uint32_t)g->record_count - 1;
}

/* copy_events() - up to the next mark, or the end; returns where that is */
static size_t copy_events(struct schedule *s,
                          const struct span *span,
                          const uint32_t *numbers,
                          size_t i)
{
    arena_reserve(s->arena, s->events, s->event_count, s->event_capacity, span->event_end - i);
    const struct event *from = s->events;
    struct event *to = &s->events[s->event_count];

    for (; i < span->event_end && from[i].kind != EVENT_MARK; i++) {
        uint32_t number = numbers[from[i].allocation - span->last];

        if (number == 0)
            continue;
        *to = from[i];
        to->allocation = number;
        to++;
    }
    s->event_count = (size_t)(to - s->events);
    return i;
}

/* copy_span() - append @span once more under these numbers */
static void copy_span(struct run *run, const struct span *span, const uint32_t *numbers)
{
    struct schedule *s = run->ghost.schedule;
    size_t i = span->event;

    copy_records(&run->ghost, span, numbers);
    while ((i = copy_events(s, span, numbers, i)) < span->event_end) {
        const struct mark mark = s->marks[s->events[i++].allocation];

        schedule_mark(s, mark.name, run->step, mark.micro);
    }
}

bool step_repeat(struct run *run)
{
    struct schedule *s = run->ghost.schedule;

    /* the first step of a pipeline connects its ranks; a wrapper may count steps of its own */
    if (!s || run->wrapper || run->last_step.event == 0 || (run->pipeline && run->step == 1))
        return false;
    struct span last = span_from(run, run->last_step);
    bool *lives = arena_array(run->arena, bool, last.born + 1);

    if (outliving(s, &last, true, lives) != 0)
        return false;
    run->last_step = (struct step_extent){ s->event_count, s->allocation_count };
    copy_span(run, &last, renumber(run, &last, NULL));
    return true;
}

/* ------------------------------------------------------------------ the first micro-batch */

/* struct survivor - a ghost that outlives the micro-batch, as it was, and where it belongs */
struct survivor {
    struct tensor **slot;
    struct tensor tensor;
    struct storage storage;
};

struct micro_batch {
    struct span span;
    bool *left_out;             /* [span.born + 1] made once, before the copy */
    struct survivor *survivors; /* [survivor_count] */
    size_t survivor_count, survivor_capacity;
};

static bool has_gradients(const struct run *run)
{
    for (size_t i = 0; i < run->param_count; i++)
        if (run->params[i].tensor && run->params[i].tensor->grad)
            return true;
    return false;
}

/* add_survivor() - false when the ghost is more than a piece of memory of its own that @lives */
static bool add_survivor(struct run *run,
                         struct micro_batch *micro,
                         struct tensor **slot,
                         bool *lives)
{
    const struct tensor *x = *slot;
    uint32_t number = x->storage->allocation;

    if (x->refs != 1 || x->storage->refs != 1 || x->grad_fn || x->accumulator || x->grad)
        return false;
    if (number != 0 && (number <= micro->span.last || !lives[number - micro->span.last]))
        return false;
    if (number != 0)
        lives[number - micro->span.last] = false; /* accounted for */
    arena_push(run->arena, micro->survivors, micro->survivor_count, micro->survivor_capacity,
               (struct survivor){ slot, *x, *x->storage });
    return true;
}

static bool add_survivors(struct run *run, struct micro_batch *micro, bool *lives)
{
    for (size_t i = 0; i < run->param_count; i++)
        if (run->params[i].tensor && run->params[i].tensor->grad &&
            !add_survivor(run, micro, &run->params[i].tensor->grad, lives))
            return false;
    for (size_t i = 0; i < run->graph->input_count; i++)
        if (run->batch[i].kind != VALUE_TENSOR ||
            !add_survivor(run, micro, &run->batch[i].as.tensor, lives))
            return false;
    return true;
}

/* leave_out() - what is made once and stays; returns how many there are: 0 or 1 */
static int64_t leave_out(struct micro_batch *micro, const struct tensor *made_once)
{
    uint32_t number = made_once ? made_once->storage->allocation : 0;

    if (number <= micro->span.last)
        return 0;
    micro->left_out[number - micro->span.last] = true;
    return 1;
}

void micro_batch_remember(struct run *run, struct step_extent start)
{
    const struct ghost *g = &run->ghost;
    struct micro_batch *micro = arena_new(run->arena, struct micro_batch);
    int64_t accounted = 0;

    if (!g->schedule || run->wrapper || run->pipeline || run->kept ||
        mesh_count(&run->strategy->parallel) > 1)
        return;
    micro->span = span_from(run, start);
    bool *lives = arena_array(run->arena, bool, micro->span.born + 1);
    int64_t count = outliving(g->schedule, &micro->span, false, lives);

    micro->left_out = arena_array(run->arena, bool, micro->span.born + 1);
    if (count < 0 || !add_survivors(run, micro, lives))
        return;
    for (size_t i = 0; i < micro->survivor_count; i++)
        accounted += micro->survivors[i].storage.allocation != 0;
    for (unsigned i = 0; i < GHOST_THREADS; i++) {
        accounted += leave_out(micro, g->blas_workspace[i]);
        accounted += leave_out(micro, g->lt_workspace[i]);
    }
    accounted += leave_out(micro, run->scaler.scale);
    accounted += leave_out(micro, run->scaler.growth_tracker);
    if (accounted == count)
        run->first_micro = micro;
}

static void revive(struct run *run,
                   const struct survivor *survivor,
                   const uint32_t *numbers,
                   uint32_t last)
{
    struct tensor *x = pool_alloc(&run->ghost.pool, sizeof *x);

    *x = survivor->tensor;
    x->storage = pool_alloc(&run->ghost.pool, sizeof *x->storage);
    *x->storage = survivor->storage;
    if (x->storage->allocation)
        x->storage->allocation = numbers[x->storage->allocation - last];
    *survivor->slot = x;
}

bool micro_batch_repeat(struct run *run)
{
    const struct micro_batch *micro = run->first_micro;

    if (!micro || has_gradients(run))
        return false;
    const uint32_t *numbers = renumber(run, &micro->span, micro->left_out);

    copy_span(run, &micro->span, numbers);
    for (size_t i = 0; i < micro->survivor_count; i++)
        revive(run, &micro->survivors[i], numbers, micro->span.last);
    for (size_t i = 0; i < run->graph->input_count; i++)
        run->batch[i].kind = VALUE_TENSOR;
    return true;
}
