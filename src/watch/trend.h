/* watch/trend.h - does a series grow without end */
#ifndef PLM_WATCH_TREND_H
#define PLM_WATCH_TREND_H

#include "plimsoll/watch.h"

/* struct trend_memory - what was found in the beginning of a series; zero at first */
struct trend_memory {
    struct plm_watch_trend last;
    double slope, level; /* bytes a second, and the last floor, when the leak was found */
};

/*
 * trend_find() - judge the least figures of @points, which are in order of time
 *
 * To be called with the same @memory as a series grows: what was found is a leak until it ends. Where @points cannot be judged,
 * the last judgement stands.
 */
struct plm_watch_trend trend_find(const struct plm_watch_point *points,
                                  size_t point_count,
                                  struct trend_memory *memory);

#endif
