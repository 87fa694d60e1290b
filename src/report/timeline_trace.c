/*
 * report/timeline_trace.c - Chrome's trace format, which Perfetto and chrome://tracing open
 *
 * Phases are slices, memory is counters, and the largest tensors are asynchronous slices. One event of the allocator is
 * one microsecond.
 */
#include <stdlib.h>

#include "base/num.h"
#include "report/bands.h"
#include "report/json.h"
#include "report/timeline.h"

enum { COLUMNS = 4000, LARGEST_LIVES = 2000 };

static void open_event(struct json *json, const char *type, const char *name, uint64_t time)
{
    json_open(json, '{');
    json_field_string(json, "ph", type);
    json_field_string(json, "name", name);
    json_field_uint(json, "pid", 1);
    json_field_uint(json, "tid", 1);
    json_field_uint(json, "ts", time);
}

static void write_phases(struct json *json, const struct plm_timeline *timeline)
{
    for (size_t i = 0; i < timeline->phase_count; i++) {
        uint64_t from = timeline->phase_events[i];
        uint64_t to =
            i + 1 < timeline->phase_count ? timeline->phase_events[i + 1] : timeline->event_count;

        open_event(json, "X", timeline->phases[i].name, from);
        json_field_uint(json, "dur", to - from);
        json_key(json, "args");
        json_open(json, '{');
        json_field_int(json, "step", timeline->phases[i].step);
        json_field_uint(json, "micro", timeline->phases[i].micro);
        json_close(json, '}');
        json_close(json, '}');
        json_line(json);
    }
}

static void write_moments(struct json *json, const struct plm_timeline *timeline)
{
    const struct plm_moment *before = NULL;

    for (size_t i = 0; i < timeline->event_count; i++) {
        const struct plm_moment *now = &timeline->moments[i];

        if (before && before->allocated == now->allocated && before->reserved == now->reserved)
            continue;
        before = now;
        open_event(json, "C", "memory", i);
        json_key(json, "args");
        json_open(json, '{');
        json_field_uint(json, "allocated", now->allocated);
        json_field_uint(json, "reserved", now->reserved);
        json_close(json, '}');
        json_close(json, '}');
        json_line(json);
    }
}

static void write_bands(struct json *json, const struct bands *bands)
{
    for (size_t i = 0; i < bands->column_count; i++) {
        open_event(json, "C", "by category", bands->columns[i].event);
        json_key(json, "args");
        json_open(json, '{');
        for (size_t j = 0; j < bands->count; j++)
            json_field_uint(json, bands->names[j], bands->columns[i].bytes[j]);
        json_close(json, '}');
        json_close(json, '}');
        json_line(json);
    }
}

static int larger(const void *a, const void *b)
{
    plm_bytes left = *(const plm_bytes *)a, right = *(const plm_bytes *)b;

    return (left < right) - (left > right);
}

/* smallest_shown() - the size of the last life that is among the @limit largest */
static plm_bytes smallest_shown(const struct plm_timeline *timeline,
                                size_t limit,
                                struct arena *arena)
{
    plm_bytes *sizes;

    if (timeline->life_count <= limit)
        return 0;
    sizes = arena_array(arena, plm_bytes, timeline->life_count);
    for (size_t i = 0; i < timeline->life_count; i++)
        sizes[i] = timeline->lives[i].bytes;
    qsort(sizes, timeline->life_count, sizeof *sizes, larger);
    return sizes[limit];
}

static void write_lives(struct json *json, const struct plm_timeline *timeline)
{
    plm_bytes least = smallest_shown(timeline, LARGEST_LIVES, json->out->arena);

    for (size_t i = 0; i < timeline->life_count; i++) {
        const struct plm_life *life = &timeline->lives[i];
        const char *name = life->op && *life->op ? life->op : "tensor";

        if (life->bytes <= least && least > 0)
            continue;
        open_event(json, "b", name, life->born);
        json_field_string(json, "cat", life->category);
        json_field_uint(json, "id", i + 1);
        json_key(json, "args");
        json_open(json, '{');
        json_field_string(json, "block", life->block);
        json_field_uint(json, "requested_bytes", life->requested);
        json_field_uint(json, "allocated_bytes", life->bytes);
        json_close(json, '}');
        json_close(json, '}');
        json_line(json);
        open_event(json, "e", name, num_min(life->died, timeline->event_count));
        json_field_string(json, "cat", life->category);
        json_field_uint(json, "id", i + 1);
        json_close(json, '}');
        json_line(json);
    }
}

void timeline_write_trace(const struct timeline_report *report, struct buf *out)
{
    struct json json = { .out = out, .compact = true };

    json_open(&json, '{');
    json_field_string(&json, "displayTimeUnit", "ns");
    json_key(&json, "otherData");
    json_open(&json, '{');
    json_field_string(&json, "made by", "plimsoll");
    json_field_string(&json, "model", report->result->model);
    json_field_string(&json, "time", "1 microsecond is one event of the allocator");
    json_close(&json, '}');
    json_key(&json, "traceEvents");
    json_open(&json, '[');
    json_line(&json);
    write_phases(&json, report->timeline);
    write_moments(&json, report->timeline);
    write_bands(&json, bands_make(report->timeline, COLUMNS, out->arena));
    write_lives(&json, report->timeline);
    json_close(&json, ']');
    json_close(&json, '}');
    json_finish(&json);
}
