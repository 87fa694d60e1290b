/*
 * train/pipeline_script.c - what the training script does with a step's whole batch, before the schedule divides it
 *
 * As in torchtitan, context_parallel is entered around schedule.step(): the batch of all micro-batches is shared out along the
 * sequence at once, and every stage is given its micro-batch of each tensor (torch.tensor_split; position ids as keyword arguments).
 */
#include <string.h>

#include "train/pipeline_cut.h"

/* is_read() - after the script, by a step on the row? */
static bool is_read(const struct slot_use *use, const struct cutting *c, uint32_t slot)
{
    return use[slot].in && cut_binder(c, slot, c->p->script_count) != SIZE_MAX;
}

void cut_script(struct cutting *c)
{
    struct pipeline *p = c->p;
    struct arena *arena = c->run->arena;
    const struct graph_body *row = c->row.body;
    uint32_t inputs = (uint32_t)c->run->graph->input_count;
    struct slot_use *use = arena_array(arena, struct slot_use, row->slot_count);

    p->script = row->steps;
    p->script_count = c->run->context && !c->run->hands_over ? c->row.model_begin : 0;
    p->whole_count = row->slot_count;
    p->whole = arena_array(arena, struct value, row->slot_count);
    p->given = arena_array(arena, uint32_t, row->slot_count);
    for (uint32_t i = 0; i < inputs; i++)
        p->given[p->given_count++] = i;
    cut_live_at(c, p->script_count, use);
    for (uint32_t slot = inputs; slot < row->slot_count; slot++)
        if (is_read(use, c, slot))
            p->given[p->given_count++] = slot;
}

void script_enter(struct pipeline *p)
{
    struct run *run = p->run;

    batch_make(run);
    for (size_t i = 0; i < run->graph->input_count; i++)
        value_set(&run->ghost, &p->whole[i], value_ref(run->batch[i]));
    execute_steps(run, p->script, p->script_count, p->whole);
    run->ghost.op = OP_COUNT;
    run->ghost.path = 0;
}

struct value script_part(struct pipeline *p, uint32_t i)
{
    struct value *whole = &p->whole[p->given[i]];
    struct tensor *all = whole->kind == VALUE_TENSOR ? whole->as.tensor : NULL;

    if (!all || all->dims == 0)
        return value_ref(*whole);
    int64_t sizes[TENSOR_DIMS];

    memcpy(sizes, all->sizes, sizeof sizes);
    sizes[0] /= p->run->batch_multiple;
    return value_tensor(tensor_view(all, all->dims, sizes, all->strides));
}

void script_leave(struct pipeline *p)
{
    context_exit(p->run);
    for (size_t i = 0; i < p->whole_count; i++)
        value_set(&p->run->ghost, &p->whole[i], (struct value){ 0 });
}
