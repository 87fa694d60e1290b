/* model/load_config.c - the section that maps a Hugging Face config.json to dims and options */
#include <string.h>

#include "model/internal.h"
#include "yaml/decode.h"

enum { KEYS_MAX = 256 };

struct config_fields {
    const struct yaml_node *architectures, *dims, *options, *assumes, *missing;
};

#define ROW(key, type, required, help)                                                             \
    {                                                                                              \
#key, DECODE_##type, required, offsetof(struct config_fields, key), help                   \
    }
static const struct decode_row config_rows[] = {
    ROW(architectures, SEQUENCE, true, "class names that this model stands for"),
    ROW(dims, MAPPING, false, "for each dim, the key or keys of config.json that it is taken from"),
    ROW(options, MAPPING, false, "the same for options"),
    ROW(assumes, MAPPING, false, "keys, and the values that the model can stand for"),
    ROW(missing,
        MAPPING,
        false,
        "for keys that a config may lack, the value, or the key whose value is taken"),
};
#undef ROW

/* load_texts() - one text or a list of texts */
static enum plm_status load_texts(struct loader *load,
                                  const struct yaml_node *node,
                                  const char *what,
                                  size_t *ret_count,
                                  const char *const **ret_texts)
{
    size_t count = node->kind == YAML_SEQUENCE ? node->item_count : 1;
    const char **texts = arena_array(load->arena, const char *, count);
    char text[64];

    for (size_t i = 0; i < count; i++) {
        const struct yaml_node *item = node->kind == YAML_SEQUENCE ? node->items[i] : node;

        if (item->kind != YAML_SCALAR)
            return plm_fail_at(load->reterr, PLM_E_SYNTAX, item->at, "'%s' must be text, not %s",
                               what, yaml_describe(item, text));
        texts[i] = item->text; /* the document lives as long as the model */
    }
    *ret_count = count;
    *ret_texts = texts;
    return PLM_OK;
}

/* load_keys() - from dims or options to config.json's keys; @first and @count are their globals */
static enum plm_status load_keys(struct loader *load,
                                 const struct yaml_node *keys,
                                 const char *what,
                                 size_t first,
                                 size_t count,
                                 struct model_config_key *ret)
{
    const struct model *model = load->model;
    const char **names = arena_array(load->scratch, const char *, count);
    enum plm_status status = PLM_OK;

    for (size_t i = 0; i < count; i++)
        names[i] = names_text(&model->names, model->global_names[first + i]);
    for (size_t i = 0; keys && i < keys->item_count && !status; i++) {
        size_t found = 0;

        while (found < count && strcmp(names[found], keys->keys[i]->text) != 0)
            found++;
        if (found == count)
            return decode_fail_unknown(keys->keys[i]->at, what, keys->keys[i]->text, names, count,
                                       load->reterr);
        ret[i].name = model->global_names[first + found];
        status =
            load_texts(load, keys->items[i], keys->keys[i]->text, &ret[i].key_count, &ret[i].keys);
    }
    return status;
}

static enum plm_status load_missing(struct loader *load,
                                    const struct yaml_node *missing,
                                    struct model_config *ret)
{
    size_t count = missing ? missing->item_count : 0;
    struct model_config_missing *list =
        arena_array(load->arena, struct model_config_missing, count);
    char text[64];

    for (size_t i = 0; i < count; i++) {
        const struct yaml_node *value = missing->items[i];

        if (value->kind != YAML_SCALAR)
            return plm_fail_at(load->reterr, PLM_E_SYNTAX, value->at, "'%s' must be text, not %s",
                               missing->keys[i]->text, yaml_describe(value, text));
        list[i] = (struct model_config_missing){ missing->keys[i]->text, value };
    }
    ret->missing = list;
    ret->missing_count = count;
    return PLM_OK;
}

enum plm_status load_config(struct loader *load, const struct yaml_node *config)
{
    struct model *model = load->model;
    struct config_fields f = { 0 };
    struct model_config *ret = arena_new(load->arena, struct model_config);
    enum plm_status status =
        decode_mapping(config, "config_json", config_rows, 5, NULL, &f, load->reterr);

    if (!status)
        status = load_texts(load, f.architectures, "architectures", &ret->architecture_count,
                            &ret->architectures);
    if (status)
        return status;
    size_t dims = f.dims ? f.dims->item_count : 0, options = f.options ? f.options->item_count : 0;
    struct model_config_key *keys =
        arena_array(load->arena, struct model_config_key, dims + options);

    status = load_keys(load, f.dims, "unknown dim", MODEL_RUN_COUNT, model->dim_count, keys);
    if (!status)
        status = load_keys(load, f.options, "unknown option", MODEL_RUN_COUNT + model->dim_count,
                           model->option_count, keys + dims);
    ret->keys = keys;
    ret->key_count = dims + options;
    size_t assumed = f.assumes ? f.assumes->item_count : 0;
    struct model_config_assumed *list =
        arena_array(load->arena, struct model_config_assumed, assumed);

    for (size_t i = 0; i < assumed && !status; i++) {
        list[i].key = f.assumes->keys[i]->text;
        status = load_texts(load, f.assumes->items[i], list[i].key, &list[i].value_count,
                            &list[i].values);
    }
    ret->assumed = list;
    ret->assumed_count = assumed;
    if (!status)
        status = load_missing(load, f.missing, ret);
    model->config = ret;
    return status;
}

/* is_hidden_size() - hidden_size, or what a configuration calls it (attribute_map) */
static bool is_hidden_size(const struct yaml_node *key)
{
    static const char *const names[] = { "hidden_size", "n_embd", "d_model" };

    for (size_t i = 0; key->kind == YAML_SCALAR && i < sizeof names / sizeof *names; i++)
        if (strcmp(key->text, names[i]) == 0)
            return true;
    return false;
}

void load_hidden_size(struct loader *load, const struct yaml_node *config)
{
    const struct yaml_node *dims = yaml_get(config, "dims");

    for (size_t i = 0; dims && dims->kind == YAML_MAPPING && i < dims->item_count; i++)
        if (is_hidden_size(dims->items[i]))
            load->model->hidden_size =
                names_find(&load->model->names, dims->keys[i]->text, strlen(dims->keys[i]->text));
}
