/*
 * schedule/schedule.c - building a schedule, and checking one that was read back
 *
 * Invariants of a schedule, all checked by schedule_check(): allocation numbers appear in the order 1, 2, 3, …;
 * released and used allocations are live; a chain of tries ends in an ALLOC of the same number; marks[i].event is
 * the index of the MARK event that carries i.
 */
#include "schedule/schedule.h"
#include "base/error.h"

static void push(struct schedule *schedule, struct event event)
{
    arena_push(schedule->arena, schedule->events, schedule->event_count, schedule->event_capacity,
               event);
}

void schedule_reserve(struct schedule *schedule, size_t events)
{
    schedule->events = arena_array(schedule->arena, struct event, events);
    schedule->event_capacity = events;
}

uint32_t schedule_alloc(struct schedule *schedule, plm_bytes bytes, uint16_t stream)
{
    return schedule_alloc_chain(schedule, &bytes, 1, stream);
}

uint32_t schedule_alloc_chain(struct schedule *schedule,
                              const plm_bytes *bytes,
                              size_t bytes_count,
                              uint16_t stream)
{
    uint32_t allocation = ++schedule->allocation_count;

    for (size_t i = 0; i < bytes_count; i++)
        push(schedule, (struct event){ .bytes = bytes[i],
                                       .allocation = allocation,
                                       .kind = i + 1 < bytes_count ? EVENT_TRY_ALLOC : EVENT_ALLOC,
                                       .stream = stream });
    return allocation;
}

void schedule_free(struct schedule *schedule, uint32_t allocation)
{
    push(schedule, (struct event){ .allocation = allocation, .kind = EVENT_FREE });
}

void schedule_use(struct schedule *schedule, uint32_t allocation, uint16_t stream)
{
    push(schedule, (struct event){ .allocation = allocation, .kind = EVENT_USE, .stream = stream });
}

void schedule_empty(struct schedule *schedule)
{
    push(schedule, (struct event){ .kind = EVENT_EMPTY });
}

void schedule_mark(struct schedule *schedule, const char *name, int32_t step, uint32_t micro)
{
    uint32_t number = (uint32_t)schedule->mark_count;
    struct mark mark = {
        .name = name, .step = step, .micro = micro, .event = schedule->event_count
    };

    arena_push(schedule->arena, schedule->marks, schedule->mark_count, schedule->mark_capacity,
               mark);
    push(schedule, (struct event){ .allocation = number, .kind = EVENT_MARK });
}

enum life { LIFE_NEW, LIFE_LIVE, LIFE_OVER };

/* struct check - what is known after the events before @event */
struct check {
    const struct schedule *schedule;
    unsigned char *lives; /* [allocation_count + 1], enum life */
    size_t event;
    uint32_t allocation_last;
    uint32_t mark_next;
    bool in_chain; /* the event before was a try */
};

static enum plm_status check_live(const struct check *check,
                                  const char *what,
                                  struct plm_error *reterr)
{
    const struct event *event = &check->schedule->events[check->event];

    if (event->allocation == 0 || event->allocation > check->allocation_last ||
        check->lives[event->allocation] != LIFE_LIVE)
        return plm_fail(reterr, PLM_E_RANGE, "event %zu %s allocation %u, which is not live",
                        check->event, what, event->allocation);
    return PLM_OK;
}

static enum plm_status check_alloc(struct check *check, bool is_try, struct plm_error *reterr)
{
    const struct event *event = &check->schedule->events[check->event];
    bool in_chain = check->in_chain;

    if (!in_chain && event->allocation != check->allocation_last + 1)
        return plm_fail(reterr, PLM_E_RANGE,
                        "event %zu makes allocation %u, but the next number is %u", check->event,
                        event->allocation, check->allocation_last + 1);
    if (event->allocation > check->schedule->allocation_count)
        return plm_fail(reterr, PLM_E_RANGE, "event %zu makes allocation %u of %u", check->event,
                        event->allocation, check->schedule->allocation_count);
    if (event->bytes == 0 && (is_try || !in_chain))
        return plm_fail(reterr, PLM_E_RANGE,
                        "event %zu takes 0 bytes; only the end of a chain of tries may",
                        check->event);
    check->allocation_last = event->allocation;
    check->lives[event->allocation] = LIFE_LIVE;
    check->in_chain = is_try;
    return PLM_OK;
}

static enum plm_status check_mark(struct check *check, struct plm_error *reterr)
{
    const struct schedule *schedule = check->schedule;
    uint32_t number = schedule->events[check->event].allocation;

    if (number != check->mark_next || number >= schedule->mark_count ||
        schedule->marks[number].event != check->event)
        return plm_fail(reterr, PLM_E_RANGE,
                        "event %zu is mark %u, which the table of marks has elsewhere",
                        check->event, number);
    check->mark_next++;
    return PLM_OK;
}

static enum plm_status check_event(struct check *check, struct plm_error *reterr)
{
    const struct event *event = &check->schedule->events[check->event];
    enum event_kind kind = (enum event_kind)event->kind;
    enum plm_status status;

    if (check->in_chain && !((kind == EVENT_ALLOC || kind == EVENT_TRY_ALLOC) &&
                             event->allocation == check->allocation_last))
        return plm_fail(reterr, PLM_E_RANGE,
                        "event %zu comes where a try for allocation %u must go on", check->event,
                        check->allocation_last);
    switch (kind) {
    case EVENT_ALLOC:
        return check_alloc(check, false, reterr);
    case EVENT_TRY_ALLOC:
        return check_alloc(check, true, reterr);
    case EVENT_FREE:
        status = check_live(check, "releases", reterr);
        if (status == PLM_OK)
            check->lives[event->allocation] = LIFE_OVER;
        return status;
    case EVENT_USE:
        return check_live(check, "uses", reterr);
    case EVENT_MARK:
        return check_mark(check, reterr);
    case EVENT_EMPTY:
        return PLM_OK;
    }
    return plm_fail(reterr, PLM_E_RANGE, "event %zu is of unknown kind %u", check->event,
                    event->kind);
}

enum plm_status schedule_check(const struct schedule *schedule,
                               struct arena *scratch,
                               struct plm_error *reterr)
{
    struct check check = { .schedule = schedule };

    if (schedule->allocation_count > schedule->event_count)
        return plm_fail(reterr, PLM_E_RANGE, "%u allocations cannot come from %zu events",
                        schedule->allocation_count, schedule->event_count);
    check.lives = arena_array(scratch, unsigned char, (size_t)schedule->allocation_count + 1);
    for (; check.event < schedule->event_count; check.event++) {
        enum plm_status status = check_event(&check, reterr);

        if (status != PLM_OK)
            return status;
    }
    if (check.in_chain)
        return plm_fail(reterr, PLM_E_RANGE, "the schedule ends within the tries for allocation %u",
                        check.allocation_last);
    if (check.mark_next != schedule->mark_count ||
        check.allocation_last != schedule->allocation_count)
        return plm_fail(reterr, PLM_E_RANGE,
                        "the events hold %u allocations and %u marks, not %u and %zu",
                        check.allocation_last, check.mark_next, schedule->allocation_count,
                        schedule->mark_count);
    return PLM_OK;
}
