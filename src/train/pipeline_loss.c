/*
 * train/pipeline_loss.c - where the last stage's module ends, and which steps make the loss of what it returns
 *
 * A schedule calls a loss function on what the last stage has returned (schedules.py, _compute_loss). A model that makes its loss by
 * itself, as those of transformers do, is cut for that after its last operator with weights, the head. Of the rest only what the loss
 * comes from is run: `return_outputs=False` lets go of everything else.
 */
#include "train/pipeline_cut.h"

/* field_of() - the slot that a record was given for the field that @field reads; GRAPH_NO_SLOT: it has none */
static uint32_t field_of(const struct graph_step *record, const struct graph_step *field)
{
    name_id name = value_field(field);

    for (uint32_t i = 0; i < record->in_count; i++)
        if (record->in_names[i] == name)
            return record->in[i];
    return GRAPH_NO_SLOT;
}

/* record_of() - take the aliases that lead from @slot to the record that it names before step @before; SIZE_MAX: none is made here */
static size_t record_of(struct cutting *c, uint32_t slot, size_t before)
{
    const struct graph_step *steps = c->row.body->steps;

    for (;;) {
        size_t at = cut_binder(c, slot, before);

        if (at == SIZE_MAX || at < c->row.model_end || steps[at].kind != STEP_OP)
            return SIZE_MAX;
        if (steps[at].op == OP_RECORD) {
            c->loss_takes[at] = true;
            return at;
        }
        if (steps[at].op != OP_ALIAS)
            return SIZE_MAX;
        c->loss_takes[at] = true;
        slot = steps[at].in[0];
        before = at;
    }
}

/* need() - take the steps that give @slot the value that it has before step @before */
static void need(struct cutting *c, uint32_t slot, size_t before)
{
    const struct graph_step *steps = c->row.body->steps;
    size_t at = slot == GRAPH_NO_SLOT ? SIZE_MAX : cut_binder(c, slot, before);

    if (slot == GRAPH_NO_SLOT)
        return;
    if (at == SIZE_MAX || at < c->row.model_end) {
        c->loss_needs[slot] = true;
        return;
    }
    if (c->loss_takes[at])
        return;
    c->loss_takes[at] = true;
    if (steps[at].kind == STEP_OP && steps[at].op == OP_FIELD) {
        size_t record = record_of(c, steps[at].in[0], at);

        if (record != SIZE_MAX) {
            need(c, field_of(&steps[record], &steps[at]), record);
            return;
        }
    }
    struct slot_use *use = arena_array(c->run->arena, struct slot_use, c->row.body->slot_count);

    slots_used(use, &steps[at], 1);
    for (uint32_t i = 0; i < c->row.body->slot_count; i++)
        if (use[i].in)
            need(c, i, at);
}

static void take_all(struct cutting *c)
{
    const struct graph_body *row = c->row.body;
    struct slot_use *use = arena_array(c->run->arena, struct slot_use, row->slot_count);

    cut_live_at(c, c->row.model_end, use);
    for (uint32_t i = 0; i < row->slot_count; i++)
        c->loss_needs[i] = use[i].in;
    for (size_t i = c->row.model_end; i < row->step_count; i++)
        c->loss_takes[i] = true;
}

/* take_loss() - from model_end on; false when the loss is only handed on there, since the model has made it */
static bool take_loss(struct cutting *c)
{
    const struct graph_body *row = c->row.body;
    bool makes = false;

    c->loss_takes = arena_array(c->run->arena, bool, row->step_count);
    c->loss_needs = arena_array(c->run->arena, bool, row->slot_count);
    need(c, row->out[0], row->step_count);
    for (size_t i = c->row.model_end; i < row->step_count; i++) {
        const struct graph_step *step = &row->steps[i];

        makes = makes || (c->loss_takes[i] && !(step->kind == STEP_OP &&
                                                (step->op == OP_FIELD || step->op == OP_ALIAS)));
        c->loss_takes[i] = c->loss_takes[i] || step->kind == STEP_DROP;
    }
    return makes;
}

void cut_loss(struct cutting *c)
{
    const struct graph_body *row = c->row.body;
    bool makes = take_loss(c);

    if (c->run->strategy->parallel.megatron >
        0) { /* its schedule keeps what its loss function returns beside the loss */
        take_all(c);
        return;
    }
    if (makes)
        return;
    for (size_t i = c->row.model_end; i-- > 0;)
        if (cut_owns_weights(c->run, &row->steps[i])) {
            c->row.model_end = i + 1;
            break;
        }
    if (!take_loss(c))
        take_all(c);
}
