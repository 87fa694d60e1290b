/* test-expression.c - the language of dims and conditions: values, binding, laziness, bounds */
#include <stdio.h>
#include <string.h>

#include "model/expression.h"
#include "support/test.h"

enum { WIDTH, HEADS, BIG, ATTENTION, TRAINING, P, GLOBAL_COUNT };

struct fixture {
    struct arena arena;
    struct names names;
    name_id globals[GLOBAL_COUNT], locals[1], words[2];
    struct value values[GLOBAL_COUNT], local_values[1];
    struct plm_error error;
    char text[96];
};

static int setup(void **state)
{
    static const char *const names[GLOBAL_COUNT] = { "width",     "heads",    "big",
                                                     "attention", "training", "p" };
    static struct fixture fixture;
    struct fixture *f = &fixture;

    *f = (struct fixture){ 0 };
    f->names.arena = &f->arena;
    for (size_t i = 0; i < GLOBAL_COUNT; i++)
        f->globals[i] = names_add(&f->names, names[i], strlen(names[i]));
    f->locals[0] = names_add(&f->names, "i", 1);
    f->words[0] = names_add(&f->names, "sdpa", 4);
    f->words[1] = names_add(&f->names, "eager", 5);
    f->values[WIDTH] = (struct value){ VALUE_INT, { .i = 768 } };
    f->values[HEADS] = (struct value){ VALUE_INT, { .i = 12 } };
    f->values[BIG] = (struct value){ VALUE_INT, { .i = INT64_C(1) << 40 } };
    f->values[ATTENTION] = (struct value){ VALUE_WORD, { .word = f->words[1] } };
    f->values[TRAINING] = (struct value){ VALUE_BOOL, { .i = 1 } };
    f->values[P] = (struct value){ VALUE_REAL, { .real = 0.1 } };
    f->local_values[0] = (struct value){ VALUE_INT, { .i = 3 } };
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    arena_finish(&f->arena);
    return 0;
}

/* result() - the value, or "COLUMN: MESSAGE" */
static const char *result(struct fixture *f, const char *text)
{
    struct expr_scope scope = { &f->names, f->globals, f->locals, f->words, GLOBAL_COUNT, 1, 2 };
    struct expr_env env = { &f->names, f->values, f->local_values };
    struct source at = { "t.yaml", 1, 1 };
    const struct expr *expr;
    struct value value;
    static char message[400];

    if (expr_compile(&scope, text, at, true, &f->arena, &expr, &f->error) ||
        expr_eval(expr, &env, &value, &f->error)) {
        snprintf(message, sizeof message, "%u: %s", f->error.column, f->error.message);
        return message;
    }
    return value_describe(&f->names, value, f->text);
}

struct row {
    const char *text, *result;
};

static void check(void **state, const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_string_equal(result(*state, rows[i].text), rows[i].result);
}

#define CHECK(state, rows) check(state, rows, sizeof(rows) / sizeof(rows)[0])

static void numbers_are_computed_as_in_python(void **state)
{
    static const struct row rows[] = {
        { "1 + 2 * 3", "7" },
        { "(1 + 2) * 3", "9" },
        { "7 - 2 - 1", "4" },
        { "-7 // 2", "-4" },
        { "7 // -2", "-4" },
        { "-7 % 3", "2" },
        { "7 % -3", "-2" },
        { "2 * -3", "-6" },
        { "--3", "3" },
        { "8 / 2 / 2", "2" },
        { "4*width", "3072" },
        { "width / heads", "64" },
        { "ceil(7, 2)", "4" },
        { "ceil(7/2)", "4" },
        { "ceil(-7/2)", "-3" },
        { "ceil(6/2)", "3" },
        { "min(3, 1, 2)", "1" },
        { "max(3, 1, 2)", "3" },
        { "max(5)", "5" },
        { "1_000_000", "1000000" },
        { "0.5 + 1", "1.5" },
        { "1 / 4.0", "0.25" },
        { "1e-3", "0.001" },
        { "p * 2", "0.2" },
        { "i + 1", "4" },
        { "min(2.5, 3)", "2.5" },
        { "9223372036854775807", "9223372036854775807" },
        { "ceil(width/ceil(heads/5))", "256" },
    };

    CHECK(state, rows);
}

static void conditions_choose_and_are_lazy(void **state)
{
    static const struct row rows[] = {
        { "1 < 2", "true" },
        { "2 <= 1", "false" },
        { "width == 768 and heads != 12", "false" },
        { "not training or heads > 2", "true" },
        { "not 1 == 2", "true" },
        { "attention == eager", "true" },
        { "attention != eager", "false" },
        { "eager if attention == eager else sdpa", "the word 'eager'" },
        { "1 if false else 2 if false else 3", "3" },
        { "1 if training else width / 0", "1" },
        { "training or width / 0 == 1", "true" },
        { "not training and width / 0 == 1", "false" },
        { "1 == 1.0", "true" },
        { "0.1 < p or p <= 0.1", "true" },
        { "true == training", "true" },
    };

    CHECK(state, rows);
}

static void what_cannot_be_computed_has_a_place(void **state)
{
    static const struct row rows[] = {
        { "width / 7", "7: 768 / 7 does not divide exactly" },
        { "width // (heads - 12)", "7: 768 // 0 divides by zero" },
        { "width % 0", "7: 768 % 0 divides by zero" },
        { "big * big", "5: 1099511627776 * 1099511627776 does not fit 64 bits" },
        { "9223372036854775807 + 1", "21: 9223372036854775807 + 1 does not fit 64 bits" },
        { "-9223372036854775807 - 2", "22: -9223372036854775807 - 2 does not fit 64 bits" },
        { "9223372036854775808", "1: '9223372036854775808' is not a number of 64 bits" },
        { "1 if width else 2", "3: 'if' takes true or false, not 768" },
        { "attention + 1", "11: '+' takes numbers, not the word 'eager'" },
        { "attention < eager", "11: '<' takes numbers, not the word 'eager'" },
        { "attention == 1", "11: '==' takes two values of one kind, not the word 'eager'" },
        { "not width", "1: 'not' takes true or false, not 768" },
        { "-training", "1: '-' takes a number, not true" },
        { "7.5 // 2", "5: '//' takes integers" },
        { "1.0 / 0", "5: 1 / 0 is not a finite number" },
    };

    CHECK(state, rows);
}

static void what_is_not_an_expression_is_said(void **state)
{
    static const struct row rows[] = {
        { "", "1: '' ends where a number or a name is expected" },
        { "1 +", "4: '1 +' ends where a number or a name is expected" },
        { "1 2", "3: an operator is expected at '2' in '1 2'" },
        { "(1", "3: '(1' ends where ')' is expected" },
        { "1 if true", "10: '1 if true' ends where 'else' is expected" },
        { "widht", "1: unknown name 'widht'; did you mean 'width'?" },
        { "2 * qqqqqq", "5: unknown name 'qqqqqq'" },
        { "1.2.3", "1: '1.2.3' is not a number of 64 bits" },
        { "2x", "1: '2x' is not a number of 64 bits" },
        { "width = 3", "7: an operator is expected at '= 3' in 'width = 3'" },
        { "ceil(3)", "1: ceil takes a division: ceil(a / b)" },
        { "max()", "5: a number or a name is expected at ')' in 'max()'" },
        { "width ! 3", "7: an operator is expected at '! 3' in 'width ! 3'" },
    };

    CHECK(state, rows);
}

static void size_and_depth_are_bounded(void **state)
{
    struct fixture *f = *state;
    char text[6000];

    memset(text, '(', 200);
    text[200] = '\0';
    assert_non_null(strstr(result(f, text), "nested more than 64 deep"));
    memset(text, '-', 200);
    assert_non_null(strstr(result(f, text), "nested more than 64 deep"));
    for (size_t i = 0; i < 200; i++)
        memcpy(text + 4 * i, "not ", 5);
    assert_non_null(strstr(result(f, text), "nested more than 64 deep"));
    for (size_t i = 0; i < 1500; i++)
        memcpy(text + 2 * i, "1+", 3);
    memcpy(text + 3000, "1", 2);
    assert_non_null(strstr(result(f, text), "more than 1024 parts"));
    memset(text, ' ', 5000);
    text[5000] = '\0';
    assert_non_null(strstr(result(f, text), "more than 4096 characters"));
}

static void names_that_are_used_can_be_listed(void **state)
{
    struct fixture *f = *state;
    struct expr_scope scope = { &f->names, f->globals, f->locals, f->words, GLOBAL_COUNT, 1, 2 };
    const struct expr *expr;
    bool marks[GLOBAL_COUNT] = { false };

    assert_int_equal(expr_compile(&scope, "width if training else i", (struct source){ 0 }, true,
                                  &f->arena, &expr, NULL),
                     PLM_OK);
    expr_mark_globals(expr, marks);
    assert_true(marks[WIDTH] && marks[TRAINING] && !marks[HEADS] && !marks[P]);
    assert_int_equal(expr->uses, EXPR_USES_GLOBAL | EXPR_USES_LOCAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(numbers_are_computed_as_in_python, setup, teardown),
        cmocka_unit_test_setup_teardown(conditions_choose_and_are_lazy, setup, teardown),
        cmocka_unit_test_setup_teardown(what_cannot_be_computed_has_a_place, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_not_an_expression_is_said, setup, teardown),
        cmocka_unit_test_setup_teardown(size_and_depth_are_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(names_that_are_used_can_be_listed, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
