/*
 * replay/replay-trace.c - hold the allocator against a recording of the real one, event by event
 *
 *     replay-trace [--time] NAME.trace …
 *
 * Compared after every event: which segments were taken from the device and given back, in order; where the block was
 * placed; reserved bytes; whether the request failed. At the end of each phase: allocated, reserved and their
 * peaks; at the end: both peaks and the counts of retries and failures. convert.py describes the text.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "memory/replay.h"

enum { UNIT = 512, LINE = 256, NAME = 48, SEGMENTS_MOST = 4096 };

struct device_line {
    char kind; /* s, r, m, u */
    uint16_t stream;
    plm_bytes bytes, address;
};

/* struct expected - of one event of the schedule */
struct expected {
    size_t device_end; /* the device lines up to here were printed when the event was over */
    plm_bytes address; /* of an allocation */
    bool fails;
    plm_bytes reserved;
};

struct phase {
    char name[NAME];
    plm_bytes allocated, reserved, peak_allocated, peak_reserved;
};

struct trace {
    struct arena *arena;
    char torch[NAME];
    char conf[LINE];
    plm_bytes total, capacity, peak_allocated, peak_reserved;
    uint64_t retries, ooms;
    struct schedule schedule;
    struct device_line *lines;
    size_t line_count, line_capacity;
    struct expected *expected; /* [schedule.event_count] */
    size_t expected_count, expected_capacity;
    struct phase *phases;
    size_t phase_count, phase_capacity;
    plm_bytes reserved;
};

/* struct delta - how far a segment of ours is from the recorded one; the same for all that is in it */
struct delta {
    bool known;
    plm_bytes value;
};

struct check {
    const char *file;
    const struct trace *trace;
    const struct replay *replay;
    struct memory *memory;
    struct delta deltas[SEGMENTS_MOST]; /* by segment */
    size_t line;                        /* the next device line to see */
    size_t event;                       /* being played */
    unsigned wrong_count;
};

#define WRONG_MOST 5

static void wrong(struct check *check, const char *what, plm_bytes is, plm_bytes expected)
{
    if (check->wrong_count++ < WRONG_MOST)
        printf("%s: event %zu: %s is %llu, but was %llu\n", check->file, check->event, what,
               (unsigned long long)is, (unsigned long long)expected);
}

static void check_equal(struct check *check, const char *what, plm_bytes is, plm_bytes expected)
{
    if (is != expected)
        wrong(check, what, is, expected);
}

static uint32_t segment_at(const struct memory *memory, plm_bytes address)
{
    struct memory_segment_view view;

    for (uint32_t i = 1; i <= memory_segment_limit(memory); i++)
        if (i < SEGMENTS_MOST && memory_segment(memory, i, &view) &&
            address - view.address < view.bytes)
            return i;
    return 0; /* of no segment; its delta catches that */
}

static void check_address(struct check *check, plm_bytes is, plm_bytes expected)
{
    struct delta *delta = &check->deltas[segment_at(check->memory, is)];

    if (!delta->known)
        *delta = (struct delta){ .known = true, .value = is - expected };
    check_equal(check, "the address", is - delta->value, expected);
}

/* A segment whose number was another's before starts with a delta of its own. */
static bool is_new(const struct memory *memory, uint32_t segment)
{
    struct memory_segment_view view;

    if (!memory_segment(memory, segment, &view))
        return false;
    for (memory_block_id block = view.first; block != 0; block = memory_block(memory, block).next)
        if (view.expandable && memory_block(memory, block).state != MEMORY_BLOCK_UNMAPPED)
            return false;
    return true;
}

static void watch(
    void *user, enum memory_device_event event, plm_bytes address, plm_bytes bytes, uint16_t stream)
{
    static const char kinds[] = { 's', 'r', 'm', 'u' };
    struct check *check = user;

    if (check->line == check->trace->line_count) {
        wrong(check, "one more segment", bytes, 0);
        return;
    }
    const struct device_line *line = &check->trace->lines[check->line++];

    check_equal(check, "the kind of segment event", (plm_bytes)kinds[event], (plm_bytes)line->kind);
    check_equal(check, "the segment's size", bytes, line->bytes);
    check_equal(check, "the segment's stream", stream, line->stream);
    uint32_t segment = segment_at(check->memory, address);

    if (event == MEMORY_SEGMENT_ALLOC ||
        (event == MEMORY_SEGMENT_MAP && is_new(check->memory, segment)))
        check->deltas[segment].known = false;
    check_address(check, address, line->address);
}

static void observe(void *user, size_t event, const struct memory_stats *stats)
{
    struct check *check = user;
    const struct event *it = &check->replay->schedule->events[event];
    const struct expected *expected = &check->trace->expected[event];

    check->event = event;
    check_equal(check, "the number of segment events", check->line, expected->device_end);
    check_equal(check, "reserved", stats->now.reserved, expected->reserved);
    if (it->kind == EVENT_ALLOC || it->kind == EVENT_TRY_ALLOC) {
        memory_block_id block = check->replay->blocks[it->allocation];

        check_equal(check, "failing", block == 0, expected->fails);
        if (block != 0)
            check_address(check, memory_block(check->memory, block).address, expected->address);
    }
}

static void expect(struct trace *trace, plm_bytes address, bool fails)
{
    while (trace->expected_count < trace->schedule.event_count)
        arena_push(trace->arena, trace->expected, trace->expected_count, trace->expected_capacity,
                   (struct expected){ .device_end = trace->line_count,
                                      .address = address,
                                      .fails = fails,
                                      .reserved = trace->reserved });
}

static void read_device(struct trace *trace, char kind, const plm_bytes numbers[3])
{
    struct device_line line = { .kind = kind,
                                .bytes = numbers[0],
                                .stream = (uint16_t)numbers[1],
                                .address = numbers[2] * UNIT };

    arena_push(trace->arena, trace->lines, trace->line_count, trace->line_capacity, line);
    trace->reserved += kind == 's' || kind == 'm' ? line.bytes : -line.bytes;
}

static bool read_phase(struct trace *trace, const char *text)
{
    struct phase phase;
    unsigned long long numbers[4];

    if (sscanf(text, "p %47s %llu %llu %llu %llu", phase.name, &numbers[0], &numbers[1],
               &numbers[2], &numbers[3]) != 5)
        return false;
    phase.allocated = numbers[0];
    phase.reserved = numbers[1];
    phase.peak_allocated = numbers[2];
    phase.peak_reserved = numbers[3];
    arena_push(trace->arena, trace->phases, trace->phase_count, trace->phase_capacity, phase);
    schedule_mark(&trace->schedule, "", 0, 0);
    return true;
}

static bool read_event(struct trace *trace, const char *text)
{
    plm_bytes numbers[3] = { 0 };
    const char *rest = text + 1;
    plm_bytes address = 0;
    bool fails = false;

    if (text[0] == 'p' && !read_phase(trace, text))
        return false;
    for (size_t i = 0; text[0] != 'p' && i < 3 && *rest == ' '; i++) {
        char *end;

        numbers[i] = strtoull(rest, &end, 10);
        rest = end;
    }
    switch (text[0]) {
    case 's':
    case 'r':
    case 'm':
    case 'u':
        read_device(trace, text[0], numbers);
        return true;
    case 'a':
        schedule_alloc(&trace->schedule, numbers[0], (uint16_t)numbers[1]);
        address = numbers[2] * UNIT;
        break;
    case 'w':
        schedule_use(&trace->schedule, (uint32_t)numbers[0], UINT16_MAX);
        schedule_free(&trace->schedule, (uint32_t)numbers[0]);
        break;
    case 'f':
        schedule_free(&trace->schedule, (uint32_t)numbers[0]);
        break;
    case 'o':
        schedule_alloc_chain(&trace->schedule, (plm_bytes[]){ numbers[0], 0 }, 2,
                             (uint16_t)numbers[1]);
        fails = true;
        break;
    case 'e':
        schedule_empty(&trace->schedule);
        break;
    case 'p':
        break;
    default:
        return false;
    }
    expect(trace, address, fails);
    return true;
}

static bool read_header(struct trace *trace, const char *text)
{
    const char *value = strchr(text, ' ');
    unsigned long long number = value ? strtoull(value, NULL, 10) : 0;

    if (!value)
        return false;
    if (strncmp(text, "torch ", 6) == 0)
        snprintf(trace->torch, sizeof trace->torch, "%.40s", value + 1);
    else if (strncmp(text, "conf ", 5) == 0)
        snprintf(trace->conf, sizeof trace->conf, "%s", value + 1);
    else if (strncmp(text, "total ", 6) == 0)
        trace->total = number;
    else if (strncmp(text, "capacity ", 9) == 0)
        trace->capacity = number;
    else if (strncmp(text, "peak_allocated ", 15) == 0)
        trace->peak_allocated = number;
    else if (strncmp(text, "peak_reserved ", 14) == 0)
        trace->peak_reserved = number;
    else if (strncmp(text, "retries ", 8) == 0)
        trace->retries = number;
    else if (strncmp(text, "ooms ", 5) == 0)
        trace->ooms = number;
    else
        return false;
    return true;
}

static bool read_trace(struct trace *trace, const char *path)
{
    FILE *file = fopen(path, "r");
    char line[LINE];
    bool in_events = false, good = file != NULL;

    schedule_mark(&trace->schedule, "", 0, 0);
    expect(trace, 0, false);
    while (good && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        if (!in_events && strcmp(line, "events") == 0)
            in_events = true;
        else
            good = in_events ? read_event(trace, line) : read_header(trace, line);
        if (!good)
            printf("%s: cannot read '%s'\n", path, line);
    }
    if (file)
        fclose(file);
    return good && in_events;
}

/* PyTorch before 2.15 may order blocks by address; measured for 2.6 and 2.11. */
static struct memory_rules rules_of(const char *torch)
{
    struct memory_rules rules = memory_rules_newest;

    rules.order_by_address = strcmp(torch, "2.11.0") == 0 || strcmp(torch, "2.6.0") == 0;
    return rules;
}

static void check_end(struct check *check, const struct replay *replay)
{
    const struct trace *trace = check->trace;
    const struct memory_stats *stats = memory_stats(check->memory);

    for (size_t i = 0; i < trace->phase_count; i++) {
        const struct phase *phase = &trace->phases[i];
        const struct replay_phase *is = &replay->phases[i];

        check->event = replay->schedule->marks[i + 1].event;
        check_equal(check, phase->name, is->end.allocated, phase->allocated);
        check_equal(check, phase->name, is->end.reserved, phase->reserved);
        check_equal(check, phase->name, is->peak.allocated, phase->peak_allocated);
        check_equal(check, phase->name, is->peak.reserved, phase->peak_reserved);
    }
    check->event = replay->schedule->event_count;
    check_equal(check, "the number of segment events", check->line, trace->line_count);
    check_equal(check, "peak allocated", replay->peak.allocated, trace->peak_allocated);
    check_equal(check, "peak reserved", replay->peak.reserved, trace->peak_reserved);
    check_equal(check, "the number of retries", stats->retries, trace->retries);
    check_equal(check, "the number of failures", stats->ooms, trace->ooms);
}

/* How long an event takes, without any comparing: the best of many replays. */
static void time_trace(const char *path, const struct trace *trace, struct memory *memory)
{
    double best = 1e9;
    struct replay replay = { 0 };

    memory_watch(memory, NULL, NULL);
    for (int i = 0; i < 200; i++) {
        struct timespec begin, end;

        memory_reset(memory, trace->capacity, trace->total);
        replay_start(&replay, &trace->schedule, memory, trace->arena);
        timespec_get(&begin, TIME_UTC);
        bool finished = replay_run(&replay, trace->schedule.event_count);

        timespec_get(&end, TIME_UTC);
        double seconds =
            (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);

        if (finished && seconds < best)
            best = seconds;
    }
    printf("%s: %.1f ns an event\n", path, best * 1e9 / (double)trace->schedule.event_count);
}

static bool check_trace(const char *path, bool timed, struct arena *arena)
{
    struct trace trace = { .arena = arena, .schedule = { .arena = arena } };
    struct memory_options options = { 0 };
    struct plm_error error;

    if (!read_trace(&trace, path))
        return false;
    options.rules = rules_of(trace.torch);
    options.capacity = trace.capacity;
    options.device_total = trace.total;
    if (memory_settings_parse(trace.conf, &options.rules, &options.settings, &error) != PLM_OK ||
        schedule_check(&trace.schedule, arena, &error) != PLM_OK) {
        printf("%s: %s\n", path, error.message);
        return false;
    }
    struct memory *memory = memory_new(arena, &options);
    struct check *check = arena_new(arena, struct check);
    struct replay replay = { .observer = observe, .user = check };

    check->file = path;
    check->trace = &trace;
    check->replay = &replay;
    check->memory = memory;
    memory_watch(memory, watch, check);
    replay_start(&replay, &trace.schedule, memory, arena);
    if (!replay_run(&replay, trace.schedule.event_count))
        wrong(check, "stopping", replay.event, trace.schedule.event_count);
    check_end(check, &replay);
    printf("%s: %zu events, %zu segment events, %zu phases: %s\n", path, trace.schedule.event_count,
           trace.line_count, trace.phase_count, check->wrong_count == 0 ? "equal" : "different");
    if (timed)
        time_trace(path, &trace, memory);
    return check->wrong_count == 0;
}

int main(int argc, char **argv)
{
    struct arena arena = { 0 };
    bool timed = argc > 1 && strcmp(argv[1], "--time") == 0;
    int failed = argc < 2;

    for (int i = 1 + timed; i < argc; i++) {
        failed += !check_trace(argv[i], timed, &arena);
        arena_reset(&arena);
    }
    arena_finish(&arena);
    return failed != 0;
}
