/* report/text_list.c - a list in aligned columns; the last one wraps */
#include <string.h>

#include "base/num.h"
#include "base/units.h"
#include "report/text.h"
#include "report/utf8.h"

enum { GAP = 2 };

static const char *cell_text(const struct list *list, size_t row, size_t i, char text[UNITS_TEXT])
{
    const struct cell *cell = &list->cells[row * list->column_count + i];

    switch (list->columns[i].kind) {
    case CELL_TEXT:
        return cell->text ? cell->text : "";
    case CELL_COUNT:
        return units_format_grouped(cell->number, text);
    case CELL_BYTES:
        return units_format_bytes(cell->number, text);
    }
    return "";
}

static size_t column_width(const struct list *list, size_t i)
{
    size_t width = utf8_columns(list->columns[i].title);
    char text[UNITS_TEXT];

    for (size_t row = 0; row < list->row_count; row++)
        width = num_max(width, utf8_columns(cell_text(list, row, i, text)));
    return width;
}

/* last_shown() - the number of the last column that has a title */
static size_t last_shown(const struct list *list)
{
    size_t last = 0;

    for (size_t i = 0; i < list->column_count; i++)
        if (list->columns[i].title)
            last = i;
    return last;
}

/* print_row() - @row of the list, or its titles when @row is the number of rows */
static void print_row(struct layout *layout,
                      const struct list *list,
                      const size_t *widths,
                      size_t row)
{
    size_t last = last_shown(list), column = 0;
    char text[UNITS_TEXT];

    for (size_t i = 0; i <= last; i++) {
        const char *cell =
            row == list->row_count ? list->columns[i].title : cell_text(list, row, i, text);

        if (!list->columns[i].title)
            continue;
        if (i == last && list->columns[i].kind == CELL_TEXT) {
            layout_wrap(layout, cell, column, column);
            return;
        }
        if (list->columns[i].kind == CELL_TEXT)
            layout_left(layout, cell, widths[i]);
        else
            layout_right(layout, cell, widths[i]);
        column += widths[i] + GAP;
        buf_text(layout->out, i == last ? "\n" : "  ");
    }
}

void text_list(const struct list *list, struct buf *out)
{
    struct layout layout = { out, list->colour };
    size_t *widths = arena_array(out->arena, size_t, list->column_count);

    for (size_t i = 0; i < list->column_count; i++)
        widths[i] = list->columns[i].title ? column_width(list, i) : 0;
    layout_style(&layout, STYLE_BOLD);
    print_row(&layout, list, widths, list->row_count);
    layout_style(&layout, STYLE_PLAIN);
    for (size_t row = 0; row < list->row_count; row++)
        print_row(&layout, list, widths, row);
}
