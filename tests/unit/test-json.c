/* test-json.c - the JSON writer: brackets, commas, escapes, integers */
#include <math.h>
#include <string.h>

#include "report/json.h"
#include "report/utf8.h"
#include "support/test.h"

static const char *string_of(struct arena *arena, const char *text)
{
    struct buf out = { .arena = arena };
    struct json json = { .out = &out, .compact = true };

    json_string(&json, text);
    return buf_string(&out);
}

static void objects_and_arrays_are_indented(void **state)
{
    struct arena arena = { 0 };
    struct buf out = { .arena = &arena };
    struct json json = { .out = &out };

    json_open(&json, '{');
    json_field_uint(&json, "a", 1);
    json_key(&json, "b");
    json_open(&json, '[');
    json_int(&json, -2);
    json_bool(&json, true);
    json_close(&json, ']');
    json_key(&json, "c");
    json_open(&json, '[');
    json_close(&json, ']');
    json_field_null(&json, "d");
    json_close(&json, '}');
    json_finish(&json);
    assert_string_equal(buf_string(&out),
                        "{\n  \"a\": 1,\n  \"b\": [\n    -2,\n    true\n  ],\n  \"c\": [],\n"
                        "  \"d\": null\n}\n");
    arena_finish(&arena);
}

static void compact_text_breaks_only_where_it_is_told(void **state)
{
    struct arena arena = { 0 };
    struct buf out = { .arena = &arena };
    struct json json = { .out = &out, .compact = true };

    json_open(&json, '[');
    json_line(&json);
    json_uint(&json, 1);
    json_uint(&json, 2);
    json_line(&json);
    json_uint(&json, 3);
    json_close(&json, ']');
    assert_string_equal(buf_string(&out), "[\n1,2,\n3]");
    arena_finish(&arena);
}

static void text_is_escaped(void **state)
{
    struct arena arena = { 0 };

    assert_string_equal(string_of(&arena, "a\"b\\c\nd\te"), "\"a\\\"b\\\\c\\nd\\te\"");
    assert_string_equal(string_of(&arena, "\x01\x7f"), "\"\\u0001\\u007f\"");
    assert_string_equal(string_of(&arena, "Größe ×"), "\"Größe ×\"");
    assert_string_equal(string_of(&arena, NULL), "null");
    arena_finish(&arena);
}

static void what_is_not_utf8_is_replaced(void **state)
{
    struct arena arena = { 0 };

    assert_string_equal(string_of(&arena, "a\xff"), "\"a\xef\xbf\xbd\"");
    assert_string_equal(string_of(&arena, "\xc3"), "\"\xef\xbf\xbd\""); /* cut off */
    assert_string_equal(string_of(&arena, "\xc0\x80"),
                        "\"\xef\xbf\xbd\xef\xbf\xbd\"");  /* overlong */
    assert_int_equal(utf8_length("\xed\xa0\x80"), 0);     /* a surrogate */
    assert_int_equal(utf8_length("\xf4\x90\x80\x80"), 0); /* past U+10FFFF */
    assert_int_equal(utf8_length("\xf0\x9f\x9a\xa2"), 4);
    assert_int_equal(utf8_columns("…h.11"), 5);
    arena_finish(&arena);
}

static void a_page_cannot_be_left(void **state)
{
    struct arena arena = { 0 };
    struct buf out = { .arena = &arena };
    struct json json = { .out = &out, .compact = true, .in_page = true };

    json_string(&json, "</script>");
    assert_string_equal(buf_string(&out), "\"\\u003c/script>\"");
    arena_finish(&arena);
}

static void integers_are_written_in_full(void **state)
{
    struct arena arena = { 0 };
    struct buf out = { .arena = &arena };
    struct json json = { .out = &out, .compact = true };

    json_open(&json, '[');
    json_uint(&json, UINT64_MAX);
    json_int(&json, INT64_MIN);
    json_real(&json, 0.5);
    json_real(&json, NAN);
    json_close(&json, ']');
    assert_string_equal(buf_string(&out), "[18446744073709551615,-9223372036854775808,0.5,null]");
    arena_finish(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objects_and_arrays_are_indented),
        cmocka_unit_test(compact_text_breaks_only_where_it_is_told),
        cmocka_unit_test(text_is_escaped),
        cmocka_unit_test(what_is_not_utf8_is_replaced),
        cmocka_unit_test(a_page_cannot_be_left),
        cmocka_unit_test(integers_are_written_in_full),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
