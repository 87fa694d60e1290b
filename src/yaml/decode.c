/* yaml/decode.c - a mapping into a struct, by a table */
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "yaml/decode.h"

enum { NAMES_MAX = 96, NAMES_LISTED = 9 };

static const char *const expected[] = {
    [DECODE_TEXT] = "text",
    [DECODE_INT] = "an integer",
    [DECODE_REAL] = "a number",
    [DECODE_BOOL] = "true or false",
    [DECODE_BYTES] = "a size such as 24GiB",
    [DECODE_SCALAR] = "a single value",
    [DECODE_SEQUENCE] = "a list",
    [DECODE_MAPPING] = "a mapping",
    [DECODE_ANY] = "a value",
};

static enum plm_status fail_type(const struct yaml_node *node,
                                 const char *key,
                                 enum decode_type type,
                                 struct plm_error *reterr)
{
    char text[64];

    return plm_fail_at(reterr, PLM_E_SYNTAX, node->at, "'%.60s' must be %s, not %s", key,
                       expected[type], yaml_describe(node, text));
}

enum plm_status decode_fail_unknown(struct source at,
                                    const char *what,
                                    const char *word,
                                    const char *const *names,
                                    size_t name_count,
                                    struct plm_error *reterr)
{
    const char *near = error_nearest(word, names, name_count);
    char list[160] = "";
    size_t length = 0;

    if (near)
        return plm_fail_at(reterr, PLM_E_SYNTAX, at, "%s '%.60s'; did you mean '%s'?", what, word,
                           near);
    if (name_count == 0 || name_count > NAMES_LISTED)
        return plm_fail_at(reterr, PLM_E_SYNTAX, at, "%s '%.60s'", what, word);
    for (size_t i = 0; i < name_count && length < sizeof list - 1; i++)
        length +=
            (size_t)snprintf(list + length, sizeof list - length, "%s%s", i ? ", " : "", names[i]);
    return plm_fail_at(reterr, PLM_E_SYNTAX, at, "%s '%.60s'; known: %s", what, word, list);
}

enum plm_status decode_int(const struct yaml_node *node,
                           const char *key,
                           int64_t *ret_value,
                           struct plm_error *reterr)
{
    if (node->kind != YAML_SCALAR || node->quoted || !units_parse_int(node->text, ret_value))
        return fail_type(node, key, DECODE_INT, reterr);
    return PLM_OK;
}

enum plm_status decode_bool(const struct yaml_node *node,
                            const char *key,
                            bool *ret_value,
                            struct plm_error *reterr)
{
    bool plain = node->kind == YAML_SCALAR && !node->quoted;

    if (!plain || (strcmp(node->text, "true") != 0 && strcmp(node->text, "false") != 0))
        return fail_type(node, key, DECODE_BOOL, reterr);
    *ret_value = node->text[0] == 't';
    return PLM_OK;
}

static bool decode_row(const struct yaml_node *node, const struct decode_row *row, void *field)
{
    bool scalar = node->kind == YAML_SCALAR;

    switch (row->type) {
    case DECODE_TEXT:
        if (scalar)
            *(const char **)field = node->text;
        return scalar;
    case DECODE_INT:
        return decode_int(node, row->key, field, NULL) == PLM_OK;
    case DECODE_REAL:
        return scalar && !node->quoted && units_parse_real(node->text, field);
    case DECODE_BOOL:
        return decode_bool(node, row->key, field, NULL) == PLM_OK;
    case DECODE_BYTES:
        return scalar && units_parse_bytes(node->text, field);
    case DECODE_SCALAR:
    case DECODE_SEQUENCE:
    case DECODE_MAPPING:
    case DECODE_ANY:
        if ((row->type == DECODE_SCALAR && !scalar) ||
            (row->type == DECODE_SEQUENCE && node->kind != YAML_SEQUENCE) ||
            (row->type == DECODE_MAPPING && node->kind != YAML_MAPPING))
            return false;
        *(const struct yaml_node **)field = node;
        return true;
    }
    return false;
}

static const struct decode_row *find_row(const struct decode_row *rows,
                                         size_t count,
                                         const char *key)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(rows[i].key, key) == 0)
            return &rows[i];
    return NULL;
}

static bool is_extra(const struct decode_extra *extra, const char *key)
{
    for (size_t i = 0; extra && i < extra->key_count; i++)
        if (strcmp(extra->keys[i], key) == 0)
            return true;
    return false;
}

static enum plm_status fail_key(const struct yaml_node *key,
                                const char *what,
                                const struct decode_row *rows,
                                size_t row_count,
                                const struct decode_extra *extra,
                                struct plm_error *reterr)
{
    const char *names[NAMES_MAX];
    char kind[128];
    size_t count = 0;

    for (size_t i = 0; extra && i < extra->key_count && count < NAMES_MAX; i++)
        names[count++] = extra->keys[i];
    for (size_t i = 0; i < row_count && count < NAMES_MAX; i++)
        names[count++] = rows[i].key;
    snprintf(kind, sizeof kind, "%s%sunknown key", what ? what : "", what ? ": " : "");
    return decode_fail_unknown(key->at, kind, key->text, names, count, reterr);
}

enum plm_status decode_mapping(const struct yaml_node *node,
                               const char *what,
                               const struct decode_row *rows,
                               size_t row_count,
                               const struct decode_extra *extra,
                               void *into,
                               struct plm_error *reterr)
{
    if (node->kind != YAML_MAPPING)
        return fail_type(node, what ? what : "this", DECODE_MAPPING, reterr);
    for (size_t i = 0; i < node->item_count; i++) {
        const char *key = node->keys[i]->text;
        const struct decode_row *row = find_row(rows, row_count, key);

        if (!row && is_extra(extra, key))
            continue;
        if (!row)
            return fail_key(node->keys[i], what, rows, row_count, extra, reterr);
        if (!yaml_is_null(node->items[i]) &&
            !decode_row(node->items[i], row, (char *)into + row->offset))
            return fail_type(node->items[i], key, row->type, reterr);
    }
    for (size_t i = 0; i < row_count; i++) {
        const struct yaml_node *value = rows[i].required ? yaml_get(node, rows[i].key) : NULL;

        if (rows[i].required && (!value || yaml_is_null(value)))
            return plm_fail_at(reterr, PLM_E_SYNTAX, node->at, "%s%s'%s' is missing: %s",
                               what ? what : "", what ? ": " : "", rows[i].key, rows[i].help);
    }
    return PLM_OK;
}
