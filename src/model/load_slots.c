/* model/load_slots.c - which names a node reads, binds and drops: `in:`, `as:` and `del:` as slots of its block */
#include <string.h>

#include "model/load_node.h"

/* list_count() - of a list, or one thing that needs no brackets; `none` alone is nothing */
static size_t list_count(const struct yaml_node *node)
{
    if (!node || load_is_word(node, "none"))
        return 0;
    return node->kind == YAML_SCALAR ? 1 : node->item_count;
}

static enum plm_status fail_unbound(struct node_loader *n, const struct yaml_node *item)
{
    const struct block_loader *b = n->block;
    const char **names = arena_array(n->load->scratch, const char *, b->slot_count);
    size_t count = 0;
    bool known = false;

    for (size_t i = 0; i < b->slot_count; i++) {
        const char *name = names_text(&n->load->model->names, b->slot_names[i]);

        known |= strcmp(name, item->text) == 0;
        if (b->bound[i])
            names[count++] = name;
    }
    const char *near = error_nearest(item->text, names, count);

    if (known)
        return plm_fail_at(n->load->reterr, PLM_E_MODEL, item->at,
                           "'%.60s' was deleted before this", item->text);
    return plm_fail_at(n->load->reterr, PLM_E_MODEL, item->at,
                       "nothing is called '%.60s' here%s%s%s", item->text,
                       near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* load_use() - the slot of a name that is read; `none` is GRAPH_NO_SLOT */
static enum plm_status load_use(struct node_loader *n, const struct yaml_node *item, uint32_t *ret)
{
    name_id name;

    *ret = GRAPH_NO_SLOT;
    if (load_is_word(item, "none"))
        return PLM_OK;
    enum plm_status status = load_name(n->load, item, "an input", NAME_VALUE, &name);

    if (status)
        return status;
    *ret = block_slot(n->block, name, false);
    return *ret != GRAPH_NO_SLOT && n->block->bound[*ret] ? PLM_OK : fail_unbound(n, item);
}

enum plm_status load_slots_in(struct node_loader *n, size_t room)
{
    const struct yaml_node *in = n->fields.in;
    struct model_node *node = n->node;
    size_t count = list_count(in);
    enum plm_status status = PLM_OK;
    bool record = node->kind == STEP_OP && node->op == OP_RECORD;

    if (in && (in->kind == YAML_MAPPING) != record && count > 0)
        return plm_fail_at(n->load->reterr, PLM_E_SYNTAX, in->at,
                           record ? "'in' must be a mapping from fields to values"
                                  : "'in' must be a name, a list of names or none, not a mapping");
    uint32_t *slots = arena_array(n->load->arena, uint32_t, count > room ? count : room);
    name_id *fields = record ? arena_array(n->load->arena, name_id, count) : NULL;

    for (size_t i = 0; i < count && !status; i++) {
        status = load_use(n, load_list_item(in, i), &slots[i]);
        if (record && !status)
            status = load_name(n->load, in->keys[i], "a field", NAME_VALUE, &fields[i]);
    }
    for (size_t i = count; i < room; i++)
        slots[i] = GRAPH_NO_SLOT;
    node->in = slots;
    node->in_names = fields;
    node->in_count = (uint32_t)count;
    return status;
}

enum plm_status load_slots_as(struct node_loader *n)
{
    const struct yaml_node *as = n->fields.as;
    size_t count = list_count(as);
    uint32_t *slots = arena_array(n->load->arena, uint32_t, count);
    enum plm_status status = PLM_OK;

    if (as && as->kind == YAML_MAPPING)
        return plm_fail_at(n->load->reterr, PLM_E_SYNTAX, as->at,
                           "'as' must be a name or a list of names, not a mapping");
    for (size_t i = 0; i < count && !status; i++) {
        const struct yaml_node *item = load_list_item(as, i);
        name_id name;

        slots[i] = GRAPH_NO_SLOT;
        if (load_is_word(item, "_"))
            continue;
        status = load_name(n->load, item, "a result", NAME_VALUE, &name);
        if (status)
            break;
        slots[i] = block_slot(n->block, name, true);
        for (size_t j = 0; j < i && !status; j++)
            if (slots[j] == slots[i])
                status = plm_fail_at(n->load->reterr, PLM_E_MODEL, item->at,
                                     "two results are called '%.60s'", item->text);
    }
    for (size_t i = 0; i < count && !status; i++)
        if (slots[i] != GRAPH_NO_SLOT)
            n->block->bound[slots[i]] = true;
    n->node->out = slots;
    n->node->out_count = (uint32_t)count;
    return status;
}

enum plm_status load_slots_del(struct node_loader *n)
{
    const struct yaml_node *del = n->fields.del;
    size_t count = list_count(del);
    uint32_t *slots = arena_array(n->load->arena, uint32_t, count);
    enum plm_status status = PLM_OK;

    if (del && del->kind == YAML_MAPPING)
        return plm_fail_at(n->load->reterr, PLM_E_SYNTAX, del->at,
                           "'del' must be a name or a list of names, not a mapping");
    for (size_t i = 0; i < count && !status; i++) {
        status = load_use(n, load_list_item(del, i), &slots[i]);
        /* under a condition the name may live on */
        if (!status && slots[i] != GRAPH_NO_SLOT && !n->fields.when)
            n->block->bound[slots[i]] = false;
    }
    n->node->drop = slots;
    n->node->drop_count = (uint32_t)count;
    return status;
}
