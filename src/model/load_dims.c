/*
 * model/load_dims.c - dims, options and inputs
 *
 * A model that extends another is layers: the base's dims and options, and the values that those above it
 * give instead. layers[layer_count - 1] is the base; absent sections are NULL.
 */
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "model/internal.h"
#include "yaml/decode.h"

static const char *const run_names[MODEL_RUN_COUNT] = {
    [MODEL_BATCH] = "batch",
    [MODEL_SEQ] = "seq",
    [MODEL_TRAINING] = "training",
    [MODEL_CHECKPOINTING] = "checkpointing",
    [MODEL_READS_ZERO] = "reads_zero",
    [MODEL_AUTOCAST] = "autocast",
    [MODEL_HALF] = "half",
    [MODEL_TP] = "tp",
    [MODEL_SEQUENCE_PARALLEL] = "sequence_parallel",
    [MODEL_RECOMPUTE_SELECTIVE] = "recompute_selective",
    [MODEL_CP] = "cp",
    [MODEL_EP] = "ep",
    [MODEL_IMBALANCE] = "imbalance",
    [MODEL_CAPACITY] = "capacity",
    [MODEL_PYTORCH] = "pytorch",
    [MODEL_GRAD_ENABLED] = "grad_enabled",
};

/* layered() - the value of the base's @key under the layers above it */
static const struct yaml_node *layered(const struct yaml_node *const *layers,
                                       size_t layer_count,
                                       size_t i)
{
    const struct yaml_node *base = layers[layer_count - 1];

    for (size_t layer = 0; layer + 1 < layer_count; layer++) {
        const struct yaml_node *value =
            layers[layer] ? yaml_get(layers[layer], base->keys[i]->text) : NULL;

        if (value && !yaml_is_null(value))
            return value;
    }
    return base->items[i];
}

/* check_layers() - a model that extends another can give values, not new names */
static enum plm_status check_layers(struct loader *load,
                                    const struct yaml_node *const *layers,
                                    size_t layer_count,
                                    const char *what)
{
    const struct yaml_node *base = layers[layer_count - 1];
    size_t count = base ? base->item_count : 0;
    const char **names = arena_array(load->scratch, const char *, count);

    for (size_t i = 0; i < count; i++)
        names[i] = base->keys[i]->text;
    for (size_t layer = 0; layer + 1 < layer_count; layer++)
        for (size_t i = 0; layers[layer] && i < layers[layer]->item_count; i++)
            if (!base || !yaml_get(base, layers[layer]->keys[i]->text))
                return decode_fail_unknown(layers[layer]->keys[i]->at, what,
                                           layers[layer]->keys[i]->text, names, count,
                                           load->reterr);
    return PLM_OK;
}

enum plm_status load_dims(struct loader *load,
                          const struct yaml_node *const *layers,
                          size_t layer_count)
{
    const struct yaml_node *base = layers[layer_count - 1];
    size_t count = base ? base->item_count : 0;
    enum plm_status status = check_layers(load, layers, layer_count, "unknown dim");

    if (!status && count > MODEL_DIMS_MAX)
        status =
            plm_fail_at(load->reterr, PLM_E_RANGE, base->at, "more than %d dims", MODEL_DIMS_MAX);
    struct model_dim *dims = arena_array(load->arena, struct model_dim, count);

    for (size_t i = 0; i < count && !status; i++) {
        dims[i].at = layered(layers, layer_count, i)->at;
        status = load_name(load, base->keys[i], "a dim", NAME_VALUE, &dims[i].name);
    }
    load->model->dims = dims;
    load->model->dim_count = count;
    return status;
}

enum plm_status load_dim_values(struct loader *load,
                                const struct yaml_node *const *layers,
                                size_t layer_count)
{
    static const struct load_scope scope = { 0 };
    struct model_dim *dims = (struct model_dim *)load->model->dims; /* still ours to fill */
    enum plm_status status = PLM_OK;

    for (size_t i = 0; i < load->model->dim_count && !status; i++) {
        const struct yaml_node *value = layered(layers, layer_count, i);
        const char *name = names_text(&load->model->names, dims[i].name);
        char text[96];

        status = load_expr(load, &scope, value, name, &dims[i].value);
        if (status || dims[i].value->op != EXPR_CONSTANT)
            continue;
        struct value constant = dims[i].value->value;

        if (constant.kind != VALUE_INT)
            status = plm_fail_at(load->reterr, PLM_E_SYNTAX, value->at,
                                 "dim '%s' must be an integer, not %s", name,
                                 value_describe(&load->model->names, constant, text));
        else if (constant.as.i < 0)
            status = plm_fail_at(load->reterr, PLM_E_RANGE, value->at,
                                 "dim '%s' must not be negative, but is %lld", name,
                                 (long long)constant.as.i);
    }
    return status;
}

static bool is_bool(const char *text)
{
    return strcmp(text, "true") == 0 || strcmp(text, "false") == 0;
}

bool option_read(const struct names *names,
                 const struct model_option *option,
                 const char *text,
                 struct value *ret_value)
{
    int64_t integer;
    double real;

    for (size_t i = 0; i < option->word_count; i++) {
        const struct value *word = &option->words[i];
        const char *own = word->kind == VALUE_BOOL ? (word->as.i ? "true" : "false")
                                                   : names_text(names, word->as.word);

        if (strcmp(own, text) == 0) {
            *ret_value = *word;
            return true;
        }
    }
    if (option->word_count > 0)
        return false;
    if (units_parse_int(text, &integer)) {
        *ret_value = (struct value){ .kind = VALUE_INT, .as.i = integer };
        return true;
    }
    if (!units_parse_real(text, &real))
        return false;
    *ret_value = (struct value){ .kind = VALUE_REAL, .as.real = real };
    return true;
}

const char *option_words(const struct names *names,
                         const struct model_option *option,
                         char text[128])
{
    size_t length = 0;

    if (option->word_count == 0)
        return "a number";
    text[0] = '\0';
    for (size_t i = 0; i < option->word_count && length < 127; i++) {
        const struct value *word = &option->words[i];

        length += (size_t)snprintf(text + length, 128 - length, "%s%s",
                                   i == 0                        ? ""
                                   : i + 1 == option->word_count ? " or "
                                                                 : ", ",
                                   word->kind == VALUE_BOOL ? (word->as.i ? "true" : "false")
                                                            : names_text(names, word->as.word));
    }
    return text;
}

/* load_word() - one of an option's words */
static enum plm_status load_word(struct loader *load,
                                 const struct yaml_node *node,
                                 struct value *ret_word)
{
    name_id name;

    if (node->kind == YAML_SCALAR && is_bool(node->text)) {
        *ret_word = (struct value){ .kind = VALUE_BOOL, .as.i = node->text[0] == 't' };
        return PLM_OK;
    }
    enum plm_status status = load_name(load, node, "an option's word", NAME_VALUE, &name);

    if (status)
        return status;
    *ret_word = (struct value){ .kind = VALUE_WORD, .as.word = name };
    arena_push(load->scratch, load->words, load->word_count, load->word_capacity, name);
    return PLM_OK;
}

/* load_choices() - [sdpa, eager], [true, false], or one word: which is what the option is unless set */
static enum plm_status load_choices(struct loader *load,
                                    const struct yaml_node *node,
                                    struct model_option *option)
{
    bool list = node->kind == YAML_SEQUENCE;
    size_t count = list ? node->item_count : 1;
    struct value *words = arena_array(load->arena, struct value, count + 1);
    const char *name = names_text(&load->model->names, option->name);
    enum plm_status status = PLM_OK;

    if (count == 0 || count > MODEL_WORDS_MAX)
        return plm_fail_at(load->reterr, PLM_E_RANGE, node->at,
                           "option '%s' must have 1 to %d words", name, MODEL_WORDS_MAX);
    for (size_t i = 0; i < count && !status; i++) {
        status = load_word(load, list ? node->items[i] : node, &words[i]);
        if (!status && words[i].kind != words[0].kind)
            status = plm_fail_at(load->reterr, PLM_E_SYNTAX, node->items[i]->at,
                                 "option '%s' mixes words with true and false", name);
        for (size_t j = 0; j < i && !status; j++)
            if (words[j].kind == VALUE_BOOL ? words[j].as.i == words[i].as.i
                                            : words[j].as.word == words[i].as.word)
                status = plm_fail_at(load->reterr, PLM_E_SYNTAX, node->items[i]->at,
                                     "option '%s' has this word twice", name);
    }
    if (status)
        return status;
    if (words[0].kind == VALUE_BOOL && count == 1) /* `tied: true` can be set to false */
        words[count++] = (struct value){ .kind = VALUE_BOOL, .as.i = !words[0].as.i };
    option->words = words;
    option->word_count = count;
    option->value = words[0];
    return PLM_OK;
}

/* load_override() - what a layer above the base says: a value, or a list that begins with it */
static enum plm_status load_override(struct loader *load,
                                     const struct yaml_node *node,
                                     struct model_option *option)
{
    char words[128], got[64];
    const struct yaml_node *first =
        node->kind == YAML_SEQUENCE && node->item_count > 0 ? node->items[0] : node;

    option->at = first->at;
    if (first->kind != YAML_SCALAR ||
        !option_read(&load->model->names, option, first->text, &option->value))
        return plm_fail_at(load->reterr, PLM_E_SYNTAX, first->at, "option '%s' must be %s, not %s",
                           names_text(&load->model->names, option->name),
                           option_words(&load->model->names, option, words),
                           yaml_describe(first, got));
    return PLM_OK;
}

static enum plm_status load_option(struct loader *load,
                                   const struct yaml_node *node,
                                   struct model_option *option)
{
    option->at = node->at;
    if (node->kind == YAML_SCALAR && !node->quoted &&
        option_read(&load->model->names, option, node->text, &option->value))
        return PLM_OK;
    if (node->kind == YAML_MAPPING || yaml_is_null(node))
        return plm_fail_at(load->reterr, PLM_E_SYNTAX, node->at,
                           "option '%s' must be a number or a list of words",
                           names_text(&load->model->names, option->name));
    return load_choices(load, node, option);
}

enum plm_status load_options(struct loader *load,
                             const struct yaml_node *const *layers,
                             size_t layer_count)
{
    const struct yaml_node *base = layers[layer_count - 1];
    size_t count = base ? base->item_count : 0;
    enum plm_status status = check_layers(load, layers, layer_count, "unknown option");

    if (!status && count > MODEL_OPTIONS_MAX)
        status = plm_fail_at(load->reterr, PLM_E_RANGE, base->at, "more than %d options",
                             MODEL_OPTIONS_MAX);
    struct model_option *options = arena_array(load->arena, struct model_option, count);

    for (size_t i = 0; i < count && !status; i++) {
        const struct yaml_node *value = layered(layers, layer_count, i);

        status = load_name(load, base->keys[i], "an option", NAME_VALUE, &options[i].name);
        if (!status)
            status = load_option(load, base->items[i], &options[i]);
        if (!status && value != base->items[i])
            status = load_override(load, value, &options[i]);
    }
    load->model->options = options;
    load->model->option_count = count;
    return status;
}

/* load_globals() - one list of the names that every expression may use; none twice */
enum plm_status load_globals(struct loader *load)
{
    struct model *model = load->model;
    size_t count = MODEL_RUN_COUNT + model->dim_count + model->option_count;
    name_id *names = arena_array(load->arena, name_id, count);

    for (size_t i = 0; i < count; i++) {
        struct source at = { model->file, 0, 0 };

        if (i < MODEL_RUN_COUNT) {
            names[i] = names_add(&model->names, run_names[i], strlen(run_names[i]));
        } else if (i < MODEL_RUN_COUNT + model->dim_count) {
            names[i] = model->dims[i - MODEL_RUN_COUNT].name;
            at = model->dims[i - MODEL_RUN_COUNT].at;
        } else {
            names[i] = model->options[i - MODEL_RUN_COUNT - model->dim_count].name;
            at = model->options[i - MODEL_RUN_COUNT - model->dim_count].at;
        }
        for (size_t j = 0; j < i; j++)
            if (names[j] == names[i])
                return plm_fail_at(load->reterr, PLM_E_MODEL, at, "'%s' is already %s",
                                   names_text(&model->names, names[i]),
                                   j < MODEL_RUN_COUNT ? "a fact of the run" : "a dim");
    }
    load->marks = arena_array(load->scratch, bool, count);
    model->global_names = names;
    model->global_count = count;
    return PLM_OK;
}

struct input_fields {
    const struct yaml_node *dtype, *shape;
};

static const struct decode_row input_rows[] = {
    { "dtype", DECODE_SCALAR, true, offsetof(struct input_fields, dtype), "its element type" },
    { "shape", DECODE_SEQUENCE, true, offsetof(struct input_fields, shape), "a list of sizes" },
};

static enum plm_status load_dtype(struct loader *load,
                                  const struct yaml_node *node,
                                  enum dtype *ret_dtype)
{
    const char *names[DTYPE_COUNT];

    *ret_dtype = opdef_find_dtype(node->text);
    if (*ret_dtype < DTYPE_COUNT)
        return PLM_OK;
    for (size_t i = 0; i < DTYPE_COUNT; i++)
        names[i] = dtype_defs[i].name;
    return decode_fail_unknown(node->at, "unknown dtype", node->text, names, DTYPE_COUNT,
                               load->reterr);
}

static enum plm_status load_input(struct loader *load,
                                  const struct yaml_node *node,
                                  struct model_input *input)
{
    static const struct load_scope scope = { 0 };
    struct input_fields fields = { 0 };
    enum plm_status status = decode_mapping(node, NULL, input_rows, 2, NULL, &fields, load->reterr);

    if (!status)
        status = load_dtype(load, fields.dtype, &input->dtype);
    if (status)
        return status;
    const struct expr **sizes =
        arena_array(load->arena, const struct expr *, fields.shape->item_count);

    for (size_t i = 0; i < fields.shape->item_count && !status; i++)
        status = load_expr(load, &scope, fields.shape->items[i], "shape", &sizes[i]);
    input->sizes = sizes;
    input->dim_count = (uint32_t)fields.shape->item_count;
    input->at = node->at;
    return status;
}

enum plm_status load_inputs(struct loader *load, const struct yaml_node *inputs)
{
    size_t count = inputs ? inputs->item_count : 0;
    struct model_input *list = arena_array(load->arena, struct model_input, count);
    enum plm_status status = PLM_OK;

    for (size_t i = 0; i < count && !status; i++) {
        char label[LOAD_LABEL];

        status = load_name(load, inputs->keys[i], "an input", NAME_VALUE, &list[i].name);
        if (status)
            break;
        snprintf(label, sizeof label, "input '%.60s'", inputs->keys[i]->text);
        status = load_input(load, inputs->items[i], &list[i]);
        if (status)
            load_prefix(load->reterr, status, label);
    }
    load->model->inputs = list;
    load->model->input_count = count;
    return status;
}
