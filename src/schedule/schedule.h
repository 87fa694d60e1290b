/*
 * schedule/schedule.h - what a run asks of the allocator, in order, and nothing of what it means
 *
 * The ghost run writes events; the allocator models replay them. An allocation is known by a number that
 * counts up from 1 and is never used again; whoever wants its meaning keeps a table beside the
 * schedule, by the same number.
 */
#ifndef PLM_SCHEDULE_SCHEDULE_H
#define PLM_SCHEDULE_SCHEDULE_H

#include <stdbool.h>

#include "base/arena.h"
#include "plimsoll/types.h"

enum event_kind {
    EVENT_ALLOC,     /* @allocation takes @bytes (as requested, unrounded, > 0) on @stream */
    EVENT_TRY_ALLOC, /* the same, but failing is no error: see below */
    EVENT_FREE,      /* @allocation is released; it was allocated and not released before */
    EVENT_USE,       /* @allocation is used on @stream, another than its own (record_stream) */
    EVENT_MARK,      /* @allocation is the number of a mark */
    EVENT_EMPTY,     /* empty_cache(): the allocator returns its cached memory */
};

struct event {
    plm_bytes bytes; /* ALLOC, TRY_ALLOC */
    uint32_t allocation;
    uint16_t kind; /* enum event_kind */
    uint16_t stream;
};

/*
 * A TRY_ALLOC is directly followed by the allocation that replaces it when the device is full: another
 * TRY_ALLOC or an ALLOC, all of one chain with the same @allocation number. The first that succeeds
 * counts; the rest of the chain is skipped. (cuDNN: the next plan, with a smaller workspace.) An
 * ALLOC of 0 bytes is allowed at the end of a chain only: a plan that needs no workspace.
 */

/* struct mark - a place in the run; what lies between two marks is the phase that the second one names */
struct mark {
    const char *name; /* "model_load", "fwd", "bwd", "opt", "end" */
    int32_t step;     /* -1 before the first step */
    uint32_t micro;   /* micro-batch of the step */
    size_t event;     /* index of its EVENT_MARK */
};

struct schedule {
    struct arena *arena;  /* holds the arrays */
    struct event *events; /* [event_count], in execution order */
    size_t event_count, event_capacity;
    struct mark *marks; /* [mark_count] */
    size_t mark_count, mark_capacity;
    uint32_t allocation_count; /* the last number given out */
    bool keeps; /* a chain that fell back begins, from then on, with the try that worked */
};

/* schedule_reserve() - room for @events in one piece; more may come. Room that is not used costs addresses, not memory */
void schedule_reserve(struct schedule *schedule, size_t events);

/* schedule_alloc() - append an allocation of @bytes > 0 and return its number */
uint32_t schedule_alloc(struct schedule *schedule, plm_bytes bytes, uint16_t stream);

/* schedule_free() - append the release of @allocation */
void schedule_free(struct schedule *schedule, uint32_t allocation);

/* schedule_use() - append that @allocation is used on @stream, another than its own (record_stream) */
void schedule_use(struct schedule *schedule, uint32_t allocation, uint16_t stream);

/* schedule_empty() - append that the allocator is told to return its cached memory (empty_cache) */
void schedule_empty(struct schedule *schedule);

/* schedule_mark() - append a mark; @name must outlive the schedule */
void schedule_mark(struct schedule *schedule, const char *name, int32_t step, uint32_t micro);

/*
 * schedule_alloc_chain() - append an allocation with alternatives: bytes[0], else bytes[1], …
 *
 * Only the last may be 0. With one entry this is schedule_alloc().
 */
uint32_t schedule_alloc_chain(struct schedule *schedule,
                              const plm_bytes *bytes,
                              size_t bytes_count,
                              uint16_t stream);

/*
 * schedule_check() - is this a schedule? for dumps that were read back, and for tests
 *
 * Every release matches a live allocation, numbers are fresh, chains are closed.
 */
PLM_MUST_CHECK enum plm_status schedule_check(const struct schedule *schedule,
                                              struct arena *scratch,
                                              struct plm_error *reterr);

#endif
