/*
 * train/pipeline_build.c - a stage as a module of its own, and the parameters that it has
 *
 * The stage's body takes what it receives and the model's inputs, makes for itself what it neither receives nor finds in the
 * batch, runs its part of the row, and returns what is sent, or what main makes the loss of.
 */
#include <string.h>

#include "train/pipeline_cut.h"

/* ------------------------------------------------------------------ the stage as a module */

/* struct writing - a stage's body: received tensors and the model's inputs are its first slots, the row's slots follow */
struct writing {
    struct arena *arena;
    struct graph_step *steps;
    size_t count, capacity;
    uint32_t shift;
};

static void write_step(struct writing *w, struct graph_step step)
{
    arena_push(w->arena, w->steps, w->count, w->capacity, step);
}

static void write_moved(struct writing *w, const struct graph_step *step)
{
    write_step(w, cut_moved(w->arena, step, w->shift));
}

/* write_making() - what the stage makes for itself; what only that needed is dropped */
static void write_making(struct writing *w, struct cutting *c, const struct stage *s)
{
    size_t begin = c->begins[s->index];
    uint32_t slot_count = c->row.body->slot_count;
    struct slot_use *use = arena_array(w->arena, struct slot_use, slot_count);
    struct making m;

    cut_making(c, s->in, &m);
    cut_live_at(c, begin, use);
    for (uint32_t slot = 0; slot < slot_count; slot++) {
        bool received = false;

        for (size_t i = 0; i < s->in->count; i++)
            received = received || s->in->ports[i].slot == slot;
        if (use[slot].in && !received)
            cut_make(&m, slot, begin);
    }
    for (size_t i = 0; i < begin; i++) {
        const struct graph_step *step = &c->row.body->steps[i];

        if (m.stands_in[i])
            for (uint32_t k = 0; k < step->out_count; k++)
                if (step->out[k] != GRAPH_NO_SLOT)
                    write_step(w, cut_alias(w->arena, m.stands_in[i] - 1, step->out[k] + w->shift));
        if (m.take[i])
            write_moved(w, step);
    }
    for (uint32_t slot = (uint32_t)c->run->graph->input_count; slot < slot_count; slot++)
        if (!use[slot].in)
            write_step(w, cut_drop(w->arena, slot + w->shift, 1));
    for (size_t i = 0; i < s->in->count; i++)
        write_step(w, cut_alias(w->arena, (uint32_t)i, s->in->ports[i].slot + w->shift));
}

/* call_of() - a step that calls @body: its arguments are @in, its results the @first slot of the frame and those after it */
static struct graph_step call_of(struct arena *arena,
                                 enum step_kind kind,
                                 const struct graph_body *body,
                                 const uint32_t *in,
                                 uint32_t first)
{
    uint32_t *out = arena_array(arena, uint32_t, body->out_count);

    for (uint32_t i = 0; i < body->out_count; i++)
        out[i] = first + i;
    return (struct graph_step){
        .kind = kind,
        .when = STEP_WHEN_GRAD | STEP_WHEN_NO_GRAD,
        .in_count = body->in_count,
        .out_count = body->out_count,
        .in = in,
        .out = out,
        .body = body,
        .node = CUT_NO_NODE,
    };
}

/* body_of() - what was written, with @in_count arguments, as the body of a call */
static const struct graph_body *body_of(const struct writing *w,
                                        const struct graph_body *row,
                                        uint32_t in_count,
                                        const uint32_t *out,
                                        uint32_t out_count)
{
    struct graph_body *body = arena_new(w->arena, struct graph_body);

    *body = (struct graph_body){
        .name = row->name,
        .slot_count = row->slot_count + w->shift,
        .in_count = in_count,
        .out_count = out_count,
        .out = out,
        .step_count = w->count,
        .steps = w->steps,
    };
    return body;
}

/* results() - the slots that the stage hands out: what is sent, or what main uses of the model */
static uint32_t results(struct cutting *c, const struct stage *s, uint32_t *ret)
{
    const struct graph_body *row = c->row.body;
    uint32_t count = 0;

    if (s->out->count > 0) {
        for (size_t i = 0; i < s->out->count; i++)
            ret[count++] = s->out->ports[i].slot;
        return count;
    }
    for (uint32_t slot = 0; slot < row->slot_count; slot++)
        if (c->loss_needs[slot] && cut_made(c, slot, c->row.model_end))
            ret[count++] = slot;
    return count;
}

/* build_loss() - main after the model, which returned @count slots of the row */
static void build_loss(struct cutting *c, struct stage *s, const uint32_t *returned, uint32_t count)
{
    struct arena *arena = c->run->arena;
    const struct graph_body *row = c->row.body;
    uint32_t received = (uint32_t)s->in->count, inputs = c->p->given_count;
    const uint32_t *given = c->p->given;
    struct writing w = { .arena = arena, .shift = count + inputs };
    uint32_t *in = arena_array(arena, uint32_t, count + inputs);
    /* Megatron's schedule keeps what its loss function returns beside the loss */
    uint32_t results = c->run->strategy->parallel.megatron > 0 ? row->out_count : 1;
    uint32_t *out = arena_array(arena, uint32_t, results);

    for (uint32_t i = 0; i < inputs; i++) {
        in[count + i] = c->loss_needs[given[i]] ? received + i : GRAPH_NO_SLOT;
        if (c->loss_needs[given[i]])
            write_step(&w, cut_alias(arena, count + i, given[i] + w.shift));
    }
    for (uint32_t i = 0; i < count; i++) {
        in[i] = received + inputs + i;
        write_step(&w, cut_alias(arena, i, returned[i] + w.shift));
    }
    for (size_t i = c->row.model_end; i < row->step_count; i++)
        if (c->loss_takes[i])
            write_moved(&w, &row->steps[i]);
    for (uint32_t i = 0; i < results; i++)
        out[i] = row->out[i] == GRAPH_NO_SLOT ? GRAPH_NO_SLOT : row->out[i] + w.shift;
    s->loss = call_of(arena, STEP_INLINE, body_of(&w, row, count + inputs, out, results), in,
                      received + inputs + count);
}

/* find_arguments() - what the stage receives, and the model's inputs that its steps read: it is given no others */
static void find_arguments(struct writing *w,
                           const struct cutting *c,
                           uint32_t received,
                           uint32_t *ret)
{
    uint32_t slots = c->row.body->slot_count + w->shift, inputs = c->p->given_count;
    struct slot_use *use = arena_array(w->arena, struct slot_use, slots);

    slots_used(use, w->steps + inputs, w->count - inputs); /* without the aliases of the inputs */
    for (uint32_t i = 0; i < received; i++)
        ret[i] = i;
    for (uint32_t i = 0; i < inputs; i++)
        ret[received + i] = use[c->p->given[i] + w->shift].in ? received + i : GRAPH_NO_SLOT;
}

void stage_build(struct cutting *c, struct stage *s)
{
    struct arena *arena = c->run->arena;
    const struct graph_body *row = c->row.body;
    uint32_t received = (uint32_t)s->in->count, inputs = c->p->given_count;
    bool last = s->index + 1 == (int32_t)c->p->stage_count;
    size_t end = last ? c->row.model_end : c->begins[s->index + 1];
    struct writing w = { .arena = arena, .shift = received + inputs };
    uint32_t *in = arena_array(arena, uint32_t, received + inputs);
    uint32_t *returned = arena_array(arena, uint32_t, row->slot_count);
    uint32_t *out = arena_array(arena, uint32_t, row->slot_count);
    uint32_t count = results(c, s, returned);

    for (uint32_t i = 0; i < inputs; i++)
        write_step(&w, cut_alias(arena, received + i, c->p->given[i] + w.shift));
    if (s->index > 0)
        write_making(&w, c, s);
    for (size_t i = c->begins[s->index]; i < end; i++)
        write_moved(&w, &row->steps[i]);
    for (uint32_t i = 0; i < count; i++)
        out[i] = returned[i] + w.shift;
    find_arguments(&w, c, received, in);
    s->call = call_of(arena, STEP_CALL, body_of(&w, row, received + inputs, out, count), in,
                      received + inputs);
    if (last)
        build_loss(c, s, returned, count);
}

/* mark_here() - the parameters of these steps are on this rank */
static void mark_here(struct run *run, const struct graph_body *body, bool *here)
{
    for (size_t i = 0; i < body->step_count; i++) {
        const struct graph_step *step = &body->steps[i];

        for (unsigned k = 0; step->node < run->graph->node_count && k < OWNED_MOST; k++)
            if (step->kind == STEP_OP && run->owned[step->node][k])
                here[run->owned[step->node][k] - 1] = true;
        if (step->body)
            mark_here(run, step->body, here);
    }
}

void stage_mark(struct run *run, const struct stage *s, bool *here)
{
    mark_here(run, s->call.body, here);
    if (s->loss.body)
        mark_here(run, s->loss.body, here);
}

/* find_tied() - the operator here that ties parameter @number (from 1) of another, which is not here; NULL: its own is */
static const struct graph_step *find_tied(const struct run *run,
                                          const struct graph_body *body,
                                          uint32_t number,
                                          bool *ret_own)
{
    const struct graph_step *tied = NULL;

    for (size_t i = 0; i < body->step_count; i++) {
        const struct graph_step *step = &body->steps[i];
        bool uses = step->kind == STEP_OP && step->node < run->graph->node_count &&
                    run->owned[step->node][0] == number;

        if (uses && step->tie)
            tied = step;
        else if (uses)
            *ret_own = true;
        if (step->body) {
            const struct graph_step *inner = find_tied(run, step->body, number, ret_own);

            tied = inner ? inner : tied;
        }
    }
    return tied;
}

/* move_last() - parameter @number becomes the last to be registered, under @name */
static void move_last(struct run *run, uint32_t number, name_id name)
{
    struct param moved = run->params[number - 1];
    uint32_t count = (uint32_t)run->param_count;

    memmove(&run->params[number - 1], &run->params[number], (count - number) * sizeof *run->params);
    moved.name = name;
    run->params[count - 1] = moved;
    for (uint32_t node = 0; node < run->graph->node_count; node++)
        for (unsigned k = 0; k < OWNED_MOST; k++)
            if (run->owned[node][k] == number)
                run->owned[node][k] = count;
            else if (run->owned[node][k] > number)
                run->owned[node][k]--;
}

void stage_copies(struct pipeline *p)
{
    struct run *run = p->run;
    struct names *names = run->ghost.names;

    for (uint32_t number = (uint32_t)run->param_count; number >= 1; number--) {
        const struct graph_step *tied = NULL;
        bool own = false;

        if (run->params[number - 1].elsewhere)
            continue;
        for (int32_t i = 0; i < p->shape.local; i++) {
            const struct graph_body *bodies[] = { p->stages[i].call.body, p->stages[i].loss.body };

            for (int k = 0; k < 2 && bodies[k]; k++) {
                const struct graph_step *here = find_tied(run, bodies[k], number, &own);

                tied = here ? here : tied;
            }
        }
        if (tied && !own)
            move_last(run, number,
                      tied->op == OP_PARAMETER
                          ? tied->path
                          : names_join(names, tied->path, names_add(names, "weight", 6)));
    }
}

void stage_weights(struct pipeline *p, struct stage *s)
{
    struct run *run = p->run;

    s->weights = arena_array(run->arena, struct param *, run->param_count);
    for (size_t i = 0; i < run->param_count; i++)
        if (s->has[i] && tensor_requires_grad(run->params[i].tensor))
            s->weights[s->weight_count++] = &run->params[i];
}
