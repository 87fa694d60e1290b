/* model/cut.c - spells out the calls between main and the blocks */
#include "model/cut.h"

/* struct inlined - a body that is spelled out, and where its slots begin in the row */
struct inlined {
    const struct graph_body *body;
    uint32_t offset;
};

struct cutter {
    struct arena *arena;
    struct graph_step *steps;
    size_t step_count, step_capacity;
    uint32_t *blocks;
    size_t block_count, block_capacity;
    struct inlined *inlined; /* [inlined_count] main first */
    size_t inlined_count, inlined_capacity;
    uint32_t slot_count;
    size_t model_begin, model_end;
    bool in_scope; /* some blocks are in a scope */
};

static bool is_block(const struct graph_step *step)
{
    return step->kind == STEP_CALL && (step->place || step->wrap);
}

/* leads_to_blocks() - are there blocks in the steps of this call? What is in a block does not count */
static bool leads_to_blocks(const struct graph_step *step)
{
    if (!step->body || is_block(step))
        return false;
    for (size_t i = 0; i < step->body->step_count; i++)
        if (is_block(&step->body->steps[i]) || leads_to_blocks(&step->body->steps[i]))
            return true;
    return false;
}

static uint32_t *copy_slots(struct arena *arena, const uint32_t *slots, uint32_t count, uint32_t by)
{
    uint32_t *copy = arena_array(arena, uint32_t, count);

    for (uint32_t i = 0; i < count; i++)
        copy[i] = slots[i] == GRAPH_NO_SLOT ? GRAPH_NO_SLOT : slots[i] + by;
    return copy;
}

struct graph_step cut_moved(struct arena *arena, const struct graph_step *step, uint32_t by)
{
    struct graph_step moved = *step;

    moved.in = copy_slots(arena, step->in, step->in_count, by);
    moved.out = copy_slots(arena, step->out, step->out_count, by);
    moved.drop = copy_slots(arena, step->drop, step->drop_count, by);
    if (step->kind == STEP_SCOPE) {
        struct graph_body *body = arena_new(arena, struct graph_body);
        struct graph_step *steps = arena_array(arena, struct graph_step, step->body->step_count);

        *body = *step->body;
        for (size_t i = 0; i < body->step_count; i++)
            steps[i] = cut_moved(arena, &step->body->steps[i], by);
        body->steps = steps;
        moved.body = body;
    }
    return moved;
}

struct graph_step cut_alias(struct arena *arena, uint32_t from, uint32_t to)
{
    uint32_t *slots = arena_array(arena, uint32_t, 2);

    slots[0] = from;
    slots[1] = to;
    return (struct graph_step){
        .kind = STEP_OP,
        .op = OP_ALIAS,
        .when = STEP_WHEN_GRAD | STEP_WHEN_NO_GRAD,
        .in_count = 1,
        .out_count = 1,
        .in = slots,
        .out = slots + 1,
        .node = CUT_NO_NODE,
    };
}

struct graph_step cut_drop(struct arena *arena, uint32_t first, uint32_t count)
{
    uint32_t *drop = arena_array(arena, uint32_t, count);

    for (uint32_t i = 0; i < count; i++)
        drop[i] = first + i;
    return (struct graph_step){
        .kind = STEP_DROP,
        .when = STEP_WHEN_GRAD | STEP_WHEN_NO_GRAD,
        .drop_count = count,
        .drop = drop,
        .node = CUT_NO_NODE,
    };
}

static void push(struct cutter *c, struct graph_step step)
{
    arena_push(c->arena, c->steps, c->step_count, c->step_capacity, step);
}

static void spell_out(struct cutter *c, const struct graph_body *body, uint32_t offset);

/* enter_and_leave() - a call, spelled out: arguments get their names inside, results theirs outside */
static void enter_and_leave(struct cutter *c, const struct graph_step *call, uint32_t outside)
{
    const struct graph_body *inner = call->body;
    uint32_t inside = c->slot_count;

    for (uint32_t i = 0; i < call->in_count && i < inner->in_count; i++)
        if (call->in[i] != GRAPH_NO_SLOT)
            push(c, cut_alias(c->arena, call->in[i] + outside, i + inside));
    spell_out(c, inner, inside);
    for (uint32_t i = 0; i < call->out_count && i < inner->out_count; i++) {
        if (call->out[i] == GRAPH_NO_SLOT)
            continue;
        if (inner->out[i] == GRAPH_NO_SLOT)
            push(c, cut_drop(c->arena, call->out[i] + outside, 1));
        else
            push(c, cut_alias(c->arena, inner->out[i] + inside, call->out[i] + outside));
    }
    push(c, cut_drop(c->arena, inside, inner->slot_count));
    for (uint32_t i = 0; i < call->drop_count; i++)
        push(c, cut_drop(c->arena, call->drop[i] + outside, 1));
}

static void spell_out(struct cutter *c, const struct graph_body *body, uint32_t offset)
{
    struct inlined inlined = { body, offset };

    arena_push(c->arena, c->inlined, c->inlined_count, c->inlined_capacity, inlined);
    c->slot_count += body->slot_count;
    for (size_t i = 0; i < body->step_count; i++) {
        const struct graph_step *step = &body->steps[i];

        if (leads_to_blocks(step) && step->kind != STEP_SCOPE) {
            if (offset == 0 && c->model_end == 0)
                c->model_begin = c->step_count;
            enter_and_leave(c, step, offset);
            if (offset == 0) /* in main: the model */
                c->model_end = c->step_count;
            continue;
        }
        c->in_scope = c->in_scope || leads_to_blocks(step);
        if (is_block(step)) {
            uint32_t at = (uint32_t)c->step_count;

            arena_push(c->arena, c->blocks, c->block_count, c->block_capacity, at);
        }
        push(c, cut_moved(c->arena, step, offset));
    }
}

static enum plm_status check(const struct cutter *c, struct plm_error *reterr)
{
    if (c->in_scope)
        return plm_fail(reterr, PLM_E_USAGE,
                        "pp: the model's blocks are in a scope, which a pipeline cannot cut");
    if (c->block_count == 0)
        return plm_fail(reterr, PLM_E_USAGE,
                        "pp: the model marks no blocks (`wrap:` or `checkpoint:`) between which a "
                        "pipeline could cut it");
    return PLM_OK;
}

/* check_shared() - blocks of one path have the same parameters: each stage would have to have them */
static enum plm_status check_shared(const struct cutter *c,
                                    const struct names *names,
                                    struct plm_error *reterr)
{
    for (size_t i = 0; i < c->block_count; i++)
        for (size_t k = 0; k < i; k++)
            if (c->steps[c->blocks[i]].path == c->steps[c->blocks[k]].path)
                return plm_fail(reterr, PLM_E_USAGE,
                                "pp: blocks share the parameters of '%s', so that no cut between "
                                "them divides the model",
                                names_text(names, c->steps[c->blocks[i]].path));
    return PLM_OK;
}

enum plm_status cut_row(const struct graph *graph,
                        struct arena *arena,
                        struct cut_row *ret,
                        struct plm_error *reterr)
{
    struct cutter c = { .arena = arena };
    struct graph_body *body = arena_new(arena, struct graph_body);

    spell_out(&c, graph->main, 0);
    enum plm_status status = check(&c, reterr);

    if (status == PLM_OK)
        status = check_shared(&c, graph->names, reterr);
    if (status != PLM_OK)
        return status;
    name_id *names = arena_array(arena, name_id, c.slot_count);

    for (size_t i = 0; i < c.inlined_count; i++)
        for (uint32_t k = 0; k < c.inlined[i].body->slot_count; k++)
            names[c.inlined[i].offset + k] = c.inlined[i].body->slot_names[k];
    *body = *graph->main;
    body->slot_count = c.slot_count;
    body->slot_names = names;
    body->steps = c.steps;
    body->step_count = c.step_count;
    *ret = (struct cut_row){ body, c.blocks, (uint32_t)c.block_count, c.model_begin,
                             c.model_end ? c.model_end : c.step_count };
    return PLM_OK;
}
