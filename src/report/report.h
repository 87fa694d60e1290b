/*
 * report/report.h - one answer, three ways to write it
 *
 * A report points at what the library answered; a renderer writes it as text for people, JSON or CSV for programs.
 * Renderers only append to a buf: nothing is printed here, and an answer is never half-written.
 */
#ifndef PLM_REPORT_REPORT_H
#define PLM_REPORT_REPORT_H

#include <stdbool.h>

#include "base/buf.h"
#include "plimsoll/plimsoll.h"

enum { REPORT_SCHEMA_VERSION = 1 }; /* of the JSON; grows when a key changes its meaning or goes */

/* struct report - an answer with what was asked */
struct report {
    const struct plm_strategy *strategy;
    const char *device_name; /* as asked for; NULL: none */
    const struct plm_result *result;
    const struct plm_search *search;    /* NULL: an estimate */
    const struct plm_plan_result *plan; /* with @search */
    bool colour;                        /* escape sequences are welcome */
};

/* how a list's cells are written; numbers stand on the right */
enum cell_kind {
    CELL_TEXT,
    CELL_COUNT, /* 124,439,808 in text, an integer elsewhere */
    CELL_BYTES, /* 79.10 GiB in text, an integer elsewhere */
};

struct column {
    const char *key;   /* in JSON and CSV */
    const char *title; /* in text; NULL: not shown there */
    enum cell_kind kind;
};

struct cell {
    const char *text; /* CELL_TEXT; NULL: nothing */
    uint64_t number;
};

/* struct list - what `models`, `devices` and `ops` print */
struct list {
    const char *name; /* the key of the JSON array */
    const struct column *columns;
    size_t column_count;
    const struct cell *cells; /* [row_count][column_count] */
    size_t row_count;
    bool colour;
};

struct compare_report; /* report/compare.h */
struct difference_report;

struct renderer {
    void (*estimate)(const struct report *report, struct buf *out);
    void (*plan)(const struct report *report, struct buf *out);
    void (*list)(const struct list *list, struct buf *out);
    void (*compare)(const struct compare_report *report, struct buf *out);
    void (*difference)(const struct difference_report *report, struct buf *out);
};

extern const struct renderer renderer_text, renderer_json, renderer_csv;

#endif
