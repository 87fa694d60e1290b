/*
 * model/load_node.c - one node of a block
 *
 * Which keys a node may have depends on what it is; the table below says so, and the manual prints it.
 */
#include <stdio.h>
#include <string.h>

#include "model/load_node.h"
#include "yaml/decode.h"

enum { ON_OP = 1, ON_CALL = 2, ON_INLINE = 4, ON_SCOPE = 8, ON_DEL = 16 };
enum { ON_RUN = ON_OP | ON_CALL | ON_INLINE, ON_ALL = 31 };
enum { KEYS_MAX = 48, SCOPE_DEPTH_MAX = 16 };

static const struct node_key {
    unsigned on;
    struct decode_row row;
} node_keys[] = {
#define KEY(on, key, field, type, help)                                                            \
    { on, { key, DECODE_##type, false, offsetof(struct node_fields, field), help } },
#include "model/node_keys.def"
#undef KEY
};

enum { NODE_KEY_COUNT = sizeof node_keys / sizeof node_keys[0] };

/* find_kind() - what the node is, by the key that says so */
static enum plm_status find_kind(struct loader *load,
                                 const struct yaml_node *yaml,
                                 unsigned *ret_on)
{
    unsigned found = 0;
    const struct yaml_node *second = NULL;

    for (size_t i = 0; i < 4; i++) {
        const struct yaml_node *value = yaml_get(yaml, node_keys[i].row.key);

        if (value && found)
            second = value;
        if (value)
            found |= node_keys[i].on;
    }
    if (second)
        return plm_fail_at(load->reterr, PLM_E_SYNTAX, second->at,
                           "a node has one of 'op', 'call', 'inline' and 'scope', not two");
    if (!found && yaml_get(yaml, "del"))
        found = ON_DEL;
    if (!found)
        return plm_fail_at(load->reterr, PLM_E_SYNTAX, yaml->at,
                           yaml->kind == YAML_MAPPING
                               ? "a node needs one of 'op', 'call', 'inline', 'scope' and 'del'"
                               : "a node must be a mapping: {as: y, op: relu, in: x}");
    *ret_on = found;
    return PLM_OK;
}

static enum plm_status find_op(struct loader *load,
                               const struct yaml_node *value,
                               enum op_kind *ret_op)
{
    const char *names[OP_COUNT];

    *ret_op = opdef_find(value->kind == YAML_SCALAR ? value->text : "");
    if (*ret_op < OP_COUNT)
        return PLM_OK;
    for (size_t i = 0; i < OP_COUNT; i++)
        names[i] = op_defs[i].name;
    return decode_fail_unknown(value->at, "unknown operator", value->text, names, OP_COUNT,
                               load->reterr);
}

/* check_keys() - a key that other kinds of nodes have: better said than "unknown" */
static enum plm_status check_keys(const struct node_loader *n,
                                  unsigned on,
                                  const struct decode_extra *attrs)
{
    for (size_t i = 0; i < NODE_KEY_COUNT; i++) {
        const char *key = node_keys[i].row.key;
        bool attr = false;

        for (size_t j = 0; j < attrs->key_count; j++)
            attr |= strcmp(attrs->keys[j], key) == 0;
        if (!attr && !(node_keys[i].on & on) && yaml_get(n->yaml, key))
            return plm_fail_at(n->load->reterr, PLM_E_SYNTAX, yaml_get(n->yaml, key)->at,
                               "'%s' has no meaning for this kind of node (%s)", key,
                               node_keys[i].row.help);
    }
    return PLM_OK;
}

/* decode_node() - the fields of a node of kind @on; an attribute of the operator hides a key of the same name */
static enum plm_status decode_node(struct node_loader *n, unsigned on)
{
    struct decode_row rows[NODE_KEY_COUNT];
    const char *attrs[KEYS_MAX];
    struct decode_extra extra = { .keys = attrs };
    size_t row_count = 0, def_count = 0;
    const struct attr_def *defs = on == ON_OP ? opdef_attrs(n->node->op, &def_count) : NULL;

    for (size_t i = 0; i < def_count && i < KEYS_MAX; i++)
        attrs[extra.key_count++] = key_names[defs[i].key];
    for (size_t i = 0; i < NODE_KEY_COUNT; i++) {
        bool hidden = false;

        for (size_t j = 0; j < extra.key_count; j++)
            hidden |= strcmp(attrs[j], node_keys[i].row.key) == 0;
        if ((node_keys[i].on & on) && !hidden)
            rows[row_count++] = node_keys[i].row;
    }
    enum plm_status status = check_keys(n, on, &extra);

    return status ? status
                  : decode_mapping(n->yaml, NULL, rows, row_count, &extra, &n->fields,
                                   n->load->reterr);
}

static enum plm_status load_block_ref(struct node_loader *n, const struct yaml_node *value)
{
    struct loader *load = n->load;
    size_t count = load->block_count - 1; /* without main, the last */
    name_id name = names_find(&load->model->names, value->text, strlen(value->text));

    for (size_t i = 0; name && i < count; i++)
        if (load->blocks[i].name == name) {
            n->node->block = &load->blocks[i];
            return PLM_OK;
        }
    const char **names = arena_array(load->scratch, const char *, count);

    for (size_t i = 0; i < count; i++)
        names[i] = names_text(&load->model->names, load->blocks[i].name);
    return decode_fail_unknown(value->at, "unknown block", value->text, names, count, load->reterr);
}

static enum plm_status load_with(struct node_loader *n)
{
    const struct model_block *block = n->node->block;
    const struct yaml_node *with = n->fields.with;
    const struct expr **values =
        arena_array(n->load->arena, const struct expr *, block->param_count);
    const char *names[MODEL_PARAMS_MAX];
    enum plm_status status = PLM_OK;

    for (size_t i = 0; i < block->param_count; i++)
        names[i] = names_text(&n->load->model->names, block->params[i].name);
    for (size_t i = 0; with && i < with->item_count && !status; i++) {
        size_t param = 0;

        while (param < block->param_count && strcmp(names[param], with->keys[i]->text) != 0)
            param++;
        if (param == block->param_count)
            return decode_fail_unknown(with->keys[i]->at, "the block has no parameter",
                                       with->keys[i]->text, names, block->param_count,
                                       n->load->reterr);
        status = load_expr(n->load, &n->scope, with->items[i], names[param], &values[param]);
    }
    for (size_t i = 0; i < block->param_count && !status; i++)
        if (!values[i] && !block->params[i].fallback)
            status = plm_fail_at(n->load->reterr, PLM_E_MODEL, n->yaml->at,
                                 "the block needs '%.60s': give it by 'with'", names[i]);
    n->node->with = values;
    return status;
}

/* check_counts() - @takes from @least to @most values, any number when that is negative */
static enum plm_status check_counts(const struct node_loader *n,
                                    const char *takes,
                                    int least,
                                    int most)
{
    int given = (int)n->node->in_count;
    char number[32];

    if (given >= least && (most < 0 || given <= most))
        return PLM_OK;
    if (most < 0)
        snprintf(number, sizeof number, "at least %d", least);
    else if (least < most)
        snprintf(number, sizeof number, "%d to %d", least, most);
    else
        snprintf(number, sizeof number, "%d", least);
    return plm_fail_at(n->load->reterr, PLM_E_MODEL, n->fields.in ? n->fields.in->at : n->yaml->at,
                       "%s %s input%s, but %d %s given", takes, number,
                       strcmp(number, "1") == 0 ? "" : "s", given, given == 1 ? "is" : "are");
}

static enum plm_status load_positional(struct node_loader *n, const struct yaml_node *yaml)
{
    int64_t count = 0;
    enum plm_status status = decode_int(yaml, "positional", &count, n->load->reterr);

    if (!status && (count < 0 || (uint64_t)count > n->node->in_count))
        status = plm_fail_at(n->load->reterr, PLM_E_RANGE, yaml->at,
                             "positional: from 0 to %u, the number of inputs, was expected",
                             n->node->in_count);
    if (!status)
        n->node->positional_count = (uint32_t)count;
    return status;
}

static enum plm_status load_call(struct node_loader *n)
{
    struct model_node *node = n->node;
    const struct model_block *block = node->block;
    enum plm_status status = load_with(n);

    if (!status)
        status = load_slots_in(n, block->in_count);
    if (!status)
        status =
            check_counts(n, "the block takes", (int)block->required_count, (int)block->in_count);
    node->positional_count = node->in_count;
    if (!status && n->fields.positional)
        status = load_positional(n, n->fields.positional);
    node->in_count = block->in_count; /* those not given are none */
    if (!status)
        status = load_slots_as(n);
    if (!status && node->out_count != block->out_count && node->out_count > 0)
        status = plm_fail_at(n->load->reterr, PLM_E_MODEL, n->fields.as->at,
                             "the block returns %u value%s, but 'as' has %u name%s",
                             block->out_count, block->out_count == 1 ? "" : "s", node->out_count,
                             node->out_count == 1 ? "" : "s");
    return status;
}

static enum plm_status load_op(struct node_loader *n)
{
    struct model_node *node = n->node;
    const struct op_def *def = &op_defs[node->op];
    enum plm_status status = load_attrs(n->load, &n->scope, n->yaml, node);

    if (!status)
        status = load_slots_in(n, 0);
    if (!status)
        status = check_counts(n, "takes", def->least, def->most);
    for (int i = 0; i < def->least && !status; i++)
        if (node->in[i] == GRAPH_NO_SLOT)
            status = plm_fail_at(n->load->reterr, PLM_E_MODEL,
                                 load_list_item(n->fields.in, (size_t)i)->at,
                                 "input %d must be given: it cannot be none", i + 1);
    if (!status)
        status = load_slots_as(n);
    if (!status && def->outputs >= 0 && node->out_count > 0 && (int)node->out_count != def->outputs)
        status = plm_fail_at(n->load->reterr, PLM_E_MODEL, n->fields.as->at,
                             "makes %d value%s, but 'as' has %u name%s", def->outputs,
                             def->outputs == 1 ? "" : "s", node->out_count,
                             node->out_count == 1 ? "" : "s");
    bool owns = attr_owns_parameters(node->op, node->fixed, node->attr_count);

    if (!status && owns && !n->fields.name && node->attr_uses == 0)
        status = plm_fail_at(n->load->reterr, PLM_E_MODEL, n->yaml->at,
                             "'name' is missing: the operator has parameters");
    if (!status && n->fields.tie && def->owns == 0)
        status = plm_fail_at(n->load->reterr, PLM_E_MODEL, n->fields.tie->at,
                             "'tie' has no meaning: the operator has no parameters");
    return status;
}

static enum plm_status load_scope(struct node_loader *n)
{
    struct model_block *body = arena_new(n->load->arena, struct model_block);
    struct block_loader *b = n->block;

    if (!n->fields.nodes)
        return plm_fail_at(n->load->reterr, PLM_E_SYNTAX, n->yaml->at, "'nodes' is missing");
    if (b->depth == SCOPE_DEPTH_MAX)
        return plm_fail_at(n->load->reterr, PLM_E_RANGE, n->yaml->at,
                           "more than %d scopes inside each other", SCOPE_DEPTH_MAX);
    for (n->node->scope = 0; n->node->scope < SCOPE_COUNT; n->node->scope++)
        if (load_is_word(n->fields.scope, scope_names[n->node->scope]))
            break;
    if (n->node->scope == SCOPE_COUNT)
        return decode_fail_unknown(n->fields.scope->at, "unknown scope", n->fields.scope->text,
                                   scope_names, SCOPE_COUNT, n->load->reterr);
    *body = (struct model_block){ .name = b->block->name, .at = n->yaml->at };
    b->depth++;
    enum plm_status status = load_nodes(b, n->fields.nodes, &body->node_count, &body->nodes);

    b->depth--;
    n->node->block = body;
    return status;
}

static enum plm_status load_optional(struct node_loader *n,
                                     const struct yaml_node *value,
                                     const char *key,
                                     const struct expr **ret)
{
    return value ? load_expr(n->load, &n->scope, value, key, ret) : PLM_OK;
}

/* load_repetition() - repeat, index, start: the first and last are evaluated without the index */
static enum plm_status load_repetition(struct node_loader *n)
{
    const struct node_fields *f = &n->fields;
    const struct yaml_node *stray = f->index ? f->index : f->start;
    struct block_loader *b = n->block;

    b->locals[b->block->param_count] = 0;
    n->scope = (struct load_scope){ .locals = b->locals, .local_count = b->block->param_count + 1 };
    if (stray && !f->repeat)
        return plm_fail_at(n->load->reterr, PLM_E_SYNTAX, stray->at,
                           "'index' and 'start' need 'repeat'");
    enum plm_status status = load_optional(n, f->repeat, "repeat", &n->node->repeat);

    if (!status)
        status = load_optional(n, f->start, "start", &n->node->start);
    if (!status && f->index)
        status =
            load_name(n->load, f->index, "an index", NAME_VALUE, &b->locals[b->block->param_count]);
    return status;
}

static enum plm_status load_shard(struct node_loader *n,
                                  const struct yaml_node *yaml,
                                  enum shard *ret)
{
    if (load_is_word(yaml, "column") || load_is_word(yaml, "vocabulary"))
        *ret = SHARD_COLUMN; /* either way the first dimension of the weight */
    else if (load_is_word(yaml, "row"))
        *ret = SHARD_ROW;
    else if (load_is_word(yaml, "sequence"))
        *ret = SHARD_SEQUENCE;
    else
        return plm_fail_at(n->load->reterr, PLM_E_SYNTAX, yaml->at,
                           "tensor_parallel: column, row, vocabulary or sequence was expected, not "
                           "'%.40s'",
                           yaml->text);
    return PLM_OK;
}

/* load_common() - what does not depend on the kind of node */
static enum plm_status load_common(struct node_loader *n)
{
    const struct node_fields *f = &n->fields;
    struct model_node *node = n->node;
    enum plm_status status = load_repetition(n);

    if (!status)
        status = load_optional(n, f->checkpoint, "checkpoint", &node->checkpoint);
    if (!status)
        status = load_optional(n, f->wrap, "wrap", &node->wrap);
    n->scope.grad = true;
    if (!status)
        status = load_optional(n, f->when, "when", &node->when);
    n->scope.grad = false;
    if (!status && f->share)
        status = decode_bool(f->share, "share", &node->share, n->load->reterr);
    if (!status && f->tensor_parallel)
        status = load_shard(n, f->tensor_parallel, &node->shard);
    if (!status && f->expert_parallel)
        status =
            decode_bool(f->expert_parallel, "expert_parallel", &node->experts, n->load->reterr);
    if (!status && f->name)
        status = load_name(n->load, f->name, "'name'", NAME_PATH, &node->name);
    if (!status && f->tie)
        status = load_name(n->load, f->tie, "'tie'", NAME_PATH, &node->tie);
    return status;
}

static enum plm_status load_kind(struct node_loader *n, unsigned on)
{
    struct model_node *node = n->node;

    switch (on) {
    case ON_OP:
        node->kind = STEP_OP;
        return load_op(n);
    case ON_CALL:
        node->kind = STEP_CALL;
        return load_call(n);
    case ON_INLINE:
        node->kind = STEP_INLINE;
        return load_call(n);
    case ON_SCOPE:
        node->kind = STEP_SCOPE;
        return load_scope(n);
    }
    node->kind = STEP_DROP;
    return PLM_OK;
}

/* make_label() - "linear 'c_fc'", for messages */
static void make_label(const struct yaml_node *yaml, unsigned on, char label[LOAD_LABEL])
{
    const struct yaml_node *name = yaml_get(yaml, "name"), *what = NULL;

    for (size_t i = 0; i < 4 && !what; i++)
        if (node_keys[i].on == on)
            what = yaml_get(yaml, node_keys[i].row.key);
    if (!what || what->kind != YAML_SCALAR)
        label[0] = '\0';
    else if (name && name->kind == YAML_SCALAR)
        snprintf(label, LOAD_LABEL, "%.40s '%.60s'", what->text, name->text);
    else
        snprintf(label, LOAD_LABEL, "%.60s", what->text);
}

enum plm_status load_node(struct block_loader *b,
                          const struct yaml_node *yaml,
                          struct model_node *node)
{
    struct node_loader n = { .block = b, .load = b->load, .yaml = yaml, .node = node };
    char label[LOAD_LABEL];
    unsigned on = 0;
    enum plm_status status = find_kind(n.load, yaml, &on);

    node->at = yaml->at;
    if (!status && on == ON_OP)
        status = find_op(n.load, yaml_get(yaml, "op"), &node->op);
    else if (!status && (on & (ON_CALL | ON_INLINE)))
        status = load_block_ref(&n, yaml_get(yaml, on == ON_CALL ? "call" : "inline"));
    if (status)
        return status;
    status = decode_node(&n, on);
    if (!status)
        status = load_common(&n);
    if (!status)
        status = load_kind(&n, on);
    if (!status)
        status = load_slots_del(&n);
    make_label(yaml, on, label);
    /* a scope's own nodes have labelled themselves */
    return status && on != ON_SCOPE ? load_prefix(n.load->reterr, status, label) : status;
}
