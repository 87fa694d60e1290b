/*
 * fuzz/fuzz-memory.c - any settings and any schedule: the allocator must keep its books
 *
 * Input: a line that is PYTORCH_ALLOC_CONF; a byte of flags; two of the capacity in pages of 2 MiB (0: no limit); then
 * 4 bytes an event: kind and stream, size or choice of a live allocation.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "memory/replay.h"

enum { CONF_MOST = 256, EVENTS_MOST = 4096 };

enum flag { FLAG_BY_ADDRESS = 1, FLAG_OLD_DIVISIONS = 2, FLAG_LAG = 4, FLAG_RESUME = 8 };

struct input {
    const uint8_t *next, *end;
};

static unsigned take_byte(struct input *input)
{
    return input->next < input->end ? *input->next++ : 0;
}

static unsigned take_short(struct input *input)
{
    unsigned low = take_byte(input);

    return low | take_byte(input) << 8;
}

static void require(bool truth)
{
    if (!truth)
        abort();
}

static void take_conf(struct input *input, char conf[CONF_MOST])
{
    size_t length = 0;

    for (unsigned c; (c = take_byte(input)) != '\n' && c != 0;)
        if (length + 1 < CONF_MOST)
            conf[length++] = (char)c;
    conf[length] = '\0';
}

/* 5 bits of exponent and 11 of mantissa: from 1 byte to 4 TiB */
static plm_bytes bytes_of(unsigned number)
{
    return (plm_bytes)((number & 0x7ff) + 1) << (number >> 11);
}

static void add_event(struct schedule *schedule, struct input *input, uint32_t *live, size_t *count)
{
    unsigned kind = take_byte(input), stream = take_byte(input), number = take_short(input);
    size_t at = *count > 0 ? number % *count : 0;

    if (kind < 110 || (*count == 0 && kind < 240))
        live[(*count)++] = schedule_alloc(schedule, bytes_of(number), (uint16_t)(stream % 5));
    else if (kind < 120)
        live[(*count)++] = schedule_alloc_chain(
            schedule, (plm_bytes[]){ bytes_of(number), bytes_of(number / 2), 0 }, 3,
            (uint16_t)(stream % 5));
    else if (kind < 140)
        schedule_use(schedule, live[at], (uint16_t)(stream % 5));
    else if (kind >= 250)
        schedule_empty(schedule);
    else if (kind >= 240)
        schedule_mark(schedule, "", 0, 0);
    else {
        schedule_free(schedule, live[at]);
        live[at] = live[--*count];
    }
}

static void walk(const struct memory *memory)
{
    struct memory_sizes sums = { 0 };
    struct memory_segment_view segment;

    for (uint32_t i = 1; i <= memory_segment_limit(memory); i++) {
        if (!memory_segment(memory, i, &segment))
            continue;
        plm_bytes address = segment.address;

        for (memory_block_id block = segment.first; block != 0;) {
            struct memory_block_view view = memory_block(memory, block);
            bool is_live = view.state == MEMORY_BLOCK_LIVE;

            require(view.address == address && view.segment == i);
            sums.requested += view.requested;
            sums.allocated += is_live ? view.bytes : 0;
            sums.active += is_live || view.state == MEMORY_BLOCK_WAITING ? view.bytes : 0;
            sums.reserved += view.state != MEMORY_BLOCK_UNMAPPED ? view.bytes : 0;
            address += view.bytes;
            block = view.next;
        }
        require(address == segment.address + segment.bytes);
    }
    require(memcmp(&sums, &memory_stats(memory)->now, sizeof sums) == 0);
}

struct watcher {
    const struct memory *memory;
    plm_bytes capacity;
};

static void observe(void *user, size_t event, const struct memory_stats *stats)
{
    const struct watcher *watcher = user;

    require(stats->now.allocated <= stats->now.active);
    require(stats->now.active <= stats->now.reserved);
    require(watcher->capacity == 0 || stats->now.reserved <= watcher->capacity);
    if (event % 64 == 0)
        walk(watcher->memory);
}

static void play(const struct schedule *schedule,
                 const struct memory_options *options,
                 struct arena *arena,
                 bool resume)
{
    struct memory *memory = memory_new(arena, options);
    struct watcher watcher = { memory, options->capacity };
    struct replay replay = { .observer = observe, .user = &watcher };

    replay_start(&replay, schedule, memory, arena);
    size_t middle = resume ? schedule->event_count / 2 : 0;

    while (middle > 0 && schedule->events[middle - 1].kind == EVENT_TRY_ALLOC)
        middle--; /* not within a chain */
    bool finished = replay_run(&replay, middle) && replay_run(&replay, schedule->event_count);

    require(finished || memory_failure(replay.memory).rounded > 0);
    require(replay.peak.allocated <= replay.peak.reserved);
    walk(replay.memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = { data, data + size };
    struct arena arena = { 0 };
    struct memory_options options = { .rules = memory_rules_newest };
    struct schedule schedule = { .arena = &arena };
    char conf[CONF_MOST];
    uint32_t live[EVENTS_MOST];
    size_t live_count = 0;

    take_conf(&input, conf);
    unsigned flags = take_byte(&input);

    options.capacity = take_short(&input) * MEMORY_PAGE;
    options.device_total = options.capacity;
    options.events_lag = flags & FLAG_LAG ? 3 : 0;
    options.rules.order_by_address = flags & FLAG_BY_ADDRESS;
    options.rules.divisions_fill_from_last_key = flags & FLAG_OLD_DIVISIONS;
    if (memory_settings_parse(conf, &options.rules, &options.settings, NULL) == PLM_OK) {
        for (size_t i = 0; i < EVENTS_MOST && input.next < input.end; i++)
            add_event(&schedule, &input, live, &live_count);
        require(schedule_check(&schedule, &arena, NULL) == PLM_OK);
        play(&schedule, &options, &arena, flags & FLAG_RESUME);
    }
    arena_finish(&arena);
    return 0;
}
