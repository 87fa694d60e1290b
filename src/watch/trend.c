/*
 * watch/trend.c - tells a leak from warming up, from steps and from a saw-tooth
 *
 * floor[i] is the least that the job had in the i-th of FLOORS equal spans of time, after the first third of its use of the
 * GPU: what it falls back to. A leak is growth of the floors that is
 *     in order:  Kendall's tau is above 0 with p < 0.001, one-sided, ties corrected (Kendall 1970; Mann 1945);
 *     steady:    from each fifth of the floors to the next the median rises, by at least 0.6 of what it rises elsewhere;
 *     kept:      no floor lies below an earlier one by more than a quarter of the growth;
 *     late:      the growth is no more than what was there before. A model that is being loaded grows from nothing.
 * Warming up ends or slows down (steady; growth like log t rises by 0.53 between the last fifths), three steps leave two fifths
 * alike (steady), a saw-tooth comes back (kept).
 * The slope is the median of the slopes between all pairs of floors (Theil 1950, Sen 1968), its interval Sen's.
 */
#include <math.h>
#include <stdlib.h>

#include "base/num.h"
#include "watch/trend.h"

enum {
    FLOORS = 25,
    FIFTH = FLOORS / 5,
    POINTS_LEAST = 3 * FLOORS, /* after the first third: three to a floor */
    PAIRS = FLOORS * (FLOORS - 1) / 2,
};

/* What a job gives back as it ends is no sign: its last samples count only from half of its most on; at most so many are left out. */
enum { ENDING_POINTS = 5, ENDING_PART = 20 };

static const double P_MOST = 0.001;
static const double PACE_LEAST = 0.6;     /* of the largest rise between fifths, in each */
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

static double median_of_fifth(const struct floors *floors, size_t fifth)
{
    double sorted[FIFTH];

    for (size_t i = 0; i < FIFTH; i++)
        sorted[i] = floors->bytes[fifth * FIFTH + i];
    qsort(sorted, FIFTH, sizeof *sorted, num_compare_doubles);
    return sorted[FIFTH / 2];
}

/* steady() - medians, so that one step is one rise, and is not shared by two */
static bool steady(const struct floors *floors)
{
    double least = INFINITY, most = 0;

    for (size_t fifth = 1; fifth < 5; fifth++) {
        double rise = median_of_fifth(floors, fifth) - median_of_fifth(floors, fifth - 1);

        least = fmin(least, rise);
        most = fmax(most, rise);
    }
    return least > 0 && least >= PACE_LEAST * most;
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

struct plm_watch_trend trend_find(const struct plm_watch_point *points,
                                  size_t point_count,
                                  bool found)
{
    struct plm_watch_trend trend = { .p = 1 };
    struct floors floors = { 0 };
    double growth;

    point_count = without_ending(points, point_count);
    if (!find_floors(points, point_count, &floors))
        return trend;
    growth = floors.bytes[FLOORS - 1] - floors.bytes[0];
    trend.known = true;
    trend.from = floors.from;
    trend.to = floors.to;
    trend.growth = growth > 0 ? (plm_bytes)growth : 0;
    order(&floors, &trend);
    trend.leak = growth > 0 && trend.p < P_MOST && steady(&floors) && kept(&floors, growth) &&
                 (found || growth <= floors.bytes[0]);
    return trend;
}
