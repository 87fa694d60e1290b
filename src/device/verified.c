/* device/verified.c - the verified: section of a profile: written, read, and what it does to the margin */
#include <inttypes.h>
#include <string.h>

#include "base/num.h"
#include "device/measured.h"
#include "device/verified.h"
#include "yaml/decode.h"

static const char heading[] = "verified:\n";

/* 1 PiB: larger than any device, small enough that no sum of margins overflows. */
static const plm_bytes SIZE_MOST = (plm_bytes)1 << 50;

/* ------------------------------------------------------------------ reading */

#define ROW(key_, type_)                                                                           \
    {                                                                                              \
        .key = #key_, .type = type_, .required = true,                                             \
        .offset = offsetof(struct verified_line, key_), .help = ""                                 \
    }

static const struct decode_row rows[] = {
    ROW(date, DECODE_TEXT),  ROW(model, DECODE_TEXT),    ROW(batch, DECODE_INT),
    ROW(holds, DECODE_BOOL), ROW(planned, DECODE_BYTES), ROW(used, DECODE_BYTES),
    ROW(free, DECODE_BYTES), ROW(left, DECODE_BYTES),    ROW(left_at_least, DECODE_BOOL),
};

enum plm_status verified_read(const struct yaml_node *node,
                              struct arena *arena,
                              const struct verified_line **ret_lines,
                              size_t *ret_count,
                              struct plm_error *reterr)
{
    struct verified_line *lines = arena_array(arena, struct verified_line, node->item_count);

    for (size_t i = 0; i < node->item_count; i++) {
        enum plm_status status =
            decode_mapping(node->items[i], "a plan that was verified", rows,
                           sizeof rows / sizeof *rows, NULL, &lines[i], reterr);

        if (status != PLM_OK)
            return status;
        if (lines[i].left > lines[i].free)
            return plm_fail_at(reterr, PLM_E_RANGE, node->items[i]->at,
                               "'left' is part of 'free', and must not be above it");
        if (lines[i].used > SIZE_MOST || lines[i].free > SIZE_MOST)
            return plm_fail_at(reterr, PLM_E_RANGE, node->items[i]->at,
                               "'used' and 'free' must be at most 1 PiB, more than any device has");
    }
    *ret_lines = lines;
    *ret_count = node->item_count;
    return PLM_OK;
}

/* ------------------------------------------------------------------ the margin */

void verified_narrow(const struct verified_line *lines,
                     size_t line_count,
                     plm_bytes total,
                     struct measured_margin *margin)
{
    plm_bytes beyond = 0, unusable = 0;
    bool filled = false, exact = false;

    for (size_t i = 0; i < line_count; i++) {
        const struct verified_line *line = &lines[i];

        if (!line->holds || line->used < total / 2)
            continue;
        filled = true;
        beyond = num_max(beyond, line->used > line->planned ? line->used - line->planned : 0);
        if (line->left_at_least)
            continue;
        exact = true;
        unusable = num_max(unusable, line->free - line->left);
    }
    if (filled)
        margin->residual = beyond;
    if (exact)
        margin->unusable = unusable;
    margin->margin = margin->residual + margin->spread + margin->unusable + margin->framework;
}

/* ------------------------------------------------------------------ writing */

static void write_line(const struct verified_line *line, struct buf *out)
{
    buf_printf(out, "    - {date: %s, model: ", line->date);
    measured_quote(out, line->model);
    buf_printf(out,
               ", batch: %" PRId64 ", holds: %s, planned: %" PRIu64 ", used: %" PRIu64
               ", free: %" PRIu64 ", left: %" PRIu64 ", left_at_least: %s}\n",
               line->batch, line->holds ? "true" : "false", line->planned, line->used, line->free,
               line->left, line->left_at_least ? "true" : "false");
}

/* line_length() - of the line at @at, with its end */
static size_t line_length(const char *at)
{
    size_t length = strcspn(at, "\n");

    return length + (at[length] == '\n');
}

/* find_section() - where the heading begins, or NULL */
static const char *find_section(const char *profile)
{
    for (const char *at = profile; *at; at += line_length(at))
        if (strncmp(at, heading, sizeof heading - 1) == 0)
            return at;
    return NULL;
}

/* section_end() - the section is what is indented below its heading */
static const char *section_end(const char *at)
{
    while (*at == ' ')
        at += line_length(at);
    return at;
}

void verified_add(const char *profile, const struct verified_line *line, struct buf *out)
{
    const char *section = find_section(profile), *first, *end;
    size_t count = 0;

    if (!section) {
        size_t length = strlen(profile);

        buf_add(out, profile, length);
        if (length > 0 && profile[length - 1] != '\n')
            buf_char(out, '\n');
        buf_text(out, heading);
        write_line(line, out);
        return;
    }
    first = section + sizeof heading - 1;
    end = section_end(first);
    buf_add(out, profile, (size_t)(first - profile));
    for (const char *at = first; at < end; at += line_length(at))
        count++;
    for (; count >= VERIFIED_LINES; count--)
        first += line_length(first);
    buf_add(out, first, (size_t)(end - first));
    if (end > first && end[-1] != '\n')
        buf_char(out, '\n');
    write_line(line, out);
    buf_text(out, end);
}
