/*
 * model/load_attr.c - operators' attributes: from a model file's text, and from expressions' values
 *
 * What is constant is converted and checked when the file is loaded, the rest when a graph is built, both by
 * attr_convert().
 */
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "model/internal.h"
#include "yaml/decode.h"

enum { CHOICES_MAX = 32, ELEMENTS_LOG2 = 60 };

_Static_assert((int)DTYPE_COUNT <= (int)CHOICES_MAX, "dtypes are choices too");

/*
 * The least value of integers, where a smaller one has no meaning. Rows for one operator come before
 * rows for any (OP_COUNT).
 */
static const struct {
    enum op_kind op;
    enum attr_key key;
    int64_t least;
} least_values[] = {
    { OP_VIEW, KEY_SHAPE, -1 },      { OP_RESHAPE, KEY_SHAPE, -1 },
    { OP_EXPAND, KEY_SHAPE, -1 },    { OP_PARAMETER, KEY_SHAPE, 1 },
    { OP_COUNT, KEY_SHAPE, 0 },      { OP_LAYER_NORM, KEY_DIMS, 1 },
    { OP_RMS_NORM, KEY_DIMS, 1 },    { OP_COUNT, KEY_FEATURES, 1 },
    { OP_COUNT, KEY_NUM, 1 },        { OP_COUNT, KEY_CHANNELS, 1 },
    { OP_COUNT, KEY_KERNEL, 1 },     { OP_COUNT, KEY_STRIDE, 1 },
    { OP_COUNT, KEY_DILATION, 1 },   { OP_COUNT, KEY_GROUPS, 1 },
    { OP_COUNT, KEY_CHUNKS, 1 },     { OP_COUNT, KEY_STEP, 1 },
    { OP_COUNT, KEY_PADDING, 0 },    { OP_COUNT, KEY_OUTPUT_PADDING, 0 },
    { OP_INTERPOLATE, KEY_SIZE, 1 }, { OP_INTERPOLATE, KEY_SCALE, 1 },
    { OP_COUNT, KEY_SIZE, 0 },       { OP_COUNT, KEY_OUTPUT, 1 },
    { OP_COUNT, KEY_REPEATS, 0 },
};

static int64_t least_value(const struct attr_def *def)
{
    for (size_t i = 0; i < sizeof least_values / sizeof least_values[0]; i++)
        if (least_values[i].key == def->key &&
            (least_values[i].op == def->op || least_values[i].op == OP_COUNT))
            return least_values[i].least;
    return INT64_MIN;
}

static const char *const type_names[] = {
    [ATTR_INT] = "an integer",  [ATTR_REAL] = "a number", [ATTR_BOOL] = "true or false",
    [ATTR_INTS] = "an integer", [ATTR_WORD] = "a word",   [ATTR_DTYPE] = "a dtype",
    [ATTR_NAME] = "a name",
};

/* split_choices() - "none|tanh" as an array; returns how many */
static size_t split_choices(const char *choices, char text[64], const char *ret[CHOICES_MAX])
{
    size_t count = 0;

    snprintf(text, 64, "%s", choices);
    for (char *s = text; s && *s && count < CHOICES_MAX;) {
        char *bar = strchr(s, '|');

        if (bar)
            *bar++ = '\0';
        ret[count++] = s;
        s = bar;
    }
    return count;
}

/* find_word() - WORD: the index among the choices; DTYPE: the type; -1 when there is none */
static int find_word(const struct attr_def *def, const char *word)
{
    char text[64];
    const char *names[CHOICES_MAX];

    if (def->type == ATTR_DTYPE) {
        enum dtype dtype = opdef_find_dtype(word);

        return dtype < DTYPE_COUNT ? (int)dtype : -1;
    }
    size_t count = split_choices(def->choices, text, names);

    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], word) == 0)
            return (int)i;
    return -1;
}

static enum plm_status fail_word(const struct attr_def *def,
                                 const char *word,
                                 struct source at,
                                 struct plm_error *reterr)
{
    char text[64], what[64];
    const char *names[CHOICES_MAX];
    size_t count;

    if (def->type == ATTR_DTYPE) {
        for (count = 0; count < DTYPE_COUNT; count++)
            names[count] = dtype_defs[count].name;
    } else {
        count = split_choices(def->choices, text, names);
    }
    snprintf(what, sizeof what, "'%s' cannot be", key_names[def->key]);
    return decode_fail_unknown(at, what, word, names, count, reterr);
}

static enum plm_status convert_int(const struct attr_def *def,
                                   const struct names *names,
                                   struct value value,
                                   struct source at,
                                   int64_t *ret,
                                   struct plm_error *reterr)
{
    char text[96];
    int64_t least = least_value(def);

    if (value.kind != VALUE_INT)
        return plm_fail_at(reterr, PLM_E_MODEL, at, "'%s' must be %s, not %s", key_names[def->key],
                           type_names[def->type], value_describe(names, value, text));
    if (value.as.i < least)
        return plm_fail_at(reterr, PLM_E_RANGE, at, "'%s' must be at least %lld, but is %lld",
                           key_names[def->key], (long long)least, (long long)value.as.i);
    *ret = value.as.i;
    return PLM_OK;
}

/* check_elements() - a shape whose number of elements fits, with room for bytes */
static enum plm_status check_elements(const struct attr_def *def,
                                      const int64_t *items,
                                      size_t count,
                                      struct source at,
                                      struct plm_error *reterr)
{
    int64_t product = 1;

    for (size_t i = 0; i < count && def->key == KEY_SHAPE; i++)
        if (items[i] > 0 &&
            (!num_mul(product, items[i], &product) || product > INT64_C(1) << ELEMENTS_LOG2))
            return plm_fail_at(reterr, PLM_E_RANGE, at, "'%s' has more than 2^%d elements",
                               key_names[def->key], ELEMENTS_LOG2);
    return PLM_OK;
}

static enum plm_status convert_ints(const struct attr_def *def,
                                    const struct names *names,
                                    const struct value *values,
                                    size_t count,
                                    struct source at,
                                    struct arena *arena,
                                    struct attr *attr,
                                    struct plm_error *reterr)
{
    int64_t *items = arena_array(arena, int64_t, count);

    for (size_t i = 0; i < count; i++) {
        enum plm_status status = convert_int(def, names, values[i], at, &items[i], reterr);

        if (status)
            return status;
    }
    attr->count = (uint32_t)count;
    attr->value.items = items;
    return check_elements(def, items, count, at, reterr);
}

static enum plm_status convert_real(const struct attr_def *def,
                                    const struct names *names,
                                    struct value value,
                                    struct source at,
                                    double *ret,
                                    struct plm_error *reterr)
{
    char text[96];
    bool share = def->key == KEY_P || def->key == KEY_LABEL_SMOOTHING;

    if (value.kind != VALUE_INT && value.kind != VALUE_REAL)
        return plm_fail_at(reterr, PLM_E_MODEL, at, "'%s' must be a number, not %s",
                           key_names[def->key], value_describe(names, value, text));
    double real = value.kind == VALUE_INT ? (double)value.as.i : value.as.real;

    if (share && (real < 0 || real > 1))
        return plm_fail_at(reterr, PLM_E_RANGE, at, "'%s' must be from 0 to 1, but is %g",
                           key_names[def->key], real);
    *ret = real;
    return PLM_OK;
}

enum plm_status attr_convert(const struct attr_def *def,
                             const struct names *names,
                             const struct value *values,
                             size_t value_count,
                             struct source at,
                             struct arena *arena,
                             struct attr *ret_attr,
                             struct plm_error *reterr)
{
    char text[96];

    *ret_attr = (struct attr){ .key = (uint16_t)def->key, .type = (uint16_t)def->type };
    switch (def->type) {
    case ATTR_INTS:
        return convert_ints(def, names, values, value_count, at, arena, ret_attr, reterr);
    case ATTR_INT:
        return convert_int(def, names, values[0], at, &ret_attr->value.i, reterr);
    case ATTR_REAL:
        return convert_real(def, names, values[0], at, &ret_attr->value.real, reterr);
    case ATTR_BOOL:
        ret_attr->value.i = values[0].as.i;
        if (values[0].kind == VALUE_BOOL)
            return PLM_OK;
        break;
    case ATTR_WORD:
    case ATTR_DTYPE:
        if (values[0].kind != VALUE_WORD)
            break;
        ret_attr->value.i = find_word(def, names_text(names, values[0].as.word));
        if (ret_attr->value.i >= 0)
            return PLM_OK;
        return fail_word(def, names_text(names, values[0].as.word), at, reterr);
    case ATTR_NAME:
        ret_attr->value.i = values[0].as.word;
        if (values[0].kind == VALUE_WORD)
            return PLM_OK;
        break;
    }
    return plm_fail_at(reterr, PLM_E_MODEL, at, "'%s' must be %s, not %s", key_names[def->key],
                       type_names[def->type], value_describe(names, values[0], text));
}

/* load_items() - one expression, or a list of them for ATTR_INTS */
static enum plm_status load_items(struct loader *load,
                                  const struct load_scope *scope,
                                  const struct yaml_node *yaml,
                                  struct model_attr *attr)
{
    const char *key = key_names[attr->def->key];
    bool list = attr->def->type == ATTR_INTS && yaml->kind == YAML_SEQUENCE;
    size_t count = list ? yaml->item_count : 1;
    const struct expr **items = arena_array(load->arena, const struct expr *, count);
    struct value *values = arena_array(load->scratch, struct value, count);
    unsigned uses = 0;
    enum plm_status status = PLM_OK;

    for (size_t i = 0; i < count && !status; i++) {
        status = load_expr(load, scope, list ? yaml->items[i] : yaml, key, &items[i]);
        if (status)
            break;
        uses |= items[i]->uses;
        values[i] = items[i]->value;
    }
    if (!status && uses == 0)
        status = attr_convert(attr->def, &load->model->names, values, count, yaml->at, load->arena,
                              &attr->value, load->reterr);
    attr->items = items;
    attr->item_count = uses ? (uint32_t)count : 0;
    return status;
}

/* load_word_attr() - a word of the attribute's own, or an expression that is one ("dtype: wide if exact else narrow") */
static enum plm_status load_word_attr(struct loader *load,
                                      const struct load_scope *scope,
                                      const struct yaml_node *yaml,
                                      struct model_attr *attr)
{
    char text[64];
    const char *choices[CHOICES_MAX];
    name_id *words = arena_array(load->scratch, name_id, CHOICES_MAX + load->word_count);
    struct load_scope own = { scope->locals, scope->local_count, words, 0, false };
    int word = yaml->kind == YAML_SCALAR ? find_word(attr->def, yaml->text) : -1;

    if (word >= 0) {
        attr->value = (struct attr){ .key = (uint16_t)attr->def->key,
                                     .type = (uint16_t)attr->def->type,
                                     .value.i = word };
        return PLM_OK;
    }
    if (attr->def->type == ATTR_DTYPE) {
        for (; own.word_count < DTYPE_COUNT; own.word_count++)
            choices[own.word_count] = dtype_defs[own.word_count].name;
    } else {
        own.word_count = split_choices(attr->def->choices, text, choices);
    }
    for (size_t i = 0; i < own.word_count; i++)
        words[i] = names_add(&load->model->names, choices[i], strlen(choices[i]));
    for (size_t i = 0; i < load->word_count; i++)
        words[own.word_count++] = load->words[i];
    struct plm_error *reterr = load->reterr;

    load->reterr = NULL; /* a single word gets the better message below */
    enum plm_status status = load_items(load, &own, yaml, attr);

    load->reterr = reterr;
    if (!status)
        return status;
    if (yaml->kind == YAML_SCALAR &&
        strspn(yaml->text, "abcdefghijklmnopqrstuvwxyz"
                           "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == strlen(yaml->text))
        return fail_word(attr->def, yaml->text, yaml->at, load->reterr);
    return load_items(load, &own, yaml, attr);
}

static enum plm_status load_attr(struct loader *load,
                                 const struct load_scope *scope,
                                 const struct yaml_node *yaml,
                                 struct model_attr *attr)
{
    struct value name = { .kind = VALUE_WORD };
    enum plm_status status;

    attr->at = yaml->at;
    switch (attr->def->type) {
    case ATTR_INT:
    case ATTR_REAL:
    case ATTR_BOOL:
    case ATTR_INTS:
        return load_items(load, scope, yaml, attr);
    case ATTR_WORD:
    case ATTR_DTYPE:
        return load_word_attr(load, scope, yaml, attr);
    case ATTR_NAME:
        status = load_name(load, yaml, key_names[attr->def->key], NAME_VALUE, &name.as.word);
        return status ? status
                      : attr_convert(attr->def, &load->model->names, &name, 1, yaml->at,
                                     load->arena, &attr->value, load->reterr);
    }
    return PLM_E_MODEL;
}

/* load_fallback() - a default of attrs.def is read as if it stood in the file where the node is */
static enum plm_status load_fallback(struct loader *load,
                                     const struct yaml_node *node,
                                     struct model_attr *attr)
{
    static const struct load_scope scope = { 0 };
    struct yaml_node text = {
        .kind = YAML_SCALAR, .at = node->at, .text = attr->def->fallback, .node_count = 1
    };

    return load_attr(load, &scope, &text, attr);
}

enum plm_status load_attrs(struct loader *load,
                           const struct load_scope *scope,
                           const struct yaml_node *yaml,
                           struct model_node *node)
{
    size_t def_count;
    const struct attr_def *defs = opdef_attrs(node->op, &def_count);
    struct model_attr *attrs = arena_array(load->arena, struct model_attr, def_count);
    struct attr *fixed = arena_array(load->arena, struct attr, def_count);
    uint32_t count = 0;

    for (size_t i = 0; i < def_count; i++) {
        const struct yaml_node *value = yaml_get(yaml, key_names[defs[i].key]);
        struct model_attr *attr = &attrs[count];
        enum plm_status status;

        if (value && yaml_is_null(value))
            value = NULL;
        if (!value && !defs[i].fallback)
            continue;
        attr->def = &defs[i];
        attr->value = (struct attr){ .key = (uint16_t)defs[i].key, .type = (uint16_t)defs[i].type };
        if (!value && defs[i].fallback == attr_required)
            status = plm_fail_at(load->reterr, PLM_E_MODEL, yaml->at, "'%s' is missing: %s",
                                 key_names[defs[i].key], defs[i].help);
        else if (!value)
            status = load_fallback(load, yaml, attr);
        else
            status = load_attr(load, scope, value, attr);
        if (status)
            return status;
        for (uint32_t item = 0; item < attr->item_count; item++)
            node->attr_uses |= attr->items[item]->uses;
        fixed[count++] = attr->value;
    }
    node->attrs = attrs;
    node->fixed = fixed;
    node->attr_count = count;
    return PLM_OK;
}

bool attr_owns_parameters(enum op_kind op, const struct attr *attrs, size_t attr_count)
{
    bool optional = false, given = false; /* norms have parameters only when they are asked for */

    for (size_t i = 0; i < attr_count; i++)
        if (attrs[i].key == KEY_AFFINE || attrs[i].key == KEY_TRACK_RUNNING_STATS) {
            optional = true;
            given |= attrs[i].value.i != 0;
        }
    return op_defs[op].owns > 0 && (given || !optional);
}
