/*
 * report/table.h - a table for people: columns as wide as what is in them, with a space between at least, 80 columns in all
 *
 * Cells are given row by row and printed when all are known.
 */
#ifndef PLM_REPORT_TABLE_H
#define PLM_REPORT_TABLE_H

#include "report/layout.h"

enum table_align { TABLE_LEFT, TABLE_RIGHT };

struct table_column {
    const char *title; /* NULL: none */
    enum table_align align;
    size_t
        width; /* while there is room; wider where a cell is; one of 0 whose cells are all empty is left out */
    size_t gap; /* spaces before it; 0: one, and none before the first */
    bool
        shortens; /* never wider than @width, and less where there is no room: cells keep their end, "…h.11.attn" */
    bool dispensed; /* left out where there is no room even so */
    bool wraps;     /* the last one: takes the rest of the page, and lines go on below each other */
};

struct table {
    struct arena *arena;
    size_t indent;
    bool bold;                          /* the titles */
    const struct table_column *columns; /* [column_count] */
    size_t column_count;
    struct table_cell *cells;
    size_t cell_count, cell_capacity;
    size_t *widths; /* [column_count], once it is measured; 0: not shown */
};

/* TABLE() - an empty one, by an array of columns */
#define TABLE(layout, indent_, columns_)                                                           \
    (struct table)                                                                                 \
    {                                                                                              \
        .arena = (layout)->out->arena, .indent = (indent_), .columns = (columns_),                 \
        .column_count = sizeof(columns_) / sizeof *(columns_)                                      \
    }

void table_text(struct table *table, enum style style, const char *text);
void table_bytes(struct table *table, enum style style, plm_bytes bytes, const char *zero);
void table_printf(struct table *table, enum style style, const char *format, ...) PLM_PRINTF(3, 4);

/* table_measure() - the columns' widths, from all cells; returns the columns that a whole row takes */
size_t table_measure(struct table *table);

/* table_titles() - a line with @heading at its beginning, and the titles */
void table_titles(const struct table *table, struct layout *layout, const char *heading);

void table_row(const struct table *table, struct layout *layout, size_t row);

/* table_print() - measured, with titles (after an empty line, when there is a heading) and rows */
void table_print(struct table *table, struct layout *layout, const char *heading);

#endif
