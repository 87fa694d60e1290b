/* test-units.c - sizes and numbers as people write them */
#include <locale.h>
#include <string.h>

#include "base/units.h"
#include "support/test.h"

static void sizes_are_powers_of_1024_with_or_without_letters(void **state)
{
    static const struct {
        const char *text;
        plm_bytes bytes;
    } cases[] = {
        { "0", 0 },
        { "24GiB", UINT64_C(24) << 30 },
        { "24G", UINT64_C(24) << 30 },
        { "24 GB", UINT64_C(24) << 30 },
        { "24gib", UINT64_C(24) << 30 },
        { "24576MiB", UINT64_C(24) << 30 },
        { "25769803776", UINT64_C(24) << 30 },
        { "1.5GiB", UINT64_C(3) << 29 },
        { "0.5K", 512 },
        { "512B", 512 },
        { "18446744073709551615", UINT64_MAX },
        { "15EiB", UINT64_C(15) << 60 },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        plm_bytes bytes = 1;

        if (!units_parse_bytes(cases[i].text, &bytes) || bytes != cases[i].bytes)
            fail_msg("'%s' is read as %llu", cases[i].text, (unsigned long long)bytes);
    }
}

static void what_is_no_size_is_refused(void **state)
{
    static const char *const texts[] = { "",     "G",    "-1",     "1.5",
                                         "1.",   "1e9",  "24GiBs", "24 G B",
                                         "0x10", "24iB", "16EiB",  "18446744073709551616" };

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        plm_bytes bytes = 7;

        if (units_parse_bytes(texts[i], &bytes))
            fail_msg("'%s' is read as %llu", texts[i], (unsigned long long)bytes);
        assert_true(bytes == 7);
    }
}

static void reading_and_exact_printing_are_inverses(void **state)
{
    uint64_t random = 88172645463325252; /* xorshift64, always the same */
    char text[UNITS_TEXT];

    for (int i = 0; i < 100000; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        plm_bytes bytes = random >> (random & 63) << (random >> 58), read;

        if (!units_parse_bytes(units_format_exact(bytes, text), &read) || read != bytes)
            fail_msg("%llu is printed as '%s'", (unsigned long long)bytes, text);
    }
}

static void people_get_two_decimals(void **state)
{
    char text[UNITS_TEXT];

    assert_string_equal(units_format_bytes(512, text), "512 B");
    assert_string_equal(units_format_bytes(UINT64_C(25383908352), text), "23.64 GiB");
    assert_string_equal(units_format_bytes((UINT64_C(1) << 30) - 1, text), "1.00 GiB");
    assert_string_equal(units_format_grouped(25383908352, text), "25,383,908,352");
    assert_string_equal(units_format_grouped(12, text), "12");
}

static void integers_have_the_whole_range_and_nothing_more(void **state)
{
    int64_t value = 5;

    assert_true(units_parse_int("9223372036854775807", &value));
    assert_true(value == INT64_MAX);
    assert_true(units_parse_int("-9223372036854775808", &value));
    assert_true(value == INT64_MIN);
    assert_true(units_parse_int("1_000_000", &value));
    assert_true(value == 1000000);
    assert_false(units_parse_int("9223372036854775808", &value));
    assert_false(units_parse_int("-9223372036854775809", &value));
    assert_false(units_parse_int("1__0", &value));
    assert_false(units_parse_int("_1", &value));
    assert_false(units_parse_int("1_", &value));
    assert_false(units_parse_int("", &value));
    assert_false(units_parse_int("1.0", &value));
    assert_true(value == 1000000);
}

static void reals_are_finite_and_know_no_locale(void **state)
{
    double value = 0;

    setlocale(LC_ALL, "de_DE.UTF-8"); /* a host program may have; when absent nothing changes */
    assert_true(units_parse_real("0.1", &value));
    assert_true(value == 0.1);
    assert_true(units_parse_real("-2.5e3", &value));
    assert_true(value == -2500);
    assert_true(units_parse_real("1e-5", &value));
    assert_float_equal((float)value, 1e-5F, 1e-10F);
    assert_false(units_parse_real("1e999", &value));
    assert_false(units_parse_real("nan", &value));
    assert_false(units_parse_real("0,1", &value));
    assert_false(units_parse_real(".", &value));
    setlocale(LC_ALL, "C");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_powers_of_1024_with_or_without_letters),
        cmocka_unit_test(what_is_no_size_is_refused),
        cmocka_unit_test(reading_and_exact_printing_are_inverses),
        cmocka_unit_test(people_get_two_decimals),
        cmocka_unit_test(integers_have_the_whole_range_and_nothing_more),
        cmocka_unit_test(reals_are_finite_and_know_no_locale),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
