/*
 * plan/advice.c - one line: where the peak is and what would lower it; and which rules are unverified
 *
 * The advice follows from what is alive at the peak. It names options, and promises no figures: a run with the option gives
 * those.
 */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/num.h"
#include "base/units.h"
#include "plan/estimate.h"

/* temporaries of the step are not to blame when they are less than one part in so many of what is alive */
enum { NOTEWORTHY = 20 };

static plm_bytes share_of(const struct plm_result *result, enum category category)
{
    const char *name = category_name(category);

    for (size_t i = 0; i < result->live_by_category_count; i++)
        if (strcmp(result->live_by_category[i].name, name) == 0)
            return result->live_by_category[i].bytes;
    return 0;
}

static bool is_16_bit(enum plm_precision precision)
{
    return precision == PLM_PRECISION_BF16 || precision == PLM_PRECISION_FP16;
}

/* struct holding - activations alive at the peak within a marked place, or within all that share its parameters and so its path */
struct holding {
    uint64_t places;
    plm_bytes all, largest;
};

/* place_around() - the number of the marked place within which a module is, from 1; 0: none */
static uint32_t place_around(const struct names *names, const uint32_t *places, name_id path)
{
    const char *text = names_text(names, path);

    for (size_t length = strlen(text); length > 0; length--) {
        name_id name =
            text[length] == '.' || text[length] == '\0' ? names_find(names, text, length) : 0;

        if (name != 0 && places[name] > 0)
            return places[name];
    }
    return 0;
}

static void mark_places(const struct graph_body *body, uint32_t *places, struct holding *held)
{
    for (size_t i = 0; i < body->step_count; i++) {
        const struct graph_step *step = &body->steps[i];

        if (step->place > 0 && places[step->path] == 0)
            places[step->path] = step->place;
        if (step->place > 0)
            held[places[step->path]].places++;
        if (step->body)
            mark_places(step->body, places, held);
    }
}

/*
 * recomputable() - bytes alive at the peak that checkpoints around all marked places would not hold
 *
 * Of what a place holds, its largest tensor may be its output, which stays; and one place is there again when it is run again.
 */
static plm_bytes recomputable(struct simulation *sim)
{
    const struct ghost *g = train_ghost(sim->run);
    uint32_t *places = arena_array(&sim->arena, uint32_t, sim->names.text_count + 1);
    struct holding *held = arena_array(&sim->arena, struct holding, sim->graph->place_count + 1);
    plm_bytes sum = 0, most = 0;
    size_t count;
    const bool *alive = estimate_alive(sim, &count);

    mark_places(sim->graph->main, places, held);
    for (size_t i = 1; i < count; i++) {
        const struct record *record = &g->records[i];

        if (!alive[i] || record->category != CATEGORY_ACTIVATION)
            continue;
        struct holding *h = &held[place_around(&sim->names, places, record->path)];

        h->all += record->bytes;
        h->largest = num_max(h->largest, record->bytes);
    }
    for (uint32_t i = 1; i <= sim->graph->place_count; i++) {
        const struct holding *h = &held[i];
        plm_bytes stays = num_min(h->places * h->largest, h->all);

        sum += h->all - stays;
        most = num_max(most, h->places ? (h->all - stays) / h->places : 0);
    }
    return sum - most;
}

/* checkpoints_help() - or is what they would save not worth naming? */
static bool checkpoints_help(struct simulation *sim, plm_bytes activations)
{
    return sim->strategy.checkpoint == PLM_CHECKPOINT_NONE && sim->graph->place_count > 0 &&
           recomputable(sim) > activations / NOTEWORTHY;
}

/* computes_in_fp32() - under FSDP in the type in which parameters are gathered */
static bool computes_in_fp32(const struct plm_strategy *s)
{
    return s->precision == PLM_PRECISION_FP32 && (s->parallel.param_dtype == PLM_REDUCED_DEFAULT ||
                                                  s->parallel.param_dtype == PLM_REDUCED_FP32);
}

/* less_for_each() - what is left when the rest is done: a smaller batch, and of one sample a shorter one */
static const char *less_for_each(const struct simulation *sim)
{
    const struct plm_strategy *s = &sim->strategy;

    if (sim->graph->batch == 1)
        return sim->graph->seq > 1 ? "a shorter --seq" : "a larger device";
    if (s->eval || s->parallel.megatron > 0)
        return "a smaller batch";
    return s->parallel.pp > 1 ? "a smaller batch with more --microbatches"
                              : "a smaller batch with --accumulate";
}

static const char *remedy_for_activations(struct simulation *sim, plm_bytes activations)
{
    const struct plm_strategy *s = &sim->strategy;
    const struct plm_parallel *p = &s->parallel;
    const char *remedies[4];
    size_t count = 0;
    struct buf buf = { .arena = &sim->arena };

    if (p->megatron > 0 && p->recompute != PLM_RECOMPUTE_FULL && !s->eval) {
        if (p->tp > 1 && !p->sequence_parallel)
            remedies[count++] = "--sequence-parallel";
        remedies[count++] = "--recompute full (recomputes activations)";
    }
    if (p->megatron == 0 && p->pp > 1 && p->schedule != PLM_SCHEDULE_1F1B)
        remedies[count++] = "--schedule 1f1b (fewer micro-batches in flight)";
    else if (p->megatron == 0 && !s->eval && checkpoints_help(sim, activations))
        remedies[count++] = "--checkpoint full (recomputes activations)";
    else if (p->megatron == 0 && p->pp <= 1 && !s->eval && computes_in_fp32(s))
        remedies[count++] = "--precision bf16 or amp-bf16";
    if (p->megatron == 0 && p->pp > 1 && p->schedule == PLM_SCHEDULE_1F1B)
        remedies[count++] = "another --pp-split";
    remedies[count++] = less_for_each(sim);
    for (size_t i = 0; i < count; i++)
        buf_printf(&buf, "%s%s", i == 0 ? "" : i + 1 < count ? ", " : ", or ", remedies[i]);
    return buf_string(&buf);
}

/* is_split() - do ranks share parameters or states out? Then an optimizer is chosen for other reasons, and some are refused */
static bool is_split(const struct plm_parallel *p)
{
    return p->fsdp > 0 || p->fsdp1 > 0 || p->hsdp_shard > 0 || p->tp > 1 || p->ep > 1 ||
           p->zero > 0 || p->megatron > 0;
}

static const char *remedy_for_split_states(const struct plm_strategy *s)
{
    const struct plm_parallel *p = &s->parallel;

    if (p->megatron > 0 && !p->distributed_optimizer)
        return "--distributed-optimizer (each rank has its part of the states)";
    if (p->zero > 0 && p->zero < 3)
        return "--zero 3 (parameters are shared out, too), or --zero-offload optimizer";
    if (p->zero > 0 && p->deepspeed.offload == PLM_OFFLOAD_NONE)
        return "--zero-offload (states on the host), or more GPUs";
    return "more ranks to share them, or a larger device";
}

static const char *remedy_for_states(const struct simulation *sim)
{
    const struct plm_strategy *s = &sim->strategy;

    if (is_split(&s->parallel))
        return remedy_for_split_states(s);
    if (s->parallel.ddp > 1)
        return "--fsdp in place of DistributedDataParallel (shares weights, gradients and states out)";
    if (s->optimizer == PLM_OPTIMIZER_ADAMW || s->optimizer == PLM_OPTIMIZER_ADAM)
        return "--optimizer adamw-8bit or adafactor (smaller states)";
    if (!is_16_bit(s->precision))
        return "--precision bf16 (2 bytes a weight, gradient and state)";
    return "an optimizer with smaller states, or a larger device";
}

static const char *remedy_for_step(const struct simulation *sim)
{
    switch (sim->strategy.optimizer) {
    case PLM_OPTIMIZER_ADAMW:
    case PLM_OPTIMIZER_ADAM:
        return "--optimizer adamw-fused (no temporaries in the step)";
    case PLM_OPTIMIZER_NONE:
    case PLM_OPTIMIZER_SGD:
    case PLM_OPTIMIZER_SGD_MOMENTUM:
    case PLM_OPTIMIZER_ADAM_FUSED:
    case PLM_OPTIMIZER_ADAMW_FUSED:
    case PLM_OPTIMIZER_ADAMW_LOOP:
    case PLM_OPTIMIZER_ADAFACTOR:
    case PLM_OPTIMIZER_RMSPROP:
    case PLM_OPTIMIZER_ADAGRAD:
    case PLM_OPTIMIZER_LION:
    case PLM_OPTIMIZER_ADAMW_8BIT:
        break;
    }
    return remedy_for_states(sim);
}

/* remedy_for_load() - of a model that is larger before it is split than what a rank keeps of it */
static const char *remedy_for_load(const struct plm_parallel *p)
{
    if (p->megatron > 0 || p->zero > 0)
        return "a larger device";
    if (p->load == PLM_LOAD_META)
        return "more ranks to share it, or a larger device";
    if (p->fsdp1 > 0)
        return p->load == PLM_LOAD_DEVICE ? "--load host (it comes unit by unit)"
                                          : "smaller units, or a larger device";
    return "--load meta (only this rank's part is made)";
}

/* failed_activation() - the request that did not fit, when it came while activations are made */
static plm_bytes failed_activation(const struct plm_result *result)
{
    const char *phase = result->failure.phase;

    if (!result->out_of_memory || (strcmp(phase, "forward") != 0 && strcmp(phase, "backward") != 0))
        return 0;
    return result->failure.request;
}

const char *estimate_advice(struct simulation *sim, const struct plm_result *result)
{
    struct buf buf = { .arena = &sim->arena };
    char text[UNITS_TEXT];
    plm_bytes activations = share_of(result, CATEGORY_ACTIVATION) +
                            share_of(result, CATEGORY_ACTIVATION_GRADIENT) +
                            share_of(result, CATEGORY_INPUT);
    plm_bytes model = share_of(result, CATEGORY_PARAMETER) + share_of(result, CATEGORY_GRADIENT) +
                      share_of(result, CATEGORY_STATE);
    plm_bytes temporaries = share_of(result, CATEGORY_TEMPORARY);
    plm_bytes communication = share_of(result, CATEGORY_COMMUNICATION);
    bool in_step = strcmp(result->at.phase, "optimizer") == 0;

    if (result->out_of_memory && result->failure.step < 0 && is_split(&sim->strategy.parallel)) {
        buf_printf(&buf, "the model does not fit %s; take %s",
                   sim->strategy.parallel.load == PLM_LOAD_META ? "even split"
                                                                : "before it is split",
                   remedy_for_load(&sim->strategy.parallel));
        return buf_string(&buf);
    }
    if (result->out_of_memory && result->failure.step < 0) {
        buf_printf(
            &buf, "the weights alone do not fit; %s",
            is_16_bit(sim->strategy.precision)
                ? "take a larger device, or split them with --fsdp or --tp, and --load meta"
                : "take --precision bf16, a larger device, or split them with --fsdp or --tp, and "
                  "--load meta");
        return buf_string(&buf);
    }
    buf_printf(&buf, "the peak is in the %s", result->at.phase);
    if (result->at.step >= 0)
        buf_printf(&buf, " of step %d", result->at.step);
    if (*result->at.op)
        buf_printf(&buf, ", made by %s", result->at.op);
    if (*result->at.block)
        buf_printf(&buf, " '%s'", result->at.block);
    if (result->at.step < 0 && is_split(&sim->strategy.parallel))
        buf_printf(&buf, ", where the model is not split yet; lower it by %s",
                   remedy_for_load(&sim->strategy.parallel));
    else if (in_step && temporaries > (activations + model) / NOTEWORTHY)
        buf_printf(&buf, ", with %s of its temporaries; lower it by %s",
                   units_format_bytes(temporaries, text), remedy_for_step(sim));
    else if (sim->strategy.parallel.zero > 0 && communication >= activations + model)
        buf_printf(&buf, ", with %s of ZeRO's buckets; lower it by a smaller --zero-bucket",
                   units_format_bytes(communication, text));
    else if (failed_activation(result) > activations && failed_activation(result) >= model)
        buf_printf(&buf, ", and the %s asked for %s more; lower it by %s", result->failure.phase,
                   units_format_bytes(failed_activation(result), text),
                   remedy_for_activations(sim, activations));
    else if (activations >= model)
        buf_printf(&buf, ", with %s of activations and their gradients; lower it by %s",
                   units_format_bytes(activations, text), remedy_for_activations(sim, activations));
    else
        buf_printf(&buf, ", with %s of weights, gradients and states; lower it by %s",
                   units_format_bytes(model, text), remedy_for_states(sim));
    return buf_string(&buf);
}

/* has_op() - does a step of @body, or of what it calls, run @op? */
static bool has_op(const struct graph_body *body, enum op_kind op)
{
    for (size_t i = 0; i < body->step_count; i++)
        if ((body->steps[i].kind == STEP_OP && body->steps[i].op == op) ||
            (body->steps[i].body && has_op(body->steps[i].body, op)))
            return true;
    return false;
}

void estimate_unverified(struct simulation *sim, struct plm_result *result)
{
    const struct plm_strategy *s = &sim->strategy;
    const char **list = arena_array(&sim->arena, const char *, 32);
    size_t count = 0;

    if (s->optimizer == PLM_OPTIMIZER_ADAMW_8BIT)
        list[count++] = "optimizer adamw-8bit (mirrors bitsandbytes)";
    if (sim->memory_options.settings.backend == MEMORY_ASYNC)
        list[count++] = "allocator backend:cudaMallocAsync (approximate)";
    if (strcmp(sim->framework->name, "pytorch-2.6") == 0)
        list[count++] = "framework pytorch-2.6 with models of transformers 5.24";
    if (s->parallel.fsdp1 > 0)
        list[count++] = "fsdp1: when memory that another stream uses comes back (record_stream)";
    if (s->parallel.megatron > 0 && strcmp(sim->framework->name, "pytorch-2.15") != 0)
        list[count++] = "megatron under an older framework (megatron-core 0.16.1 ran on 2.15)";
    if (s->parallel.megatron > 0 &&
        (s->optimizer == PLM_OPTIMIZER_ADAM_FUSED || s->optimizer == PLM_OPTIMIZER_ADAMW_FUSED))
        list[count++] = "megatron with adam-fused or adamw-fused (mirrors Transformer Engine)";
    if (s->parallel.megatron > 0 && s->clip_grad_norm > 0 && !s->assume_ghostgpu)
        list[count++] = "clip-grad-norm of megatron where the norm is above the limit";
    if (s->parallel.megatron > 0 && has_op(sim->graph->main, OP_MASKED_SELECT))
        list[count++] = "megatron with a mixture of experts without moe-capacity-factor";
    if (s->parallel.pp > 1 && s->parallel.ep > 1 && s->parallel.megatron == 0 &&
        (s->parallel.tp > 1 || s->parallel.cp > 1 || s->parallel.hsdp_shard > 0))
        list[count++] = "pp together with ep and tp, cp or hsdp";
    if (s->parallel.pp > 1 && s->parallel.zero_optimizer > 0)
        list[count++] = "pp together with zero-redundancy";
    if (s->parallel.hsdp_shard > 0 && s->parallel.tp > 1 && s->parallel.ep <= 1)
        list[count++] = "hsdp together with tp";
    if (s->parallel.hsdp_shard > 0 && s->parallel.cp > 1 && s->parallel.pp > 1)
        list[count++] = "hsdp together with cp and pp";
    if (s->parallel.ep > 1 && s->parallel.cp > 1 && s->parallel.megatron == 0 &&
        (s->parallel.tp > 1 || s->parallel.hsdp_shard > 0))
        list[count++] = "ep together with cp and tp or hsdp";
    if (s->parallel.pp > 1 && s->clip_grad_norm > 0 && s->parallel.megatron == 0)
        list[count++] = "clip-grad-norm over the stages of a pipeline (mirrors torchtitan)";
    if (s->parallel.moe_capacity_factor > 0)
        list[count++] =
            "moe-capacity-factor: what sorting more than 4096 tokens of a rank takes for the while";
    if (s->parallel.ep > 1 && s->parallel.cpu_offload)
        list[count++] = "ep together with fsdp-cpu-offload";
    if (s->parallel.ep > 1 && s->parallel.megatron == 0 &&
        strcmp(sim->framework->name, "pytorch-2.15") != 0)
        list[count++] = "ep under an older framework (fully_shard is that of pytorch-2.15)";
    if (s->parallel.cp > 1 && s->parallel.megatron > 0)
        list[count++] = "cp of megatron: what cuDNN and compiled kernels take (mirrors Transformer "
                        "Engine 2.11, context_parallel.py)";
    if (s->parallel.cp > 1 && s->parallel.megatron == 0 &&
        strcmp(sim->framework->name, "pytorch-2.15") != 0)
        list[count++] = "cp under an older framework (ring attention is that of pytorch-2.15)";
    if (s->parallel.pp > 1 && s->parallel.megatron == 0 &&
        strcmp(sim->framework->name, "pytorch-2.15") != 0)
        list[count++] = "pp under an older framework (the schedules are those of pytorch-2.15)";
    if (s->parallel.zero == 3)
        list[count++] = "zero 3: what modules without parameters of their own gather ahead of time";
    if (s->parallel.zero > 0 && s->checkpoint_reentrant)
        list[count++] = "zero together with checkpoint-reentrant";
    if (s->parallel.zero > 0 && strcmp(sim->framework->name, "pytorch-2.15") != 0)
        list[count++] = "zero under an older framework (DeepSpeed 0.19.8 ran on pytorch-2.15)";
    result->unverified = list;
    result->unverified_count = count;
}
