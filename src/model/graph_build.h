/* model/graph_build.h - a graph while it is built, between graph.c, graph_eval.c and graph_order.c */
#ifndef PLM_MODEL_GRAPH_BUILD_H
#define PLM_MODEL_GRAPH_BUILD_H

#include "model/internal.h"

enum { BOTH_MODES = STEP_WHEN_NO_GRAD | STEP_WHEN_GRAD, PATH_MAX_LENGTH = 480 };

struct builder {
    const struct model *model;
    struct arena *arena, *scratch;
    struct names *names;
    struct value *globals;      /* [model->global_count] */
    const struct attr **cached; /* [model->node_count]: attributes that do not depend on locals */
    unsigned char *owners; /* [owner_count], by name id: in which modes a path has parameters */
    size_t owner_count;
    name_id *numbers; /* [number_count]: the names "0", "1", … */
    size_t number_count;
    uint32_t node_count, place_count, repeat_count;
    bool recomputes_attention;
    uint32_t step_count, step_max;
    struct plm_error *reterr;
};

/* struct frame - one call of a block */
struct frame {
    const struct model_block *block;
    struct value *locals; /* [param_count + 1]; the last is the index of a repetition */
    unsigned char *bound; /* [slot_count], mask of modes */
    unsigned modes;       /* in which it may be called */
    name_id path;
    bool shared;
};

/* struct place - where in a frame: the nodes of its block, or of a scope inside */
struct place {
    unsigned modes; /* that are possible here */
    unsigned reach; /* in which of the frame's modes one gets here */
};

PLM_MUST_CHECK enum plm_status graph_eval(struct builder *b,
                                          const struct frame *f,
                                          const struct expr *expr,
                                          struct value *ret);

/* graph_eval_int() - from @least to @most; @what names it */
PLM_MUST_CHECK enum plm_status graph_eval_int(struct builder *b,
                                              const struct frame *f,
                                              const struct expr *expr,
                                              const char *what,
                                              int64_t least,
                                              int64_t most,
                                              int64_t *ret);

/* graph_eval_bool() - false where @expr is NULL */
PLM_MUST_CHECK enum plm_status graph_eval_bool(
    struct builder *b, const struct frame *f, const struct expr *expr, const char *what, bool *ret);

/* graph_eval_when() - in which of @place's modes the node runs */
PLM_MUST_CHECK enum plm_status graph_eval_when(struct builder *b,
                                               const struct frame *f,
                                               const struct model_node *node,
                                               const struct place *place,
                                               unsigned *ret_modes);

/* graph_eval_attrs() - [node->attr_count]; shared where they do not depend on the call */
PLM_MUST_CHECK enum plm_status graph_eval_attrs(struct builder *b,
                                                const struct frame *f,
                                                const struct model_node *node,
                                                const struct attr **ret);

/* graph_build_order() - the registration order, once all modules are known */
void graph_build_order(struct builder *b, struct graph *graph);

#endif
