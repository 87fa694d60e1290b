/* DeepSpeed's ZeRO: whole steps against recordings, what is refused, and configuration files */
#include <stdio.h>
#include <string.h>

#include "support/steps.h"
#include "support/test.h"

static const char network[] = TEST_NETWORK("3");

/* ------------------------------------------------------------------ whole steps */

#define ARGS(...)                                                                                  \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define CASE(name, strategy_, events)                                                              \
    static void name(void **state)                                                                 \
    {                                                                                              \
        static const struct plm_strategy strategy = strategy_;                                     \
        test_steps_expect(network, &strategy, events);                                             \
    }
#include "deepspeed-steps.def"
#undef CASE

/* ------------------------------------------------------------------ the rank that is shown */

/* of 28600 + 2420 + 24200 … elements in two parts, the second has a part of more parameters */
static void the_rank_that_keeps_most_is_shown(void **state)
{
    static const struct plm_strategy strategy = {
        .parallel = { .zero = 2, .gpus = 4 },
        .optimizer = PLM_OPTIMIZER_SGD,
    };
    struct test_steps t;
    size_t count;

    assert_int_equal(test_steps_run(&t, network, &strategy), PLM_OK);
    const char *const *warnings = train_warnings(t.run, &count);

    assert_int_equal(count, 1);
    assert_non_null(strstr(warnings[0], "zero: rank 1 is shown"));
    test_steps_finish(&t);
}

/* ------------------------------------------------------------------ what is refused */

static void what_makes_no_sense_is_refused(void **state)
{
    static const struct {
        struct plm_strategy strategy;
        const char *part;
    } cases[] = {
        { { .parallel = { .zero = 2 } }, "needs --gpus N" },
        { { .parallel = { .zero = 4, .gpus = 2 } }, "the stage is 1, 2 or 3" },
        { { .parallel = { .zero = 1, .gpus = 2 }, .precision = PLM_PRECISION_AMP_BF16 },
          "casts the parameters itself" },
        { { .parallel = { .zero = 1, .gpus = 2 }, .optimizer = PLM_OPTIMIZER_NONE },
          "no optimizer to share" },
        { { .parallel = { .zero = 1, .gpus = 2 }, .optimizer = PLM_OPTIMIZER_ADAFACTOR },
          "gets flat ones" },
        { { .parallel = { .zero = 1, .gpus = 2 }, .optimizer = PLM_OPTIMIZER_ADAGRAD },
          "made twice" },
        { { .parallel = { .zero = 1, .gpus = 2 }, .channels_last = true }, "--channels-last" },
        { { .parallel = { .zero = 1, .gpus = 2 }, .eval = true }, "leave out --eval" },
        { { .parallel = { .zero = 1, .gpus = 2 }, .zero_grad = PLM_ZERO_GRAD_ZERO },
          "lets go of gradients itself" },
        { { .parallel = { .zero = 1, .gpus = 2, .rank = 2, .has_rank = true } }, "from 0 to 1" },
        { { .parallel = { .zero = 2, .gpus = 2, .deepspeed = { .offload = PLM_OFFLOAD_ALL } } },
          "before stage 3" },
        { { .parallel = { .zero = 2,
                          .gpus = 2,
                          .deepspeed = { .overlap_comm = PLM_SWITCH_TRUE,
                                         .contiguous_gradients = PLM_SWITCH_FALSE } } },
          "one buffer more" },
        { { .parallel = { .zero = 2,
                          .gpus = 2,
                          .deepspeed = { .reduce_bucket_size = PLM_DEEPSPEED_AUTO } } },
          "model 'network' has none" },
        { { .parallel = { .zero = 2, .gpus = 2, .ddp = 2 } }, "exclude each other" },
        { { .parallel = { .zero = 2, .gpus = 2, .fsdp = 2 } }, "exclude each other" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct plm_strategy strategy = cases[i].strategy;

        if (i != 3 && strategy.optimizer == PLM_OPTIMIZER_NONE)
            strategy.optimizer = PLM_OPTIMIZER_SGD;
        test_steps_refused(&strategy, network, cases[i].part);
    }
}

/* ------------------------------------------------------------------ configuration files */

/* read_text() - the strategy that @text makes of @strategy */
static enum plm_status read_text(const char *text,
                                 struct plm_strategy *strategy,
                                 struct plm_error *error)
{
    static const char name[] = "test-deepspeed.json";
    FILE *file = fopen(name, "w");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    enum plm_status status = plm_deepspeed_read(name, strategy, error);

    remove(name);
    return status;
}

static void a_configuration_fills_in_the_strategy(void **state)
{
    static const char text[] =
        "{\"train_batch_size\": \"auto\", \"train_micro_batch_size_per_gpu\": 4,\n"
        " \"gradient_accumulation_steps\": 2, \"gradient_clipping\": 0.5,\n"
        " \"bf16\": {\"enabled\": true, \"check_grad_overflow\": false},\n"
        " \"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": \"auto\"}},\n"
        " \"scheduler\": {\"type\": \"WarmupLR\"}, \"steps_per_print\": 10,\n"
        " \"zero_optimization\": {\"stage\": 3, \"overlap_comm\": false,\n"
        "  \"reduce_bucket_size\": 5e7, \"stage3_param_persistence_threshold\": 0,\n"
        "  \"stage3_prefetch_bucket_size\": \"auto\", \"sub_group_size\": 1e9,\n"
        "  \"offload_optimizer\": {\"device\": \"cpu\", \"pin_memory\": true},\n"
        "  \"offload_param\": {\"device\": \"none\"}}}\n";
    struct plm_strategy s = { 0 };
    struct plm_error error;

    assert_int_equal(read_text(text, &s, &error), PLM_OK);
    assert_int_equal(s.batch, 4);
    assert_int_equal(s.accumulate, 2);
    assert_true(s.clip_grad_norm == 0.5);
    assert_int_equal(s.precision, PLM_PRECISION_BF16);
    assert_int_equal(s.optimizer, PLM_OPTIMIZER_ADAMW_FUSED);
    assert_int_equal(s.parallel.zero, 3);
    assert_int_equal(s.parallel.deepspeed.overlap_comm, PLM_SWITCH_FALSE);
    assert_int_equal(s.parallel.deepspeed.check_grad_overflow, PLM_SWITCH_FALSE);
    assert_int_equal(s.parallel.deepspeed.reduce_bucket_size, 50000000);
    assert_int_equal(s.parallel.deepspeed.param_persistence_threshold, PLM_DEEPSPEED_NONE);
    assert_int_equal(s.parallel.deepspeed.prefetch_bucket_size, PLM_DEEPSPEED_AUTO);
    assert_int_equal(s.parallel.deepspeed.sub_group_size, 1000000000);
    assert_int_equal(s.parallel.deepspeed.offload, PLM_OFFLOAD_OPTIMIZER);
}

/* steps_text() - two steps of stage 3 with these sizes; of a model whose hidden size is 110 */
static const char *steps_text(struct test_steps *t, struct plm_deepspeed sizes)
{
    static const char config[] = "config_json: {architectures: [Network], dims: {width: d_model}}\n"
                                 "dims: {width: 110}\n";
    const struct plm_strategy strategy = {
        .parallel = { .zero = 3, .gpus = 2, .deepspeed = sizes },
    };
    char text[4096];

    snprintf(text, sizeof text, "%s%s", network, config);
    if (test_steps_run(t, text, &strategy))
        fail_msg("%s", t->error.message);
    return test_steps_text(t);
}

/* transformers/integrations/deepspeed.py: h * h, int(0.9 * h * h) and 10 * h */
static void automatic_sizes_are_the_trainers(void **state)
{
    struct test_steps automatic, written, usual;
    const char *text = steps_text(
        &automatic, (struct plm_deepspeed){ .reduce_bucket_size = PLM_DEEPSPEED_AUTO,
                                            .prefetch_bucket_size = PLM_DEEPSPEED_AUTO,
                                            .param_persistence_threshold = PLM_DEEPSPEED_AUTO });

    assert_string_equal(
        text, steps_text(&written, (struct plm_deepspeed){ .reduce_bucket_size = 12100,
                                                           .prefetch_bucket_size = 10890,
                                                           .param_persistence_threshold = 1100 }));
    assert_string_not_equal(text, steps_text(&usual, (struct plm_deepspeed){ 0 }));
    test_steps_finish(&automatic);
    test_steps_finish(&written);
    test_steps_finish(&usual);
}

static void parameters_follow_the_optimizer_to_the_host(void **state)
{
    static const char both[] = "{\"zero_optimization\": {\"stage\": 3,\n"
                               "\"offload_param\": {\"device\": \"cpu\"},\n"
                               "\"offload_optimizer\": {\"device\": \"cpu\"}}}";
    static const char param[] = "{\"zero_optimization\": {\"stage\": 3,\n"
                                "\"offload_param\": {\"device\": \"cpu\"}}}";
    struct plm_strategy s = { 0 }, given = { .parallel.deepspeed.offload = PLM_OFFLOAD_OPTIMIZER };
    struct plm_error error;

    assert_int_equal(read_text(both, &s, &error), PLM_OK);
    assert_int_equal(s.parallel.deepspeed.offload, PLM_OFFLOAD_ALL);
    assert_int_equal(read_text(param, &given, &error), PLM_OK);
    assert_int_equal(given.parallel.deepspeed.offload, PLM_OFFLOAD_ALL);
}

static void a_momentum_of_zero_has_no_states(void **state)
{
    static const struct {
        const char *momentum;
        enum plm_optimizer optimizer;
    } cases[] = {
        { "0", PLM_OPTIMIZER_SGD },
        { "0.0", PLM_OPTIMIZER_SGD },
        { "0.9", PLM_OPTIMIZER_SGD_MOMENTUM },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct plm_strategy s = { 0 };
        struct plm_error error;
        char text[160];

        snprintf(text, sizeof text,
                 "{\"zero_optimization\": {\"stage\": 2}, \"optimizer\": "
                 "{\"type\": \"SGD\", \"params\": {\"momentum\": %s}}}",
                 cases[i].momentum);
        assert_int_equal(read_text(text, &s, &error), PLM_OK);
        assert_int_equal(s.optimizer, cases[i].optimizer);
    }
}

static void a_configuration_is_refused_where_it_stands(void **state)
{
    static const struct {
        const char *text, *part;
        unsigned line, column;
    } cases[] = {
        { "{\"bf16\": {\"enabled\": true}}", "'stage' of 'zero_optimization' is missing", 1, 1 },
        { "{\"zero_optimization\": {\"stage\": 0}}", "stage 1, 2 or 3", 1, 33 },
        { "{\"zero_optimization\": {\"stage\": 4}}", "stage 1, 2 or 3", 1, 33 },
        { "{\"zero_optimization\":\n {\"stag\": 2}}", "did you mean 'stage'?", 2, 3 },
        { "{\"zero_optimisation\": {\"stage\": 2}}", "did you mean 'zero_optimization'?", 1, 2 },
        { "{\"zero_optimization\": {\"stage\": 2, \"zero_quantized_gradients\": true}}",
          "not modelled", 1, 64 },
        { "{\"zero_optimization\": {\"stage\": 3,\n\"offload_param\": {\"device\": \"nvme\"}}}",
          "nvme is not modelled", 2, 29 },
        { "{\"zero_optimization\": {\"stage\": 2, \"reduce_bucket_size\": \"big\"}}",
          "a number was expected", 1, 58 },
        { "{\"zero_optimization\": {\"stage\": 2, \"overlap_comm\": 1}}", "true or false", 1, 52 },
        { "{\"zero_optimization\": {\"stage\": 2}, \"optimizer\": {\"type\": \"Muon\"}}",
          "Adam, AdamW, SGD and RMSprop are modelled", 1, 59 },
        { "{\"zero_optimization\": {\"stage\": 2}, \"amp\": {\"enabled\": true}}", "not modelled",
          1, 56 },
        { "{\"zero_optimization\": {\"stage\": 2},\n\"data_types\": {\"grad_accum_dtype\": \"fp32\"}}",
          "not modelled", 2, 36 },
        { "{\"zero_optimization\": {\"stage\": 2}, \"optimizer\": {}}", "'type' is missing", 1,
          50 },
        { "{\"zero_optimization\": {\"stage\": 3,\n\"offload_param\": {\"device\": \"cpu\"}}}",
          "not modelled without 'offload_optimizer'", 2, 29 },
        { "{\"zero_optimization\": {\"offload_param\": {\"device\": \"cpu\"},\n"
          "\"offload_optimizer\": {\"device\": \"cpu\"}, \"stage\": 2}}",
          "parameters stay on the device before stage 3", 1, 52 },
        { "{\"bf16\": {\"enabled\": true},\n\"fp16\": {\"enabled\": true}}",
          "another section or --precision", 2, 21 },
        { "{\"optimizer\": {\"type\": \"SGD\", \"params\": {\"momentum\": \"auto\"}}}",
          "a number was expected", 1, 54 },
        { "{\"zero_optimization\": {\"stage\": 3, \"cpu_offload_param\": true}}", "not modelled", 1,
          57 },
        { "[1]", "a mapping was expected", 1, 1 },
        { "{\"zero_optimization\": {\"stage\": 2},\n\"train_micro_batch_size_per_gpu\": 1e15}",
          "'train_micro_batch_size_per_gpu' is '1e15': at most 2147483647", 2, 35 },
        { "{\"zero_optimization\": {\"stage\": 2, \"reduce_bucket_size\": 1e18}}",
          "'reduce_bucket_size' is '1e18': at most 281474976710656", 1, 58 },
        { "{\"amp\": {\"enabled\": \"auto\", \"opt_level\": \"auto\"}}",
          "'stage' of 'zero_optimization' is missing", 1, 1 },
        { "{\"zero_optimization\": {\"stage\": 2},\n\"train_batch_size\": 1, \"train_batch_size\": 2}",
          "duplicate key 'train_batch_size'; the first is in line 2", 2, 24 },
        { "zero_optimization:\n  stage: 2\n", "'stage: 2': a mapping was expected", 2, 3 },
        { "- zero_optimization\n", "not JSON: ':' was expected after a key", 1, 3 },
        { "{\"zero_optimization\": {\"stage\": 2}", "not JSON: the text ends before '}'", 1, 35 },
        { "{\"zero_optimization\": {\"stage\": &a 2}}", "not JSON: the text ends before '}'", 1,
          39 },
        { "{\"zero_optimization\": {\"stage\": 2}} x", "not JSON: something follows the end", 1,
          37 },
        { "{\"zero_optimization\": {\"stage\": \"2", "not JSON: a text does not end", 1, 35 },
        { "{\"zero_optimization\": {\"stage\": [2", "not JSON: the text ends before ']'", 1, 35 },
        { "{\"zero_optimization\": {\"stage\": }}", "not JSON: a value was expected", 1, 33 },
        { "{\"zero_optimization\": {\"stage\": \"\\q\"}}", "'\\' is followed by none of", 1, 34 },
        { "{\"zero_optimization\": {\"stage\": 02\n}}", "stage 1, 2 or 3", 1, 33 },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct plm_strategy s = { 0 };
        struct plm_error error;

        assert_int_not_equal(read_text(cases[i].text, &s, &error), PLM_OK);
        if (!strstr(error.message, cases[i].part) || error.line != cases[i].line ||
            error.column != cases[i].column)
            fail_msg("%s: %u:%u: %s", cases[i].text, error.line, error.column, error.message);
        assert_int_equal(s.parallel.zero, 0);
    }
}

/* what hjson.load() makes of JSON's looser sister, which deepspeed/runtime/config.py calls */
static void a_configuration_may_be_hjson(void **state)
{
    static const char *const texts[] = {
        "{\"zero_optimization\": {\"stage\": 2}, \"gradient_accumulation_steps\": 4}",
        "\xef\xbb\xbf{\"zero_optimization\": {\"stage\": 2,},\n\"gradient_accumulation_steps\": 4.0,}\n",
        ("# without braces, quotes and commas\nzero_optimization: {\n  stage: 2 // of three\n}\n"
         "/* and\nso on */ gradient_accumulation_steps: 4e0 # four\nscheduler: {type: it's all, one } text\n x: [1 2\n3] }"),
        "{'zero_\\u006fptimization': {stage: 2}, gradient_accumulation_steps: 4}",
    };

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct plm_strategy s = { 0 };
        struct plm_error error;

        if (read_text(texts[i], &s, &error) != PLM_OK)
            fail_msg("%s: %u:%u: %s", texts[i], error.line, error.column, error.message);
        assert_int_equal(s.parallel.zero, 2);
        assert_int_equal(s.accumulate, 4);
    }
}

/* zero is fp32, adamw and none: whether they were asked for must be said */
static void what_was_asked_for_is_not_overruled(void **state)
{
#define ZERO "{\"zero_optimization\": {\"stage\": 3"
    static const struct {
        struct plm_strategy strategy;
        const char *text, *part; /* NULL: they agree */
    } cases[] = {
        { { .has_precision = true }, ZERO "}, \"bf16\": {\"enabled\": true}}", "--precision" },
        { { .has_precision = true }, ZERO "}, \"bf16\": {\"enabled\": false}}", NULL },
        { { .has_precision = true }, ZERO "}, \"bf16\": {\"enabled\": \"auto\"}}", NULL },
        { { .precision = PLM_PRECISION_BF16 },
          ZERO "}, \"bf16\": {\"enabled\": false}}",
          "--precision" },
        { { .precision = PLM_PRECISION_BF16 }, ZERO "}, \"fp16\": {\"enabled\": false}}", NULL },
        { { .precision = PLM_PRECISION_BF16 }, ZERO "}, \"bf16\": {\"enabled\": true}}", NULL },
        { { .has_optimizer = true },
          ZERO "}, \"optimizer\": {\"type\": \"AdamW\"}}",
          "--optimizer" },
        { { .optimizer = PLM_OPTIMIZER_ADAMW_FUSED, .has_optimizer = true },
          ZERO "}, \"optimizer\": {\"type\": \"AdamW\"}}",
          NULL },
        { { .parallel.deepspeed.has_offload = true },
          ZERO ", \"offload_optimizer\": {\"device\": \"cpu\"}}}",
          "--zero-offload" },
        { { .parallel.deepspeed.offload = PLM_OFFLOAD_OPTIMIZER },
          ZERO ", \"offload_optimizer\": {\"device\": \"none\"}}}",
          "'offload_optimizer' is on the device; --zero-offload" },
        { { .parallel.deepspeed.offload = PLM_OFFLOAD_ALL },
          ZERO ", \"offload_param\": {\"device\": \"none\"}}}",
          "'offload_param' is on the device; --zero-offload" },
        { { .parallel.deepspeed.offload = PLM_OFFLOAD_ALL },
          ZERO ", \"offload_param\": {\"device\": \"auto\"}}}",
          NULL },
        { { .parallel.deepspeed.overlap_comm = PLM_SWITCH_TRUE },
          ZERO ", \"overlap_comm\": false}}",
          "--zero-overlap" },
    };
#undef ZERO

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct plm_strategy s = cases[i].strategy;
        struct plm_error error = { .message = "accepted" };
        enum plm_status status = read_text(cases[i].text, &s, &error);

        if (cases[i].part ? status != PLM_E_USAGE || !strstr(error.message, cases[i].part)
                          : status != PLM_OK || s.precision != cases[i].strategy.precision)
            fail_msg("%zu: %s: %s", i, cases[i].text, error.message);
    }
}

static void an_option_and_the_configuration_must_agree(void **state)
{
    struct plm_strategy s = { .batch = 8 }, zero = { .parallel = { .zero = 1 } };
    struct plm_error error;

    assert_int_equal(read_text("{\"train_micro_batch_size_per_gpu\": 4}", &s, &error), PLM_E_USAGE);
    assert_non_null(strstr(error.message, "'train_micro_batch_size_per_gpu' is 4; --batch says 8"));
    assert_int_equal(read_text("{\"zero_optimization\": {\"stage\": 2}}", &zero, &error),
                     PLM_E_USAGE);
    assert_non_null(strstr(error.message, "'stage' is 2; --zero says 1"));
    struct plm_strategy whole = { .batch = 4, .accumulate = 2, .parallel = { .gpus = 8 } };

    assert_int_equal(read_text("{\"zero_optimization\": {\"stage\": 2}, \"train_batch_size\": 64}",
                               &whole, &error),
                     PLM_OK);
    assert_int_equal(read_text("{\"zero_optimization\": {\"stage\": 2}, \"train_batch_size\": 60}",
                               &whole, &error),
                     PLM_E_USAGE);
    assert_non_null(strstr(error.message, "4 × 2 × 8"));
    struct plm_strategy half = { .precision = PLM_PRECISION_BF16 };

    assert_int_equal(read_text("{\"fp16\": {\"enabled\": true}}", &half, &error), PLM_E_USAGE);
    assert_non_null(strstr(error.message, "--precision says otherwise"));
    struct plm_strategy adafactor = { .optimizer = PLM_OPTIMIZER_ADAFACTOR };

    assert_int_equal(read_text("{\"optimizer\": {\"type\": \"Adam\"}}", &adafactor, &error),
                     PLM_E_USAGE);
    assert_non_null(strstr(error.message, "--optimizer says otherwise"));
    struct plm_strategy clipped = { .clip_grad_norm = 0.5 };

    assert_int_equal(read_text("{\"gradient_clipping\": 1.0}", &clipped, &error), PLM_E_USAGE);
    assert_non_null(strstr(error.message, "--clip-grad-norm says otherwise"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define CASE(name, strategy, events) cmocka_unit_test(name),
#include "deepspeed-steps.def"
#undef CASE
        cmocka_unit_test(the_rank_that_keeps_most_is_shown),
        cmocka_unit_test(what_makes_no_sense_is_refused),
        cmocka_unit_test(a_configuration_fills_in_the_strategy),
        cmocka_unit_test(automatic_sizes_are_the_trainers),
        cmocka_unit_test(parameters_follow_the_optimizer_to_the_host),
        cmocka_unit_test(a_momentum_of_zero_has_no_states),
        cmocka_unit_test(a_configuration_is_refused_where_it_stands),
        cmocka_unit_test(a_configuration_may_be_hjson),
        cmocka_unit_test(what_was_asked_for_is_not_overruled),
        cmocka_unit_test(an_option_and_the_configuration_must_agree),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
