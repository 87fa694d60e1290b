/* watch/series.c - samples into points */
#include "watch/series.h"
#include "base/num.h"

static void join(struct moment *into, const struct moment *moment)
{
    into->job = num_max(into->job, moment->job);
    into->job_low = num_min(into->job_low, moment->job_low);
    into->used = num_max(into->used, moment->used);
    into->used_low = num_min(into->used_low, moment->used_low);
    into->free = num_min(into->free, moment->free);
}

/* halve() - join neighbours; SERIES_MOST is even */
static void halve(struct series *series)
{
    for (size_t i = 0; i < series->count / 2; i++) {
        struct moment joined = series->items[2 * i];

        join(&joined, &series->items[2 * i + 1]);
        series->items[i] = joined;
    }
    series->count /= 2;
    series->width *= 2;
    series->filled = series->width;
}

void series_add(struct series *series, const struct moment *moment, struct arena *arena)
{
    if (series->count > 0 && series->filled < series->width) {
        join(&series->items[series->count - 1], moment);
        series->filled++;
        return;
    }
    if (series->count == SERIES_MOST)
        halve(series);
    if (series->width == 0)
        series->width = 1;
    arena_push(arena, series->items, series->count, series->capacity, *moment);
    series->filled = 1;
}
