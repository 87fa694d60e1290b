/*
 * report/table.c - a table for people
 *
 * Columns do not touch: between two there is a gap, and no cell is wider than its column. Where a row would be wider than the page,
 * columns first lose what their cells do not need, then those that may be shortened are, and then columns are dispensed with.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "base/units.h"
#include "report/table.h"
#include "report/utf8.h"

enum { SHORT_LEAST = 6 }; /* columns of a name that is cut */

struct table_cell {
    const char *text;
    enum style style;
};

void table_text(struct table *table, enum style style, const char *text)
{
    struct table_cell cell = { text ? text : "", style };

    arena_push(table->arena, table->cells, table->cell_count, table->cell_capacity, cell);
}

void table_bytes(struct table *table, enum style style, plm_bytes bytes, const char *zero)
{
    char text[UNITS_TEXT];

    if (bytes == 0 && zero)
        table_text(table, style, zero);
    else
        table_printf(table, style, "%s", units_format_bytes(bytes, text));
}

void table_printf(struct table *table, enum style style, const char *format, ...)
{
    char text[64];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    table_text(table, style, arena_copy(table->arena, text, strlen(text)));
}

/* ------------------------------------------------------------------ widths */

static const struct table_cell *cell_at(const struct table *table, size_t row, size_t i)
{
    return &table->cells[row * table->column_count + i];
}

static size_t row_count(const struct table *table)
{
    return table->cell_count / table->column_count;
}

static size_t gap_of(const struct table *table, size_t i)
{
    return table->columns[i].gap ? table->columns[i].gap : i > 0;
}

/* needed() - columns that the cells and the title take */
static size_t needed(const struct table *table, size_t i)
{
    size_t width = table->columns[i].title ? utf8_columns(table->columns[i].title) : 0;

    for (size_t row = 0; row < row_count(table); row++)
        width = num_max(width, utf8_columns(cell_at(table, row, i)->text));
    return width;
}

static size_t total(const struct table *table)
{
    size_t width = table->indent;

    for (size_t i = 0; i < table->column_count; i++)
        if (table->widths[i] > 0)
            width += gap_of(table, i) + (table->columns[i].wraps ? SHORT_LEAST : table->widths[i]);
    return width;
}

/* narrow() - take from a column what is too much, and leave it @least */
static void narrow(struct table *table, size_t i, size_t least)
{
    size_t over = total(table) > LAYOUT_WIDTH ? total(table) - LAYOUT_WIDTH : 0;
    size_t spare = table->widths[i] > least ? table->widths[i] - least : 0;

    table->widths[i] -= num_min(over, spare);
}

size_t table_measure(struct table *table)
{
    const struct table_column *columns = table->columns;
    size_t count = table->column_count;

    table->widths = arena_array(table->arena, size_t, count);
    for (size_t i = 0; i < count; i++) {
        table->widths[i] =
            columns[i].shortens ? columns[i].width : num_max(columns[i].width, needed(table, i));
    }
    for (size_t i = count; i-- > 0;)
        narrow(table, i, needed(table, i));
    for (size_t i = 0; i < count; i++)
        if (columns[i].shortens)
            narrow(table, i, SHORT_LEAST);
    for (size_t i = 0; i < count && total(table) > LAYOUT_WIDTH; i++)
        if (columns[i].dispensed)
            table->widths[i] = 0;
    return total(table);
}

/* ------------------------------------------------------------------ lines */

/* struct place - how far a line is; spaces are only written when something follows */
struct place {
    struct layout *layout;
    size_t column;
};

/* put_wrapped() - and the line's end */
static void put_wrapped(struct place *place, size_t at, enum style style, const char *text)
{
    layout_left(place->layout, "", at - place->column);
    if (style != STYLE_PLAIN)
        layout_style(place->layout, style);
    layout_wrap(place->layout, text, at, at);
    if (style != STYLE_PLAIN)
        layout_style(place->layout, STYLE_PLAIN);
}

static void put(struct place *place, size_t at, enum style style, const char *text, size_t width)
{
    layout_left(place->layout, "", at - place->column);
    if (style != STYLE_PLAIN)
        layout_style(place->layout, style);
    layout_left(place->layout, text, width);
    if (style != STYLE_PLAIN)
        layout_style(place->layout, STYLE_PLAIN);
    place->column = at + width;
}

/* put_cell() - in the column that begins at @start */
static void put_cell(struct place *place,
                     const struct table *table,
                     size_t i,
                     size_t start,
                     enum style style,
                     const char *text)
{
    size_t width = num_min(utf8_columns(text), table->widths[i]);
    size_t at = table->columns[i].align == TABLE_RIGHT ? start + table->widths[i] - width : start;

    if (width > 0 && (at > place->column || place->column == 0))
        put(place, at, style, text, width);
}

void table_titles(const struct table *table, struct layout *layout, const char *heading)
{
    struct place place = { layout, 0 };
    size_t start = table->indent;
    enum style style = table->bold ? STYLE_BOLD : STYLE_DIM;

    if (heading)
        put(&place, 0, STYLE_BOLD, heading, utf8_columns(heading));
    for (size_t i = 0; i < table->column_count; i++) {
        if (table->widths[i] == 0)
            continue;
        start += gap_of(table, i);
        if (table->columns[i].wraps) {
            put_wrapped(&place, start, style, table->columns[i].title);
            return;
        }
        if (table->columns[i].title)
            put_cell(&place, table, i, start, style, table->columns[i].title);
        start += table->widths[i];
    }
    buf_char(layout->out, '\n');
}

void table_row(const struct table *table, struct layout *layout, size_t row)
{
    struct place place = { layout, 0 };
    size_t start = table->indent;

    for (size_t i = 0; i < table->column_count; i++) {
        const struct table_cell *cell = cell_at(table, row, i);

        if (table->widths[i] == 0)
            continue;
        start += gap_of(table, i);
        if (table->columns[i].wraps) {
            put_wrapped(&place, start, cell->style, cell->text);
            return;
        }
        put_cell(&place, table, i, start, cell->style, cell->text);
        start += table->widths[i];
    }
    buf_char(layout->out, '\n');
}

void table_print(struct table *table, struct layout *layout, const char *heading)
{
    bool titles = heading != NULL;

    table_measure(table);
    for (size_t i = 0; i < table->column_count; i++)
        titles = titles || table->columns[i].title;
    if (heading)
        buf_char(layout->out, '\n');
    if (titles)
        table_titles(table, layout, heading);
    for (size_t row = 0; row < row_count(table); row++)
        table_row(table, layout, row);
}
