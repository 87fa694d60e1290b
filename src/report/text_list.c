/* report/text_list.c - a list in aligned columns; the last one wraps */
#include "base/units.h"
#include "report/table.h"
#include "report/text.h"

/* last_shown() - the number of the last column that has a title */
static size_t last_shown(const struct list *list)
{
    size_t last = 0;

    for (size_t i = 0; i < list->column_count; i++)
        if (list->columns[i].title)
            last = i;
    return last;
}

static void add_cell(struct table *table, const struct list *list, size_t row, size_t i)
{
    const struct cell *cell = &list->cells[row * list->column_count + i];
    char text[UNITS_TEXT];

    switch (list->columns[i].kind) {
    case CELL_TEXT:
        table_text(table, STYLE_PLAIN, cell->text);
        break;
    case CELL_COUNT:
        table_printf(table, STYLE_PLAIN, "%s", units_format_grouped(cell->number, text));
        break;
    case CELL_BYTES:
        table_bytes(table, STYLE_PLAIN, cell->number, NULL);
        break;
    }
}

void text_list(const struct list *list, struct buf *out)
{
    struct layout layout = { out, list->colour };
    size_t last = last_shown(list);
    struct table_column *columns = arena_array(out->arena, struct table_column, last + 1);
    struct table table = { .arena = out->arena, .bold = true, .columns = columns };

    for (size_t i = 0; i <= last; i++) {
        if (!list->columns[i].title)
            continue;
        columns[table.column_count] =
            (struct table_column){ .title = list->columns[i].title,
                                   .align = list->columns[i].kind == CELL_TEXT ? TABLE_LEFT
                                                                               : TABLE_RIGHT,
                                   .gap = table.column_count > 0 ? 2 : 0,
                                   .wraps = i == last && list->columns[i].kind == CELL_TEXT };
        table.column_count++;
    }
    for (size_t row = 0; row < list->row_count; row++)
        for (size_t i = 0; i <= last; i++)
            if (list->columns[i].title)
                add_cell(&table, list, row, i);
    table_print(&table, &layout, NULL);
}
