/*
 * The training step: what names and calls hold, what checkpoints let go of, how parameters are found and loaded
 *
 * train-steps.def holds whole steps against recordings of PyTorch; the other expectations follow from one rule
 * each, which the test's name says.
 */
#include <stdio.h>
#include <string.h>

#include "support/steps.h"
#include "support/test.h"
#include "support/trace.h"

static void start(struct test_steps *f, const char *text, const struct plm_strategy *s)
{
    enum plm_status status = test_steps_create(f, text, s);

    if (status)
        fail_msg("%s", f->error.message);
    if (train_load(f->run, &f->error))
        fail_msg("%s", f->error.message);
}

static void step(struct test_steps *f)
{
    if (train_step(f->run, &f->error))
        fail_msg("%s", f->error.message);
}

static const char *events_after(struct test_steps *f, size_t first)
{
    struct buf text = { .arena = &f->arena };

    trace_text(&f->schedule, first, &text);
    return buf_string(&text);
}

/* ------------------------------------------------------------------ whole steps */

static const char perceptron[] =
    "plimsoll: 1\n"
    "model: perceptron\n"
    "dims: {layers: 3, input: 40, width: 96, classes: 10}\n"
    "defaults: {batch: 5}\n"
    "inputs:\n"
    "  x: {dtype: float32, shape: [batch, input]}\n"
    "  labels: {dtype: int64, shape: [batch]}\n"
    "blocks:\n"
    "  layer:\n"
    "    in: [x]\n"
    "    nodes:\n"
    "      - {as: h, op: linear, in: x, features: width, name: '0'}\n"
    "      - {as: h, op: relu, in: h}\n"
    "    out: h\n"
    "  model:\n"
    "    in: [x]\n"
    "    nodes:\n"
    "      - {as: x, call: layer, in: x, name: h, repeat: layers, checkpoint: true}\n"
    "      - {as: x, op: linear, in: x, features: classes, name: out}\n"
    "    out: x\n"
    "main:\n"
    "  in: [x, labels]\n"
    "  nodes:\n"
    "    - {as: logits, call: model, in: x}\n"
    "    - {as: loss, op: cross_entropy, in: [logits, labels]}\n"
    "  out: [loss, logits]\n";

#define ARGS(...)                                                                                  \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define CASE(name, strategy_, events)                                                              \
    static void name(void **state)                                                                 \
    {                                                                                              \
        static const struct plm_strategy strategy = strategy_;                                     \
        test_steps_expect(perceptron, &strategy, events);                                          \
    }
#include "train-steps.def"
#undef CASE

static void marks_stand_where_the_reference_measures(void **state)
{
    static const struct plm_strategy strategy = { .accumulate = 2 };
    static const char *const names[] = {
        "start", "model_load", "optimizer_init", "fwd", "bwd", "fwd", "bwd", "opt", "end", "fwd"
    };
    struct test_steps f;

    start(&f, perceptron, &strategy);
    step(&f);
    step(&f);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_string_equal(f.schedule.marks[i].name, names[i]);
    assert_int_equal(f.schedule.marks[0].step, -1);
    assert_int_equal(f.schedule.marks[3].step, 0);
    assert_int_equal(f.schedule.marks[6].micro, 1);
    assert_int_equal(f.schedule.marks[9].step, 1);
    test_steps_finish(&f);
}

/* ------------------------------------------------------------------ names and calls */

/* evaluate() - a model whose main is @nodes over x, [4, 256] floats, in evaluation: no autograd, no parameters */
static void evaluate(struct test_steps *f,
                     const char *blocks,
                     const char *nodes,
                     const char *expected)
{
    static const struct plm_strategy strategy = { .eval = true };
    char yaml[4096];

    snprintf(yaml, sizeof yaml,
             "plimsoll: 1\nmodel: m\ninputs: {x: {dtype: float32, shape: [4, 256]}}\n%s"
             "main:\n  in: [x]\n  nodes:\n%s"
             "  out: loss\n",
             blocks, nodes);
    start(f, yaml, &strategy);
    size_t first = f->schedule.event_count;

    step(f);
    assert_string_equal(events_after(f, first), expected);
    test_steps_finish(f);
}

static void a_name_bound_again_lets_go_after_the_operator(void **state)
{
    struct test_steps f;

    evaluate(&f, "",
             "    - {as: y, op: exp, in: x}\n"
             "    - {as: y, op: exp, in: y}\n"
             "    - {as: loss, op: sum, in: y}\n",
             "+4096 +4096 +4096 -4096 +4 -4096 <fwd> -4 -4096");
}

static void arguments_live_as_long_as_the_callers_names(void **state)
{
    static const char blocks[] = "blocks:\n  f:\n    in: [x]\n    nodes:\n"
                                 "      - {as: x, op: sum, in: x, dim: 1}\n"
                                 "      - {as: x, op: exp, in: x}\n"
                                 "    out: x\n"
                                 "  g:\n    in: [x]\n    nodes:\n"
                                 "      - {as: y, op: exp, in: x}\n"
                                 "      - {as: z, %s: f, in: y, del: y}\n"
                                 "    out: z\n";
    static const char nodes[] = "    - {as: y, call: g, in: x}\n"
                                "    - {as: loss, op: sum, in: y}\n";
    char text[1024];
    struct test_steps f;

    /* f binds its argument's name again, and its intermediate result goes; y stays until the call has returned */
    snprintf(text, sizeof text, blocks, "call");
    evaluate(&f, text, nodes, "+4096 +4096 +16 +16 -16 -4096 +4 -16 <fwd> -4 -4096");
    snprintf(text, sizeof text, blocks, "inline");
    evaluate(&f, text, nodes, "+4096 +4096 +16 +16 -16 -4096 +4 -16 <fwd> -4 -4096");
}

static void lists_and_records_keep_what_they_hold(void **state)
{
    struct test_steps f;

    evaluate(&f, "",
             "    - {as: l, op: list, in: []}\n"
             "    - {as: y, op: sum, in: x, dim: 1}\n"
             "    - {op: append, in: [l, y]}\n"
             "    - {as: y, op: sum, in: x, dim: 0}\n"
             "    - {op: append, in: [l, y], del: y}\n"
             "    - {as: r, op: record, in: {kept: l}, del: l}\n"
             "    - {as: k, op: field, in: r, field: kept}\n"
             "    - {as: z, op: pop, in: k}\n"
             "    - {as: loss, op: sum, in: z, del: z}\n"
             "    - {as: y, op: item, in: k, index: -1, del: [k, r]}\n"
             "    - {as: loss, op: sum, in: y, del: y}\n",
             "+4096 +16 +1024 +4 -1024 +4 -4 -16 <fwd> -4 -4096");
}

static void cat_spreads_a_list(void **state)
{
    struct test_steps f;

    evaluate(&f, "",
             "    - {as: l, op: list, in: [x, x]}\n"
             "    - {as: y, op: cat, in: l, dim: 1}\n"
             "    - {as: loss, op: sum, in: y}\n",
             "+4096 +8192 +4 -8192 <fwd> -4 -4096");
}

/* ------------------------------------------------------------------ parameters */

static const char modules[] =
    "plimsoll: 1\n"
    "model: m\n"
    "inputs: {x: {dtype: float32, shape: [2, 8, 8, 8]}}\n"
    "parameters: [late]\n"
    "blocks:\n"
    "  model:\n"
    "    in: [x]\n"
    "    nodes:\n"
    "      - {as: s, op: parameter, name: scale, shape: [3]}\n"
    "      - {as: x, op: conv2d, in: x, channels: 8, kernel: 3, padding: 1, "
    "bias: false, name: a.conv}\n"
    "      - {as: x, op: batch_norm, in: x, name: a.norm}\n"
    "      - {as: x, op: linear, in: x, features: 8, bias: false, name: late}\n"
    "      - {as: x, op: linear, in: x, features: 8, bias: false, name: again, "
    "tie: late.weight}\n"
    "    out: x\n"
    "main:\n"
    "  in: [x]\n"
    "  nodes:\n"
    "    - {as: y, call: model, in: x}\n"
    "    - {as: loss, op: sum, in: y}\n"
    "  out: loss\n";

static void parameters_are_registered_in_order_of_use_after_those_that_the_model_lists(void **state)
{
    static const struct plm_strategy strategy = { 0 };
    static const char *const names[] = { "late.weight",        "scale",
                                         "a.conv.weight",      "a.norm.weight",
                                         "a.norm.bias",        "a.norm.running_mean",
                                         "a.norm.running_var", "a.norm.num_batches_tracked" };
    struct test_steps f;
    size_t count;

    assert_int_equal(test_steps_create(&f, modules, &strategy), PLM_OK);
    const struct param *params = train_params(f.run, &count);

    assert_int_equal(count, sizeof names / sizeof *names);
    for (size_t i = 0; i < count; i++)
        assert_string_equal(names_text(&f.names, params[i].name), names[i]);
    assert_true(params[5].buffer && !params[4].buffer);
    assert_int_equal(params[7].dtype, DTYPE_INT64);
    test_steps_finish(&f);
}

static void modules_are_loaded_children_first(void **state)
{
    static const struct plm_strategy strategy = { .precision = PLM_PRECISION_BF16 };
    struct test_steps f;

    start(&f, modules, &strategy);
    /* late.weight, a.conv.weight, a.norm: weight, bias, mean, variance, count; then the root's own */
    assert_string_equal(events_after(&f, 0),
                        "<start> +128 +1152 +16 +16 +16 +16 +8 +6 <model_load> <optimizer_init>");
    test_steps_finish(&f);
}

static void channels_last_copies_what_has_four_dimensions(void **state)
{
    static const struct plm_strategy strategy = { .channels_last = true,
                                                  .optimizer = PLM_OPTIMIZER_ADAGRAD };
    struct test_steps f;

    start(&f, modules, &strategy);
    assert_string_equal(events_after(&f, 0),
                        "<start> +256 +2304 +32 +32 +32 +32 +8 +12 +2304 -2304 <model_load> "
                        "+256 +12 +2304 +32 +32 <optimizer_init>");
    test_steps_finish(&f);
}

/* ------------------------------------------------------------------ what is refused */

static void refuse(const struct plm_strategy *strategy, enum plm_status status, const char *message)
{
    struct test_steps f;
    enum plm_status got = test_steps_create(&f, perceptron, strategy);

    if (!got)
        got = train_load(f.run, &f.error);
    if (!got)
        got = train_step(f.run, &f.error);
    assert_int_equal(got, status);
    assert_string_equal(f.error.message, message);
    arena_finish(&f.arena);
}

static void options_that_mean_nothing_are_usage_errors(void **state)
{
    refuse(&(struct plm_strategy){ .checkpoint = PLM_CHECKPOINT_AUTO }, PLM_E_USAGE,
           "checkpoint: auto is decided by a plan, not by a run");
    refuse(&(struct plm_strategy){ .checkpoint = PLM_CHECKPOINT_EVERY }, PLM_E_USAGE,
           "checkpoint: N must be at least 1");
    refuse(
        &(struct plm_strategy){ .checkpoint = PLM_CHECKPOINT_BLOCKS, .checkpoint_blocks = "1-3" },
        PLM_E_USAGE, "checkpoint: there is no block 3; the model has 3, counted from 0");
    refuse(
        &(struct plm_strategy){ .checkpoint = PLM_CHECKPOINT_BLOCKS, .checkpoint_blocks = "2-1" },
        PLM_E_USAGE, "checkpoint: blocks are written like 0-3,7, not '2-1'");
    refuse(&(struct plm_strategy){ .keep_outputs = true, .keep_outputs_in_step = true },
           PLM_E_USAGE, "--keep-outputs and --keep-outputs-in-step exclude each other");
    refuse(&(struct plm_strategy){ .checkpoint_selective = true }, PLM_E_USAGE,
           "checkpoint-selective: without --checkpoint nothing is recomputed");
    refuse(&(struct plm_strategy){ .checkpoint = PLM_CHECKPOINT_FULL,
                                   .checkpoint_selective = true,
                                   .checkpoint_reentrant = true },
           PLM_E_USAGE,
           "checkpoint-selective: PyTorch keeps results only in checkpoints that are not "
           "reentrant");
    refuse(&(struct plm_strategy){ .frozen = "." }, PLM_E_USAGE,
           "frozen: no parameter is left to train");
}

static void a_frozen_expression_must_compile(void **state)
{
    struct test_steps f;

    assert_int_equal(test_steps_create(&f, perceptron, &(struct plm_strategy){ .frozen = "(" }),
                     PLM_OK);
    assert_int_equal(train_load(f.run, &f.error), PLM_E_USAGE);
    assert_non_null(strstr(f.error.message, "frozen: '(' is not a regular expression"));
    arena_finish(&f.arena);
}

static void what_has_no_effect_is_warned_of(void **state)
{
    static const struct plm_strategy strategy = { .frozen = "nothing",
                                                  .checkpoint = PLM_CHECKPOINT_FULL };
    struct test_steps f;
    size_t count;

    start(&f, modules, &strategy);
    const char *const *warnings = train_warnings(f.run, &count);

    assert_int_equal(count, 2);
    assert_non_null(strstr(warnings[0], "checkpoint"));
    assert_string_equal(warnings[1], "frozen: no parameter's name matches 'nothing'");
    test_steps_finish(&f);
}

static void a_tie_names_what_an_operator_has(void **state)
{
    static const struct plm_strategy strategy = { 0 };
    static const char text[] =
        "plimsoll: 1\nmodel: t\ninputs: {x: {dtype: float32, shape: [batch, 4]}}\nmain:\n  in: [x]\n"
        "  nodes:\n"
        "    - {as: x, op: linear, in: x, features: 4, name: b, tie: a.wieght}\n"
        "    - {as: x, op: linear, in: x, features: 4, name: a}\n"
        "    - {as: loss, op: mean, in: x}\n"
        "  out: loss\n";
    struct test_steps f;

    assert_int_equal(test_steps_create(&f, text, &strategy), PLM_E_MODEL);
    assert_string_equal(f.error.message, "tie: no operator has a parameter 'a.wieght' of its own; "
                                         "did you mean 'a.weight'?");
    assert_int_equal(f.error.line, 7);
    test_steps_finish(&f);
}

/* what a checkpoint's function closes over, as transformers' layers do with keyword arguments, lives as long as the loss does */
static void a_reentrant_block_holds_its_keyword_arguments(void **state)
{
    static const char text[] =
        "plimsoll: 1\n"
        "model: keywords\n"
        "inputs: {x: {dtype: float32, shape: [40, 8]}}\n"
        "blocks:\n"
        "  layer:\n"
        "    in: [x, scale]\n"
        "    nodes:\n"
        "      - {as: x, op: linear, in: x, features: 16, name: fc}\n"
        "      - {as: x, op: mul, in: [x, scale]}\n"
        "    out: x\n"
        "  model:\n"
        "    in: [x]\n"
        "    nodes:\n"
        "      - {as: scale, op: cat, in: [x, x], dim: 1}\n"
        "      - {as: x, op: linear, in: x, features: 16, name: first}\n"
        "      - {as: x, call: layer, in: [x, scale], name: h, repeat: 2, checkpoint: true, positional: 1}\n"
        "    out: x\n"
        "main:\n"
        "  in: [x]\n"
        "  nodes:\n"
        "    - {as: out, call: model, in: x}\n"
        "    - {as: loss, op: sum, in: out}\n"
        "  out: [loss, out]\n";
    static const struct plm_strategy strategy = {
        .optimizer = PLM_OPTIMIZER_SGD,
        .checkpoint = PLM_CHECKPOINT_FULL,
        .checkpoint_reentrant = true,
    };

    /* PyTorch 2.15 on an a100-80: checkpoint(partial(layer.forward, scale=scale), x, use_reentrant=True), two steps */
    test_steps_expect(
        text, &strategy,
        "+512 +64 +1024 +64 +1024 +64 +1280 +2560 +2560 +1048576 -1048576 +2560 +1048576 "
        "-1048576 +2560 -2560 +2560 +1048576 -1048576 +2560 -2560 +4 -2560 +4 +2560 +1048576 "
        "-1048576 +2560 -2560 +2560 +2560 +8519680 -8519680 +1024 +8519680 -8519680 +64 -2560 "
        "-2560 -2560 +2560 +1048576 -1048576 +2560 -2560 +2560 +2560 +8519680 -8519680 +1024 "
        "+8519680 -8519680 +64 -2560 -2560 -2560 -2560 +512 +8519680 -8519680 +64 -4 -4 -64 -64 "
        "-64 -512 -1024 -1024 -1280 -2560 -2560 +1280 +2560 +2560 +1048576 -1048576 +2560 "
        "+1048576 -1048576 +2560 -2560 +2560 +1048576 -1048576 +2560 -2560 +4 -2560 +4 +2560 "
        "+1048576 -1048576 +2560 -2560 +2560 +2560 +8519680 -8519680 +1024 +8519680 -8519680 "
        "+64 -2560 -2560 -2560 +2560 +1048576 -1048576 +2560 -2560 +2560 +2560 +8519680 "
        "-8519680 +1024 +8519680 -8519680 +64 -2560 -2560 -2560 -2560 +512 +8519680 -8519680 "
        "+64 -4 -4 -64 -64 -64 -512 -1024 -1024 -1280 -2560 -2560");
}

/* nn.MultiheadAttention in evaluation where no fused kernel runs: heads of 6 in float32 */
static void the_fast_path_of_attention_without_a_fused_kernel(void **state)
{
    static const char text[] =
        "plimsoll: 1\n"
        "model: fast-path\n"
        "inputs: {x: {dtype: float32, shape: [4, 6, 12]}}\n"
        "blocks:\n"
        "  attention:\n"
        "    in: [x]\n"
        "    nodes:\n"
        "      - {as: weight, op: parameter, name: in_proj_weight, shape: [36, 12]}\n"
        "      - {as: bias, op: parameter, name: in_proj_bias, shape: [36]}\n"
        "      - {as: [y, qkv], op: native_attention, in: [x, weight, bias], num_heads: 2}\n"
        "      - {as: out, op: linear, in: y, features: 12, name: out_proj, del: y}\n"
        "    out: out\n"
        "main:\n"
        "  in: [x]\n"
        "  nodes:\n"
        "    - {as: out, call: attention, in: x, name: attn}\n"
        "    - {as: loss, op: sum, in: out}\n"
        "  out: [loss, out]\n";
    static const struct plm_strategy strategy = { .eval = true };

    /* PyTorch 2.15 on an a100-80: nn.MultiheadAttention(12, 2, batch_first=True)(x, x, x, need_weights=False), two steps */
    test_steps_expect(
        text, &strategy,
        "+576 +48 +1728 +144 +1152 +3456 +8519680 -8519680 +3456 -3456 +1152 +8519680 -8519680 "
        "+8519680 -1152 -8519680 +1152 +1152 +1048576 -1152 -3456 -1048576 +4 -4 -1152 -1152 "
        "+1152 +3456 +8519680 -8519680 +3456 -3456 +1152 +8519680 -8519680 +8519680 -1152 "
        "-8519680 +1152 +1152 +1048576 -1152 -3456 -1048576 +4 -4 -1152 -1152");
}

static void one_name_has_one_size(void **state)
{
    static const struct plm_strategy strategy = { 0 };
    static const char text[] =
        "plimsoll: 1\nmodel: m\ninputs: {x: {dtype: float32, shape: [4, 8]}}\n"
        "main:\n  in: [x]\n  nodes:\n"
        "    - {as: x, op: linear, in: x, features: 16, name: a}\n"
        "    - {as: x, op: linear, in: x, features: 16, name: b, tie: a.weight}\n"
        "    - {as: loss, op: sum, in: x}\n"
        "  out: loss\n";
    struct test_steps f;

    assert_int_equal(test_steps_create(&f, text, &strategy), PLM_E_MODEL);
    assert_int_equal(f.error.line, 8);
    assert_string_equal(f.error.message, "linear 'b': 'a.weight' is used with different sizes");
    arena_finish(&f.arena);
}

/* held_after() - bytes that are not released when two steps are over */
static plm_bytes held_after(struct plm_strategy strategy)
{
    struct test_steps f;
    plm_bytes held = 0;

    assert_int_equal(test_steps_run(&f, perceptron, &strategy), PLM_OK);
    const struct record *records = train_ghost(f.run)->records;

    for (size_t i = 0; i < f.schedule.event_count; i++) {
        const struct event *event = &f.schedule.events[i];

        if (event->kind == EVENT_ALLOC)
            held += records[event->allocation].bytes;
        if (event->kind == EVENT_FREE)
            held -= records[event->allocation].bytes;
    }
    test_steps_finish(&f);
    return held;
}

static void outputs_live_until_the_next_forward_or_the_steps_end(void **state)
{
    const plm_bytes loss_and_logits = 4 + 4 * 5 * 10;
    plm_bytes held = held_after((struct plm_strategy){ .keep_outputs_in_step = true });

    assert_int_equal(held, held_after((struct plm_strategy){ .keep_outputs = false }));
    assert_int_equal(held + loss_and_logits,
                     held_after((struct plm_strategy){ .keep_outputs = true }));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define CASE(name, strategy, events) cmocka_unit_test(name),
#include "train-steps.def"
#undef CASE
        cmocka_unit_test(marks_stand_where_the_reference_measures),
        cmocka_unit_test(outputs_live_until_the_next_forward_or_the_steps_end),
        cmocka_unit_test(a_name_bound_again_lets_go_after_the_operator),
        cmocka_unit_test(arguments_live_as_long_as_the_callers_names),
        cmocka_unit_test(lists_and_records_keep_what_they_hold),
        cmocka_unit_test(cat_spreads_a_list),
        cmocka_unit_test(
            parameters_are_registered_in_order_of_use_after_those_that_the_model_lists),
        cmocka_unit_test(modules_are_loaded_children_first),
        cmocka_unit_test(channels_last_copies_what_has_four_dimensions),
        cmocka_unit_test(options_that_mean_nothing_are_usage_errors),
        cmocka_unit_test(a_frozen_expression_must_compile),
        cmocka_unit_test(what_has_no_effect_is_warned_of),
        cmocka_unit_test(a_reentrant_block_holds_its_keyword_arguments),
        cmocka_unit_test(the_fast_path_of_attention_without_a_fused_kernel),
        cmocka_unit_test(one_name_has_one_size),
        cmocka_unit_test(a_tie_names_what_an_operator_has),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
