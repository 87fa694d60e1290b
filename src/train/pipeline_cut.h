/*
 * train/pipeline_cut.h - what the files that cut a model for a pipeline share
 *
 * A mute run of the whole row of steps (model/cut.h) leaves a fact for each result: what kind of value it was, and of a tensor
 * its type, sizes and whether it wants a gradient.
 */
#ifndef PLM_TRAIN_PIPELINE_CUT_H
#define PLM_TRAIN_PIPELINE_CUT_H

#include "model/cut.h"
#include "train/pipeline.h"

/* struct fact - what a step's result was in the mute run */
struct fact {
    enum value_kind kind;
    struct port port; /* of a tensor */
};

struct cutting {
    struct pipeline *p;
    struct run *run;
    struct cut_row row;
    uint32_t *blocks_of; /* [stage_count]: how many blocks each stage has */
    size_t *begins;      /* [stage_count + 1]: its first step in the row */
    struct fact *facts;  /* [row.body->slot_count * …]: by step, then result; see fact_of() */
    size_t *first_fact;  /* [step_count] */
    /* of the steps from row.model_end on: those that are run, and the slots that they read of the model or of the batch */
    bool *loss_takes; /* [step_count] */
    bool *loss_needs; /* [slot_count] */
    struct plm_error *reterr;
};

/* struct making - how a stage makes what it does not receive */
struct making {
    struct cutting *c;
    const struct ports *in;
    bool *take; /* [step_count]: steps that it runs itself */
    uint32_t *
        stands_in; /* [step_count]: instead of the step, from 1: the received tensor that has the same type and sizes */
};

/* cut_binder() - the last step before @before that binds @slot; SIZE_MAX: none, or it was dropped since */
size_t cut_binder(const struct cutting *c, uint32_t slot, size_t before);

/* cut_made() - is what @slot holds before step @before made on the row? If not, it is the script's, which every stage is given */
bool cut_made(const struct cutting *c, uint32_t slot, size_t before);

/* cut_live_at() - mark what the steps from @first on read before they bind it; use[slot_count of the row] */
void cut_live_at(const struct cutting *c, size_t first, struct slot_use *use);

/*
 * cut_make() - take the steps that give @slot the value that it has before step @before; false: it must be received
 *
 * The value needs no gradient. Where a step on the way is given an activation, only its type and sizes can matter: the tensor that
 * the stage received stands in for it.
 */
bool cut_make(struct making *m, uint32_t slot, size_t before);
void cut_making(struct cutting *c, const struct ports *in, struct making *ret);

/* cut_owns_weights() - are parameters in @step, or in what it calls? */
bool cut_owns_weights(const struct run *run, const struct graph_step *step);

/* cut_loss() - pipeline_loss.c: set row.model_end, loss_takes and loss_needs */
void cut_loss(struct cutting *c);

/* stage_build() - pipeline_build.c: the stage's module, and of the last stage the loss */
void stage_build(struct cutting *c, struct stage *stage);

/* cut_script() - pipeline_script.c: which steps are the script's, and what it gives to stages */
void cut_script(struct cutting *c);

/* stage_mark() - which parameters and buffers its steps use; here[param_count] */
void stage_mark(struct run *run, const struct stage *stage, bool *here);

/* stage_copies() - a weight that is tied to one of another rank is this rank's own, at the head's place: the last */
void stage_copies(struct pipeline *p);

#endif
