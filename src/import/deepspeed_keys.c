/* import/deepspeed_keys.c - values of a DeepSpeed configuration, and its mappings key by key */
#include <string.h>

#include "base/error.h"
#include "base/units.h"
#include "import/deepspeed_keys.h"
#include "yaml/decode.h"

/* ------------------------------------------------------------------ values */

const struct yaml_node *keys_member(const struct yaml_node *section, const char *key)
{
    return section ? yaml_get(section, key) : NULL;
}

bool keys_is_auto(const struct yaml_node *value)
{
    return yaml_is_null(value) || (value->kind == YAML_SCALAR && strcmp(value->text, "auto") == 0);
}

enum plm_status keys_refuse(struct keys_context *c,
                            const char *key,
                            const struct yaml_node *value,
                            const char *what)
{
    char got[64];

    return plm_fail_at(c->reterr, PLM_E_USAGE, value->at, "'%s' is %s: %s", key,
                       yaml_describe(value, got), what);
}

enum plm_status keys_read_number(struct keys_context *c,
                                 const char *key,
                                 const struct yaml_node *value,
                                 double *ret)
{
    if (value->kind == YAML_SCALAR && !value->quoted && units_parse_real(value->text, ret))
        return PLM_OK;
    return keys_refuse(c, key, value, "a number was expected");
}

enum plm_status keys_read_whole(struct keys_context *c,
                                const char *key,
                                const struct yaml_node *value,
                                int64_t least,
                                int64_t *ret)
{
    double number;
    enum plm_status status = keys_read_number(c, key, value, &number);

    if (status)
        return status;
    if (number > 9.2e18) /* sys.maxsize */
        number = 9.2e18;
    if (number < (double)least || number != (double)(int64_t)number)
        return keys_refuse(c, key, value,
                           least > 0 ? "a whole number from 1 was expected"
                                     : "a whole number from 0 was expected");
    *ret = (int64_t)number;
    return PLM_OK;
}

enum plm_status keys_agree(struct keys_context *c,
                           const char *key,
                           const struct yaml_node *value,
                           int64_t most,
                           const char *option,
                           int64_t *field)
{
    int64_t number = 0;
    enum plm_status status = keys_read_whole(c, key, value, 1, &number);

    if (status)
        return status;
    if (number > most)
        return plm_fail_at(c->reterr, PLM_E_USAGE, value->at,
                           "'%s' is '%.40s': at most %lld is accepted", key, value->text,
                           (long long)most);
    if (*field > 0 && *field != number)
        return plm_fail_at(c->reterr, PLM_E_USAGE, value->at, "'%s' is %lld; --%s says %lld", key,
                           (long long)number, option, (long long)*field);
    *field = number;
    return PLM_OK;
}

enum plm_status keys_read_size(struct keys_context *c,
                               const char *key,
                               const struct yaml_node *value,
                               int64_t *field)
{
    int64_t size = 0;
    enum plm_status status = keys_read_whole(c, key, value, 0, &size);

    if (!status)
        *field = size == 0 ? PLM_DEEPSPEED_NONE : size;
    return status;
}

enum plm_status keys_read_switch(struct keys_context *c,
                                 const char *key,
                                 const struct yaml_node *value,
                                 const char *option,
                                 enum plm_switch *field)
{
    bool on = false;
    enum plm_status status = decode_bool(value, key, &on, c->reterr);
    enum plm_switch read = on ? PLM_SWITCH_TRUE : PLM_SWITCH_FALSE;

    if (status)
        return status;
    if (option && *field != PLM_SWITCH_DEFAULT && *field != read)
        return plm_fail_at(c->reterr, PLM_E_USAGE, value->at, "'%s' is %s; --%s says otherwise",
                           key, value->text, option);
    *field = read;
    return PLM_OK;
}

enum plm_status keys_refuse_true(struct keys_context *c,
                                 const char *key,
                                 const struct yaml_node *value)
{
    bool on;
    enum plm_status status = decode_bool(value, key, &on, c->reterr);

    return status || !on ? status : keys_refuse(c, key, value, "not modelled");
}

enum plm_status keys_refuse_false(struct keys_context *c,
                                  const char *key,
                                  const struct yaml_node *value)
{
    bool on;
    enum plm_status status = decode_bool(value, key, &on, c->reterr);

    return status || on ? status : keys_refuse(c, key, value, "not modelled");
}

/* refuse_other() - a number that must be what it is by default */
static enum plm_status refuse_other(struct keys_context *c,
                                    const char *key,
                                    const struct yaml_node *value,
                                    double usual)
{
    double number;
    enum plm_status status = keys_read_number(c, key, value, &number);

    return status || number == usual ? status : keys_refuse(c, key, value, "not modelled");
}

enum plm_status keys_refuse_above_1(struct keys_context *c,
                                    const char *key,
                                    const struct yaml_node *value)
{
    return refuse_other(c, key, value, 1);
}

enum plm_status keys_refuse_above_0(struct keys_context *c,
                                    const char *key,
                                    const struct yaml_node *value)
{
    return refuse_other(c, key, value, 0);
}

enum plm_status keys_refuse_enabled(struct keys_context *c,
                                    const char *key,
                                    const struct yaml_node *value)
{
    const struct yaml_node *enabled = yaml_get(value, "enabled");

    return enabled && !keys_is_auto(enabled) ? keys_refuse_true(c, key, enabled) : PLM_OK;
}

enum plm_status keys_refuse_any(struct keys_context *c,
                                const char *key,
                                const struct yaml_node *value)
{
    return keys_refuse(c, key, value, "not modelled");
}

/* ------------------------------------------------------------------ a mapping */

static const struct keys_entry *find_key(const struct keys_entry *keys,
                                         size_t count,
                                         const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(keys[i].name, name) == 0)
            return &keys[i];
    return NULL;
}

static enum plm_status fail_unknown(struct keys_context *c,
                                    const struct yaml_node *key,
                                    const struct keys_entry *keys,
                                    size_t count)
{
    const char *names[128];

    for (size_t i = 0; i < count && i < 128; i++)
        names[i] = keys[i].name;
    return decode_fail_unknown(key->at, "unknown key", key->text, names, count, c->reterr);
}

enum plm_status keys_read(struct keys_context *c,
                          const char *what,
                          const struct yaml_node *mapping,
                          const struct keys_entry *keys,
                          size_t count)
{
    if (mapping->kind != YAML_MAPPING)
        return keys_refuse(c, what, mapping, "a mapping was expected");
    for (size_t i = 0; i < mapping->item_count; i++) {
        const struct yaml_node *name = mapping->keys[i], *value = mapping->items[i];
        const struct keys_entry *key = find_key(keys, count, name->text);

        if (!key)
            return fail_unknown(c, name, keys, count);
        enum plm_status status =
            key->read && !keys_is_auto(value) ? key->read(c, name->text, value) : PLM_OK;

        if (status)
            return status;
    }
    return PLM_OK;
}
