/*
 * watch/series.h - one GPU over time, in bounded memory
 *
 * Invariants: count <= SERIES_MOST, and times increase. When it is full, neighbours are joined two by two, and from then on twice as many
 * samples go into one point; a point keeps the most and the least of its samples, so that no peak and no floor is lost.
 */
#ifndef PLM_WATCH_SERIES_H
#define PLM_WATCH_SERIES_H

#include "base/arena.h"
#include "plimsoll/watch.h"

enum { SERIES_MOST = 16384 };

/* struct moment - of one GPU: the job as the driver tells of its processes (0: it does not), and the device */
struct moment {
    double time;
    plm_bytes job, job_low, used, used_low, free;
};

struct series {
    struct moment *items;
    size_t count, capacity;
    uint64_t width, filled; /* samples that make a point; how many the last one has */
};

void series_add(struct series *series, const struct moment *moment, struct arena *arena);

#endif
