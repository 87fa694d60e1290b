/*
 * report/pickle.h - Python's pickle format, protocol 2, as far as plain data needs it
 *
 *     pickle_begin(&pickle);
 *     pickle_open_dict(&pickle);
 *     pickle_string(&pickle, "size");
 *     pickle_int(&pickle, 512);
 *     pickle_close(&pickle);
 *     pickle_end(&pickle);
 *
 * A string is written once and then referred to, so that repeated keys cost two bytes.
 */
#ifndef PLM_REPORT_PICKLE_H
#define PLM_REPORT_PICKLE_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/names.h"

enum { PICKLE_DEPTH = 16 };

/* struct pickle - zero-initialise all but @out and @strings.arena */
struct pickle {
    struct buf *out;
    struct names strings; /* those written so far; an id is the memo's number */
    unsigned depth;
    struct {
        bool dict;
        unsigned pending; /* values since the last mark */
    } open[PICKLE_DEPTH];
};

void pickle_begin(struct pickle *pickle);
void pickle_end(struct pickle *pickle);

void pickle_open_dict(struct pickle *pickle); /* then keys and values in turn */
void pickle_open_list(struct pickle *pickle);
void pickle_close(struct pickle *pickle);

void pickle_string(struct pickle *pickle, const char *text); /* UTF-8 */
void pickle_int(struct pickle *pickle, int64_t value);
void pickle_uint(struct pickle *pickle, uint64_t value);
void pickle_real(struct pickle *pickle, double value);
void pickle_bool(struct pickle *pickle, bool value);
void pickle_pair(struct pickle *pickle, int64_t first, int64_t second); /* a tuple of two numbers */

/* fields of a dict */
void pickle_field_string(struct pickle *pickle, const char *key, const char *text);
void pickle_field_uint(struct pickle *pickle, const char *key, uint64_t value);
void pickle_field_int(struct pickle *pickle, const char *key, int64_t value);
void pickle_field_bool(struct pickle *pickle, const char *key, bool value);

#endif
