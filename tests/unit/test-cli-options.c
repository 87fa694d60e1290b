/* test-cli-options.c - the options' table: what is accepted, and what is said of the rest */
#include <string.h>

#include "cli/command.h"
#include "support/test.h"

enum { WORDS = 32 };

/* struct line - a command line and what became of it */
struct line {
    struct arena arena;
    struct options options;
    struct plm_error error;
    char *argv[WORDS];
    int argc, first;
};

static enum plm_status parse(struct line *line, enum command_id command, const char *text)
{
    *line = (struct line){ 0 };
    line->options.arena = &line->arena;
    for (const char *at = text; *at && line->argc < WORDS - 1;) {
        size_t length = strcspn(at, " ");

        line->argv[line->argc++] = arena_copy(&line->arena, at, length);
        at += length;
        at += strspn(at, " ");
    }
    return options_parse(&line->options, command, line->argc, line->argv, &line->first,
                         &line->error);
}

static void assert_refused(enum command_id command, const char *text, const char *message)
{
    struct line line;

    assert_int_equal(parse(&line, command, text), PLM_E_USAGE);
    assert_string_equal(line.error.message, message);
    arena_finish(&line.arena);
}

static void every_option_reaches_its_member(void **state)
{
    struct line line;

    assert_int_equal(parse(&line, COMMAND_ESTIMATE,
                           "estimate gpt2 -b 8 --seq=512 --precision amp-fp16 --optimizer lion "
                           "--accumulate 4 --clip-grad-norm 1.0 --zero-grad zero --steps 3"),
                     PLM_OK);
    assert_int_equal(line.options.strategy.batch, 8);
    assert_int_equal(line.options.strategy.seq, 512);
    assert_int_equal(line.options.strategy.precision, PLM_PRECISION_AMP_FP16);
    assert_int_equal(line.options.strategy.optimizer, PLM_OPTIMIZER_LION);
    assert_int_equal(line.options.strategy.accumulate, 4);
    assert_true(line.options.strategy.clip_grad_norm == 1.0);
    assert_int_equal(line.options.strategy.zero_grad, PLM_ZERO_GRAD_ZERO);
    assert_int_equal(line.options.strategy.steps, 3);
    assert_int_equal(line.argc - line.first, 1);
    assert_string_equal(line.argv[line.first], "gpt2");
    arena_finish(&line.arena);

    assert_int_equal(
        parse(&line, COMMAND_ESTIMATE,
              "estimate --zero-grad-at begin --keep-outputs-in-step --frozen wte --eval "
              "--channels-last --checkpoint-reentrant --checkpoint-selective "
              "--reshard-after-forward but-last --minimum-capacity --json m"),
        PLM_OK);
    assert_int_equal(line.options.strategy.zero_grad_at, PLM_ZERO_GRAD_AT_BEGIN);
    assert_true(line.options.strategy.keep_outputs_in_step && line.options.strategy.eval);
    assert_true(line.options.strategy.channels_last && line.options.strategy.checkpoint_reentrant);
    assert_true(line.options.strategy.checkpoint_selective);
    assert_int_equal(line.options.strategy.parallel.reshard, PLM_RESHARD_BUT_LAST);
    assert_true(line.options.strategy.minimum_capacity && line.options.json);
    assert_string_equal(line.options.strategy.frozen, "wte");
    arena_finish(&line.arena);

    assert_int_equal(parse(&line, COMMAND_ESTIMATE,
                           "estimate m --megatron 4 --tp 2 --sequence-parallel "
                           "--distributed-optimizer --overlap-grad-reduce --recompute full "
                           "--recompute-method block --recompute-layers 3 --microbatch-group 6"),
                     PLM_OK);
    const struct plm_parallel *p = &line.options.strategy.parallel;

    assert_int_equal(p->megatron, 4);
    assert_true(p->sequence_parallel && p->distributed_optimizer && p->overlap_grad_reduce);
    assert_int_equal(p->recompute, PLM_RECOMPUTE_FULL);
    assert_int_equal(p->recompute_method, PLM_RECOMPUTE_BLOCK);
    assert_int_equal(p->recompute_layers, 3);
    assert_int_equal(p->microbatch_group, 6);
    arena_finish(&line.arena);

    assert_int_equal(parse(&line, COMMAND_ESTIMATE,
                           "estimate m --device t4 --capacity 24GiB --context 0 --allocator a:b "
                           "--framework pytorch-2.6 --assume ghostgpu -o out.json --color never"),
                     PLM_OK);
    assert_string_equal(line.options.device, "t4");
    assert_int_equal(line.options.strategy.capacity, (plm_bytes)24 << 30);
    assert_true(line.options.strategy.has_context && line.options.strategy.context == 0);
    assert_string_equal(line.options.strategy.allocator, "a:b");
    assert_string_equal(line.options.strategy.framework, "pytorch-2.6");
    assert_true(line.options.strategy.assume_ghostgpu);
    assert_string_equal(line.options.output, "out.json");
    assert_int_equal(line.options.color, COLOR_NEVER);
    arena_finish(&line.arena);
}

static void settings_add_up_and_the_last_of_a_name_counts(void **state)
{
    struct line line;

    assert_int_equal(parse(&line, COMMAND_CHECK,
                           "check m --set layers=24 --set attention=eager --set layers=12"),
                     PLM_OK);
    assert_int_equal(line.options.strategy.setting_count, 2);
    assert_string_equal(line.options.strategy.settings[0].name, "layers");
    assert_string_equal(line.options.strategy.settings[0].value, "12");
    assert_string_equal(line.options.strategy.settings[1].value, "eager");
    arena_finish(&line.arena);
}

static void checkpointing_is_read_with_its_numbers(void **state)
{
    struct line line;

    assert_int_equal(parse(&line, COMMAND_PLAN, "plan m --checkpoint every=3"), PLM_OK);
    assert_int_equal(line.options.strategy.checkpoint, PLM_CHECKPOINT_EVERY);
    assert_int_equal(line.options.strategy.checkpoint_count, 3);
    arena_finish(&line.arena);
    assert_int_equal(parse(&line, COMMAND_PLAN, "plan m --checkpoint blocks=0-3,7"), PLM_OK);
    assert_int_equal(line.options.strategy.checkpoint, PLM_CHECKPOINT_BLOCKS);
    assert_string_equal(line.options.strategy.checkpoint_blocks, "0-3,7");
    arena_finish(&line.arena);
    assert_refused(COMMAND_PLAN, "plan m --checkpoint every=0",
                   "--checkpoint: 'every=0' needs a whole number from 1, such as every=2");
    assert_refused(COMMAND_PLAN, "plan m --checkpoint ful",
                   "--checkpoint: unknown value 'ful'; did you mean 'full'? accepted: none, full, "
                   "every=…, group=…, sqrt, blocks=…, auto");
}

static void a_margin_is_a_size_or_a_share(void **state)
{
    struct line line;

    assert_int_equal(parse(&line, COMMAND_PLAN, "plan m --margin 5% --reserve 2GiB"), PLM_OK);
    assert_true(line.options.has_margin && line.options.margin_share == 0.05);
    assert_int_equal(line.options.reserve, (plm_bytes)2 << 30);
    arena_finish(&line.arena);
    assert_int_equal(parse(&line, COMMAND_PLAN, "plan m --margin 1GiB"), PLM_OK);
    assert_int_equal(line.options.margin_bytes, (plm_bytes)1 << 30);
    assert_true(line.options.margin_share == 0);
    arena_finish(&line.arena);
    assert_refused(
        COMMAND_PLAN, "plan m --margin 100%",
        "--margin: '100%' is not accepted; accepted: a share from 0% to below 100%, or a "
        "size");
}

static void workspaces_are_a_word_or_a_size(void **state)
{
    struct line line;

    assert_int_equal(parse(&line, COMMAND_DUMP, "dump m --cudnn-workspace none"), PLM_OK);
    assert_int_equal(line.options.strategy.cudnn_workspace, PLM_WORKSPACE_NONE);
    arena_finish(&line.arena);
    assert_int_equal(parse(&line, COMMAND_DUMP, "dump m --cudnn-workspace 64MiB"), PLM_OK);
    assert_int_equal(line.options.strategy.cudnn_workspace, PLM_WORKSPACE_BYTES);
    assert_int_equal(line.options.strategy.cudnn_workspace_bytes, (plm_bytes)64 << 20);
    arena_finish(&line.arena);
}

static void mistakes_name_the_option_and_what_it_takes(void **state)
{
    assert_refused(COMMAND_ESTIMATE, "estimate m --precision bf15",
                   "--precision: unknown value 'bf15'; did you mean 'bf16'? accepted: fp32, bf16, "
                   "fp16, amp-bf16, amp-fp16");
    assert_refused(COMMAND_ESTIMATE, "estimate m --batch 0",
                   "--batch: '0' is not accepted; accepted: a positive whole number, below 2^63");
    assert_refused(
        COMMAND_ESTIMATE, "estimate m --batch 9223372036854775808",
        "--batch: '9223372036854775808' is not accepted; accepted: a positive whole number, "
        "below 2^63");
    assert_refused(
        COMMAND_ESTIMATE, "estimate m --clip-grad-norm 0",
        "--clip-grad-norm: '0' is not accepted; accepted: a number above 0, such as 1.0");
    assert_refused(COMMAND_ESTIMATE, "estimate m --zero 0",
                   "--zero: unknown value '0'; accepted: 1, 2, 3");
    assert_refused(
        COMMAND_ESTIMATE, "estimate m --zer 1",
        "option '--zer' is ambiguous: --zero-grad, --zero-grad-at, --zero-redundancy, --zero, --zero-offload, --zero-bucket, --zero-overlap");
    assert_refused(
        COMMAND_ESTIMATE, "estimate m --c 1",
        "option '--c' is ambiguous: --checkpoint, --checkpoint-reentrant, --checkpoint-selective, --clip-grad-norm, --channels-last, --cp, --cp-rotate, --capacity, …");
    assert_refused(COMMAND_ESTIMATE, "estimate m --set =3",
                   "--set: '=3' is not accepted; accepted: NAME=VALUE, such as layers=24");
    assert_refused(COMMAND_ESTIMATE, "estimate m --batch", "--batch: needs N");
    assert_refused(COMMAND_ESTIMATE, "estimate m --json=1", "--json: takes no value");
    assert_refused(COMMAND_ESTIMATE, "estimate m --json --csv",
                   "--json and --csv do not go together");
}

static void unknown_options_get_a_suggestion(void **state)
{
    assert_refused(COMMAND_ESTIMATE, "estimate m --bacth 3",
                   "unknown option '--bacth'; did you mean '--batch'? ('plimsoll estimate --help' "
                   "lists them)");
    assert_refused(COMMAND_ESTIMATE, "estimate m --dtype=bf16",
                   "unknown option '--dtype'; did you mean '--precision'? ('plimsoll estimate "
                   "--help' lists them)");
    assert_refused(COMMAND_ESTIMATE, "estimate m --overclock 8",
                   "unknown option '--overclock' ('plimsoll estimate --help' lists them)");
    assert_refused(COMMAND_ESTIMATE, "estimate m --margin 5%",
                   "--margin: not an option of estimate; of: plan, compare, verify, watch");
    assert_refused(COMMAND_ESTIMATE, "estimate m --zero-g x",
                   "option '--zero-g' is ambiguous: --zero-grad, --zero-grad-at");
}

static void commands_are_found_by_their_beginning(void **state)
{
    enum command_id id;
    struct plm_error error;

    assert_int_equal(command_find("estimate", &id, NULL), PLM_OK);
    assert_int_equal(id, COMMAND_ESTIMATE);
    assert_int_equal(command_find("pl", &id, NULL), PLM_OK);
    assert_int_equal(id, COMMAND_PLAN);
    assert_int_equal(command_find("d", &id, &error), PLM_E_USAGE);
    assert_string_equal(error.message, "command 'd' is ambiguous: 'devices' or 'dump'");
    assert_int_equal(command_find("estmate", &id, &error), PLM_E_USAGE);
    assert_string_equal(error.message, "unknown command 'estmate'; did you mean 'estimate'? "
                                       "('plimsoll --help' lists them)");
    assert_int_equal(command_find("", &id, NULL), PLM_E_USAGE);
}

static void every_row_of_the_table_is_complete(void **state)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option_desc *desc = &option_descs[i];

        assert_true(desc->commands != 0);
        assert_true(desc->help[strlen(desc->help) - 1] == '.');
        assert_true(desc->complete != COMPLETE_WORDS || desc->words);
        assert_true(desc->argument || desc->complete == COMPLETE_NOTHING);
        for (size_t j = 0; j < i; j++) {
            if (desc->commands & option_descs[j].commands) /* calibrate's --device is another */
                assert_string_not_equal(desc->name, option_descs[j].name);
            assert_true(!desc->letter || desc->letter != option_descs[j].letter);
        }
        for (size_t j = 0; desc->words && j < desc->words->count; j++)
            assert_true(desc->words->items[j] && desc->words->items[j][0]);
    }
    for (unsigned i = 0; i < COMMAND_COUNT; i++) {
        const struct command *command = command_at((enum command_id)i);

        assert_non_null(command->run);
        assert_true(command->most >= command->least);
        assert_true(command->least == 0 || command->missing);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_option_reaches_its_member),
        cmocka_unit_test(settings_add_up_and_the_last_of_a_name_counts),
        cmocka_unit_test(checkpointing_is_read_with_its_numbers),
        cmocka_unit_test(a_margin_is_a_size_or_a_share),
        cmocka_unit_test(workspaces_are_a_word_or_a_size),
        cmocka_unit_test(mistakes_name_the_option_and_what_it_takes),
        cmocka_unit_test(unknown_options_get_a_suggestion),
        cmocka_unit_test(commands_are_found_by_their_beginning),
        cmocka_unit_test(every_row_of_the_table_is_complete),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
