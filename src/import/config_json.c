/* import/config_json.c - a Hugging Face config.json as a zoo model and values for its dims and options */
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "import/config_json.h"
#include "yaml/decode.h"

enum { KNOWN_MAX = 128 };

struct importer {
    const struct yaml_node *root;
    const struct model *model;
    struct arena *arena;
    struct model_setting *settings;
    size_t setting_count, setting_capacity;
    const char **warnings;
    size_t warning_count, warning_capacity;
    struct plm_error *reterr;
};

bool config_json_is(const struct yaml_node *root)
{
    return !yaml_get(root, "plimsoll") &&
           (yaml_get(root, "architectures") || yaml_get(root, "model_type"));
}

static void warn(struct importer *in, const char *text)
{
    arena_push(in->arena, in->warnings, in->warning_count, in->warning_capacity,
               arena_copy(in->arena, text, strlen(text)));
}

static enum plm_status choose_model(struct importer *in,
                                    const struct model *const *models,
                                    size_t model_count)
{
    const char *known[KNOWN_MAX];
    size_t known_count = 0;
    const struct yaml_node *list = yaml_get(in->root, "architectures");
    const struct yaml_node *first =
        list && list->kind == YAML_SEQUENCE && list->item_count > 0 ? list->items[0] : NULL;

    for (size_t i = 0; i < model_count; i++) {
        const struct model_config *config = models[i]->config;

        for (size_t j = 0; config && j < config->architecture_count; j++) {
            if (first && strcmp(config->architectures[j], first->text) == 0) {
                in->model = models[i];
                return PLM_OK;
            }
            if (known_count < KNOWN_MAX)
                known[known_count++] = config->architectures[j];
        }
    }
    if (!first || first->kind != YAML_SCALAR)
        return plm_fail_at(
            in->reterr, PLM_E_MODEL, list ? list->at : in->root->at,
            "'architectures' %s a list of names, such as [%s]",
            list ? "must be" : "is missing:", known_count ? known[0] : "LlamaForCausalLM");
    char text[200] = "";
    size_t length = 0;

    for (size_t i = 0; i < known_count && length < sizeof text; i++)
        length +=
            (size_t)snprintf(text + length, sizeof text - length, "%s%s", i ? ", " : "", known[i]);
    return plm_fail_at(in->reterr, PLM_E_MODEL, first->at,
                       "no model stands for architecture '%.40s'; known: %s", first->text, text);
}

static const struct yaml_node *present(const struct importer *in, const char *key)
{
    const struct yaml_node *value = yaml_get(in->root, key);

    return value && !yaml_is_null(value) ? value : NULL;
}

static const struct yaml_node *find_missing(const struct importer *in, const char *key)
{
    const struct model_config *config = in->model->config;

    for (size_t i = 0; i < config->missing_count; i++)
        if (strcmp(config->missing[i].key, key) == 0)
            return config->missing[i].value;
    return NULL;
}

/* missing_value() - what the config's class takes without @key: a value, or that of another key; NULL: not known */
static const struct yaml_node *missing_value(const struct importer *in, const char *key)
{
    const struct yaml_node *value = find_missing(in, key);

    if (value && present(in, value->text))
        return present(in, value->text);
    return value && find_missing(in, value->text) ? find_missing(in, value->text) : value;
}

/* find_value() - the first of the keys that the config has a value for, or what stands for the first when it has none */
static const struct yaml_node *find_value(const struct importer *in,
                                          const struct model_config_key *key,
                                          const char **ret_key)
{
    for (size_t i = 0; i < key->key_count; i++) {
        *ret_key = key->keys[i];
        if (present(in, key->keys[i]))
            return present(in, key->keys[i]);
    }
    *ret_key = key->keys[0];
    return key->key_count ? missing_value(in, key->keys[0]) : NULL;
}

static const struct model_option *find_option(const struct model *model, name_id name)
{
    for (size_t i = 0; i < model->option_count; i++)
        if (model->options[i].name == name)
            return &model->options[i];
    return NULL;
}

static void add_setting(struct importer *in, name_id name, const struct yaml_node *value)
{
    arena_push(in->arena, in->settings, in->setting_count, in->setting_capacity,
               (struct model_setting){ names_text(&in->model->names, name),
                                       arena_copy(in->arena, value->text, strlen(value->text)) });
}

static void add_count(struct importer *in, name_id name, size_t count)
{
    char text[24];

    snprintf(text, sizeof text, "%zu", count);
    arena_push(in->arena, in->settings, in->setting_count, in->setting_capacity,
               (struct model_setting){ names_text(&in->model->names, name),
                                       arena_copy(in->arena, text, strlen(text)) });
}

/* import_key() - one dim or option. A dim must be a number; an option's word that the model lacks is a warning */
static enum plm_status import_key(struct importer *in, const struct model_config_key *key)
{
    const char *from;
    const struct yaml_node *value = find_value(in, key, &from);
    const struct model_option *option = find_option(in->model, key->name);
    char text[256], words[128], got[64];
    struct value ignored;
    int64_t number;

    if (!value)
        return PLM_OK;
    if (!option && value->kind == YAML_MAPPING) { /* id2label: as many as it has entries */
        add_count(in, key->name, value->item_count);
        return PLM_OK;
    }
    if (!option) {
        enum plm_status status = decode_int(value, from, &number, in->reterr);

        if (!status && number < 0)
            status =
                plm_fail_at(in->reterr, PLM_E_RANGE, value->at,
                            "'%.60s' must not be negative, but is %lld", from, (long long)number);
        if (!status)
            add_setting(in, key->name, value);
        return status;
    }
    if (value->kind == YAML_SCALAR &&
        option_read(&in->model->names, option, value->text, &ignored)) {
        add_setting(in, key->name, value);
        return PLM_OK;
    }
    snprintf(text, sizeof text, "%.60s is %s, but option '%.60s' is %s: left as it is", from,
             yaml_describe(value, got), names_text(&in->model->names, key->name),
             option_words(&in->model->names, option, words));
    warn(in, text);
    return PLM_OK;
}

/* check_assumed() - a setting that the model's file takes for granted */
static void check_assumed(struct importer *in, const struct model_config_assumed *assumed)
{
    const struct yaml_node *value = yaml_get(in->root, assumed->key);
    char text[256], got[64];

    if (!value)
        return;
    for (size_t i = 0; i < assumed->value_count; i++)
        if (value->kind == YAML_SCALAR && strcmp(value->text, assumed->values[i]) == 0)
            return;
    snprintf(text, sizeof text, "%.60s is %s; the model is computed as with '%.60s'", assumed->key,
             yaml_describe(value, got), assumed->value_count ? assumed->values[0] : "");
    warn(in, text);
}

/* check_general() - settings of any architecture that no model file can express yet */
static void check_general(struct importer *in)
{
    static const char *const keys[] = { "quantization_config", "compression_config" };

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const struct yaml_node *value = yaml_get(in->root, keys[i]);
        char text[128];

        if (!value || yaml_is_null(value))
            continue;
        snprintf(text, sizeof text, "%s is ignored: weights are taken as --precision says",
                 keys[i]);
        warn(in, text);
    }
}

enum plm_status config_json_import(const struct yaml_node *root,
                                   const struct model *const *models,
                                   size_t model_count,
                                   struct arena *arena,
                                   struct config_import *ret_import,
                                   struct plm_error *reterr)
{
    struct importer in = { .root = root, .arena = arena, .reterr = reterr };

    if (root->kind != YAML_MAPPING)
        return plm_fail_at(reterr, PLM_E_SYNTAX, root->at, "a config.json must be an object");
    enum plm_status status = choose_model(&in, models, model_count);

    if (status)
        return status;
    const struct model_config *config = in.model->config;

    for (size_t i = 0; i < config->key_count && !status; i++)
        status = import_key(&in, &config->keys[i]);
    for (size_t i = 0; i < config->assumed_count && !status; i++)
        check_assumed(&in, &config->assumed[i]);
    check_general(&in);
    if (!status)
        *ret_import = (struct config_import){
            .model = in.model,
            .settings = in.settings,
            .setting_count = in.setting_count,
            .warnings = in.warnings,
            .warning_count = in.warning_count,
        };
    return status;
}
