/*
 * watch/trend.c - tells a leak from warming up, from steps and from a saw-tooth
 *
 * floor[i] is the least that the job had in the i-th of FLOORS equal spans of time, after the first third of its use of the
 * GPU: what it falls back to. A leak is found when the floors' growth is
 *     in order:  Kendall's tau is above 0 with p < 0.001, one-sided, ties corrected (Kendall 1970; Mann 1945);
 *     even:      no moment has seen more of the growth than it has of the time by over EARLY_MOST, nor less by over LATE_MOST;
 *     in parts:  no floor is above the one before it by more than STEP_MOST of the growth;
 *     kept:      no floor lies below an earlier one by more than BACK_MOST of the growth;
 *     late:      no more than what was there before. A model that is being loaded grows from nothing.
 * Warming up slows down (even; growth like log t is ahead by 0.135), a few steps are no growth in parts, a saw-tooth comes back (kept).
 *
 * From then on it is one as long as the later half of the floors grows by PACE_KEPT of the pace that was found: growth in rare steps
 * is uneven at times, and is a leak still. One that has ended is remembered, so that a warning is never just denied.
 *
 * The slope is the median of the slopes between all pairs of floors (Theil 1950, Sen 1968), its interval Sen's.
 */
#include <math.h>
#include <stdlib.h>

#include "base/num.h"
#include "watch/trend.h"

enum {
    FLOORS = 25,
    POINTS_LEAST = 3 * FLOORS, /* after the first third: three to a floor */
    PAIRS = FLOORS * (FLOORS - 1) / 2,
};

/* What a job gives back as it ends is no sign: its last samples count only from half of its most on; at most so many are left out. */
enum { ENDING_POINTS = 5, ENDING_PART = 20 };

static const double P_MOST = 0.001;
static const double EARLY_MOST = 0.12, LATE_MOST = 0.3; /* of the growth */
static const double STEP_MOST = 0.15;     /* of the growth: seven steps at the least */
static const double PACE_KEPT = 0.25;     /* of the slope that was found */
static const double BACK_MOST = 0.25;     /* of the growth that may be given back for a while */
static const double NORMAL_95 = 1.959964; /* quantile of the normal distribution, two-sided 95 % */

struct floors {
    double time[FLOORS], bytes[FLOORS]; /* of the moment at which the floor was reached */
    double from, to;
};

/* first_use() - index of the first point with memory; point_count when there is none */
static size_t first_use(const struct plm_watch_point *points, size_t point_count)
{
    size_t i = 0;

    while (i < point_count && points[i].job == 0)
        i++;
    return i;
}

/* without_ending() - how many points are left without those of the job's end */
static size_t without_ending(const struct plm_watch_point *points, size_t point_count)
{
    size_t most_left_out = point_count / ENDING_PART;
    plm_bytes most = 0;

    if (most_left_out < ENDING_POINTS)
        most_left_out = ENDING_POINTS;
    for (size_t i = 0; i < point_count; i++)
        if (points[i].job_low > most)
            most = points[i].job_low;
    for (size_t i = 0; i < most_left_out && i < point_count; i++)
        if (points[point_count - 1 - i].job_low >= most / 2)
            return point_count - i;
    return point_count;
}

/* find_floors() - false when there are too few points */
static bool find_floors(const struct plm_watch_point *points,
                        size_t point_count,
                        struct floors *floors)
{
    size_t first = first_use(points, point_count), i = first;
    bool filled[FLOORS] = { false };

    if (point_count - first < POINTS_LEAST * 3 / 2)
        return false;
    floors->to = points[point_count - 1].time;
    floors->from = points[first].time + (floors->to - points[first].time) / 3;
    while (i < point_count && points[i].time < floors->from)
        i++;
    if (point_count - i < POINTS_LEAST || !(floors->to > floors->from))
        return false;
    for (; i < point_count; i++) {
        double share = (points[i].time - floors->from) / (floors->to - floors->from);
        size_t at = share >= 1 ? FLOORS - 1 : (size_t)(share * FLOORS);
        double bytes = (double)points[i].job_low;

        if (filled[at] && bytes >= floors->bytes[at])
            continue;
        filled[at] = true;
        floors->bytes[at] = bytes;
        floors->time[at] = points[i].time;
    }
    for (size_t at = 0; at < FLOORS; at++)
        if (!filled[at])
            return false; /* it was not watched for a while */
    return true;
}

/* ties() - what equal floors take from the variance of Kendall's S */
static double ties(const struct floors *floors)
{
    double sorted[FLOORS], sum = 0;

    for (size_t i = 0; i < FLOORS; i++)
        sorted[i] = floors->bytes[i];
    qsort(sorted, FLOORS, sizeof *sorted, num_compare_doubles);
    for (size_t i = 0, next; i < FLOORS; i = next) {
        for (next = i; next < FLOORS && !(sorted[next] > sorted[i]);)
            next++;

        double count = (double)(next - i);

        sum += count * (count - 1) * (2 * count + 5);
    }
    return sum;
}

/* order() - Kendall's test and Sen's slope */
static void order(const struct floors *floors, struct plm_watch_trend *trend)
{
    double slopes[PAIRS], sum = 0, variance, z;
    size_t pairs = 0;

    for (size_t i = 0; i < FLOORS; i++)
        for (size_t j = i + 1; j < FLOORS; j++) {
            double rise = floors->bytes[j] - floors->bytes[i];

            sum += (rise > 0) - (rise < 0);
            slopes[pairs++] = rise / (floors->time[j] - floors->time[i]);
        }
    variance = ((double)FLOORS * (FLOORS - 1) * (2 * FLOORS + 5) - ties(floors)) / 18;
    z = variance > 0 ? (sum - (sum > 0) + (sum < 0)) / sqrt(variance) : 0;
    trend->p = erfc(z / sqrt(2)) / 2;

    qsort(slopes, PAIRS, sizeof *slopes, num_compare_doubles);
    double half = NORMAL_95 * sqrt(variance > 0 ? variance : 0);
    long low = lround((PAIRS - half) / 2), high = lround((PAIRS + half) / 2);

    trend->slope = (slopes[(PAIRS - 1) / 2] + slopes[PAIRS / 2]) / 2;
    trend->slope_low = slopes[low < 0 ? 0 : low];
    trend->slope_high = slopes[high >= PAIRS ? PAIRS - 1 : high];
}

/* smooth() - the median of three neighbours: noise of one floor is gone, and a step stays one */
static double smooth(const struct floors *floors, size_t i)
{
    double a = floors->bytes[i > 0 ? i - 1 : i], b = floors->bytes[i],
           c = floors->bytes[i + 1 < FLOORS ? i + 1 : i];

    return fmax(fmin(a, b), fmin(fmax(a, b), c));
}

/* even() - the growth is spread over the time, in parts */
static bool even(const struct floors *floors)
{
    double first = smooth(floors, 0), growth = smooth(floors, FLOORS - 1) - first;

    for (size_t i = 1; i < FLOORS; i++) {
        double ahead = (smooth(floors, i) - first) / growth - (double)i / (FLOORS - 1);
        double step = smooth(floors, i) - smooth(floors, i - 1);

        if (!(ahead <= EARLY_MOST && ahead >= -LATE_MOST && step <= STEP_MOST * growth))
            return false;
    }
    return true;
}

/* goes_on() - a leak that was found with @slope has not slowed down to a part of it */
static bool goes_on(const struct floors *floors, double slope)
{
    double rise = smooth(floors, FLOORS - 1) - smooth(floors, FLOORS / 2);

    return rise >= PACE_KEPT * slope * (floors->time[FLOORS - 1] - floors->time[FLOORS / 2]);
}

static bool kept(const struct floors *floors, double growth)
{
    double highest = floors->bytes[0], back = 0;

    for (size_t i = 1; i < FLOORS; i++) {
        highest = fmax(highest, floors->bytes[i]);
        back = fmax(back, highest - floors->bytes[i]);
    }
    return back <= BACK_MOST * growth;
}

static plm_bytes growth_between(double before, double after)
{
    return after > before ? (plm_bytes)(after - before) : 0;
}

/* judge() - @floors as they are, in the light of what was found before */
static bool judge(const struct floors *floors,
                  const struct plm_watch_trend *trend,
                  const struct trend_memory *memory)
{
    double growth = floors->bytes[FLOORS - 1] - floors->bytes[0];

    if (memory->last.leak)
        return goes_on(floors, memory->slope);
    return growth > 0 && growth <= floors->bytes[0] && trend->p < P_MOST && even(floors) &&
           kept(floors, growth);
}

struct plm_watch_trend trend_find(const struct plm_watch_point *points,
                                  size_t point_count,
                                  struct trend_memory *memory)
{
    struct plm_watch_trend *trend = &memory->last;
    struct floors floors = { 0 };
    bool leak;

    point_count = without_ending(points, point_count);
    if (!find_floors(points, point_count, &floors))
        return *trend;
    trend->known = true;
    trend->from = floors.from;
    trend->to = floors.to;
    trend->growth = growth_between(floors.bytes[0], floors.bytes[FLOORS - 1]);
    order(&floors, trend);
    leak = judge(&floors, trend, memory);
    if (leak && !trend->leak)
        memory->slope = trend->slope;
    if (leak && !trend->found) {
        trend->found = true;
        trend->found_at = floors.to;
        memory->level = smooth(&floors, FLOORS - 1);
    }
    trend->since = trend->found ? growth_between(memory->level, smooth(&floors, FLOORS - 1)) : 0;
    trend->leak = leak;
    return *trend;
}
