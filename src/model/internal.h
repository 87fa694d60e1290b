/* model/internal.h - what the loader's and the builder's files share */
#ifndef PLM_MODEL_INTERNAL_H
#define PLM_MODEL_INTERNAL_H

#include "model/model.h"

enum { LOAD_LABEL = 128 }; /* room for "linear 'transformer.h.0.attn.c_attn'" */

/* struct loader - one model file on its way to a struct model */
struct loader {
    struct model *model;
    struct arena *arena;
    struct arena *scratch;
    name_id *words; /* [word_count], of all options: they stand for themselves */
    size_t word_count, word_capacity;
    struct model_block *blocks;           /* [block_count], in the file's order; main last */
    const struct yaml_node **block_nodes; /* [block_count] */
    size_t block_count;
    bool *marks; /* [global_count], for expr_mark_globals() */
    struct plm_error *reterr;
};

/* load_name.c: names, expressions and messages */

enum name_kind {
    NAME_VALUE, /* a value, dim, option or parameter: letters, digits and '_' */
    NAME_PATH,  /* a module's or block's: dots and '-' too */
    NAME_STARS, /* of modules: '*' for one part too */
};

PLM_MUST_CHECK enum plm_status load_name(struct loader *load,
                                         const struct yaml_node *node,
                                         const char *what,
                                         enum name_kind kind,
                                         name_id *ret_name);

/* struct load_scope - what an expression may use besides dims, options and the run's facts */
struct load_scope {
    const name_id *locals; /* [local_count] */
    size_t local_count;
    const name_id *words; /* [word_count]; the options' words when NULL */
    size_t word_count;
    bool grad; /* `grad_enabled` may be used */
};

PLM_MUST_CHECK enum plm_status load_expr(struct loader *load,
                                         const struct load_scope *scope,
                                         const struct yaml_node *node,
                                         const char *what,
                                         const struct expr **ret_expr);

/* load_prefix() - put "@label: " in front of the message of a failure; returns @status */
enum plm_status load_prefix(struct plm_error *reterr, enum plm_status status, const char *label);

/* load_dims.c */
PLM_MUST_CHECK enum plm_status load_dims(struct loader *load,
                                         const struct yaml_node *const *layers,
                                         size_t layer_count);
PLM_MUST_CHECK enum plm_status load_options(struct loader *load,
                                            const struct yaml_node *const *layers,
                                            size_t layer_count);
PLM_MUST_CHECK enum plm_status load_globals(struct loader *load);
PLM_MUST_CHECK enum plm_status load_dim_values(struct loader *load,
                                               const struct yaml_node *const *layers,
                                               size_t layer_count);
PLM_MUST_CHECK enum plm_status load_inputs(struct loader *load, const struct yaml_node *inputs);

/* load_block.c */
PLM_MUST_CHECK enum plm_status load_signature(struct loader *load,
                                              const struct yaml_node *node,
                                              struct model_block *block);
PLM_MUST_CHECK enum plm_status load_block(struct loader *load,
                                          const struct yaml_node *node,
                                          struct model_block *block);
PLM_MUST_CHECK enum plm_status load_check_recursion(struct loader *load);

/* load_config.c */
PLM_MUST_CHECK enum plm_status load_config(struct loader *load, const struct yaml_node *config);
/* load_hidden_size() - which dim that section, also of a model that is extended, takes for hidden_size */
void load_hidden_size(struct loader *load, const struct yaml_node *config);

/* struct block_loader - the block whose nodes are being read */
struct block_loader {
    struct loader *load;
    struct model_block *block;
    name_id *slot_names; /* [slot_count] */
    size_t slot_count, slot_capacity;
    bool *bound; /* [slot_count]: has a value, as far as can be known without numbers */
    size_t bound_count, bound_capacity;
    name_id *locals; /* [block->param_count + 1]: the last is the index of the node's repeat */
    unsigned depth;  /* of scopes */
};

/* load_node.c */
PLM_MUST_CHECK enum plm_status load_node(struct block_loader *b,
                                         const struct yaml_node *yaml,
                                         struct model_node *node);

/* load_nodes() - the nodes of a block or scope, in order (load_block.c) */
PLM_MUST_CHECK enum plm_status load_nodes(struct block_loader *b,
                                          const struct yaml_node *list,
                                          size_t *ret_count,
                                          const struct model_node **ret_nodes);

/* block_slot() - the slot of @name, new when @add, GRAPH_NO_SLOT when there is none */
uint32_t block_slot(struct block_loader *b, name_id name, bool add);

/* load_attr.c */
PLM_MUST_CHECK enum plm_status load_attrs(struct loader *load,
                                          const struct load_scope *scope,
                                          const struct yaml_node *yaml,
                                          struct model_node *node);

/*
 * attr_convert() - @values as the value of an attribute: kinds and ranges are checked
 *
 * Also writes the items of ATTR_INTS, to @arena. Messages name the attribute but not the node.
 */
PLM_MUST_CHECK enum plm_status attr_convert(const struct attr_def *def,
                                            const struct names *names,
                                            const struct value *values,
                                            size_t value_count,
                                            struct source at,
                                            struct arena *arena,
                                            struct attr *ret_attr,
                                            struct plm_error *reterr);

/* attr_owns_parameters() - does an operator with these attributes have parameters or buffers of its own? */
bool attr_owns_parameters(enum op_kind op, const struct attr *attrs, size_t attr_count);

#endif
