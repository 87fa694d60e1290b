/*
 * report/json.c - JSON written as it comes (RFC 8259)
 *
 * Invariant: filled[depth - 1] says whether the innermost open bracket needs a comma before its next member.
 */
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/json.h"
#include "report/utf8.h"

static void new_line(struct json *json)
{
    if (json->compact) {
        if (json->line)
            buf_char(json->out, '\n');
        json->line = false;
        return;
    }
    buf_char(json->out, '\n');
    for (unsigned i = 0; i < json->depth; i++)
        buf_text(json->out, "  ");
}

/* before() - what separates the next value or key from what stands there already */
static void before(struct json *json)
{
    if (json->after_key) {
        json->after_key = false;
        return;
    }
    if (json->depth == 0)
        return;
    if (json->filled[json->depth - 1])
        buf_char(json->out, ',');
    json->filled[json->depth - 1] = true;
    new_line(json);
}

void json_open(struct json *json, char bracket)
{
    before(json);
    assert(json->depth < JSON_DEPTH);
    buf_char(json->out, bracket);
    json->filled[json->depth++] = false;
}

void json_close(struct json *json, char bracket)
{
    bool filled = json->filled[--json->depth];

    if (filled)
        new_line(json);
    buf_char(json->out, bracket);
}

static void escaped(struct buf *out, const char *text, bool in_page)
{
    buf_char(out, '"');
    while (*text) {
        size_t length = utf8_length(text);
        unsigned char c = (unsigned char)*text;

        if (length == 0)
            buf_text(out, "\xef\xbf\xbd"); /* U+FFFD */
        else if (c == '"' || c == '\\')
            buf_printf(out, "\\%c", c);
        else if (c == '\n')
            buf_text(out, "\\n");
        else if (c == '\t')
            buf_text(out, "\\t");
        else if (c < 0x20 || c == 0x7f || (in_page && c == '<'))
            buf_printf(out, "\\u%04x", c);
        else
            buf_add(out, text, length);
        text += length ? length : 1;
    }
    buf_char(out, '"');
}

void json_key(struct json *json, const char *key)
{
    before(json);
    escaped(json->out, key, json->in_page);
    buf_text(json->out, json->compact ? ":" : ": ");
    json->after_key = true;
}

void json_string(struct json *json, const char *text)
{
    before(json);
    if (text)
        escaped(json->out, text, json->in_page);
    else
        buf_text(json->out, "null");
}

void json_int(struct json *json, int64_t value)
{
    before(json);
    buf_printf(json->out, "%" PRId64, value);
}

void json_uint(struct json *json, uint64_t value)
{
    before(json);
    buf_printf(json->out, "%" PRIu64, value);
}

void json_real(struct json *json, double value)
{
    char text[32];

    before(json);
    if (!isfinite(value)) {
        buf_text(json->out, "null");
        return;
    }
    snprintf(text, sizeof text, "%.6g", value);
    /* a host program's locale may write a comma */
    for (char *c = text; *c; c++)
        if (*c == ',')
            *c = '.';
    buf_text(json->out, text);
}

void json_bool(struct json *json, bool value)
{
    before(json);
    buf_text(json->out, value ? "true" : "false");
}

void json_null(struct json *json)
{
    json_string(json, NULL);
}

void json_field_string(struct json *json, const char *key, const char *text)
{
    json_key(json, key);
    json_string(json, text);
}

void json_field_int(struct json *json, const char *key, int64_t value)
{
    json_key(json, key);
    json_int(json, value);
}

void json_field_uint(struct json *json, const char *key, uint64_t value)
{
    json_key(json, key);
    json_uint(json, value);
}

void json_field_real(struct json *json, const char *key, double value)
{
    json_key(json, key);
    json_real(json, value);
}

void json_field_bool(struct json *json, const char *key, bool value)
{
    json_key(json, key);
    json_bool(json, value);
}

void json_field_null(struct json *json, const char *key)
{
    json_key(json, key);
    json_null(json);
}

void json_line(struct json *json)
{
    json->line = true;
}

void json_finish(struct json *json)
{
    buf_char(json->out, '\n');
}
