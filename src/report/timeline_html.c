/*
 * report/timeline_html.c - the run as one page that needs nothing from anywhere
 *
 * The large tensors go in one by one, at most LARGEST_LIVES; the small ones are merged into one amount for each category and
 * column. The page (timeline_page.c) stacks and draws them, and names the one under the pointer.
 */
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "base/num.h"
#include "report/bands.h"
#include "report/json.h"
#include "report/timeline.h"
#include "report/timeline_page.h"

enum { COLUMNS = 2400, LARGEST_LIVES = 12000, SMALL_SHARE = 200000 };

/* struct page - what is written, and which lives are large */
struct page {
    struct json json;
    const struct timeline_report *report;
    const struct bands *bands;
    struct names strings; /* operators and blocks; written at the end */
    plm_bytes least;      /* a life of this size is large */
};

static int larger(const void *a, const void *b)
{
    plm_bytes left = *(const plm_bytes *)a, right = *(const plm_bytes *)b;

    return (left < right) - (left > right);
}

/* choose_least() - neither more than LARGEST_LIVES nor any that is smaller than a hair on the screen */
static plm_bytes choose_least(const struct page *page, struct arena *arena)
{
    const struct plm_timeline *timeline = page->report->timeline;
    plm_bytes least = page->bands->highest / SMALL_SHARE + 1;
    plm_bytes *sizes;

    if (timeline->life_count <= LARGEST_LIVES)
        return least;
    sizes = arena_array(arena, plm_bytes, timeline->life_count);
    for (size_t i = 0; i < timeline->life_count; i++)
        sizes[i] = timeline->lives[i].bytes;
    qsort(sizes, timeline->life_count, sizeof *sizes, larger);
    return num_max(least, sizes[LARGEST_LIVES] + 1);
}

/* write_large() - eight numbers each: bytes, requested, born, died (-1: never), band, operator, block, step */
static void write_large(struct page *page)
{
    const struct plm_timeline *timeline = page->report->timeline;
    struct json *json = &page->json;

    json_key(json, "lives");
    json_open(json, '[');
    for (size_t i = 0; i < timeline->life_count; i++) {
        const struct plm_life *life = &timeline->lives[i];
        const char *op = life->op ? life->op : "", *block = life->block ? life->block : "";

        if (life->bytes < page->least)
            continue;
        json_uint(json, life->bytes);
        json_uint(json, life->requested);
        json_uint(json, life->born);
        json_int(json, life->died < timeline->event_count ? (int64_t)life->died : -1);
        json_uint(json, page->bands->band_of_life[i]);
        json_uint(json, names_add(&page->strings, op, strlen(op)));
        json_uint(json, names_add(&page->strings, block, strlen(block)));
        json_int(json, life->step);
    }
    json_close(json, ']');
}

/* small_at() - the bytes of each band's small lives at each column's moment; [column][band] */
static plm_bytes (*small_at(const struct page *page, struct arena *arena))[BANDS_MOST]
{
    const struct plm_timeline *timeline = page->report->timeline;
    const struct bands *bands = page->bands;
    plm_bytes(*amounts)[BANDS_MOST] =
        arena_alloc(arena, bands->column_count, sizeof *amounts, alignof(plm_bytes));
    plm_bytes now[BANDS_MOST] = { 0 };
    size_t born = 0, dead = 0;

    for (size_t column = 0; column < bands->column_count; column++) {
        uint32_t event = bands->columns[column].event;

        for (; born < timeline->life_count && timeline->lives[born].born <= event; born++)
            if (timeline->lives[born].bytes < page->least)
                now[bands->band_of_life[born]] += timeline->lives[born].bytes;
        for (; dead < bands->death_count && timeline->lives[bands->deaths[dead]].died <= event;
             dead++) {
            uint32_t life = bands->deaths[dead];

            if (timeline->lives[life].bytes < page->least)
                now[bands->band_of_life[life]] -= timeline->lives[life].bytes;
        }
        memcpy(amounts[column], now, sizeof now);
    }
    return amounts;
}

static void write_columns(struct page *page)
{
    const struct bands *bands = page->bands;
    struct json *json = &page->json;
    plm_bytes(*small)[BANDS_MOST] = small_at(page, json->out->arena);

    json_key(json, "columns"); /* the moment, reserved bytes, and the small lives of each band */
    json_open(json, '[');
    for (size_t i = 0; i < bands->column_count; i++) {
        json_uint(json, bands->columns[i].event);
        json_uint(json, bands->columns[i].reserved);
        for (size_t j = 0; j < bands->count; j++)
            json_uint(json, small[i][j]);
    }
    json_close(json, ']');
}

static void write_phases(struct page *page)
{
    const struct plm_timeline *timeline = page->report->timeline;
    struct json *json = &page->json;

    json_key(json, "phases");
    json_open(json, '[');
    for (size_t i = 0; i < timeline->phase_count; i++) {
        json_open(json, '[');
        json_uint(json, timeline->phase_events[i]);
        json_string(json, timeline->phases[i].name);
        json_int(json, timeline->phases[i].step);
        json_close(json, ']');
    }
    json_close(json, ']');
}

static void write_bands(struct page *page)
{
    struct json *json = &page->json;

    json_key(json, "bands");
    json_open(json, '[');
    for (size_t i = 0; i < page->bands->count; i++) {
        json_open(json, '[');
        json_string(json, page->bands->names[i]);
        json_string(json, bands_colour(page->bands->names[i]));
        json_close(json, ']');
    }
    json_close(json, ']');
}

static void write_strings(struct page *page)
{
    struct json *json = &page->json;

    json_key(json, "strings");
    json_open(json, '[');
    json_string(json, "");
    for (size_t i = 1; i < page->strings.text_count; i++)
        json_string(json, page->strings.texts[i]);
    json_close(json, ']');
}

static void write_data(struct page *page)
{
    const struct plm_result *r = page->report->result;
    struct json *json = &page->json;

    json_open(json, '{');
    json_field_string(json, "model", r->model);
    json_field_int(json, "batch", r->batch);
    json_field_int(json, "seq", r->seq);
    json_field_uint(json, "events", page->report->timeline->event_count);
    json_field_uint(json, "limit",
                    r->capacity > r->context + r->nccl ? r->capacity - r->context - r->nccl : 0);
    json_field_uint(json, "allocated", r->peak.allocated);
    json_field_uint(json, "reserved", r->peak.reserved);
    json_field_uint(json, "least", page->least);
    json_field_string(json, "failure",
                      r->out_of_memory ? timeline_failure(r, json->out->arena) : "");
    write_bands(page);
    write_phases(page);
    write_columns(page);
    write_large(page);
    write_strings(page);
    json_close(json, '}');
}

void timeline_write_html(const struct timeline_report *report, struct buf *out)
{
    struct page page = {
        .json = { .out = out, .compact = true, .in_page = true },
        .report = report,
        .bands = bands_make(report->timeline, COLUMNS, out->arena),
        .strings = { .arena = out->arena },
    };

    page.least = choose_least(&page, out->arena);
    buf_text(out, timeline_page_head);
    write_data(&page);
    buf_text(out, timeline_page_tail);
}
