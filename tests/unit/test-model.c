/* test-model.c - a model file's meaning: numbers filled in, repetitions spelled out, conditions decided */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "import/config_json.h"
#include "model/model.h"
#include "support/test.h"
#include "yaml/file.h"

#define TOP                                                                                        \
    "plimsoll: 1\n"                                                                                \
    "model: tiny\n"                                                                                \
    "dims: {layers: 2, width: 8, ffn: 4*width, context: \"max(seq, 16)\"}\n"                       \
    "options: {attention: [sdpa, eager], tied: true, dropout: 0.1}\n"                              \
    "defaults: {batch: 2, seq: 4}\n"                                                               \
    "inputs: {x: {dtype: float32, shape: [batch, seq, width]}}\n"
#define MAIN                                                                                       \
    "main:\n"                                                                                      \
    "  nodes: [{as: loss, call: net, in: x, name: net}]\n"                                         \
    "  out: loss\n"
#define NET(nodes)                                                                                   \
    TOP "blocks:\n"                                                                                  \
        "  inner: {in: x, nodes: [{as: x, op: linear, in: x, features: width, name: fc}], out: x}\n" \
        "  net:\n"                                                                                   \
        "    in: x\n"                                                                                \
        "    nodes:\n" nodes "    out: x\n" MAIN

struct fixture {
    struct arena arena;
    struct plm_error error;
    const struct model *model;
    const struct graph *graph;
    struct graph_settings settings;
};

static int setup(void **state)
{
    static struct fixture fixture;

    fixture = (struct fixture){ .settings = { .training = true } };
    *state = &fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    arena_finish(&f->arena);
    return 0;
}

static enum plm_status find_base(void *context,
                                 const char *name,
                                 const char *from,
                                 struct arena *arena,
                                 struct model_text *ret_text,
                                 struct plm_error *reterr)
{
    const char *text = context;

    if (strcmp(name, "base") != 0)
        return plm_fail(reterr, PLM_E_IO, "no model '%s'", name);
    *ret_text = (struct model_text){ "base.yaml", text, strlen(text) };
    return PLM_OK;
}

static void load(struct fixture *f, const char *text, const char *base)
{
    struct model_text source = { "t.yaml", text, strlen(text) };
    struct model_finder finder = { (void *)base, find_base };

    if (model_load(&source, &finder, &f->arena, &f->model, &f->error))
        fail_msg("%s:%u:%u: %s", f->error.file, f->error.line, f->error.column, f->error.message);
}

static void build(struct fixture *f)
{
    if (graph_build(f->model, &f->settings, &f->arena, &f->graph, &f->error))
        fail_msg("%s:%u:%u: %s", f->error.file, f->error.line, f->error.column, f->error.message);
}

static const char *dump(struct fixture *f)
{
    struct buf buf = { .arena = &f->arena };

    graph_dump(f->graph, &buf);
    return buf_string(&buf);
}

/* assert_line() - the dump of @text's graph has @line, apart from its indentation */
static void assert_line(struct fixture *f, const char *line)
{
    const char *text = dump(f);
    const char *found = strstr(text, line);
    size_t length = strlen(line);

    while (found &&
           !((found == text || found[-1] == '\n' || found[-1] == ' ') && found[length] == '\n'))
        found = strstr(found + 1, line);
    if (!found)
        fail_msg("no line '%s' in\n%s", line, text);
}

static void expressions_become_numbers(void **state)
{
    struct fixture *f = *state;

    load(f,
         NET("      - {as: x, op: linear, in: x, features: ffn, name: up}\n"
             "      - {as: x, op: view, in: x, shape: [batch*seq, -1]}\n"
             "      - {as: x, op: dropout, in: x, p: dropout}\n"),
         NULL);
    build(f);
    assert_line(f, "input x float32 [2,4,8]");
    assert_line(f, "op linear #0 net.up in=x as=x features:32 bias:true");
    assert_line(f, "op view #1 net in=x as=x shape:[8,-1]");
    assert_line(f, "op dropout #2 net in=x as=x p:0.1 inplace:false");
    assert_int_equal(f->graph->node_count, 3);
}

static void settings_replace_dims_and_options(void **state)
{
    struct fixture *f = *state;
    static const struct model_setting set[] = { { "width", "16" },
                                                { "dropout", "0" },
                                                { "ffn", "7" },
                                                { "attention", "eager" },
                                                { "tied", "false" } };

    load(f,
         NET("      - {as: x, op: linear, in: x, features: ffn, bias: tied, name: up}\n"
             "      - {as: x, op: dropout, in: x, p: dropout, when: attention == eager}\n"),
         NULL);
    f->settings.settings = set;
    f->settings.setting_count = sizeof set / sizeof set[0];
    f->settings.batch = 3;
    f->settings.seq = 32;
    build(f);
    assert_line(f, "input x float32 [3,32,16]");
    assert_line(f, "op linear #0 net.up in=x as=x features:7 bias:false");
    assert_line(f, "op dropout #1 net in=x as=x p:0 inplace:false");
    const struct value *values;

    assert_int_equal(model_globals(f->model, &f->settings, &f->arena, &values, NULL), PLM_OK);
    assert_int_equal(values[MODEL_RUN_COUNT + 3].as.i, 32); /* context follows seq */
    assert_int_equal(f->graph->batch, 3);
}

static void repetitions_have_paths_of_their_own(void **state)
{
    struct fixture *f = *state;

    load(
        f,
        NET("      - {as: x, call: inner, in: x, name: h, repeat: layers, checkpoint: true, wrap: true}\n"
            "      - {as: x, call: inner, in: x, repeat: 2, start: 5, index: i, checkpoint: i == 6}\n"
            "      - {as: x, call: inner, in: x, name: one, repeat: 2, share: true}\n"
            "      - {as: x, call: inner, in: x, name: never, repeat: layers - 2}\n"),
        NULL);
    build(f);
    assert_line(f, "call inner net.h.0 in=x as=x repeat=1:0/2 place=1 wrap");
    assert_line(f, "op linear #1 net.h.1.fc in=x as=x features:8 bias:true");
    assert_line(f, "call inner net.5 in=x as=x repeat=2:0/2");
    assert_line(f, "call inner net.6 in=x as=x repeat=2:1/2 place=3");
    assert_line(f, "op linear #5 net.one.fc in=x as=x features:8 bias:true share");
    assert_null(strstr(dump(f), "never"));
    assert_int_equal(f->graph->place_count, 3);
    assert_int_equal(f->graph->node_count, 6);
}

static void names_are_dropped_after_the_last_repetition(void **state)
{
    struct fixture *f = *state;

    load(f,
         NET("      - {as: y, op: relu, in: x}\n"
             "      - {as: x, op: add, in: [x, y], repeat: 2, del: y}\n"),
         NULL);
    build(f);
    assert_line(f, "op add #2 net.1 in=x,y as=x inplace:false repeat=1:1/2");
    assert_line(f, "del net del=y");
}

static void blocks_take_parameters(void **state)
{
    struct fixture *f = *state;

    load(f,
         TOP
         "blocks:\n"
         "  inner:\n"
         "    in: [x, mask?]\n"
         "    params: {size: , more: size + 1, on: false}\n"
         "    nodes:\n"
         "      - {as: x, op: linear, in: x, features: more, name: fc, when: on}\n"
         "      - {as: [x, _], op: chunk, in: x, chunks: size, when: not on}\n"
         "    out: [x, mask]\n"
         "  net:\n"
         "    in: x\n"
         "    nodes:\n"
         "      - {as: [x, _], call: inner, in: x, name: a, with: {size: width, on: layers > 1}}\n"
         "      - {as: [x, m], call: inner, in: [x, x], name: b, with: {size: 2}}\n"
         "      - {call: inner, in: x, name: c, with: {size: 2, more: 9, on: true}}\n"
         "    out: x\n" MAIN,
         NULL);
    build(f);
    assert_line(f, "call inner net.a in=x,none as=x,none");
    assert_line(f, "op linear #0 net.a.fc in=x as=x features:9 bias:true");
    assert_line(f, "op chunk #1 net.b in=x as=x,none chunks:2 dim:0");
    assert_line(f, "call inner net.c in=x,none");
    assert_line(f, "return out=x,mask");
}

static void recording_gradients_is_a_condition_of_the_run(void **state)
{
    struct fixture *f = *state;

    load(f,
         NET("      - {as: y, op: relu, in: x, when: grad_enabled}\n"
             "      - {as: y, op: gelu, in: x, when: not grad_enabled}\n"
             "      - {as: z, op: abs, in: y}\n"
             "      - {scope: no_grad, nodes: [{as: z, op: exp, in: z, when: not grad_enabled},\n"
             "                                 {as: z, op: log, in: z, when: grad_enabled}]}\n"
             "      - {as: x, op: neg, in: z}\n"),
         NULL);
    build(f);
    assert_line(f, "op relu #0 net in=x as=y inplace:false when=grad");
    assert_line(f, "op gelu #1 net in=x as=y approximate:none when=no_grad");
    assert_line(f, "op exp #3 net in=z as=z");
    assert_null(strstr(dump(f), "op log"));
}

static void a_value_of_one_mode_only_is_missed_in_the_other(void **state)
{
    struct fixture *f = *state;

    load(f,
         NET("      - {as: y, op: relu, in: x, when: grad_enabled}\n"
             "      - {as: x, op: abs, in: y}\n"),
         NULL);
    assert_int_equal(graph_build(f->model, &f->settings, &f->arena, &f->graph, &f->error),
                     PLM_E_MODEL);
    assert_non_null(strstr(f->error.message, "'y' has no value here"));
}

static void values_are_scopes_lists_and_records(void **state)
{
    struct fixture *f = *state;

    load(
        f,
        NET("      - {as: l, op: list, in: []}\n"
            "      - {op: append, in: [l, x]}\n"
            "      - {as: r, op: record, in: {first: x, all: l}, del: [x, l]}\n"
            "      - {as: x, op: field, in: r, field: first}\n"
            "      - {scope: autocast_off, nodes: [{as: x, op: to, in: x, dtype: fp32}, {del: r}]}\n"),
        NULL);
    build(f);
    assert_line(f, "op list #0 net as=l");
    assert_line(f, "op append #1 net in=l,x");
    assert_line(f, "op record #2 net in=x,l as=r del=x,l");
    assert_line(f, "scope autocast_off net");
    assert_line(f, "op to #4 net in=x as=x dtype:float32");
    const struct graph_body *net = f->graph->main->steps[0].body;

    assert_string_equal(names_text(f->graph->names, net->steps[2].in_names[1]), "all");
    assert_int_equal(net->steps[4].body->slot_count, 0);
    assert_int_equal(net->slot_count, 3);
}

static void parameters_are_registered_in_the_order_given(void **state)
{
    struct fixture *f = *state;
    static const char *const order[] = { "net.out", "net.h.0.b", "net.h.0.a", "net.h.1.b",
                                         "net.h.1.a" };

    load(
        f,
        NET("      - {as: x, call: inner, in: x, name: h, repeat: layers}\n") "parameters: [net.out, net.h.*.b, net.h.*.a, other.*.a]\n",
        NULL);
    build(f);
    assert_int_equal(f->graph->order_count, 5);
    for (size_t i = 0; i < 5; i++)
        assert_string_equal(names_text(f->graph->names, f->graph->order[i]), order[i]);
}

static void a_model_can_extend_another(void **state)
{
    struct fixture *f = *state;

    load(f,
         "plimsoll: 1\nmodel: large\nextends: base\nabout: more of it\n"
         "dims: {layers: 3}\noptions: {attention: eager, dropout: 0.5}\ndefaults: {batch: 7}\n",
         NET("      - {as: x, call: inner, in: x, name: h, repeat: layers}\n"
             "      - {as: x, op: dropout, in: x, p: dropout, when: attention == eager}\n"));
    build(f);
    assert_string_equal(f->model->name, "large");
    assert_string_equal(f->model->about, "more of it");
    assert_line(f, "input x float32 [7,4,8]");
    assert_line(f, "op dropout #3 net in=x as=x p:0.5 inplace:false");
}

static void a_folded_text_ends_with_its_last_word(void **state)
{
    struct fixture *f = *state;

    load(
        f,
        "plimsoll: 1\nmodel: large\nextends: base\nsource: >\n  a file\n  of code\nabout: |\n  one\n\n",
        NET("      - {as: x, call: inner, in: x, name: h}\n"));
    assert_string_equal(f->model->origin, "a file of code");
    assert_string_equal(f->model->about, "one");
}

static void building_leaves_the_model_as_it_was(void **state)
{
    struct fixture *f = *state;

    load(f, NET("      - {as: x, call: inner, in: x, name: h, repeat: layers}\n"), NULL);
    size_t before = f->model->names.text_count;

    build(f);
    const char *first = dump(f);

    f->settings.batch = 5;
    build(f);
    f->settings.batch = 0;
    build(f);
    assert_string_equal(first, dump(f));
    assert_int_equal(f->model->names.text_count, before);
}

static void a_config_json_fills_dims_and_options(void **state)
{
    struct fixture *f = *state;
    static const char config[] =
        "{\"architectures\": [\"TinyForCausalLM\"], \"n_layer\": 5, \"hidden_size\": null, \"d_model\": 32,\n"
        " \"attn\": \"flash\", \"act\": \"gelu\", \"p\": 0.0, \"tie\": false, \"quantization_config\": {}}";
    struct config_import import;
    const struct yaml_node *root;

    load(
        f,
        NET("      - {as: x, call: inner, in: x, name: h, repeat: layers}\n") "config_json:\n"
                                                                              "  architectures: [TinyForCausalLM, Other]\n"
                                                                              "  dims: {layers: n_layer, width: [hidden_size, d_model], ffn: n_inner}\n"
                                                                              "  options: {attention: attn, tied: tie, dropout: p}\n"
                                                                              "  assumes: {act: [relu, silu], absent: 1}\n",
        NULL);
    assert_int_equal(yaml_parse("config.json", config, strlen(config), &f->arena, &root, &f->error),
                     PLM_OK);
    assert_true(config_json_is(root));
    assert_int_equal(config_json_import(root, &f->model, 1, &f->arena, &import, &f->error), PLM_OK);
    f->settings.settings = import.settings;
    f->settings.setting_count = import.setting_count;
    build(f);
    assert_line(f, "input x float32 [2,4,32]");
    assert_line(f, "call inner net.h.4 in=x as=x repeat=1:4/5");
    assert_int_equal(import.setting_count, 4);
    assert_int_equal(import.warning_count, 3);
    assert_string_equal(import.warnings[0], "attn is 'flash', but option 'attention' is sdpa or "
                                            "eager: left as it is");
    assert_string_equal(import.warnings[1], "act is 'gelu'; the model is computed as with 'relu'");
}

static void what_a_config_json_lacks_is_what_its_class_takes(void **state)
{
    struct fixture *f = *state;
    static const char config[] = "{\"architectures\": [\"T\"], \"heads\": 6, \"names\": "
                                 "{\"0\": \"a\", \"1\": \"b\", \"2\": \"c\"}}";
    struct config_import import;
    const struct yaml_node *root;

    load(f,
         NET("      - {as: x, op: relu, in: x}\n") "config_json:\n"
                                                   "  architectures: [T]\n"
                                                   "  dims: {layers: depth, width: kv_heads, ffn: "
                                                   "[count, names]}\n"
                                                   "  missing: {depth: 7, kv_heads: heads}\n",
         NULL);
    assert_int_equal(yaml_parse("config.json", config, strlen(config), &f->arena, &root, &f->error),
                     PLM_OK);
    assert_int_equal(config_json_import(root, &f->model, 1, &f->arena, &import, &f->error), PLM_OK);
    assert_int_equal(import.setting_count, 3);
    assert_string_equal(import.settings[0].value, "7"); /* a value */
    assert_string_equal(import.settings[1].value, "6"); /* another key's */
    assert_string_equal(import.settings[2].value, "3"); /* an object's number of entries */
}

static void an_unknown_architecture_lists_those_that_are_known(void **state)
{
    struct fixture *f = *state;
    static const char config[] = "{\"architectures\": [\"Huge\"]}";
    struct config_import import;
    const struct yaml_node *root;

    load(f, NET("      - {as: x, op: relu, in: x}\n") "config_json: {architectures: [A, B]}\n",
         NULL);
    assert_int_equal(yaml_parse("config.json", config, strlen(config), &f->arena, &root, &f->error),
                     PLM_OK);
    assert_int_equal(config_json_import(root, &f->model, 1, &f->arena, &import, &f->error),
                     PLM_E_MODEL);
    assert_string_equal(f->error.message, "no model stands for architecture 'Huge'; known: A, B");
    assert_int_equal(f->error.line, 1);
}

static enum plm_status find_in_zoo(void *context,
                                   const char *name,
                                   const char *from,
                                   struct arena *arena,
                                   struct model_text *ret_text,
                                   struct plm_error *reterr)
{
    char path[512];

    snprintf(path, sizeof path, TEST_SOURCE "/models/%s.yaml", name);
    ret_text->file = arena_copy(arena, path, strlen(path));
    return file_read(path, YAML_BYTES_MAX, arena, &ret_text->text, &ret_text->length, reterr);
}

static void every_model_of_the_zoo_can_be_built(void **state)
{
    struct fixture *f = *state;
    DIR *folder = opendir(TEST_SOURCE "/models");
    struct model_finder finder = { NULL, find_in_zoo };
    size_t count = 0;

    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder));) {
        char name[256];
        struct model_text text;
        size_t length = strlen(entry->d_name);

        if (length < 6 || strcmp(entry->d_name + length - 5, ".yaml") != 0)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(length - 5), entry->d_name);
        assert_int_equal(find_in_zoo(NULL, name, "", &f->arena, &text, &f->error), PLM_OK);
        for (unsigned mode = 0; mode < 16; mode++) {
            f->settings.training = mode & 1;
            f->settings.checkpointing = mode & 2;
            f->settings.reads_zero = mode & 4;
            f->settings.autocast = mode & 8;
            if (model_load(&text, &finder, &f->arena, &f->model, &f->error) ||
                graph_build(f->model, &f->settings, &f->arena, &f->graph, &f->error))
                fail_msg("%s:%u:%u: %s", f->error.file, f->error.line, f->error.column,
                         f->error.message);
        }
        assert_string_equal(f->model->name, name);
        assert_true(f->graph->node_count > 0);
        count++;
    }
    closedir(folder);
    assert_true(count >= 10);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(expressions_become_numbers),
        TEST(settings_replace_dims_and_options),
        TEST(repetitions_have_paths_of_their_own),
        TEST(names_are_dropped_after_the_last_repetition),
        TEST(blocks_take_parameters),
        TEST(recording_gradients_is_a_condition_of_the_run),
        TEST(a_value_of_one_mode_only_is_missed_in_the_other),
        TEST(values_are_scopes_lists_and_records),
        TEST(parameters_are_registered_in_the_order_given),
        TEST(a_model_can_extend_another),
        TEST(a_folded_text_ends_with_its_last_word),
        TEST(building_leaves_the_model_as_it_was),
        TEST(a_config_json_fills_dims_and_options),
        TEST(what_a_config_json_lacks_is_what_its_class_takes),
        TEST(an_unknown_architecture_lists_those_that_are_known),
        TEST(every_model_of_the_zoo_can_be_built),
    };
#undef TEST

    return cmocka_run_group_tests(tests, NULL, NULL);
}
