/*
 * model/load.c - a model file from top to bottom
 *
 *   text -> document -> (extends: more documents) -> dims and options -> inputs -> signatures -> nodes -> checks
 */
#include <stdio.h>
#include <string.h>

#include "model/internal.h"
#include "yaml/decode.h"

struct file_fields {
    int64_t plimsoll;
    const char *model, *about, *source, *extends;
    const struct yaml_node *dims, *options, *defaults, *inputs, *blocks, *main, *parameters;
    const struct yaml_node *config_json;
    const struct yaml_node *root;
    const char *file;
};

#define ROW(key, type, required, help)                                                             \
    {                                                                                              \
#key, DECODE_##type, required, offsetof(struct file_fields, key), help                     \
    }
static const struct decode_row file_rows[] = {
    ROW(plimsoll, INT, true, "the version of the format, 1"),
    ROW(model, TEXT, false, "its name"),
    ROW(about, TEXT, false, "one line for listings"),
    ROW(source, TEXT, false, "the implementation that it mirrors, with its version"),
    ROW(extends, TEXT, false, "another model: then only values are given here"),
    ROW(dims, MAPPING, false, "numbers that --set can change, and expressions of them"),
    ROW(options, MAPPING, false, "words to choose from, the first unless set; or a number"),
    ROW(defaults, MAPPING, false, "batch, seq and precision when the command line gives none"),
    ROW(inputs, MAPPING, false, "the tensors of a batch"),
    ROW(blocks, MAPPING, false, "functions and modules"),
    ROW(main, MAPPING, false, "the training script: from inputs to the loss"),
    ROW(parameters, SEQUENCE, false, "names or prefixes of parameters that are registered first"),
    ROW(config_json, MAPPING, false, "how a Hugging Face config.json fills dims and options"),
};
#undef ROW

struct default_fields {
    int64_t batch, seq;
    const char *precision;
};

static const struct decode_row default_rows[] = {
    { "batch", DECODE_INT, false, offsetof(struct default_fields, batch), "samples" },
    { "seq", DECODE_INT, false, offsetof(struct default_fields, seq), "length of a sequence" },
    { "precision", DECODE_TEXT, false, offsetof(struct default_fields, precision),
      "as --precision" },
};

/* read_file() - one document and its top level */
static enum plm_status read_file(struct loader *load,
                                 const struct model_text *text,
                                 struct file_fields *ret)
{
    *ret = (struct file_fields){ .file = text->file };
    enum plm_status status =
        yaml_parse(text->file, text->text, text->length, load->arena, &ret->root, load->reterr);

    if (status)
        return status;
    if (ret->root->kind != YAML_MAPPING)
        return plm_fail_at(load->reterr, PLM_E_SYNTAX, ret->root->at,
                           "a model file must be a mapping that begins with 'plimsoll: 1'");
    status = decode_mapping(ret->root, NULL, file_rows, sizeof file_rows / sizeof file_rows[0],
                            NULL, ret, load->reterr);
    if (!status && ret->plimsoll != 1)
        status = plm_fail_at(load->reterr, PLM_E_SYNTAX, yaml_get(ret->root, "plimsoll")->at,
                             "version %lld of the format is not known; this program reads 1",
                             (long long)ret->plimsoll);
    return status;
}

/* check_extension() - a file that extends another gives no structure of its own */
static enum plm_status check_extension(const struct loader *load, const struct file_fields *f)
{
    static const char *const own[] = { "inputs", "blocks", "main", "parameters" };

    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        const struct yaml_node *value = yaml_get(f->root, own[i]);

        if (value)
            return plm_fail_at(load->reterr, PLM_E_MODEL, value->at,
                               "'%s' cannot be given in a model that extends another", own[i]);
    }
    return PLM_OK;
}

/* read_chain() - the file and those that it extends, the base last */
static enum plm_status read_chain(struct loader *load,
                                  const struct model_text *text,
                                  const struct model_finder *finder,
                                  struct file_fields chain[MODEL_EXTENDS_MAX],
                                  size_t *ret_count)
{
    struct model_text next = *text;
    enum plm_status status;

    for (size_t count = 0;;) {
        struct file_fields *f = &chain[count++];

        status = read_file(load, &next, f);
        *ret_count = count;
        if (status || !f->extends)
            return status;
        struct source at = yaml_get(f->root, "extends")->at;

        status = check_extension(load, f);
        if (!status && !finder)
            status = plm_fail_at(load->reterr, PLM_E_MODEL, at, "'extends' is not possible here");
        if (!status)
            status = finder->find(finder->context, f->extends, f->file, load->arena, &next,
                                  load->reterr);
        if (status) {
            if (load->reterr && load->reterr->line == 0)
                *load->reterr = (struct plm_error){ 0 },
                status = plm_fail_at(load->reterr, status, at,
                                     "there is no model '%.60s' to extend", f->extends);
            return status;
        }
        for (size_t i = 0; i < count; i++)
            if (strcmp(chain[i].file, next.file) == 0)
                return plm_fail_at(load->reterr, PLM_E_MODEL, at, "'%.60s' extends itself",
                                   f->extends);
        if (count == MODEL_EXTENDS_MAX)
            return plm_fail_at(load->reterr, PLM_E_RANGE, at,
                               "more than %d models extend each other", MODEL_EXTENDS_MAX);
    }
}

/* load_defaults() - from the base up, so that the nearest counts */
static enum plm_status load_defaults(struct loader *load,
                                     const struct file_fields *chain,
                                     size_t count)
{
    struct default_fields d = { .batch = 1 };
    struct source at = { chain[0].file, 0, 0 };

    for (size_t i = count; i-- > 0;) {
        if (!chain[i].defaults)
            continue;
        enum plm_status status =
            decode_mapping(chain[i].defaults, "defaults", default_rows, 3, NULL, &d, load->reterr);

        if (status)
            return status;
        at = chain[i].defaults->at;
    }
    if (d.batch < 1 || d.seq < 0)
        return plm_fail_at(load->reterr, PLM_E_RANGE, at,
                           "'batch' must be at least 1 and 'seq' at least 0");
    load->model->batch = d.batch;
    load->model->seq = d.seq;
    load->model->precision = d.precision;
    return PLM_OK;
}

static enum plm_status load_numbers(struct loader *load,
                                    const struct file_fields *chain,
                                    size_t count)
{
    const struct yaml_node *dims[MODEL_EXTENDS_MAX], *options[MODEL_EXTENDS_MAX];

    for (size_t i = 0; i < count; i++) {
        dims[i] = chain[i].dims;
        options[i] = chain[i].options;
    }
    enum plm_status status = load_options(load, options, count);

    if (!status)
        status = load_dims(load, dims, count);
    if (!status)
        status = load_globals(load);
    if (!status)
        status = load_dim_values(load, dims, count);
    return status;
}

/* order_dim() - depth first: what a dim is made of comes before it. @marks: 1 being visited, 2 done */
static enum plm_status order_dim(
    struct loader *load, size_t dim, unsigned char *marks, uint32_t *order, size_t *count)
{
    const struct model *model = load->model;
    bool *uses = arena_array(load->scratch, bool, model->global_count);
    enum plm_status status = PLM_OK;

    marks[dim] = 1;
    expr_mark_globals(model->dims[dim].value, uses);
    for (size_t i = 0; i < model->dim_count && !status; i++) {
        if (!uses[MODEL_RUN_COUNT + i] || marks[i] == 2)
            continue;
        if (marks[i] == 1)
            return plm_fail_at(load->reterr, PLM_E_MODEL, model->dims[dim].at,
                               i == dim ? "dim '%s' is made of itself"
                                        : "dims '%s' and '%s' are made of each other",
                               names_text(&model->names, model->dims[dim].name),
                               names_text(&model->names, model->dims[i].name));
        status = order_dim(load, i, marks, order, count);
    }
    marks[dim] = 2;
    order[(*count)++] = (uint32_t)dim;
    return status;
}

static enum plm_status order_dims(struct loader *load)
{
    size_t dim_count = load->model->dim_count, count = 0;
    unsigned char *marks = arena_array(load->scratch, unsigned char, dim_count);
    uint32_t *order = arena_array(load->arena, uint32_t, dim_count);
    enum plm_status status = PLM_OK;

    for (size_t i = 0; i < dim_count && !status; i++)
        if (marks[i] == 0)
            status = order_dim(load, i, marks, order, &count);
    load->model->dim_order = order;
    return status;
}

/* check_main() - the training script takes every input by its name and returns the loss */
static enum plm_status check_main(struct loader *load, struct model_block *main)
{
    const struct model *model = load->model;
    name_id *names = arena_array(load->arena, name_id, model->input_count);

    for (uint32_t i = 0; i < main->in_count; i++) {
        size_t input = 0;

        while (input < model->input_count && model->inputs[input].name != main->slot_names[i])
            input++;
        if (input == model->input_count)
            return plm_fail_at(load->reterr, PLM_E_MODEL, main->at,
                               "main takes '%.60s', which is no input",
                               names_text(&model->names, main->slot_names[i]));
    }
    if (main->in_count > 0 && main->in_count < model->input_count)
        return plm_fail_at(load->reterr, PLM_E_MODEL, main->at,
                           "main must take all %zu inputs, or leave 'in' out", model->input_count);
    if (main->param_count > 0)
        return plm_fail_at(load->reterr, PLM_E_MODEL, main->at, "main has no 'params'");
    if (main->out_count == 0)
        return plm_fail_at(load->reterr, PLM_E_MODEL, main->at,
                           "main must return the loss: 'out: loss'");
    for (size_t i = 0; i < model->input_count; i++)
        names[i] = model->inputs[i].name;
    main->slot_names = names;
    main->in_count = main->required_count = (uint32_t)model->input_count;
    return PLM_OK;
}

static enum plm_status load_signatures(struct loader *load, const struct file_fields *base)
{
    size_t count = base->blocks ? base->blocks->item_count : 0;
    enum plm_status status = PLM_OK;
    char label[LOAD_LABEL] = "main";

    if (count >= MODEL_BLOCKS_MAX)
        return plm_fail_at(load->reterr, PLM_E_RANGE, base->blocks->at, "more than %d blocks",
                           MODEL_BLOCKS_MAX - 1);
    load->block_count = count + 1;
    load->blocks = arena_array(load->arena, struct model_block, count + 1);
    load->block_nodes = arena_array(load->scratch, const struct yaml_node *, count + 1);
    for (size_t i = 0; i <= count && !status; i++) {
        struct model_block *block = &load->blocks[i];

        load->block_nodes[i] = i < count ? base->blocks->items[i] : base->main;
        if (i == count)
            block->name = names_add(&load->model->names, "main", 4);
        else
            status = load_name(load, base->blocks->keys[i], "a block", NAME_PATH, &block->name);
        if (status)
            break;
        snprintf(label, sizeof label, "block '%.60s'",
                 names_text(&load->model->names, block->name));
        status = load_signature(load, load->block_nodes[i], block);
        if (status)
            load_prefix(load->reterr, status, i < count ? label : "main");
    }
    return status ? status : check_main(load, &load->blocks[count]);
}

static enum plm_status load_order(struct loader *load, const struct yaml_node *parameters)
{
    size_t count = parameters ? parameters->item_count : 0;
    name_id *order = arena_array(load->arena, name_id, count);
    enum plm_status status = PLM_OK;

    for (size_t i = 0; i < count && !status; i++) {
        const struct yaml_node *item = parameters->items[i];

        status = load_name(load, item, "a parameter", NAME_STARS, &order[i]);
        const char *star = status ? NULL : strchr(item->text, '*');

        if (star && (star == item->text || star[-1] != '.' || (star[1] != '.' && star[1] != '\0') ||
                     strchr(star + 1, '*')))
            status = plm_fail_at(load->reterr, PLM_E_SYNTAX, item->at,
                                 "'*' stands for one number of a list: 'layers.*.mlp'");
    }
    load->model->order = order;
    load->model->order_count = count;
    return status;
}

static enum plm_status load_structure(struct loader *load, const struct file_fields *base)
{
    if (!base->main)
        return plm_fail_at(load->reterr, PLM_E_MODEL, base->root->at, "'main' is missing");
    enum plm_status status = load_inputs(load, base->inputs);

    if (!status)
        status = load_signatures(load, base);
    for (size_t i = 0; i < load->block_count && !status; i++)
        status = load_block(load, load->block_nodes[i], &load->blocks[i]);
    if (!status)
        status = load_check_recursion(load);
    if (!status)
        status = load_order(load, base->parameters);
    if (status)
        return status;
    load->model->blocks = load->blocks;
    load->model->block_count = load->block_count;
    load->model->main = &load->blocks[load->block_count - 1];
    return PLM_OK;
}

static const char *base_name(const char *file)
{
    const char *slash = strrchr(file, '/');

    return slash ? slash + 1 : file;
}

/* one_text() - @text, or @otherwise when there is none; without the line's end that YAML's ">" and "|" leave */
static const char *one_text(struct loader *load, const char *text, const char *otherwise)
{
    size_t length = text ? strlen(text) : 0;

    while (length > 0 && text[length - 1] == '\n')
        length--;
    return text ? arena_copy(load->arena, text, length) : otherwise;
}

static enum plm_status load_all(struct loader *load,
                                const struct model_text *text,
                                const struct model_finder *finder)
{
    struct file_fields chain[MODEL_EXTENDS_MAX];
    size_t count = 0;
    struct model *model = load->model;
    enum plm_status status = read_chain(load, text, finder, chain, &count);

    if (status)
        return status;
    model->file = text->file;
    model->name = chain[0].model ? chain[0].model : base_name(text->file);
    model->about = model->origin = "";
    for (size_t i = count; i-- > 0;) {
        model->about = one_text(load, chain[i].about, model->about);
        model->origin = one_text(load, chain[i].source, model->origin);
    }
    status = load_defaults(load, chain, count);
    if (!status)
        status = load_numbers(load, chain, count);
    if (!status)
        status = order_dims(load);
    if (!status)
        status = load_structure(load, &chain[count - 1]);
    if (!status && chain[0].config_json)
        status = load_config(load, chain[0].config_json);
    if (!status && chain[count - 1].config_json)
        load_hidden_size(load, chain[count - 1].config_json);
    return status;
}

enum plm_status model_load(const struct model_text *text,
                           const struct model_finder *finder,
                           struct arena *arena,
                           const struct model **ret_model,
                           struct plm_error *reterr)
{
    struct arena scratch = { 0 };
    struct loader load = { .arena = arena, .scratch = &scratch, .reterr = reterr };

    load.model = arena_new(arena, struct model);
    load.model->names.arena = arena;
    enum plm_status status = load_all(&load, text, finder);

    arena_finish(&scratch);
    if (!status)
        *ret_model = load.model;
    return status;
}
