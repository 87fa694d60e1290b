/*
 * model/cut.h - a graph as one row of steps, so that it can be cut between two blocks
 *
 * The blocks are the calls marked `wrap:` or `checkpoint:`, but for those inside another. The calls that lead from main to blocks
 * are replaced by their steps: arguments and results become names of the same values, locals are dropped where the call returns.
 */
#ifndef PLM_MODEL_CUT_H
#define PLM_MODEL_CUT_H

#include "base/arena.h"
#include "model/graph.h"

/* the node of steps that a cut adds: they belong to no operator of the model */
#define CUT_NO_NODE UINT32_MAX

struct cut_row {
    const struct graph_body *body; /* main, with the calls around the blocks spelled out */
    const uint32_t *blocks;        /* [block_count] steps of it, ascending */
    uint32_t block_count;
    size_t model_begin; /* the steps before are main's, before it calls the model */
    size_t model_end;   /* the steps from here on are main's, after the model has returned */
};

/* cut_row() - refuses a model without blocks, and one whose blocks share parameters */
PLM_MUST_CHECK enum plm_status cut_row(const struct graph *graph,
                                       struct arena *arena,
                                       struct cut_row *ret,
                                       struct plm_error *reterr);

/* cut_alias() - a step that gives slot @to the value of slot @from; cut_drop() one that drops @count slots from @first on */
struct graph_step cut_alias(struct arena *arena, uint32_t from, uint32_t to);
struct graph_step cut_drop(struct arena *arena, uint32_t first, uint32_t count);

/* cut_moved() - @step with @by added to all of its slots, those of a scope's steps too */
struct graph_step cut_moved(struct arena *arena, const struct graph_step *step, uint32_t by);

#endif
