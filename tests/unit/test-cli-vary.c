/* test-cli-vary.c - grids of strategies: their order, their labels, and what is refused */
#include <string.h>

#include "cli/command.h"
#include "cli/vary.h"
#include "support/test.h"

enum { WORDS = 16 };

struct asked {
    struct arena arena;
    struct options options;
    struct vary_grid grid;
    struct plm_error error;
};

/* ask() - the options of a command line, and the grid that they make */
static enum plm_status ask(struct asked *asked, const char *text)
{
    char *argv[WORDS] = { NULL };
    int argc = 0, first;
    enum plm_status status;

    *asked = (struct asked){ .options.arena = &asked->arena };
    for (const char *at = text; *at && argc < WORDS - 1;) {
        size_t length = strcspn(at, " ");

        argv[argc++] = arena_copy(&asked->arena, at, length);
        at += length;
        at += strspn(at, " ");
    }
    status = options_parse(&asked->options, COMMAND_COMPARE, argc, argv, &first, &asked->error);
    return status == PLM_OK
               ? vary_read(&asked->options, COMMAND_COMPARE, &asked->grid, &asked->error)
               : status;
}

/* point() - the options there; @label is checked */
static struct options point(struct asked *asked, size_t number, const char *label)
{
    const char *values[VARY_AXES_MOST];
    struct options options;

    assert_int_equal(
        vary_point(&asked->options, &asked->grid, number, values, &options, &asked->error), PLM_OK);
    assert_string_equal(vary_label(&asked->grid, values, &asked->arena), label);
    return options;
}

static void the_last_option_varies_fastest(void **state)
{
    struct asked asked;

    assert_int_equal(ask(&asked, "compare m --vary precision=fp32,bf16 --vary batch=1,2,8 --seq 7"),
                     PLM_OK);
    assert_int_equal(asked.grid.point_count, 6);
    struct options first = point(&asked, 0, "precision=fp32,batch=1");
    struct options third = point(&asked, 2, "precision=fp32,batch=8");
    struct options fifth = point(&asked, 4, "precision=bf16,batch=2");

    assert_int_equal(first.strategy.batch, 1);
    assert_int_equal(third.strategy.batch, 8);
    assert_int_equal(third.strategy.precision, PLM_PRECISION_FP32);
    assert_int_equal(fifth.strategy.batch, 2);
    assert_int_equal(fifth.strategy.precision, PLM_PRECISION_BF16);
    assert_int_equal(fifth.strategy.seq, 7);
    arena_finish(&asked.arena);
}

static void without_vary_there_is_one_point(void **state)
{
    struct asked asked;

    assert_int_equal(ask(&asked, "compare m --batch 3"), PLM_OK);
    assert_int_equal(asked.grid.point_count, 1);
    assert_int_equal(point(&asked, 0, "").strategy.batch, 3);
    arena_finish(&asked.arena);
}

static void an_empty_value_leaves_the_option_alone(void **state)
{
    struct asked asked;

    assert_int_equal(ask(&asked, "compare m --batch 3 --vary batch=,9 --vary fsdp=,8"), PLM_OK);
    assert_int_equal(point(&asked, 0, "").strategy.batch, 3);
    assert_int_equal(point(&asked, 1, "fsdp=8").strategy.parallel.fsdp, 8);
    assert_int_equal(point(&asked, 2, "batch=9").strategy.batch, 9);
    assert_int_equal(point(&asked, 2, "batch=9").strategy.parallel.fsdp, 0);
    arena_finish(&asked.arena);
}

static void flags_are_true_or_false(void **state)
{
    struct asked asked;

    assert_int_equal(ask(&asked, "compare m --eval --vary eval=true,false"), PLM_OK);
    assert_true(point(&asked, 0, "eval=true").strategy.eval);
    assert_false(point(&asked, 1, "eval=false").strategy.eval);
    arena_finish(&asked.arena);
}

static void a_comma_in_a_value_is_written_with_a_backslash(void **state)
{
    struct asked asked;
    struct options again;

    assert_int_equal(ask(&asked, "compare m --vary checkpoint=none,blocks=0-3\\,7"), PLM_OK);
    assert_int_equal(asked.grid.point_count, 2);
    struct options options = point(&asked, 1, "checkpoint=blocks=0-3\\,7");

    assert_string_equal(options.strategy.checkpoint_blocks, "0-3,7");
    /* a label is read back as what it stands for */
    assert_int_equal(vary_list(&asked.options, COMMAND_COMPARE, "checkpoint=blocks=0-3\\,7,batch=4",
                               &again, &asked.error),
                     PLM_OK);
    assert_string_equal(again.strategy.checkpoint_blocks, "0-3,7");
    assert_int_equal(again.strategy.batch, 4);
    arena_finish(&asked.arena);
}

static void settings_of_one_point_do_not_reach_another(void **state)
{
    struct asked asked;

    assert_int_equal(ask(&asked, "compare m --set layers=2 --set width=8 "
                                 "--vary set=layers=3,layers=4 --vary set=,width=16,heads=2"),
                     PLM_OK);
    struct options last = point(&asked, 5, "set=layers=4,set=heads=2");
    struct options first = point(&asked, 0, "set=layers=3");

    assert_int_equal(last.strategy.setting_count, 3);
    assert_string_equal(last.strategy.settings[0].value, "4");
    assert_string_equal(last.strategy.settings[2].name, "heads");
    assert_int_equal(first.strategy.setting_count, 2);
    assert_string_equal(first.strategy.settings[0].value, "3");
    assert_string_equal(first.strategy.settings[1].value, "8");
    assert_string_equal(asked.options.strategy.settings[0].value, "2");
    arena_finish(&asked.arena);
}

static void points_that_differ_in_the_batch_alone_have_one_first(void **state)
{
    struct asked asked;

    assert_int_equal(ask(&asked, "compare m --vary seq=1,2 --vary batch=1,2,3 --vary precision="
                                 "fp32,bf16"),
                     PLM_OK);
    assert_int_equal(vary_first(&asked.grid, 0, "batch"), 0);
    assert_int_equal(vary_first(&asked.grid, 5, "batch"), 1);
    assert_int_equal(vary_first(&asked.grid, 10, "batch"), 6);
    assert_int_equal(vary_first(&asked.grid, 10, "optimizer"), 10);
    arena_finish(&asked.arena);
}

static void assert_refused(const char *text, const char *message)
{
    struct asked asked;

    assert_int_equal(ask(&asked, text), PLM_E_USAGE);
    assert_string_equal(asked.error.message, message);
    arena_finish(&asked.arena);
}

static void mistakes_are_found_before_anything_runs(void **state)
{
    assert_refused("compare m --vary batch",
                   "--vary: 'batch' is not accepted; accepted: OPTION=VALUE,VALUE, such as "
                   "precision=fp32,bf16");
    assert_refused("compare m --vary json=true",
                   "'json' is not an option of a strategy ('plimsoll compare --help' lists them; a "
                   "model's own are varied by set=NAME=VALUE)");
    assert_refused("compare m --vary precision=fp32,bf15",
                   "--precision: unknown value 'bf15'; did you mean 'bf16'? accepted: fp32, bf16, "
                   "fp16, amp-bf16, amp-fp16");
    assert_refused("compare m --vary eval=yes",
                   "--eval: 'yes' is not accepted; accepted: true or false");
    assert_refused("compare m --vary batch=1 --vary batch=2", "--vary: 'batch' varies twice");
    assert_refused("compare m --diff 1", "--diff: needs A B");
}

static void the_two_words_of_diff_stand_anywhere(void **state)
{
    struct asked asked;

    assert_int_equal(ask(&asked, "compare --diff 1 4 m --vary batch=1,2,3,4"), PLM_OK);
    assert_string_equal(asked.options.diff[0], "1");
    assert_string_equal(asked.options.diff[1], "4");
    assert_int_equal(asked.grid.point_count, 4);
    arena_finish(&asked.arena);
    assert_int_equal(ask(&asked, "compare m --diff=1 batch=2 --json"), PLM_OK);
    assert_string_equal(asked.options.diff[1], "batch=2");
    assert_true(asked.options.json);
    arena_finish(&asked.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_option_varies_fastest),
        cmocka_unit_test(without_vary_there_is_one_point),
        cmocka_unit_test(an_empty_value_leaves_the_option_alone),
        cmocka_unit_test(flags_are_true_or_false),
        cmocka_unit_test(a_comma_in_a_value_is_written_with_a_backslash),
        cmocka_unit_test(settings_of_one_point_do_not_reach_another),
        cmocka_unit_test(points_that_differ_in_the_batch_alone_have_one_first),
        cmocka_unit_test(mistakes_are_found_before_anything_runs),
        cmocka_unit_test(the_two_words_of_diff_stand_anywhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
