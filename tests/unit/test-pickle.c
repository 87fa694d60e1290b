/* test-pickle.c - the pickle writer, byte for byte against Python's pickletools */
#include <stdio.h>
#include <string.h>

#include "report/pickle.h"
#include "support/test.h"

static struct pickle start(struct arena *arena, struct buf *out)
{
    struct pickle pickle = { .out = out, .strings = { .arena = arena } };

    *out = (struct buf){ .arena = arena };
    pickle.out = out;
    return pickle;
}

#define assert_pickled(out, bytes)                                                                 \
    do {                                                                                           \
        assert_int_equal((out).length, sizeof(bytes) - 1);                                         \
        assert_memory_equal((out).text, bytes, sizeof(bytes) - 1);                                 \
    } while (0)

static void a_dict_is_marked_and_its_keys_are_remembered(void **state)
{
    struct arena arena = { 0 };
    struct buf out;
    struct pickle pickle = start(&arena, &out);

    pickle_begin(&pickle);
    pickle_open_list(&pickle);
    for (int i = 0; i < 2; i++) {
        pickle_open_dict(&pickle);
        pickle_field_uint(&pickle, "size", 7);
        pickle_close(&pickle);
    }
    pickle_close(&pickle);
    pickle_end(&pickle);
    assert_pickled(out, "\x80\x02](}(X\x04\0\0\0sizeq\x01K\x07u}(h\x01K\x07ue.");
    arena_finish(&arena);
}

static void integers_take_the_shortest_form(void **state)
{
    struct arena arena = { 0 };
    struct buf out;
    struct pickle pickle = start(&arena, &out);

    pickle_int(&pickle, 255);
    pickle_int(&pickle, 256);
    pickle_int(&pickle, 65536);
    pickle_int(&pickle, -1);
    pickle_int(&pickle, INT64_C(0x7f0000000000));
    pickle_uint(&pickle, UINT64_MAX);
    assert_pickled(out, "K\xff"
                        "M\x00\x01"
                        "J\x00\x00\x01\x00"
                        "J\xff\xff\xff\xff"
                        "\x8a\x08\x00\x00\x00\x00\x00\x7f\x00\x00"
                        "\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00");
    arena_finish(&arena);
}

static void other_values_are_as_python_writes_them(void **state)
{
    struct arena arena = { 0 };
    struct buf out;
    struct pickle pickle = start(&arena, &out);

    pickle_real(&pickle, 1.5);
    pickle_bool(&pickle, true);
    pickle_bool(&pickle, false);
    pickle_pair(&pickle, 0, 1);
    pickle_string(&pickle, "");
    pickle_string(&pickle, "");
    assert_pickled(out, "G\x3f\xf8\0\0\0\0\0\0\x88\x89K\0K\x01\x86X\0\0\0\0X\0\0\0\0");
    arena_finish(&arena);
}

static void long_lists_are_appended_in_batches(void **state)
{
    struct arena arena = { 0 };
    struct buf out;
    struct pickle pickle = start(&arena, &out);
    size_t marks = 0;

    pickle_open_list(&pickle);
    for (int i = 0; i < 2500; i++)
        pickle_bool(&pickle, true);
    pickle_close(&pickle);
    for (size_t i = 0; i < out.length; i++)
        marks += out.text[i] == '(';
    assert_int_equal(marks, 3);
    assert_int_equal(out.length, 1 + 2500 + 3 * 2); /* "]", the values, "(" and "e" of each batch */
    arena_finish(&arena);
}

static void strings_past_the_first_256_have_long_numbers(void **state)
{
    struct arena arena = { 0 };
    struct buf out;
    struct pickle pickle = start(&arena, &out);
    char text[16];

    for (int i = 0; i < 300; i++) {
        snprintf(text, sizeof text, "s%d", i);
        pickle_string(&pickle, text);
    }
    size_t length = out.length;

    pickle_string(&pickle, "s299"); /* the 300th: number 300 is 0x012c */
    assert_int_equal(out.length - length, 5);
    assert_memory_equal(out.text + length, "j\x2c\x01\0\0", 5);
    arena_finish(&arena);
}

static void what_is_not_utf8_becomes_a_question_mark(void **state)
{
    struct arena arena = { 0 };
    struct buf out;
    struct pickle pickle = start(&arena, &out);

    pickle_string(&pickle, "a\xff");
    assert_pickled(out, "X\x02\0\0\0a?q\x01");
    arena_finish(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dict_is_marked_and_its_keys_are_remembered),
        cmocka_unit_test(integers_take_the_shortest_form),
        cmocka_unit_test(other_values_are_as_python_writes_them),
        cmocka_unit_test(long_lists_are_appended_in_batches),
        cmocka_unit_test(strings_past_the_first_256_have_long_numbers),
        cmocka_unit_test(what_is_not_utf8_becomes_a_question_mark),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
