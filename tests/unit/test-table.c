/* tables of the text reports: columns that do not touch, within the page */
#include <stdio.h>
#include <string.h>

#include "report/table.h"
#include "report/utf8.h"
#include "support/test.h"

static const struct table_column columns[] = {
    { .width = 10, .shortens = true },
    { .title = "before", .align = TABLE_RIGHT, .width = 11 },
    { .title = "now", .align = TABLE_RIGHT, .width = 11 },
    { .title = "rest", .gap = 2 },
};

static const char *print(struct arena *arena, const char *const *cells, size_t count)
{
    struct layout layout = { .out = arena_new(arena, struct buf) };
    struct table table = TABLE(&layout, 2, columns);

    layout.out->arena = table.arena = arena;
    for (size_t i = 0; i < count; i++)
        table_text(&table, STYLE_PLAIN, cells[i]);
    table_print(&table, &layout, "Sizes");
    return buf_string(layout.out);
}

static void columns_are_as_wide_as_their_cells(void **state)
{
    static const char *const cells[] = {
        "a",    "1.00 GiB", "1020.00 MiB",      "",    "a.long.name", "1020.00 MiB", "1020.00 MiB",
        "more", "b",        "big: 1020.00 MiB", "2 B", "×",
    };
    struct arena arena = { 0 };

    assert_string_equal(print(&arena, cells, 12),
                        "\nSizes                  before         now  rest\n"
                        "  a                  1.00 GiB 1020.00 MiB\n"
                        "  …long.name      1020.00 MiB 1020.00 MiB  more\n"
                        "  b          big: 1020.00 MiB         2 B  ×\n");
    arena_finish(&arena);
}

static void what_has_no_room_is_narrowed(void **state)
{
    static const char number[] = "12345678901234567890123456789012345678";
    const char *const cells[] = { "first.second", number, "1", number + 5 };
    struct arena arena = { 0 };

    /* 2 + 10 + 1 + 38 + 1 + 11 + 2 + 33 is 98: 8 of "now" are not needed, and the name has 6 at least */
    const char *text = print(&arena, cells, 4);
    const char *row = strrchr(arena_copy(&arena, text, strlen(text) - 1), '\n') + 1;

    assert_string_equal(row, "  …econd 12345678901234567890123456789012345678   1  "
                             "678901234567890123456789012345678");
    arena_finish(&arena);
}

static void a_column_is_dispensed_with_when_nothing_else_helps(void **state)
{
    static const struct table_column wide[] = {
        { .title = "batch", .align = TABLE_RIGHT },
        { .title = "spare", .align = TABLE_RIGHT, .dispensed = true },
        { .title = "too", .align = TABLE_RIGHT, .dispensed = true },
    };
    static const char number[] = "123456789012345678901234567890";
    struct arena arena = { 0 };
    struct layout layout = { .out = &(struct buf){ .arena = &arena } };
    struct table table = TABLE(&layout, 0, wide);

    for (size_t i = 0; i < 3; i++)
        table_text(&table, STYLE_PLAIN, number);
    table_print(&table, &layout, NULL);
    assert_string_equal(buf_string(layout.out),
                        "                         batch                            too\n"
                        "123456789012345678901234567890 123456789012345678901234567890\n");
    arena_finish(&arena);
}

static void the_last_column_may_wrap(void **state)
{
    static const struct table_column wrapped[] = {
        { .title = "name", .width = 20 },
        { .title = "about", .gap = 2, .wraps = true },
    };
    struct arena arena = { 0 };
    struct layout layout = { .out = &(struct buf){ .arena = &arena } };
    struct table table = TABLE(&layout, 0, wrapped);

    table_text(&table, STYLE_PLAIN, "a");
    table_text(&table, STYLE_PLAIN,
               "as many words as take more than a line of this table do, which is few");
    table_print(&table, &layout, NULL);
    assert_string_equal(
        buf_string(layout.out),
        "name                  about\n"
        "a                     as many words as take more than a line of this table do,\n"
        "                      which is few\n");
    arena_finish(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_as_wide_as_their_cells),
        cmocka_unit_test(what_has_no_room_is_narrowed),
        cmocka_unit_test(a_column_is_dispensed_with_when_nothing_else_helps),
        cmocka_unit_test(the_last_column_may_wrap),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
