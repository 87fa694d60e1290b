/*
 * report/bands.c - one sweep over the timeline, by category
 *
 * Invariant of the sweep: sums[b] is the bytes of all lives of band b that were born at or before the event and have
 * not died at or before it.
 */
#include <string.h>

#include "base/num.h"
#include "report/bands.h"

const char *bands_colour(const char *name)
{
    static const struct {
        const char *name, *colour;
    } known[] = {
        { "parameters", "#3b6fb6" },
        { "buffers", "#59a5d8" },
        { "inputs", "#e2844a" },
        { "activations", "#c4546b" },
        { "gradients", "#b07aa1" },
        { "activation gradients", "#2f8f9d" },
        { "optimizer states", "#7a5ab5" },
        { "temporaries", "#4f9d69" },
        { "library workspaces", "#9c755f" },
        { "communication", "#d9b44a" },
        /* what a comparison adds */
        { "rounding of blocks", "#6b8e23" },
        { "cached by the allocator", "#c9ccd1" },
        { "context and NCCL", "#7f858d" },
    };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0)
            return known[i].colour;
    return "#bab0ac";
}

static size_t find_band(struct bands *bands, const char *name)
{
    size_t i = 0;

    name = name && *name ? name : "unnamed";
    while (i < bands->count && strcmp(bands->names[i], name) != 0)
        i++;
    if (i < bands->count)
        return i;
    if (bands->count < BANDS_MOST - 1) {
        bands->names[bands->count++] = name;
        return i;
    }
    bands->names[BANDS_MOST - 1] = "other";
    bands->count = BANDS_MOST;
    return BANDS_MOST - 1;
}

/* order_bands() - what is alive at the end first, so that it lies at the bottom; otherwise by first birth */
static void order_bands(struct bands *bands, const struct plm_timeline *timeline, uint32_t *of_life)
{
    plm_bytes last[BANDS_MOST] = { 0 };
    uint32_t place[BANDS_MOST], order[BANDS_MOST];
    const char *names[BANDS_MOST];

    for (size_t i = 0; i < timeline->life_count; i++)
        if (timeline->lives[i].died >= timeline->event_count)
            last[of_life[i]] += timeline->lives[i].bytes;
    for (uint32_t i = 0; i < bands->count; i++) {
        uint32_t j = i;

        for (; j > 0 && last[order[j - 1]] == 0 && last[i] > 0; j--)
            order[j] = order[j - 1];
        order[j] = i;
    }
    for (uint32_t i = 0; i < bands->count; i++) {
        names[i] = bands->names[order[i]];
        place[order[i]] = i;
    }
    memcpy(bands->names, names, bands->count * sizeof *names);
    for (size_t i = 0; i < timeline->life_count; i++)
        of_life[i] = place[of_life[i]];
}

/* sort_deaths() - counting sort of the lives that end within the run */
static void sort_deaths(struct bands *bands,
                        const struct plm_timeline *timeline,
                        struct arena *arena)
{
    size_t *starts = arena_array(arena, size_t, timeline->event_count + 1);
    uint32_t *deaths = arena_array(arena, uint32_t, timeline->life_count);

    for (size_t i = 0; i < timeline->life_count; i++)
        if (timeline->lives[i].died < timeline->event_count) {
            starts[timeline->lives[i].died + 1]++;
            bands->death_count++;
        }
    for (size_t i = 0; i < timeline->event_count; i++)
        starts[i + 1] += starts[i];
    for (size_t i = 0; i < timeline->life_count; i++)
        if (timeline->lives[i].died < timeline->event_count)
            deaths[starts[timeline->lives[i].died]++] = (uint32_t)i;
    bands->deaths = deaths;
}

static void sweep(struct bands *bands,
                  const struct plm_timeline *timeline,
                  struct bands_column *columns)
{
    struct bands_column now = { 0 };
    size_t born = 0, dead = 0, before = SIZE_MAX;
    plm_bytes best = 0;

    for (size_t event = 0; event < timeline->event_count; event++) {
        size_t column = event * bands->column_count / timeline->event_count;
        plm_bytes reserved = timeline->moments[event].reserved, total = 0;

        for (; born < timeline->life_count && timeline->lives[born].born <= event; born++)
            now.bytes[bands->band_of_life[born]] += timeline->lives[born].bytes;
        for (; dead < bands->death_count && timeline->lives[bands->deaths[dead]].died <= event;
             dead++)
            now.bytes[bands->band_of_life[bands->deaths[dead]]] -=
                timeline->lives[bands->deaths[dead]].bytes;
        for (size_t i = 0; i < bands->count; i++)
            total += now.bytes[i];
        now.event = (uint32_t)event;
        if (column != before || total > best) {
            plm_bytes most = column != before ? 0 : columns[column].reserved;

            columns[column] = now;
            columns[column].reserved = most;
            best = total;
            before = column;
        }
        columns[column].reserved = num_max(columns[column].reserved, reserved);
        bands->reserved = num_max(bands->reserved, reserved);
        if (total > bands->highest) {
            bands->highest = total;
            bands->peak = now;
        }
    }
}

const struct bands *bands_make(const struct plm_timeline *timeline,
                               size_t column_limit,
                               struct arena *arena)
{
    struct bands *bands = arena_new(arena, struct bands);
    uint32_t *of_life = arena_array(arena, uint32_t, timeline->life_count);
    struct bands_column *columns;

    for (size_t i = 0; i < timeline->life_count; i++)
        of_life[i] = (uint32_t)find_band(bands, timeline->lives[i].category);
    order_bands(bands, timeline, of_life);
    bands->band_of_life = of_life;
    sort_deaths(bands, timeline, arena);
    bands->column_count = (size_t)num_min(column_limit, timeline->event_count);
    columns = arena_array(arena, struct bands_column, bands->column_count);
    bands->columns = columns;
    sweep(bands, timeline, columns);
    return bands;
}
