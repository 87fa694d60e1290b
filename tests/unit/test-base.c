/* test-base.c - arenas, pools, interned names, texts, errors, checked arithmetic */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/names.h"
#include "base/num.h"
#include "base/pool.h"
#include "support/test.h"

static void an_arena_hands_out_zeroed_aligned_memory(void **state)
{
    struct arena arena = { 0 };

    for (size_t size = 1; size < 100000; size = size * 3 / 2 + 1) {
        unsigned char *memory = arena_alloc(&arena, size, 1, 64);

        assert_true(((uintptr_t)memory & 63) == 0);
        for (size_t i = 0; i < size; i++)
            assert_int_equal(memory[i], 0);
        memset(memory, 0xff, size);
    }
    assert_non_null(arena_alloc(&arena, 0, 8, 8));
    arena_finish(&arena);
    arena_finish(&arena);
}

static void a_reset_arena_is_zeroed_again(void **state)
{
    struct arena arena = { 0 };
    char *first = arena_alloc(&arena, 4096, 1, 1);

    memset(first, 0xff, 4096);
    arena_reset(&arena);
    char *second = arena_alloc(&arena, 4096, 1, 1);

    for (size_t i = 0; i < 4096; i++)
        assert_int_equal(second[i], 0);
    arena_finish(&arena);
}

static void an_array_grows_and_keeps_its_items(void **state)
{
    struct arena arena = { 0 };
    uint32_t *items = NULL;
    size_t count = 0, capacity = 0;

    for (uint32_t i = 0; i < 1000; i++)
        arena_push(&arena, items, count, capacity, i * i);
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_equal(items[i], i * i);
    arena_finish(&arena);
}

static void a_pool_gives_back_what_it_was_given_zeroed(void **state)
{
    struct arena arena = { 0 };
    struct pool pool = { .arena = &arena };
    unsigned char *first = pool_alloc(&pool, 100);

    memset(first, 0xff, 100);
    pool_free(&pool, first, 100);
    unsigned char *second = pool_alloc(&pool, 98); /* of the same class */

    assert_ptr_equal(first, second);
    for (size_t i = 0; i < 98; i++)
        assert_int_equal(second[i], 0);
    assert_ptr_not_equal(pool_alloc(&pool, 100), second);
    for (size_t size = 1; size < 100000; size += size / 7 + 1) {
        unsigned char *piece = pool_alloc(&pool, size), *other = pool_alloc(&pool, size);

        memset(piece, 0xff, size);
        assert_int_equal(other[0] | other[size - 1], 0);
        pool_free(&pool, piece, size);
        assert_ptr_equal(pool_alloc(&pool, size), piece);
        assert_int_equal(piece[0] | piece[size - 1], 0);
    }
    arena_finish(&arena);
}

static void a_name_is_stored_once_and_counts_from_one(void **state)
{
    struct arena arena = { 0 };
    struct names names = { .arena = &arena };
    char text[16];

    assert_int_equal(names_find(&names, "a", 1), 0);
    assert_int_equal(names_add(&names, "", 0), 0);
    for (uint32_t i = 0; i < 5000; i++) {
        int length = snprintf(text, sizeof text, "name%u", i);

        assert_int_equal(names_add(&names, text, (size_t)length), i + 1);
    }
    for (uint32_t i = 0; i < 5000; i++) {
        int length = snprintf(text, sizeof text, "name%u", i);

        assert_int_equal(names_add(&names, text, (size_t)length), i + 1);
        assert_int_equal(names_find(&names, text, (size_t)length), i + 1);
        assert_string_equal(names_text(&names, i + 1), text);
    }
    /* a prefix of a known name is another name */
    assert_int_equal(names_find(&names, "name1", 4), 0);
    assert_string_equal(names_text(&names, 0), "");
    arena_finish(&arena);
}

static void names_join_with_a_dot_unless_one_is_empty(void **state)
{
    struct arena arena = { 0 };
    struct names names = { .arena = &arena };
    name_id a = names_add(&names, "a", 1), b = names_add(&names, "b", 1);

    assert_string_equal(names_text(&names, names_join(&names, a, b)), "a.b");
    assert_int_equal(names_join(&names, 0, b), b);
    assert_int_equal(names_join(&names, a, 0), a);
    arena_finish(&arena);
}

static void a_text_past_its_maximum_is_marked_full(void **state)
{
    struct arena arena = { 0 };
    struct buf buf = { .arena = &arena, .maximum = 10 };

    assert_string_equal(buf_string(&buf), "");
    buf_printf(&buf, "%d", 12345);
    buf_char(&buf, 'x');
    assert_string_equal(buf_string(&buf), "12345x");
    assert_false(buf.full);
    buf_text(&buf, "0123456789");
    assert_true(buf.full);
    assert_true(strlen(buf_string(&buf)) <= 10);
    arena_finish(&arena);
}

static void a_failure_is_one_line_and_may_go_nowhere(void **state)
{
    struct plm_error error = { 0 };
    char longest[600];

    assert_int_equal(plm_fail(NULL, PLM_E_RANGE, "nobody listens"), PLM_E_RANGE);
    assert_int_equal(
        plm_fail_at(&error, PLM_E_MODEL, (struct source){ "f.yaml", 3, 9 }, "'%s' is odd", "x"),
        PLM_E_MODEL);
    assert_string_equal(error.file, "f.yaml");
    assert_int_equal(error.line, 3);
    assert_int_equal(error.column, 9);
    assert_string_equal(error.message, "'x' is odd");
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    memcpy(longest + sizeof longest - 6, ".yaml", 5);
    assert_int_equal(plm_fail_at(&error, PLM_E_IO, (struct source){ longest, 1, 1 }, "%s", longest),
                     PLM_E_IO);
    assert_string_equal(error.file + strlen(error.file) - 5, ".yaml");
}

static void the_nearest_name_is_found_and_none_when_all_are_far(void **state)
{
    static const char *const names[] = { "linear", "layer_norm", "gelu", "softmax" };
    enum { COUNT = sizeof names / sizeof names[0] };

    assert_string_equal(error_nearest("liner", names, COUNT), "linear");
    assert_string_equal(error_nearest("lienar", names, COUNT), "linear");
    assert_string_equal(error_nearest("layernorm", names, COUNT), "layer_norm");
    assert_string_equal(error_nearest("gleu", names, COUNT), "gelu");
    assert_null(error_nearest("convolution", names, COUNT));
    assert_string_equal(error_nearest("GELU", names, COUNT), "gelu");
    assert_string_equal(error_nearest("layer", names, COUNT), "layer_norm");
    assert_string_equal(error_nearest("linear_layer", names, COUNT), "linear");
    static const char *const devices[] = { "a10", "a100-40", "l4", "t4" };

    assert_string_equal(error_nearest("a100", devices, 4), "a100-40");
    assert_string_equal(error_nearest("T4", devices, 4), "t4");
    assert_string_equal(error_nearest("a10-24", devices, 4), "a10");
    assert_null(error_nearest("0", (const char *const[]){ "1", "2" }, 2));
    assert_null(error_nearest("linear", names, 0));
}

static void arithmetic_says_when_it_does_not_fit(void **state)
{
    plm_bytes bytes = 7;
    int64_t value = 7;

    assert_false(bytes_add(UINT64_MAX, 1, &bytes));
    assert_false(bytes_mul(UINT64_C(1) << 33, UINT64_C(1) << 31, &bytes));
    assert_false(num_mul(INT64_MAX, 2, &value));
    assert_false(num_sub(INT64_MIN, 1, &value));
    assert_true(bytes == 7 && value == 7);
    assert_true(bytes_mul(UINT64_C(1) << 32, UINT64_C(1) << 31, &bytes));
    assert_true(bytes == UINT64_C(1) << 63);
    assert_true(num_ceil_div(UINT64_MAX, 2) == UINT64_C(1) << 63);
    assert_true(num_round_up(513, 512) == 1024);
    assert_true(num_round_up(512, 512) == 512);
    assert_int_equal(num_log2(1), 0);
    assert_int_equal(num_log2(UINT64_MAX), 63);
    assert_true(num_floor_power2(0) == 1);
    assert_true(num_floor_power2(1023) == 512);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_arena_hands_out_zeroed_aligned_memory),
        cmocka_unit_test(a_reset_arena_is_zeroed_again),
        cmocka_unit_test(an_array_grows_and_keeps_its_items),
        cmocka_unit_test(a_pool_gives_back_what_it_was_given_zeroed),
        cmocka_unit_test(a_name_is_stored_once_and_counts_from_one),
        cmocka_unit_test(names_join_with_a_dot_unless_one_is_empty),
        cmocka_unit_test(a_text_past_its_maximum_is_marked_full),
        cmocka_unit_test(a_failure_is_one_line_and_may_go_nowhere),
        cmocka_unit_test(the_nearest_name_is_found_and_none_when_all_are_far),
        cmocka_unit_test(arithmetic_says_when_it_does_not_fit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
