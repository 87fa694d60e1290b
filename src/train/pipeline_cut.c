/*
 * train/pipeline_cut.c - where a pipeline cuts the model, and what goes from stage to stage
 *
 * A mute run of the whole model shows what each name holds at a cut. What needs a gradient there is received from the stage
 * before. What does not (masks, position ids, rotary tables, an empty list) the stage makes for itself, from the batch and
 * from buffers, as a stage written by hand does; only when that would take another stage's parameters it is received too.
 */
#include <string.h>

#include "base/buf.h"
#include "base/units.h"
#include "ghost/autocast.h"
#include "train/pipeline_cut.h"

/* ------------------------------------------------------------------ which blocks */

static enum plm_status read_split(struct cutting *c)
{
    const char *text = c->run->strategy->parallel.pp_split;
    const char *next = text;
    uint32_t stages = c->p->stage_count, total = 0;

    for (uint32_t i = 0; i < stages; i++) {
        char digits[16];
        size_t length = strspn(next, "0123456789");
        int64_t count = 0;
        bool last = i + 1 == stages;

        if (length > 0 && length < sizeof digits) {
            memcpy(digits, next, length);
            digits[length] = '\0';
            if (!units_parse_int(digits, &count) || count > c->row.block_count)
                count = 0;
        }
        if (count == 0 || next[length] != (last ? '\0' : ','))
            return plm_fail(c->reterr, PLM_E_USAGE,
                            "pp-split: %u numbers of blocks, each at least 1, are written like "
                            "4,4,3,5, not '%s'",
                            stages, text);
        c->blocks_of[i] = (uint32_t)count;
        total += (uint32_t)count;
        next += length + !last;
    }
    if (total != c->row.block_count)
        return plm_fail(c->reterr, PLM_E_USAGE, "pp-split: %s makes %u blocks; the model has %u",
                        text, total, c->row.block_count);
    return PLM_OK;
}

/* share_blocks() - as evenly as possible, the earlier stages one more (torch.tensor_split) */
static enum plm_status share_blocks(struct cutting *c)
{
    uint32_t stages = c->p->stage_count, blocks = c->row.block_count, at = 0;
    enum plm_status status = PLM_OK;

    if (blocks < stages)
        return plm_fail(c->reterr, PLM_E_USAGE,
                        "pp: %u stages need as many blocks; the model has %u", stages, blocks);
    for (uint32_t i = 0; i < stages; i++)
        c->blocks_of[i] = blocks / stages + (i < blocks % stages);
    if (c->run->strategy->parallel.pp_split)
        status = read_split(c);
    else if (c->run->strategy->parallel.megatron > 0 && blocks % stages != 0)
        return plm_fail(c->reterr, PLM_E_USAGE,
                        "pp: Megatron shares out %u layers evenly, which %u stages do not; "
                        "--pp-split says how many each has",
                        blocks, stages);
    for (uint32_t i = 0; i < stages; i++) {
        c->begins[i] = i ? c->row.blocks[at] : 0;
        at += c->blocks_of[i];
    }
    c->begins[stages] = c->row.body->step_count;
    return status;
}

/* ------------------------------------------------------------------ the mute run */

static void observe_value(struct fact *fact, uint32_t slot, struct value v)
{
    const struct tensor *x = v.kind == VALUE_TENSOR ? v.as.tensor : NULL;

    *fact = (struct fact){ .kind = v.kind, .port.slot = slot };
    if (!x)
        return;
    fact->port.dtype = x->dtype;
    fact->port.dims = x->dims;
    memcpy(fact->port.sizes, x->sizes, sizeof x->sizes);
    memcpy(fact->port.strides, x->strides, sizeof x->strides);
    fact->port.grad = x->requires_grad;
}

/* results_of() - the slots that a step binds; a scope's too */
static size_t results_of(const struct graph_step *step, uint32_t *ret, size_t count)
{
    for (uint32_t i = 0; i < step->out_count; i++)
        if (step->out[i] != GRAPH_NO_SLOT)
            ret[count++] = step->out[i];
    if (step->kind == STEP_SCOPE)
        for (size_t i = 0; i < step->body->step_count; i++)
            count = results_of(&step->body->steps[i], ret, count);
    return count;
}

static size_t count_results(const struct graph_step *step)
{
    size_t count = step->out_count;

    for (size_t i = 0; step->kind == STEP_SCOPE && i < step->body->step_count; i++)
        count += count_results(&step->body->steps[i]);
    return count;
}

static void number_facts(struct cutting *c)
{
    const struct graph_body *body = c->row.body;
    size_t count = 0;

    c->first_fact = arena_array(c->run->arena, size_t, body->step_count + 1);
    for (size_t i = 0; i < body->step_count; i++) {
        c->first_fact[i] = count;
        count += count_results(&body->steps[i]);
    }
    c->first_fact[body->step_count] = count;
    c->facts = arena_array(c->run->arena, struct fact, count);
}

static void observe_steps(struct cutting *c, struct value *frame, uint32_t *slots)
{
    struct run *run = c->run;
    const struct graph_body *body = c->row.body;

    for (size_t i = 0; i < body->step_count && !run->ghost.halt; i++) {
        size_t count = results_of(&body->steps[i], slots, 0);

        execute_steps(run, &body->steps[i], 1, frame);
        for (size_t k = 0; k < count; k++)
            observe_value(&c->facts[c->first_fact[i] + k], slots[k], frame[slots[k]]);
    }
}

static enum plm_status observe(struct cutting *c)
{
    struct run *run = c->run;
    struct ghost *g = &run->ghost;
    struct schedule *schedule = g->schedule;
    uint32_t slot_count = c->row.body->slot_count;
    struct value *frame = arena_array(run->arena, struct value, slot_count);
    enum dtype dtype = loop_autocast_dtype(run);

    number_facts(c);
    uint32_t *slots = arena_array(run->arena, uint32_t, c->first_fact[c->row.body->step_count] + 1);

    g->schedule = NULL;
    params_borrow(run);
    batch_make(run);
    for (size_t i = 0; i < run->graph->input_count; i++)
        frame[i] = value_ref(run->batch[i]);
    g->grad_enabled = true;
    if (dtype != DTYPE_COUNT)
        autocast_enter(g, dtype);
    observe_steps(c, frame, slots);
    if (dtype != DTYPE_COUNT)
        autocast_leave(g);
    for (uint32_t i = 0; i < slot_count; i++)
        value_set(g, &frame[i], (struct value){ 0 });
    context_exit(run);
    batch_drop(run);
    params_return(run, schedule);
    if (!g->halt)
        return PLM_OK;
    if (c->reterr)
        *c->reterr = g->error;
    return g->status;
}

/* ------------------------------------------------------------------ what crosses a cut */

static bool runs_with_grad(const struct graph_step *step)
{
    return step->when & STEP_WHEN_GRAD;
}

size_t cut_binder(const struct cutting *c, uint32_t slot, size_t before)
{
    for (size_t i = before; i-- > 0;) {
        const struct graph_step *step = &c->row.body->steps[i];

        if (!runs_with_grad(step))
            continue;
        for (uint32_t k = 0; k < step->drop_count; k++)
            if (step->drop[k] == slot)
                return SIZE_MAX;
        for (size_t f = c->first_fact[i]; f < c->first_fact[i + 1]; f++)
            if (c->facts[f].kind != VALUE_NONE && c->facts[f].port.slot == slot)
                return i;
    }
    return SIZE_MAX;
}

bool cut_made(const struct cutting *c, uint32_t slot, size_t before)
{
    size_t at = cut_binder(c, slot, before);

    return at != SIZE_MAX && at >= c->p->script_count;
}

static const struct fact *fact_of(const struct cutting *c, size_t step, uint32_t slot)
{
    for (size_t f = c->first_fact[step]; f < c->first_fact[step + 1]; f++)
        if (c->facts[f].port.slot == slot)
            return &c->facts[f];
    return NULL;
}

void cut_live_at(const struct cutting *c, size_t first, struct slot_use *use)
{
    const struct graph_body *body = c->row.body;

    memset(use, 0, body->slot_count * sizeof *use);
    for (size_t i = first; i < body->step_count; i++)
        if (runs_with_grad(&body->steps[i]))
            slots_used(use, &body->steps[i], 1);
    for (uint32_t i = 0; i < body->out_count; i++)
        if (body->out[i] != GRAPH_NO_SLOT && !use[body->out[i]].bound)
            use[body->out[i]].in = true;
}

bool cut_owns_weights(const struct run *run, const struct graph_step *step)
{
    if (step->kind == STEP_OP && step->node < run->graph->node_count)
        for (unsigned k = 0; k < OWNED_MOST; k++) {
            uint32_t number = run->owned[step->node][k];

            if (number && !run->params[number - 1].buffer)
                return true;
        }
    for (size_t i = 0; step->body && i < step->body->step_count; i++)
        if (cut_owns_weights(run, &step->body->steps[i]))
            return true;
    return false;
}

/* computed_dtype() - of an activation that was @dtype in the mute run: fully_shard may cast parameters and inputs */
static enum dtype computed_dtype(const struct run *run, enum dtype dtype)
{
    if (!dtype_defs[dtype].floating)
        return dtype;
    switch (run->strategy->parallel.param_dtype) {
    case PLM_REDUCED_FP32:
        return DTYPE_FLOAT32;
    case PLM_REDUCED_BF16:
        return DTYPE_BFLOAT16;
    case PLM_REDUCED_FP16:
        return DTYPE_FLOAT16;
    case PLM_REDUCED_DEFAULT:
        break;
    }
    return dtype;
}

/* stand_in() - a received tensor of the same type and sizes, from 1; 0: none */
static uint32_t stand_in(const struct making *m, const struct port *port)
{
    enum dtype dtype = computed_dtype(m->c->run, port->dtype);

    for (size_t i = 0; i < m->in->count; i++) {
        const struct port *in = &m->in->ports[i];

        if (in->grad && in->dtype == dtype && in->dims == port->dims &&
            memcmp(in->sizes, port->sizes, port->dims * sizeof *port->sizes) == 0)
            return (uint32_t)i + 1;
    }
    return 0;
}

bool cut_make(struct making *m, uint32_t slot, size_t before)
{
    struct cutting *c = m->c;
    size_t at = cut_binder(c, slot, before);

    if (!cut_made(c, slot, before)) /* the batch, which every stage has */
        return at != SIZE_MAX || slot < c->run->graph->input_count;
    if (m->take[at] || m->stands_in[at])
        return true;
    const struct graph_step *step = &c->row.body->steps[at];
    const struct fact *fact = fact_of(c, at, slot);

    if (fact && fact->kind == VALUE_TENSOR && fact->port.grad) {
        m->stands_in[at] = stand_in(m, &fact->port);
        return m->stands_in[at] != 0;
    }
    if (step->place || step->wrap || cut_owns_weights(c->run, step))
        return false;
    struct slot_use *use = arena_array(c->run->arena, struct slot_use, c->row.body->slot_count);

    m->take[at] = true;
    slots_used(use, step, 1);
    for (uint32_t i = 0; i < c->row.body->slot_count; i++)
        if (use[i].in && !cut_make(m, i, at) && cut_binder(c, i, at) != SIZE_MAX)
            return false;
    return true;
}

void cut_making(struct cutting *c, const struct ports *in, struct making *ret)
{
    size_t steps = c->row.body->step_count;

    *ret = (struct making){ c, in, arena_array(c->run->arena, bool, steps),
                            arena_array(c->run->arena, uint32_t, steps) };
}

static enum plm_status find_ports(struct cutting *c, size_t cut, struct ports *ret)
{
    struct run *run = c->run;
    uint32_t slot_count = c->row.body->slot_count;
    struct slot_use *use = arena_array(run->arena, struct slot_use, slot_count);

    cut_live_at(c, cut, use);
    for (int pass = 0; pass < 2; pass++) /* gradients first: they may stand in for the others */
        for (uint32_t slot = 0; slot < slot_count; slot++) {
            bool made = use[slot].in && cut_made(c, slot, cut);
            size_t at = made ? cut_binder(c, slot, cut) : SIZE_MAX;
            const struct fact *fact = at == SIZE_MAX ? NULL : fact_of(c, at, slot);
            bool grad = fact && fact->kind == VALUE_TENSOR && fact->port.grad;
            struct making making;

            if (!fact || grad != (pass == 0))
                continue;
            cut_making(c, ret, &making);
            if (!grad && cut_make(&making, slot, cut))
                continue;
            if (fact->kind != VALUE_TENSOR)
                return plm_fail(c->reterr, PLM_E_USAGE,
                                "pp: '%s' is a list or a record of other stages' tensors where the "
                                "model would be cut, which is not modelled",
                                names_text(run->graph->names, c->row.body->slot_names[slot]));
            struct port port = fact->port;

            if (grad)
                port.dtype = computed_dtype(run, port.dtype);
            arena_push(run->arena, ret->ports, ret->count, ret->capacity, port);
        }
    if (ret->count == 0)
        return plm_fail(c->reterr, PLM_E_USAGE, "pp: nothing goes from one stage to the next");
    return PLM_OK;
}

/* describe() - "blocks 0-3 and the embedding" */
static void describe(struct cutting *c)
{
    struct pipeline *p = c->p;
    struct buf text = { .arena = c->run->arena };

    buf_text(&text, p->shape.local > 1 || c->blocks_of[p->rank] > 1 ? "blocks " : "block ");
    for (int32_t i = 0; i < p->shape.local; i++) {
        uint32_t first = 0, count = c->blocks_of[p->stages[i].index];

        for (int32_t k = 0; k < p->stages[i].index; k++)
            first += c->blocks_of[k];
        buf_printf(&text, "%s%u", i ? ", " : "", first);
        if (count > 1)
            buf_printf(&text, "-%u", first + count - 1);
    }
    if (p->rank == 0)
        buf_text(&text, " and what comes before");
    if (p->rank + 1 == p->shape.ranks)
        buf_text(&text, " and what comes after");
    buf_printf(&text, "; at most %d in flight", pipeline_in_flight(&p->actions));
    p->about = buf_string(&text);
}

/* mark_stages() - what each stage has, when the parameters have their last places */
static void mark_stages(struct pipeline *p)
{
    struct run *run = p->run;

    for (int32_t i = p->shape.local; i-- > 0;) {
        struct stage *s = &p->stages[i];

        s->has = arena_array(run->arena, bool, run->param_count);
        stage_mark(run, s, s->has);
        for (size_t k = 0; k < run->param_count; k++)
            if (s->has[k])
                run->params[k].stage = (uint32_t)i;
    }
}

enum plm_status pipeline_cut(struct pipeline *p, struct plm_error *reterr)
{
    struct run *run = p->run;
    struct cutting c = { .p = p, .run = run, .reterr = reterr };
    enum plm_status status = cut_row(run->graph, run->arena, &c.row, reterr);

    if (status != PLM_OK)
        return status;
    c.blocks_of = arena_array(run->arena, uint32_t, p->stage_count);
    c.begins = arena_array(run->arena, size_t, p->stage_count + 1);
    status = share_blocks(&c);
    if (status == PLM_OK)
        status = observe(&c);
    if (status == PLM_OK) {
        cut_script(&c);
        cut_loss(&c);
        c.begins[0] = p->script_count;
    }
    p->cuts = arena_array(run->arena, struct ports, p->stage_count + 1);
    for (uint32_t i = 1; status == PLM_OK && i < p->stage_count; i++)
        status = find_ports(&c, c.begins[i], &p->cuts[i]);
    if (status != PLM_OK)
        return status;
    bool *here = arena_array(run->arena, bool, run->param_count);

    p->stages = arena_array(run->arena, struct stage, (size_t)p->shape.local);
    for (int32_t i = 0; i < p->shape.local; i++) {
        struct stage *s = &p->stages[i];

        s->index = i * p->shape.ranks + p->rank;
        s->in = &p->cuts[s->index];
        s->out = &p->cuts[s->index + 1];
        stage_build(&c, s);
        stage_mark(run, s, here);
    }
    for (size_t i = 0; i < run->param_count; i++)
        run->params[i].elsewhere = !here[i];
    stage_copies(p);
    mark_stages(p);
    describe(&c);
    return PLM_OK;
}
