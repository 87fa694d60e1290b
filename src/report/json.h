/*
 * report/json.h - JSON written as it comes, without a tree
 *
 *     json_open(&json, '{');
 *     json_field_uint(&json, "batch", 8);
 *     json_key(&json, "steps");
 *     json_open(&json, '[');
 *     …
 *     json_close(&json, ']');
 *     json_close(&json, '}');
 *
 * The writer places commas, line breaks and indentation. Integers are written in full, never as floating point;
 * text is escaped, and what is not UTF-8 becomes U+FFFD. Nesting is at most JSON_DEPTH.
 */
#ifndef PLM_REPORT_JSON_H
#define PLM_REPORT_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

enum { JSON_DEPTH = 16 };

/* struct json - zero-initialise all but @out */
struct json {
    struct buf *out;
    bool compact; /* everything on one line */
    bool in_page; /* inside HTML's <script>: '<' is escaped */
    unsigned depth;
    bool filled[JSON_DEPTH]; /* does the object or array at this depth have a member yet */
    bool after_key;
    bool line; /* json_line() was called */
};

void json_open(struct json *json, char bracket);  /* '{' or '[' */
void json_close(struct json *json, char bracket); /* '}' or ']' */
void json_key(struct json *json, const char *key);

void json_string(struct json *json, const char *text); /* NULL: null */
void json_int(struct json *json, int64_t value);
void json_uint(struct json *json, uint64_t value);
void json_real(struct json *json, double value); /* six significant digits; not finite: null */
void json_bool(struct json *json, bool value);
void json_null(struct json *json);

void json_field_string(struct json *json, const char *key, const char *text);
void json_field_int(struct json *json, const char *key, int64_t value);
void json_field_uint(struct json *json, const char *key, uint64_t value);
void json_field_real(struct json *json, const char *key, double value);
void json_field_bool(struct json *json, const char *key, bool value);
void json_field_null(struct json *json, const char *key);

/* json_line() - in compact text, the next member begins on a new line */
void json_line(struct json *json);

/* json_finish() - the line's end after the last bracket */
void json_finish(struct json *json);

#endif
