/*
 * report/timeline_snapshot.c - the run as torch.cuda.memory._dump_snapshot would have written it
 *
 * Keys as in PyTorch 2.15, torch/csrc/cuda/Module.cpp (memory snapshot). A frame's file is the block and its name the
 * operator. Segments are the ranges of addresses that were ever used, as if they had been there from the start: the
 * timeline does not say when each was taken from the device.
 */
#include <stdlib.h>

#include "base/num.h"
#include "report/bands.h"
#include "report/pickle.h"
#include "report/timeline.h"

enum { SMALL_SEGMENT = 2 << 20 }; /* kSmallBuffer of the caching allocator */

static void write_frames(struct pickle *pickle, const struct plm_life *life)
{
    pickle_string(pickle, "frames");
    pickle_open_list(pickle);
    if (life) {
        pickle_open_dict(pickle);
        pickle_field_string(pickle, "filename", life->block && *life->block ? life->block : "run");
        pickle_field_int(pickle, "line", life->step < 0 ? 0 : life->step);
        pickle_field_string(pickle, "name", life->op && *life->op ? life->op : life->category);
        pickle_close(pickle);
    }
    pickle_close(pickle);
}

static void write_event(struct pickle *pickle,
                        const char *action,
                        const struct plm_life *life,
                        uint64_t time)
{
    pickle_open_dict(pickle);
    pickle_field_string(pickle, "action", action);
    pickle_field_uint(pickle, "addr", life->address);
    pickle_field_uint(pickle, "size", life->requested);
    pickle_field_int(pickle, "stream", 0);
    pickle_field_uint(pickle, "time_us", time);
    pickle_field_string(pickle, "compile_context", "N/A");
    pickle_field_string(pickle, "user_metadata", life->category);
    write_frames(pickle, life);
    pickle_close(pickle);
}

static void write_failure(struct pickle *pickle, const struct timeline_report *report)
{
    const struct plm_result *r = report->result;
    const struct plm_timeline *timeline = report->timeline;
    plm_bytes taken =
        r->context + r->nccl +
        (timeline->event_count ? timeline->moments[timeline->event_count - 1].reserved : 0);

    pickle_open_dict(pickle);
    pickle_field_string(pickle, "action", "oom");
    pickle_field_uint(pickle, "device_free", r->capacity > taken ? r->capacity - taken : 0);
    pickle_field_uint(pickle, "size", r->failure.request);
    pickle_field_int(pickle, "stream", 0);
    pickle_field_uint(pickle, "time_us", timeline->event_count);
    write_frames(pickle, NULL);
    pickle_close(pickle);
}

static void write_trace(struct pickle *pickle,
                        const struct timeline_report *report,
                        const struct bands *bands)
{
    const struct plm_timeline *timeline = report->timeline;
    size_t born = 0, dead = 0;

    pickle_string(pickle, "device_traces");
    pickle_open_list(pickle);
    pickle_open_list(pickle);
    while (born < timeline->life_count || dead < bands->death_count) {
        const struct plm_life *next = born < timeline->life_count ? &timeline->lives[born] : NULL;
        const struct plm_life *gone =
            dead < bands->death_count ? &timeline->lives[bands->deaths[dead]] : NULL;

        if (gone && (!next || gone->died <= next->born)) {
            write_event(pickle, "free_requested", gone, gone->died);
            write_event(pickle, "free_completed", gone, gone->died);
            dead++;
        } else {
            write_event(pickle, "alloc", next, next->born);
            born++;
        }
    }
    if (report->result->out_of_memory)
        write_failure(pickle, report);
    pickle_close(pickle);
    pickle_close(pickle);
}

/* ------------------------------------------------------------------ segments */

static int by_address(const void *a, const void *b)
{
    const struct plm_life *left = *(const struct plm_life *const *)a;
    const struct plm_life *right = *(const struct plm_life *const *)b;

    return (left->address > right->address) - (left->address < right->address);
}

static const struct plm_life **sorted(const struct plm_timeline *timeline, struct arena *arena)
{
    const struct plm_life **lives =
        arena_array(arena, const struct plm_life *, timeline->life_count);

    for (size_t i = 0; i < timeline->life_count; i++)
        lives[i] = &timeline->lives[i];
    qsort(lives, timeline->life_count, sizeof *lives, by_address);
    return lives;
}

static void write_block(struct pickle *pickle,
                        uint64_t address,
                        plm_bytes size,
                        const struct plm_life *life)
{
    pickle_open_dict(pickle);
    pickle_field_uint(pickle, "address", address);
    pickle_field_uint(pickle, "size", size);
    pickle_field_uint(pickle, "requested_size", life ? life->requested : 0);
    pickle_field_string(pickle, "state", life ? "active_allocated" : "inactive");
    write_frames(pickle, life);
    pickle_close(pickle);
}

/* write_blocks() - what is alive at the end among @lives, and the gaps between */
static void write_blocks(struct pickle *pickle,
                         const struct plm_life *const *lives,
                         size_t life_count,
                         uint64_t from,
                         uint64_t to)
{
    pickle_string(pickle, "blocks");
    pickle_open_list(pickle);
    for (size_t i = 0; i < life_count; i++) {
        if (lives[i]->died != UINT32_MAX || lives[i]->address < from)
            continue;
        if (lives[i]->address > from)
            write_block(pickle, from, lives[i]->address - from, NULL);
        write_block(pickle, lives[i]->address, lives[i]->bytes, lives[i]);
        from = lives[i]->address + lives[i]->bytes;
    }
    if (from < to)
        write_block(pickle, from, to - from, NULL);
    pickle_close(pickle);
}

static void write_segment(struct pickle *pickle,
                          const struct plm_life *const *lives,
                          size_t life_count,
                          uint64_t end)
{
    plm_bytes allocated = 0, requested = 0;

    for (size_t i = 0; i < life_count; i++)
        if (lives[i]->died == UINT32_MAX) {
            allocated += lives[i]->bytes;
            requested += lives[i]->requested;
        }
    pickle_open_dict(pickle);
    pickle_field_int(pickle, "device", 0);
    pickle_field_uint(pickle, "address", lives[0]->address);
    pickle_field_uint(pickle, "total_size", end - lives[0]->address);
    pickle_field_uint(pickle, "allocated_size", allocated);
    pickle_field_uint(pickle, "active_size", allocated);
    pickle_field_uint(pickle, "requested_size", requested);
    pickle_field_int(pickle, "stream", 0);
    pickle_field_string(pickle, "segment_type",
                        end - lives[0]->address <= SMALL_SEGMENT ? "small" : "large");
    pickle_string(pickle, "segment_pool_id");
    pickle_pair(pickle, 0, 0);
    pickle_field_bool(pickle, "is_expandable", false);
    write_frames(pickle, NULL);
    write_blocks(pickle, lives, life_count, lives[0]->address, end);
    pickle_close(pickle);
}

static void write_segments(struct pickle *pickle, const struct plm_timeline *timeline)
{
    const struct plm_life **lives = sorted(timeline, pickle->out->arena);

    pickle_string(pickle, "segments");
    pickle_open_list(pickle);
    for (size_t i = 0; i < timeline->life_count;) {
        size_t first = i;
        uint64_t end = lives[i]->address + lives[i]->bytes;

        for (i++; i < timeline->life_count && lives[i]->address <= end; i++)
            end = num_max(end, lives[i]->address + lives[i]->bytes);
        write_segment(pickle, lives + first, i - first, end);
    }
    pickle_close(pickle);
}

static void write_annotations(struct pickle *pickle, const struct plm_timeline *timeline)
{
    pickle_string(pickle, "external_annotations");
    pickle_open_list(pickle);
    for (size_t i = 0; i < timeline->phase_count; i++)
        for (int end = 0; end < 2; end++) {
            uint64_t time = timeline->phase_events[i];

            if (end)
                time = i + 1 < timeline->phase_count ? timeline->phase_events[i + 1]
                                                     : timeline->event_count;
            pickle_open_dict(pickle);
            pickle_field_string(pickle, "stage", end ? "END" : "START");
            pickle_field_string(pickle, "name", timeline->phases[i].name);
            pickle_field_int(pickle, "device", 0);
            pickle_field_uint(pickle, "time_us", time);
            pickle_close(pickle);
        }
    pickle_close(pickle);
}

void timeline_write_snapshot(const struct timeline_report *report, struct buf *out)
{
    struct pickle pickle = { .out = out, .strings = { .arena = out->arena } };
    const char *settings = report->result->allocator;

    pickle_begin(&pickle);
    pickle_open_dict(&pickle);
    write_segments(&pickle, report->timeline);
    write_trace(&pickle, report, bands_make(report->timeline, 1, out->arena));
    pickle_string(&pickle, "allocator_settings");
    pickle_open_dict(&pickle);
    pickle_field_string(&pickle, "PYTORCH_CUDA_ALLOC_CONF", settings ? settings : "");
    pickle_close(&pickle);
    write_annotations(&pickle, report->timeline);
    pickle_close(&pickle);
    pickle_end(&pickle);
}
