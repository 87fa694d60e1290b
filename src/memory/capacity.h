/* memory/capacity.h - the smallest memory in which a schedule still finishes */
#ifndef PLM_MEMORY_CAPACITY_H
#define PLM_MEMORY_CAPACITY_H

#include "memory/memory.h"
#include "schedule/schedule.h"

/*
 * struct memory_minimum - the answer to memory_minimum_capacity()
 *
 * Finishing is not monotone in the capacity: a little less memory can change where blocks are put and
 * succeed. @capacity is the end of a bisection: the schedule finishes in it and fails in one page less.
 */
struct memory_minimum {
    plm_bytes capacity;           /* a multiple of MEMORY_PAGE */
    struct memory_sizes peak;     /* of the run in that capacity */
    uint64_t retries;             /* of that run: how often the cache was released to go on */
    plm_bytes peak_unconstrained; /* what the allocator holds when it may hold anything */
    unsigned replays;
};

/*
 * memory_minimum_capacity() - find it by bisection
 *
 * @options->capacity is not used; when device_total is given, it is taken to exceed the capacity by the same amount
 * at each try as it does in @options. Returns false when no device does: a request is absurd. Nothing in @scratch outlives the call.
 */
PLM_MUST_CHECK bool memory_minimum_capacity(const struct schedule *schedule,
                                            const struct memory_options *options,
                                            struct arena *scratch,
                                            struct memory_minimum *ret_minimum);

#endif
