/*
 * train/execute.c - walks a graph and runs its operators, holding what Python's frames would hold
 *
 * A body has a frame of slots, its local variables. call: holds its arguments until the call has returned (a module's
 * __call__ has them in its own frames); inline: hands them over, so that they live only as long as a name does.
 * Whatever happens, a frame's locals are dropped when its body ends, also when the run was halted: an exception
 * unwinds frames too, and the early stop of a recomputation is one.
 */
#include "ghost/autocast.h"
#include "train/wrapper.h"

static void set_place(struct ghost *g, const struct graph_step *step)
{
    g->op = step->kind == STEP_OP ? step->op : OP_COUNT;
    g->path = step->path;
    g->at = step->at;
}

static void push_input(struct run *run, size_t *count, struct tensor *x)
{
    arena_push(run->arena, run->inputs, *count, run->input_capacity, x);
}

/* push_item() - of a list that is spread out: a list may hold other values than tensors */
static void push_item(struct run *run, uint32_t input, size_t *count, struct value v)
{
    if (v.kind != VALUE_NONE && v.kind != VALUE_TENSOR)
        ghost_fail(&run->ghost, PLM_E_MODEL, "input %u must be a list of tensors", input + 1);
    push_input(run, count, v.kind == VALUE_TENSOR ? v.as.tensor : NULL);
}

/* gather() - the tensors of an operator's inputs; a list is spread out where any number is taken, [] is None */
static uint32_t gather(struct run *run, const struct graph_step *step, const struct value *frame)
{
    bool spread = op_defs[step->op].most < 0;
    size_t count = 0;

    for (uint32_t i = 0; i < step->in_count; i++) {
        struct value v = step->in[i] == GRAPH_NO_SLOT ? (struct value){ 0 } : frame[step->in[i]];

        switch (v.kind) {
        case VALUE_NONE:
            push_input(run, &count, NULL);
            break;
        case VALUE_TENSOR:
            push_input(run, &count, v.as.tensor);
            break;
        case VALUE_LIST:
            if (v.as.object->count == 0 && !spread)
                push_input(run, &count, NULL);
            else if (!spread)
                ghost_fail(&run->ghost, PLM_E_MODEL, "input %u must be a tensor, not a list",
                           i + 1);
            for (uint32_t k = 0; spread && k < v.as.object->count; k++)
                push_item(run, i, &count, v.as.object->items[k]);
            break;
        case VALUE_RECORD:
            ghost_fail(&run->ghost, PLM_E_MODEL, "input %u must be a tensor, not a record", i + 1);
            break;
        }
    }
    for (size_t i = 0; i < count && i < (size_t)op_defs[step->op].least; i++)
        if (!run->inputs[i])
            ghost_fail(&run->ghost, PLM_E_MODEL, "input %zu is none", i + 1);
    return (uint32_t)count;
}

/* bind() - give @value, taken over, to the step's @i-th name */
static void bind(struct ghost *g,
                 const struct graph_step *step,
                 uint32_t i,
                 struct value *frame,
                 struct value value)
{
    if (i < step->out_count && step->out[i] != GRAPH_NO_SLOT)
        value_set(g, &frame[step->out[i]], value);
    else
        value_drop(g, value);
}

static void run_value_operator(struct run *run, const struct graph_step *step, struct value *frame)
{
    struct ghost *g = &run->ghost;
    struct value few[8];
    struct value *in = few;

    if (step->in_count > 8)
        in = pool_alloc(&g->pool, step->in_count * sizeof *in);
    for (uint32_t i = 0; i < step->in_count; i++)
        in[i] = step->in[i] == GRAPH_NO_SLOT ? (struct value){ 0 } : frame[step->in[i]];
    bind(g, step, 0, frame, value_operators[step->op](g, step, in));
    if (step->in_count > 8)
        pool_free(&g->pool, in, step->in_count * sizeof *in);
}

/* pieces_of() - how many outputs come as one list; 0: each has a name */
static uint32_t pieces_of(const struct graph_step *step)
{
    for (uint32_t i = 0; i < step->attr_count; i++)
        if (step->attrs[i].key == KEY_PIECES && step->attrs[i].value.i > 0)
            return (uint32_t)step->attrs[i].value.i;
    return 0;
}

static void run_operator(struct run *run, const struct graph_step *step, struct value *frame)
{
    struct ghost *g = &run->ghost;

    run->owner.step = step;
    if (value_operators[step->op]) {
        run_value_operator(run, step, frame);
        return;
    }
    uint32_t in_count = gather(run, step, frame);

    uint32_t pieces = pieces_of(step), out_count = pieces > 0 ? pieces : step->out_count;

    while (run->output_capacity < out_count)
        run->outputs = arena_grow(run->arena, run->outputs, &run->output_capacity,
                                  sizeof *run->outputs, alignof(struct tensor *));
    for (uint32_t i = 0; i < out_count; i++)
        run->outputs[i] = NULL;
    if (g->halt)
        return;
    struct op_args args = {
        .op = step->op,
        .in_count = in_count,
        .attr_count = step->attr_count,
        .out_count = out_count,
        .in = run->inputs,
        .attrs = step->attrs,
        .owner = &run->owner.base,
        .shard = run->strategy->parallel.tp > 1 ? step->shard : SHARD_NONE,
        .ranks = run->strategy->parallel.tp,
        .sequence_parallel =
            run->strategy->parallel.tp > 1 && run->strategy->parallel.sequence_parallel,
        .ring = run->ring,
    };

    bool hooked = run->wrapper && run->wrapper->before_operator && run->owned[step->node][0];

    if (hooked)
        run->wrapper->before_operator(run, step, run->inputs, in_count);
    op_call(g, &args, run->outputs);
    if (hooked)
        run->wrapper->after_operator(run, step, run->outputs);
    if (pieces > 0)
        bind(g, step, 0, frame, value_list(g, run->outputs, pieces));
    for (uint32_t i = 0; pieces == 0 && i < step->out_count; i++)
        bind(g, step, i, frame, value_tensor(run->outputs[i]));
}

static struct value *frame_create(struct ghost *g, uint32_t slot_count)
{
    return slot_count ? pool_alloc(&g->pool, slot_count * sizeof(struct value)) : NULL;
}

static void frame_destroy(struct ghost *g, struct value *frame, uint32_t slot_count)
{
    for (uint32_t i = 0; i < slot_count; i++)
        value_drop(g, frame[i]);
    if (frame)
        pool_free(&g->pool, frame, slot_count * sizeof(struct value));
}

/* run_body() - a call: @args, taken over, become the first slots; ret[body->out_count], owned */
static void run_body(struct run *run,
                     const struct graph_body *body,
                     struct value *args,
                     uint32_t arg_count,
                     struct value *ret)
{
    struct ghost *g = &run->ghost;
    struct value *frame = frame_create(g, body->slot_count);

    for (uint32_t i = 0; i < arg_count; i++)
        if (i < body->in_count)
            frame[i] = args[i];
        else
            value_drop(g, args[i]);
    execute_steps(run, body->steps, body->step_count, frame);
    for (uint32_t i = 0; i < body->out_count; i++) {
        bool given = body->out[i] != GRAPH_NO_SLOT && !g->halt;

        ret[i] = given ? value_ref(frame[body->out[i]]) : (struct value){ 0 };
    }
    frame_destroy(g, frame, body->slot_count);
}

void execute_call(struct run *run, const struct graph_step *step, struct value *frame)
{
    struct ghost *g = &run->ghost;
    const struct graph_body *body = step->body;
    uint32_t in_count = step->in_count, out_count = body->out_count;
    bool holds = step->kind == STEP_CALL;
    size_t size = (2 * in_count + out_count) * sizeof(struct value);
    struct value *args = size ? pool_alloc(&g->pool, size) : NULL;
    struct value *held = args + in_count, *ret = held + in_count;

    for (uint32_t i = 0; i < in_count; i++) {
        if (step->in[i] != GRAPH_NO_SLOT)
            args[i] = value_ref(frame[step->in[i]]);
        if (holds)
            held[i] = value_ref(args[i]);
    }
    struct wrapped_call call = { step, step == run->model_call, args, held, ret };
    bool wraps = run->wrapper && holds && !g->halt &&
                 (step->wrap || call.root || run->wrapper->every_module);

    if (wraps && run->wrapper->before_forward)
        run->wrapper->before_forward(run, &call);
    run_body(run, body, args, in_count, ret);
    if (wraps && run->wrapper->after_forward && !g->halt)
        run->wrapper->after_forward(run, &call);
    if (step == run->model_call)
        forget_outputs(run); /* the hook of the reference loop: names are bound again */
    for (uint32_t i = 0; holds && i < in_count; i++)
        value_drop(g, held[i]);
    for (uint32_t i = 0; i < out_count; i++)
        if (g->halt)
            value_drop(g, ret[i]);
        else
            bind(g, step, i, frame, ret[i]);
    if (args)
        pool_free(&g->pool, args, size);
}

static void run_scope(struct run *run, const struct graph_step *step, struct value *frame)
{
    struct ghost *g = &run->ghost;
    bool grad_enabled = g->grad_enabled, autocast = g->autocast.enabled;

    switch (step->scope) {
    case SCOPE_NO_GRAD:
        g->grad_enabled = false;
        break;
    case SCOPE_ENABLE_GRAD:
        g->grad_enabled = true;
        break;
    case SCOPE_AUTOCAST_OFF:
        g->autocast.enabled = false;
        break;
    case SCOPE_COUNT:
        break;
    }
    execute_steps(run, step->body->steps, step->body->step_count, frame);
    g->grad_enabled = grad_enabled;
    g->autocast.enabled = autocast;
}

static void run_step(struct run *run, const struct graph_step *step, struct value *frame)
{
    struct ghost *g = &run->ghost;

    set_place(g, step);
    switch (step->kind) {
    case STEP_OP:
        run_operator(run, step, frame);
        break;
    case STEP_CALL:
    case STEP_INLINE:
        execute_call(run, step, frame);
        break;
    case STEP_SCOPE:
        run_scope(run, step, frame);
        break;
    case STEP_DROP:
        break;
    }
    for (uint32_t i = 0; i < step->drop_count; i++)
        value_set(g, &frame[step->drop[i]], (struct value){ 0 });
}

/* step_runs() - is its condition, if it has one, met now? */
static bool step_runs(const struct ghost *g, const struct graph_step *step)
{
    return step->when & (g->grad_enabled ? STEP_WHEN_GRAD : STEP_WHEN_NO_GRAD);
}

void execute_region(struct run *run, const struct region *region, struct value *frame)
{
    for (uint32_t i = 0; i < region->step_count && !run->ghost.halt; i++)
        if (step_runs(&run->ghost, &region->steps[i]))
            run_step(run, &region->steps[i], frame);
}

void execute_steps(struct run *run,
                   const struct graph_step *steps,
                   size_t count,
                   struct value *frame)
{
    struct ghost *g = &run->ghost;

    for (size_t i = 0; i < count && !g->halt; i++) {
        const struct graph_step *step = &steps[i];
        bool cuts = step->place && run->regions && g->grad_enabled;

        if (cuts && run->regions[step->place]) {
            region_run(run, run->regions[step->place], frame);
            i += run->regions[step->place]->step_count - 1;
        } else if (step_runs(g, step)) {
            run_step(run, step, frame);
        }
    }
}

void execute_main(struct run *run, struct value *ret)
{
    struct ghost *g = &run->ghost;
    const struct graph_body *body = run->graph->main;
    uint32_t count = (uint32_t)run->graph->input_count;
    struct value *args = count ? pool_alloc(&g->pool, count * sizeof *args) : NULL;

    for (uint32_t i = 0; i < count; i++) {
        args[i] = value_ref(run->batch[i]);
        if (run->hands_over)
            value_set(&run->ghost, &run->batch[i], (struct value){ 0 });
    }
    run_body(run, body, args, count, ret);
    if (args)
        pool_free(&g->pool, args, count * sizeof *args);
}
