/* model/load_node.h - a node while it is loaded, between load_node.c and load_slots.c */
#ifndef PLM_MODEL_LOAD_NODE_H
#define PLM_MODEL_LOAD_NODE_H

#include <string.h>

#include "model/internal.h"

struct node_fields {
    const struct yaml_node *op, *call, *inlined, *scope, *del;
    const struct yaml_node *as, *in, *name, *with, *nodes, *repeat, *index, *start, *share;
    const struct yaml_node *checkpoint, *positional, *wrap, *when, *tie, *tensor_parallel,
        *expert_parallel;
};

struct node_loader {
    struct block_loader *block;
    struct loader *load;
    const struct yaml_node *yaml;
    struct node_fields fields;
    struct load_scope scope;
    struct model_node *node;
};

static inline bool load_is_word(const struct yaml_node *node, const char *word)
{
    return node->kind == YAML_SCALAR && strcmp(node->text, word) == 0;
}

/* load_list_item() - of a list, or the one thing that needs no brackets */
static inline const struct yaml_node *load_list_item(const struct yaml_node *node, size_t i)
{
    return node->kind == YAML_SCALAR ? node : node->items[i];
}

/* load_slots_in() - the inputs, and `none` for what is missing of @room; load_slots_as(), load_slots_del() - results and names dropped */
PLM_MUST_CHECK enum plm_status load_slots_in(struct node_loader *n, size_t room);
PLM_MUST_CHECK enum plm_status load_slots_as(struct node_loader *n);
PLM_MUST_CHECK enum plm_status load_slots_del(struct node_loader *n);

#endif
