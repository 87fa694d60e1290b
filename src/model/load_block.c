/*
 * model/load_block.c - blocks: their signatures first, so that calls can be checked in any order
 *
 * A block's names are its slots; slot i < in_count is argument i. `bound` follows the nodes in order, so that
 * reading a name that no node before it made, or that was deleted, is found when the file is loaded.
 */
#include <stdio.h>
#include <string.h>

#include "model/internal.h"
#include "yaml/decode.h"

struct block_fields {
    const struct yaml_node *in, *params, *nodes, *out;
};

#define ROW(key, type, required, help)                                                             \
    {                                                                                              \
#key, DECODE_##type, required, offsetof(struct block_fields, key), help                    \
    }
static const struct decode_row block_rows[] = {
    ROW(in, ANY, false, "names of the arguments; one that ends in '?' may be absent"),
    ROW(params, MAPPING, false, "parameters and their defaults; calls give others by 'with'"),
    ROW(nodes, SEQUENCE, true, "what the block does, in order"),
    ROW(out, ANY, false, "what it returns: a name, a list of names or none"),
};
#undef ROW

static enum plm_status decode_block(struct loader *load,
                                    const struct yaml_node *node,
                                    struct block_fields *ret)
{
    *ret = (struct block_fields){ 0 };
    return decode_mapping(node, NULL, block_rows, sizeof block_rows / sizeof block_rows[0], NULL,
                          ret, load->reterr);
}

static bool is_none(const struct yaml_node *node)
{
    return node->kind == YAML_SCALAR && strcmp(node->text, "none") == 0;
}

uint32_t block_slot(struct block_loader *b, name_id name, bool add)
{
    for (size_t i = 0; i < b->slot_count; i++)
        if (b->slot_names[i] == name)
            return (uint32_t)i;
    if (!add)
        return GRAPH_NO_SLOT;
    arena_push(b->load->scratch, b->slot_names, b->slot_count, b->slot_capacity, name);
    arena_push(b->load->scratch, b->bound, b->bound_count, b->bound_capacity, false);
    return (uint32_t)b->slot_count - 1;
}

/* load_argument() - "x" or "mask?"; optional ones come last */
static enum plm_status load_argument(struct loader *load,
                                     const struct yaml_node *node,
                                     struct model_block *block,
                                     name_id *ret_name)
{
    struct yaml_node plain = *node;
    size_t length = node->kind == YAML_SCALAR ? strlen(node->text) : 0;
    bool optional = length > 1 && node->text[length - 1] == '?';

    if (optional)
        plain.text = arena_copy(load->scratch, node->text, length - 1);
    else if (block->required_count < block->in_count)
        return plm_fail_at(load->reterr, PLM_E_MODEL, node->at,
                           "an argument that must be given stands after one that need not");
    block->in_count++;
    block->required_count += !optional;
    return load_name(load, &plain, "an argument", NAME_VALUE, ret_name);
}

static enum plm_status load_params(struct loader *load,
                                   const struct yaml_node *params,
                                   struct model_block *block)
{
    size_t count = params ? params->item_count : 0;
    enum plm_status status = PLM_OK;

    if (count > MODEL_PARAMS_MAX)
        return plm_fail_at(load->reterr, PLM_E_RANGE, params->at, "more than %d parameters",
                           MODEL_PARAMS_MAX);
    struct model_param *list = arena_array(load->arena, struct model_param, count);
    name_id *locals = arena_array(load->scratch, name_id, count);

    for (size_t i = 0; i < count && !status; i++) {
        struct load_scope scope = { .locals = locals, .local_count = i };

        status = load_name(load, params->keys[i], "a parameter", NAME_VALUE, &list[i].name);
        locals[i] = list[i].name;
        if (!status && !yaml_is_null(params->items[i]))
            status =
                load_expr(load, &scope, params->items[i], params->keys[i]->text, &list[i].fallback);
    }
    block->params = list;
    block->param_count = count;
    return status;
}

enum plm_status load_signature(struct loader *load,
                               const struct yaml_node *node,
                               struct model_block *block)
{
    struct block_fields fields;
    enum plm_status status = decode_block(load, node, &fields);

    if (status)
        return status;
    bool list = fields.in && fields.in->kind == YAML_SEQUENCE;
    size_t count = list ? fields.in->item_count : (fields.in && !is_none(fields.in));
    name_id *names = arena_array(load->arena, name_id, count);

    block->at = node->at;
    block->slot_names = names;
    for (size_t i = 0; i < count && !status; i++) {
        const struct yaml_node *item = list ? fields.in->items[i] : fields.in;

        status = load_argument(load, item, block, &names[i]);
        for (size_t j = 0; j < i && !status; j++)
            if (names[j] == names[i])
                status = plm_fail_at(load->reterr, PLM_E_MODEL, item->at,
                                     "two arguments are called '%.60s'",
                                     names_text(&load->model->names, names[i]));
    }
    if (!status)
        status = load_params(load, fields.params, block);
    if (fields.out)
        block->out_count = fields.out->kind == YAML_SEQUENCE ? (uint32_t)fields.out->item_count
                                                             : !is_none(fields.out);
    return status;
}

enum plm_status load_nodes(struct block_loader *b,
                           const struct yaml_node *list,
                           size_t *ret_count,
                           const struct model_node **ret_nodes)
{
    if (list->item_count > MODEL_BLOCK_NODES_MAX)
        return plm_fail_at(b->load->reterr, PLM_E_RANGE, list->at, "more than %d nodes in a block",
                           MODEL_BLOCK_NODES_MAX);
    struct model_node *nodes = arena_array(b->load->arena, struct model_node, list->item_count);
    enum plm_status status = PLM_OK;

    for (size_t i = 0; i < list->item_count && !status; i++) {
        nodes[i].number = b->load->model->node_count++;
        status = load_node(b, list->items[i], &nodes[i]);
    }
    *ret_count = list->item_count;
    *ret_nodes = nodes;
    return status;
}

static enum plm_status load_out(struct block_loader *b, const struct yaml_node *out)
{
    uint32_t *slots = arena_array(b->load->arena, uint32_t, b->block->out_count);
    enum plm_status status = PLM_OK;

    for (uint32_t i = 0; i < b->block->out_count && !status; i++) {
        const struct yaml_node *item = out->kind == YAML_SEQUENCE ? out->items[i] : out;
        name_id name;

        slots[i] = GRAPH_NO_SLOT;
        if (is_none(item))
            continue;
        status = load_name(b->load, item, "what a block returns", NAME_VALUE, &name);
        if (status)
            break;
        slots[i] = block_slot(b, name, false);
        if (slots[i] == GRAPH_NO_SLOT || !b->bound[slots[i]])
            status =
                plm_fail_at(b->load->reterr, PLM_E_MODEL, item->at,
                            "the block returns '%.60s', which has no value at its end", item->text);
    }
    b->block->out = slots;
    return status;
}

enum plm_status load_block(struct loader *load,
                           const struct yaml_node *node,
                           struct model_block *block)
{
    struct block_fields fields;
    struct block_loader b = { .load = load, .block = block };
    enum plm_status status = decode_block(load, node, &fields);

    if (status)
        return status;
    b.locals = arena_array(load->scratch, name_id, block->param_count + 1);
    for (size_t i = 0; i < block->param_count; i++)
        b.locals[i] = block->params[i].name;
    for (uint32_t i = 0; i < block->in_count; i++)
        (void)block_slot(&b, block->slot_names[i], true);
    for (uint32_t i = 0; i < block->in_count; i++)
        b.bound[i] = true;
    status = load_nodes(&b, fields.nodes, &block->node_count, &block->nodes);
    if (!status)
        status = load_out(&b, fields.out);
    name_id *names = arena_array(load->arena, name_id, b.slot_count);

    if (b.slot_count > 0)
        memcpy(names, b.slot_names, b.slot_count * sizeof *names);
    block->slot_names = names;
    block->slot_count = (uint32_t)b.slot_count;
    return status;
}

/* struct walk - a depth-first walk along calls; blocks are numbered as in loader.blocks */
struct walk {
    struct loader *load;
    const struct model_block *stack[MODEL_CALL_DEPTH_MAX + 1];
    unsigned *heights; /* [block_count]: longest chain of calls below, plus 1; 0: not known */
    size_t depth;
};

static enum plm_status fail_recursion(const struct walk *w,
                                      const struct model_block *block,
                                      struct source at)
{
    char cycle[160];
    size_t length = 0, start = 0;
    const struct names *names = &w->load->model->names;

    while (w->stack[start] != block)
        start++;
    for (size_t i = start; i < w->depth && length < sizeof cycle; i++)
        length += (size_t)snprintf(cycle + length, sizeof cycle - length, "%s -> ",
                                   names_text(names, w->stack[i]->name));
    return plm_fail_at(w->load->reterr, PLM_E_MODEL, at, "blocks call themselves: %s%s", cycle,
                       names_text(names, block->name));
}

static enum plm_status walk_block(struct walk *w,
                                  const struct model_block *block,
                                  struct source at);

static enum plm_status walk_nodes(struct walk *w,
                                  const struct model_block *block,
                                  unsigned *ret_height)
{
    enum plm_status status = PLM_OK;

    for (size_t i = 0; i < block->node_count && !status; i++) {
        const struct model_node *node = &block->nodes[i];

        if (node->kind == STEP_SCOPE) {
            status = walk_nodes(w, node->block, ret_height);
        } else if (node->kind == STEP_CALL || node->kind == STEP_INLINE) {
            status = walk_block(w, node->block, node->at);
            unsigned height = w->heights[node->block - w->load->blocks];

            if (!status && height > *ret_height)
                *ret_height = height;
        }
    }
    return status;
}

static enum plm_status walk_block(struct walk *w, const struct model_block *block, struct source at)
{
    unsigned *known = &w->heights[block - w->load->blocks], height = 0;

    for (size_t i = 0; i < w->depth; i++)
        if (w->stack[i] == block)
            return fail_recursion(w, block, at);
    if (w->depth + (*known ? *known : 1) > MODEL_CALL_DEPTH_MAX)
        return plm_fail_at(w->load->reterr, PLM_E_RANGE, at, "more than %d calls inside each other",
                           MODEL_CALL_DEPTH_MAX);
    if (*known)
        return PLM_OK;
    w->stack[w->depth++] = block;
    enum plm_status status = walk_nodes(w, block, &height);

    w->depth--;
    *known = height + 1;
    return status;
}

enum plm_status load_check_recursion(struct loader *load)
{
    struct walk w = { .load = load };
    enum plm_status status = PLM_OK;

    w.heights = arena_array(load->scratch, unsigned, load->block_count);
    for (size_t i = 0; i < load->block_count && !status; i++)
        status = walk_block(&w, &load->blocks[i], load->blocks[i].at);
    return status;
}
