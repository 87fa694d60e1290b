/*
 * memory/capacity.c - bisection over the capacity, one replay a step
 *
 * Invariant of the search: the schedule fails in @low pages and finishes in @high pages. It ends when high == low + 1, so
 * both facts hold for neighbours, whatever happens elsewhere.
 */
#include "memory/capacity.h"
#include "base/num.h"
#include "memory/replay.h"

/* 2 EiB: where the search for a device that is large enough gives up */
#define PAGES_MOST (UINT64_C(1) << 40)

struct search {
    const struct schedule *schedule;
    const struct memory_options *options;
    struct memory *memory;
    struct replay replay;
    struct arena *arena;
    unsigned replays;
};

/* What lies outside the allocator: context, libraries, other processes. */
static plm_bytes outside(const struct memory_options *options)
{
    if (options->capacity == 0 || options->device_total < options->capacity)
        return 0;
    return options->device_total - options->capacity;
}

static bool finishes(struct search *search, plm_bytes capacity)
{
    bool total_known = search->options->device_total != 0 && capacity != 0;
    plm_bytes total = total_known ? capacity + outside(search->options) : 0;

    memory_reset(search->memory, capacity, total);
    replay_start(&search->replay, search->schedule, search->memory, search->arena);
    search->replays++;
    return replay_run(&search->replay, search->schedule->event_count);
}

static void keep(struct search *search, uint64_t pages, struct memory_minimum *minimum)
{
    minimum->capacity = pages * MEMORY_PAGE;
    minimum->peak = search->replay.peak;
    minimum->retries = memory_stats(search->memory)->retries;
}

bool memory_minimum_capacity(const struct schedule *schedule,
                             const struct memory_options *options,
                             struct arena *scratch,
                             struct memory_minimum *ret_minimum)
{
    struct search search = {
        .schedule = schedule,
        .options = options,
        .memory = memory_new(scratch, options),
        .arena = scratch,
    };
    struct memory_minimum minimum = { 0 };

    if (!finishes(&search, 0))
        return false;
    minimum.peak_unconstrained = search.replay.peak.reserved;
    uint64_t low = search.replay.peak.requested / MEMORY_PAGE;
    uint64_t high = num_ceil_div(search.replay.peak.reserved, MEMORY_PAGE);

    /* A fraction takes its part from the device, so the same memory may not do on a smaller one. */
    while (!finishes(&search, num_max(high, 1) * MEMORY_PAGE)) {
        low = high;
        high = num_max(high, 1) * 2;
        if (high > PAGES_MOST)
            return false;
    }
    keep(&search, num_max(high, 1), &minimum);
    high = minimum.capacity / MEMORY_PAGE;
    if (low >= high)
        low = high - 1;
    /* What was requested at the peak may not be needed: a try falls back to something smaller. */
    while (low > 0 && finishes(&search, low * MEMORY_PAGE)) {
        keep(&search, low, &minimum);
        high = low;
        low /= 2;
    }
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;

        if (finishes(&search, middle * MEMORY_PAGE)) {
            keep(&search, middle, &minimum);
            high = middle;
        } else {
            low = middle;
        }
    }
    minimum.replays = search.replays;
    *ret_minimum = minimum;
    return true;
}
