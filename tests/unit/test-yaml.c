/* test-yaml.c - text becomes a bounded tree with places; tables fill structs */
#include <stdlib.h>
#include <string.h>

#include <unistd.h>

#include "support/test.h"
#include "yaml/decode.h"
#include "yaml/document.h"
#include "yaml/file.h"

struct fixture {
    struct arena arena;
    struct plm_error error;
    const struct yaml_node *root;
};

static enum plm_status parse(struct fixture *f, const char *text)
{
    f->error = (struct plm_error){ 0 };
    return yaml_parse("t.yaml", text, strlen(text), &f->arena, &f->root, &f->error);
}

static void assert_error(
    struct fixture *f, const char *text, unsigned line, unsigned column, const char *message)
{
    assert_int_not_equal(parse(f, text), PLM_OK);
    assert_string_equal(f->error.message, message);
    assert_string_equal(f->error.file, "t.yaml");
    assert_int_equal(f->error.line, line);
    assert_int_equal(f->error.column, column);
}

static void a_byte_order_mark_is_no_column(void **state)
{
    struct fixture f = { 0 };

    assert_int_equal(parse(&f, "\xef\xbb\xbf"
                               "a: 1\nb: 2\n"),
                     PLM_OK);
    assert_int_equal(f.root->item_count, 2);
    assert_int_equal(f.root->at.column, 1);
    arena_finish(&f.arena);
}

static void values_carry_their_place(void **state)
{
    struct fixture f = { 0 };

    assert_int_equal(parse(&f, "a: 1\nb:\n  - x\n  - {c: 'd'}\n"), PLM_OK);
    const struct yaml_node *list = yaml_get(f.root, "b");
    const struct yaml_node *deep = yaml_get(list->items[1], "c");

    assert_int_equal(list->kind, YAML_SEQUENCE);
    assert_int_equal(list->item_count, 2);
    assert_int_equal(deep->at.line, 4);
    assert_int_equal(deep->at.column, 9);
    assert_string_equal(deep->text, "d");
    assert_true(deep->quoted);
    assert_false(yaml_get(f.root, "a")->quoted);
    assert_null(yaml_get(f.root, "z"));
    assert_null(yaml_get(list, "z"));
    arena_finish(&f.arena);
}

static void json_is_yaml(void **state)
{
    struct fixture f = { 0 };

    assert_int_equal(parse(&f, "{\"a\": [1, null, \"null\"],\n \"b\": true}"), PLM_OK);
    const struct yaml_node *list = yaml_get(f.root, "a");

    assert_false(yaml_is_null(list->items[0]));
    assert_true(yaml_is_null(list->items[1]));
    assert_false(yaml_is_null(list->items[2]));
    assert_int_equal(yaml_get(f.root, "b")->at.line, 2);
    arena_finish(&f.arena);
}

static void aliases_share_what_they_name(void **state)
{
    struct fixture f = { 0 };

    assert_int_equal(parse(&f, "a: &x [1, 2]\nb: *x\nc: &x 3\nd: *x\n"), PLM_OK);
    assert_ptr_equal(yaml_get(f.root, "a"), yaml_get(f.root, "b"));
    assert_string_equal(yaml_get(f.root, "d")->text, "3");
    arena_finish(&f.arena);
}

static void nothing_in_a_file_is_an_error(void **state)
{
    struct fixture f = { 0 };

    assert_error(&f, "", 1, 1, "empty");
    assert_error(&f, "# a comment\n", 1, 1, "empty");
    assert_error(&f, "---\n...\n", 1, 1, "empty");
    arena_finish(&f.arena);
}

static void bytes_that_are_not_utf8_have_a_place(void **state)
{
    struct fixture f = { 0 };

    assert_error(&f, "a: b\nc: \xc3\xa4\xff\n", 2, 5,
                 "not YAML in UTF-8: invalid leading UTF-8 octet");
    assert_error(&f, "\xff\xfe\x61", 1, 1, "not YAML in UTF-8: invalid leading UTF-8 octet");
    arena_finish(&f.arena);
}

static void a_key_may_stand_once(void **state)
{
    struct fixture f = { 0 };

    assert_error(&f, "a: {b: 1, b: 2}", 1, 11, "duplicate key 'b'; the first is in line 1");
    assert_int_equal(parse(&f, "a: {b: 1}\nb: {a: 1}"), PLM_OK);
    arena_finish(&f.arena);
}

static void depth_is_bounded_aliases_included(void **state)
{
    struct fixture f = { 0 };
    char text[512];
    size_t length = 0;

    for (int i = 0; i < YAML_DEPTH_MAX; i++)
        text[length++] = '[';
    for (int i = 0; i < YAML_DEPTH_MAX; i++)
        text[length++] = ']';
    text[length] = '\0';
    assert_int_equal(parse(&f, text), PLM_OK);
    assert_int_equal(f.root->height, YAML_DEPTH_MAX);
    memmove(text + 1, text, length + 1);
    text[0] = '[';
    assert_error(&f, text, 1, 65, "nested more than 64 deep");
    arena_finish(&f.arena);
}

static void counts_are_bounded_aliases_spelled_out(void **state)
{
    struct fixture f = { 0 };
    struct arena arena = { 0 };
    size_t length = (size_t)YAML_NODES_MAX * 2;
    char *text = arena_array(&arena, char, length + 2);

    text[0] = '[';
    for (size_t i = 0; i < YAML_NODES_MAX - 1; i++)
        memcpy(text + 1 + i * 2, "x,", 2);
    memcpy(text + 1 + (YAML_NODES_MAX - 1) * 2, "]", 2);
    assert_int_equal(parse(&f, text), PLM_OK);
    assert_int_equal(f.root->node_count, YAML_NODES_MAX);
    assert_int_not_equal(parse(&f, "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
                                   "b: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a, *a]\n"
                                   "c: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b, *b]\n"
                                   "d: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c, *c]\n"
                                   "e: &e [*d, *d, *d, *d, *d, *d, *d, *d, *d, *d]\n"
                                   "f: &f [*e, *e, *e, *e, *e, *e, *e, *e, *e, *e]\n"),
                         PLM_OK);
    assert_string_equal(f.error.message, "more than 200000 values when aliases are spelled out");
    arena_finish(&arena);
    arena_finish(&f.arena);
}

struct record {
    const char *text;
    int64_t number;
    double real;
    bool flag;
    plm_bytes bytes;
    const struct yaml_node *list;
};

static const struct decode_row rows[] = {
    { "text", DECODE_TEXT, true, offsetof(struct record, text), "some words" },
    { "number", DECODE_INT, false, offsetof(struct record, number), "" },
    { "real", DECODE_REAL, false, offsetof(struct record, real), "" },
    { "flag", DECODE_BOOL, false, offsetof(struct record, flag), "" },
    { "bytes", DECODE_BYTES, false, offsetof(struct record, bytes), "" },
    { "list", DECODE_SEQUENCE, false, offsetof(struct record, list), "" },
};

static enum plm_status decode(struct fixture *f, const char *text, struct record *record)
{
    assert_int_equal(parse(f, text), PLM_OK);
    return decode_mapping(f->root, "record", rows, sizeof rows / sizeof rows[0], NULL, record,
                          &f->error);
}

static void a_table_fills_a_struct(void **state)
{
    struct fixture f = { 0 };
    struct record r = { .number = 7, .real = 1.5 };

    assert_int_equal(decode(&f, "{text: a, flag: true, bytes: 2GiB, list: [1], real: null}", &r),
                     PLM_OK);
    assert_string_equal(r.text, "a");
    assert_int_equal(r.number, 7);
    assert_true(r.flag);
    assert_int_equal(r.bytes, (plm_bytes)2 << 30);
    assert_int_equal(r.list->item_count, 1);
    assert_true(r.real == 1.5);
    arena_finish(&f.arena);
}

static void what_does_not_fit_a_table_is_said(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        { "{text: a, numbr: 1}", "record: unknown key 'numbr'; did you mean 'number'?" },
        { "{text: a, number: x}", "'number' must be an integer, not 'x'" },
        { "{text: a, number: '1'}", "'number' must be an integer, not '1'" },
        { "{text: a, flag: yes}", "'flag' must be true or false, not 'yes'" },
        { "{text: a, bytes: much}", "'bytes' must be a size such as 24GiB, not 'much'" },
        { "{text: a, list: {}}", "'list' must be a list, not a mapping" },
        { "{text: [a]}", "'text' must be text, not a list" },
        { "{text: ~}", "record: 'text' is missing: some words" },
        { "[1]", "'record' must be a mapping, not a list" },
    };
    struct fixture f = { 0 };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct record r = { 0 };

        assert_int_not_equal(decode(&f, cases[i].text, &r), PLM_OK);
        assert_string_equal(f.error.message, cases[i].message);
    }
    arena_finish(&f.arena);
}

static void files_that_cannot_be_read_say_why(void **state)
{
    struct arena arena = { 0 };
    struct plm_error error;
    const char *text;
    size_t length;
    char path[] = "/tmp/plimsoll-yaml-XXXXXX";
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, "a: 1\n", 5), 5);
    close(fd);
    assert_int_equal(file_read(path, 5, &arena, &text, &length, &error), PLM_OK);
    assert_string_equal(text, "a: 1\n");
    assert_int_equal(length, 5);
    assert_int_equal(file_read(path, 4, &arena, &text, &length, &error), PLM_E_RANGE);
    assert_string_equal(error.message, "larger than 4 bytes");
    assert_int_equal(file_read("/tmp", 4, &arena, &text, &length, &error), PLM_E_IO);
    assert_string_equal(error.message, "cannot be read: Is a directory");
    unlink(path);
    assert_int_equal(file_read(path, 4, &arena, &text, &length, &error), PLM_E_IO);
    assert_string_equal(error.message, "cannot be read: No such file or directory");
    arena_finish(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_carry_their_place),
        cmocka_unit_test(a_byte_order_mark_is_no_column),
        cmocka_unit_test(json_is_yaml),
        cmocka_unit_test(aliases_share_what_they_name),
        cmocka_unit_test(nothing_in_a_file_is_an_error),
        cmocka_unit_test(bytes_that_are_not_utf8_have_a_place),
        cmocka_unit_test(a_key_may_stand_once),
        cmocka_unit_test(depth_is_bounded_aliases_included),
        cmocka_unit_test(counts_are_bounded_aliases_spelled_out),
        cmocka_unit_test(a_table_fills_a_struct),
        cmocka_unit_test(what_does_not_fit_a_table_is_said),
        cmocka_unit_test(files_that_cannot_be_read_say_why),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
