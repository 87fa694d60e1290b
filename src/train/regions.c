/*
 * train/regions.c - where activation checkpointing cuts: from the strategy's words to regions of steps
 *
 * full: every marked place alone; every=N: places N, 2N, …; blocks=…: those listed, counted from 0; group=N: N
 * consecutive steps of one `repeat:` together; sqrt: groups of about the square root of the repeat's length. A group
 * never leaves its repeat, since what stands between two repeats need not be a block.
 */
#include <string.h>

#include "base/units.h"
#include "train/pipeline.h"

/* struct cutter - one walk over the graph */
struct cutter {
    struct run *run;
    enum plm_checkpoint how;
    int64_t size; /* N of every=N and group=N */
    bool *listed; /* [place_count + 1], of blocks=… */
    int64_t
        first; /* of Megatron's block method: layers of this stage that are still to be cut; -1: no such method */
    uint32_t slot_count; /* of the frame around the steps that are looked at */
    uint32_t
        uneven; /* of Megatron's uniform method: how many layers its chunks do not divide; 0: none */
};

/* ------------------------------------------------------------------ which slots go in and out */

static void use_read(struct slot_use *use, uint32_t slot)
{
    if (slot != GRAPH_NO_SLOT && !use[slot].bound)
        use[slot].in = true;
}

void slots_used(struct slot_use *use, const struct graph_step *steps, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct graph_step *step = &steps[i];

        for (uint32_t k = 0; k < step->in_count; k++)
            use_read(use, step->in[k]);
        if (step->kind == STEP_SCOPE)
            slots_used(use, step->body->steps, step->body->step_count);
        for (uint32_t k = 0; k < step->out_count; k++) {
            if (step->out[k] == GRAPH_NO_SLOT)
                continue;
            if (step->when != (STEP_WHEN_GRAD | STEP_WHEN_NO_GRAD))
                use_read(use, step->out[k]); /* it may keep what it was */
            use[step->out[k]].bound = true;
            use[step->out[k]].dropped = false;
        }
        for (uint32_t k = 0; k < step->drop_count; k++)
            use[step->drop[k]].dropped = true;
    }
}

/* by_keyword() - do all steps that take the slot take it so? */
static bool by_keyword(const struct region *region, uint32_t slot)
{
    for (uint32_t i = 0; i < region->step_count; i++)
        for (uint32_t k = 0; k < region->steps[i].in_count; k++)
            if (region->steps[i].in[k] == slot &&
                (region->steps[i].kind != STEP_CALL || k < region->steps[i].positional_count))
                return false;
    return true;
}

static void set_slots(struct arena *arena, struct region *region, const struct slot_use *use)
{
    uint32_t *in = arena_array(arena, uint32_t, region->slot_count);
    uint32_t *out = arena_array(arena, uint32_t, region->slot_count);
    bool *keyword = arena_array(arena, bool, region->slot_count);

    for (uint32_t slot = 0; slot < region->slot_count; slot++) {
        if (use[slot].in) {
            keyword[region->in_count] = by_keyword(region, slot);
            in[region->in_count++] = slot;
        }
        if (use[slot].bound && !use[slot].dropped)
            out[region->out_count++] = slot;
    }
    region->in = in;
    region->keyword = keyword;
    region->out = out;
}

static void cut(struct cutter *c, const struct graph_step *steps, uint32_t count)
{
    struct arena *arena = c->run->arena;
    struct region *region = arena_new(arena, struct region);
    struct slot_use *use = arena_array(arena, struct slot_use, c->slot_count);

    region->steps = steps;
    region->step_count = count;
    region->slot_count = c->slot_count;
    slots_used(use, steps, count);
    set_slots(arena, region, use);
    c->run->regions[steps->place] = region;
}

/* ------------------------------------------------------------------ where to cut */

/* root() - the whole number nearest to the square root */
static uint32_t root(uint32_t n)
{
    uint32_t r = 1;

    while (r * (r + 1) < n) /* (r + 1/2)^2 = r (r + 1) + 1/4 */
        r++;
    return r;
}

/* run_length() - consecutive places that belong to one repeat */
static uint32_t run_length(const struct graph_step *steps, size_t count)
{
    uint32_t length = 1;

    while (length < count && steps->repeat && steps[length].place &&
           steps[length].repeat == steps->repeat)
        length++;
    return length;
}

/* cut_run() - @length consecutive places, the first at @steps */
static void cut_run(struct cutter *c, const struct graph_step *steps, uint32_t length)
{
    uint32_t size = 1;

    for (uint32_t i = 0; i < length && c->first > 0; i++, c->first--)
        cut(c, &steps[i], 1);
    if (c->first >= 0)
        return;
    switch (c->how) {
    case PLM_CHECKPOINT_NONE:
    case PLM_CHECKPOINT_AUTO:
        return;
    case PLM_CHECKPOINT_FULL:
        break;
    case PLM_CHECKPOINT_EVERY:
        for (uint32_t i = 0; i < length; i++)
            if (steps[i].place % c->size == 0)
                cut(c, &steps[i], 1);
        return;
    case PLM_CHECKPOINT_BLOCKS:
        for (uint32_t i = 0; i < length; i++)
            if (c->listed[steps[i].place])
                cut(c, &steps[i], 1);
        return;
    case PLM_CHECKPOINT_GROUP:
        size = c->size < length ? (uint32_t)c->size : length;
        if (c->run->strategy->parallel.recompute == PLM_RECOMPUTE_FULL && length % c->size != 0)
            c->uneven = length;
        break;
    case PLM_CHECKPOINT_SQRT:
        size = root(length);
        break;
    }
    for (uint32_t i = 0; i < length; i += size)
        cut(c, &steps[i], size < length - i ? size : length - i);
}

static void cut_body(struct cutter *c, const struct graph_body *body, uint32_t slot_count)
{
    for (size_t i = 0; i < body->step_count; i++) {
        const struct graph_step *step = &body->steps[i];

        if (step->body)
            cut_body(c, step->body, step->kind == STEP_SCOPE ? slot_count : step->body->slot_count);
    }
    c->slot_count = slot_count;
    for (size_t i = 0; i < body->step_count;) {
        uint32_t length = 1;

        if (body->steps[i].place) {
            length = run_length(&body->steps[i], body->step_count - i);
            cut_run(c, &body->steps[i], length);
        }
        i += length;
    }
}

/* ------------------------------------------------------------------ blocks=0-3,7 */

/* read_number() - the digits at *@text, which is moved past them */
static bool read_number(const char **text, int64_t *ret)
{
    char digits[24];
    size_t length = strspn(*text, "0123456789");

    if (length == 0 || length >= sizeof digits)
        return false;
    memcpy(digits, *text, length);
    digits[length] = '\0';
    *text += length;
    return units_parse_int(digits, ret);
}

static enum plm_status read_blocks(struct cutter *c, struct plm_error *reterr)
{
    const char *text = c->run->strategy->checkpoint_blocks;
    const char *next = text ? text : "";
    uint32_t count = c->run->graph->place_count;

    c->listed = arena_array(c->run->arena, bool, (size_t)count + 1);
    for (;;) {
        int64_t first = 0, last = 0;
        bool valid = read_number(&next, &first);

        last = first;
        if (valid && *next == '-') {
            next++;
            valid = read_number(&next, &last) && last >= first;
        }
        if (!valid || (*next != ',' && *next != '\0'))
            return plm_fail(reterr, PLM_E_USAGE,
                            "checkpoint: blocks are written like 0-3,7, not '%s'",
                            text ? text : "");
        if (last >= count)
            return plm_fail(reterr, PLM_E_USAGE,
                            "checkpoint: there is no block %lld; the model has %u, counted from 0",
                            (long long)last, count);
        for (int64_t i = first; i <= last; i++)
            c->listed[i + 1] = true;
        if (*next++ == '\0')
            return PLM_OK;
    }
}

static enum plm_status check_words(const struct run *run, struct plm_error *reterr)
{
    const struct plm_strategy *s = run->strategy;
    bool counts = s->checkpoint == PLM_CHECKPOINT_EVERY || s->checkpoint == PLM_CHECKPOINT_GROUP;

    if (s->checkpoint == PLM_CHECKPOINT_AUTO)
        return plm_fail(reterr, PLM_E_USAGE, "checkpoint: auto is decided by a plan, not by a run");
    if (counts && s->checkpoint_count < 1)
        return plm_fail(reterr, PLM_E_USAGE, "checkpoint: N must be at least 1");
    if (s->checkpoint_selective && s->checkpoint == PLM_CHECKPOINT_NONE)
        return plm_fail(reterr, PLM_E_USAGE,
                        "checkpoint-selective: without --checkpoint nothing is recomputed");
    if (s->checkpoint_selective && s->checkpoint_reentrant)
        return plm_fail(
            reterr, PLM_E_USAGE,
            "checkpoint-selective: PyTorch keeps results only in checkpoints that are not reentrant");
    if (s->parallel.recompute == PLM_RECOMPUTE_SELECTIVE && !run->graph->recomputes_attention)
        return plm_fail(reterr, PLM_E_USAGE,
                        "recompute: selective is of Megatron's own attention, which this model "
                        "does not have; full recomputes its blocks");
    return PLM_OK;
}

/* choose() - the strategy's words; Megatron's: attention or chunks of layers, or the first layers of a stage alone */
static void choose(struct cutter *c)
{
    const struct plm_strategy *s = c->run->strategy;
    const struct plm_parallel *p = &s->parallel;
    int64_t layers = p->recompute_layers > 0 ? p->recompute_layers : 1;

    c->how = s->checkpoint;
    c->size = s->checkpoint_count;
    switch (p->recompute) {
    case PLM_RECOMPUTE_NONE:
        return;
    case PLM_RECOMPUTE_SELECTIVE:
        c->how = PLM_CHECKPOINT_FULL;
        return;
    case PLM_RECOMPUTE_FULL:
        c->how = PLM_CHECKPOINT_GROUP;
        c->size = layers;
        if (p->recompute_method == PLM_RECOMPUTE_BLOCK)
            c->first = layers;
        return;
    }
}

enum plm_status regions_build(struct run *run, struct plm_error *reterr)
{
    struct cutter c = { .run = run, .first = -1 };
    const struct graph *graph = run->graph;
    enum plm_status status = check_words(run, reterr);

    choose(&c);
    if (status || c.how == PLM_CHECKPOINT_NONE)
        return status;
    if (graph->place_count == 0) {
        run_warn(run, "checkpoint: the model has no place where it may cut; nothing is recomputed");
        return PLM_OK;
    }
    if (c.how == PLM_CHECKPOINT_BLOCKS)
        status = read_blocks(&c, reterr);
    if (status)
        return status;
    run->regions = arena_array(run->arena, const struct region *, (size_t)graph->place_count + 1);
    if (!run->pipeline)
        cut_body(&c, graph->main, graph->main->slot_count);
    for (int32_t i = 0; run->pipeline && i < run->pipeline->shape.local; i++) {
        const struct graph_body *stage = run->pipeline->stages[i].call.body;

        choose(&c);
        cut_body(&c, stage, stage->slot_count);
    }
    if (c.uneven > 0)
        return plm_fail(reterr, PLM_E_USAGE,
                        "recompute-layers: chunks of %lld do not divide %u layers, where Megatron "
                        "asks for layers that are not there; --recompute-method block recomputes "
                        "the first %lld",
                        (long long)c.size, c.uneven, (long long)c.size);
    return PLM_OK;
}
