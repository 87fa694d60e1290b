/* watch/trend.h - does a series grow without end */
#ifndef PLM_WATCH_TREND_H
#define PLM_WATCH_TREND_H

#include "plimsoll/watch.h"

/*
 * trend_find() - judge the least figures of @points, which are in order of time
 *
 * @found: a leak was found in the beginning of the same series. The memory that it starts from need not outweigh its growth
 * again then.
 */
struct plm_watch_trend trend_find(const struct plm_watch_point *points,
                                  size_t point_count,
                                  bool found);

#endif
