/* report/recipe.c - the strategy as pairs of option and value */
#include <string.h>

#include "base/units.h"
#include "report/recipe.h"
#include "report/words.h"

struct items {
    struct arena *arena;
    struct recipe_item *items;
    size_t count, capacity;
};

static void add(struct items *items, struct recipe_item item)
{
    arena_push(items->arena, items->items, items->count, items->capacity, item);
}

static void add_text(struct items *items, const char *key, const char *text, bool usual)
{
    add(items,
        (struct recipe_item){
            .key = key, .kind = text ? RECIPE_TEXT : RECIPE_ABSENT, .text = text, .usual = usual });
}

static void add_count(struct items *items, const char *key, int64_t count, bool usual)
{
    add(items,
        (struct recipe_item){ .key = key, .kind = RECIPE_COUNT, .count = count, .usual = usual });
}

static void add_bool(struct items *items, const char *key, bool value)
{
    add(items,
        (struct recipe_item){ .key = key, .kind = RECIPE_BOOL, .count = value, .usual = !value });
}

static const char *checkpoint_text(const struct plm_strategy *strategy, struct arena *arena)
{
    struct buf text = { .arena = arena };

    buf_text(&text, words_checkpoint.items[strategy->checkpoint]);
    if (strategy->checkpoint == PLM_CHECKPOINT_BLOCKS)
        buf_text(&text, strategy->checkpoint_blocks ? strategy->checkpoint_blocks : "");
    if (strategy->checkpoint == PLM_CHECKPOINT_EVERY ||
        strategy->checkpoint == PLM_CHECKPOINT_GROUP)
        buf_printf(&text, "%lld", (long long)strategy->checkpoint_count);
    return buf_string(&text);
}

static const char *workspace_text(const struct plm_strategy *strategy, struct arena *arena)
{
    char text[UNITS_TEXT];

    if (strategy->cudnn_workspace != PLM_WORKSPACE_BYTES)
        return words_workspace.items[strategy->cudnn_workspace];
    units_format_exact(strategy->cudnn_workspace_bytes, text);
    return arena_copy(arena, text, strlen(text));
}

/* add_used() - a number of ranks or the like, when it is used at all */
static void add_used(struct items *items, const char *key, int64_t count)
{
    if (count > 0)
        add_count(items, key, count, false);
}

static void add_pipeline(struct items *items,
                         const struct plm_parallel *p,
                         const struct plm_plan_result *plan)
{
    int64_t micros = plan ? plan->accumulate : p->microbatches;

    struct buf schedule = { .arena = items->arena };

    add_used(items, "gpus", p->gpus);
    add_used(items, "pp", p->pp);
    if (p->pp > 1) {
        buf_text(&schedule, words_schedule.items[p->schedule]);
        if (p->schedule == PLM_SCHEDULE_INTERLEAVED)
            buf_printf(&schedule, "%lld", (long long)p->virtual_stages);
        add_text(items, "schedule", buf_string(&schedule), p->schedule == PLM_SCHEDULE_1F1B);
        add_count(items, "microbatches", micros ? micros : p->pp, false);
        add_used(items, "microbatch_group", p->microbatch_group);
        if (p->pp_split)
            add_text(items, "pp_split", p->pp_split, false);
    }
    if (p->pp == 1 && p->microbatches > 0)
        add_count(items, "microbatches", p->microbatches, false);
    if (p->has_rank)
        add_count(items, "rank", p->rank, false);
}

static void add_fsdp(struct items *items, const struct plm_parallel *p)
{
    struct buf text = { .arena = items->arena };

    add_used(items, "fsdp", p->fsdp);
    add_used(items, "fsdp1", p->fsdp1);
    if (p->hsdp_shard > 0) {
        buf_printf(&text, "%lldx%lld", (long long)p->hsdp_replicate, (long long)p->hsdp_shard);
        add_text(items, "hsdp", buf_string(&text), false);
    }
    if (p->reshard == PLM_RESHARD_TO)
        add_count(items, "reshard_after_forward", p->reshard_to, false);
    else if (p->reshard != PLM_RESHARD_DEFAULT)
        add_text(items, "reshard_after_forward", words_reshard.items[p->reshard], false);
    if (p->param_dtype != PLM_REDUCED_DEFAULT)
        add_text(items, "fsdp_param_dtype", words_reduced.items[p->param_dtype], false);
    if (p->reduce_dtype != PLM_REDUCED_DEFAULT)
        add_text(items, "fsdp_reduce_dtype", words_reduced.items[p->reduce_dtype], false);
    if (p->cpu_offload)
        add_bool(items, "fsdp_cpu_offload", true);
    if (p->fsdp_no_sync)
        add_bool(items, "fsdp_no_sync", true);
    if (p->fsdp_forward_prefetch)
        add_bool(items, "fsdp_forward_prefetch", true);
}

static void add_megatron(struct items *items, const struct plm_parallel *p)
{
    add_used(items, "megatron", p->megatron);
    if (p->sequence_parallel)
        add_bool(items, "sequence_parallel", true);
    if (p->distributed_optimizer)
        add_bool(items, "distributed_optimizer", true);
    if (p->overlap_grad_reduce)
        add_bool(items, "overlap_grad_reduce", true);
    if (p->recompute == PLM_RECOMPUTE_NONE)
        return;
    add_text(items, "recompute", words_recompute.items[p->recompute], false);
    if (p->recompute == PLM_RECOMPUTE_FULL) {
        add_text(items, "recompute_method", words_recompute_method.items[p->recompute_method],
                 false);
        add_count(items, "recompute_layers", p->recompute_layers ? p->recompute_layers : 1, false);
    }
}

/* add_size() - elements; 0 is the default, which is left out */
static void add_size(struct items *items, const char *key, int64_t size)
{
    if (size == PLM_DEEPSPEED_AUTO)
        add_text(items, key, "auto", true);
    else if (size != 0)
        add_count(items, key, size == PLM_DEEPSPEED_NONE ? 0 : size, true);
}

static void add_switch(struct items *items, const char *key, enum plm_switch value, bool usual)
{
    if (value != PLM_SWITCH_DEFAULT)
        add_text(items, key, words_switch.items[value], usual);
}

/* add_configured() - what only a DeepSpeed configuration can say; usual, since the file stands for it among the flags */
static void add_configured(struct items *items, const struct plm_deepspeed *d)
{
    add_size(items, "zero_prefetch_bucket", d->prefetch_bucket_size);
    add_size(items, "zero_param_persistence_threshold", d->param_persistence_threshold);
    add_size(items, "zero_model_persistence_threshold", d->model_persistence_threshold);
    add_size(items, "zero_max_live_parameters", d->max_live_parameters);
    add_size(items, "zero_max_reuse_distance", d->max_reuse_distance);
    add_size(items, "zero_sub_group_size", d->sub_group_size);
    add_switch(items, "zero_contiguous_gradients", d->contiguous_gradients, true);
    add_switch(items, "zero_reduce_scatter", d->reduce_scatter, true);
    add_switch(items, "zero_multi_rank_allreduce", d->multi_rank_allreduce, true);
    add_switch(items, "zero_check_grad_overflow", d->check_grad_overflow, true);
    if (d->round_robin_gradients)
        add_text(items, "zero_round_robin_gradients", "true", true);
    if (d->no_clipping)
        add_text(items, "zero_clipping", "none", true);
    if (d->communication_dtype != PLM_REDUCED_DEFAULT)
        add_text(items, "zero_communication_dtype", words_reduced.items[d->communication_dtype],
                 true);
}

static void add_zero(struct items *items, const struct plm_parallel *p)
{
    const struct plm_deepspeed *d = &p->deepspeed;
    bool usual = d->file != NULL; /* which says the rest among the flags */

    if (p->zero == 0)
        return;
    if (d->file)
        add_text(items, "deepspeed", d->file, false);
    add_count(items, "zero", p->zero, usual);
    if (d->offload != PLM_OFFLOAD_NONE)
        add_text(items, "zero_offload", words_offload.items[d->offload], usual);
    if (d->reduce_bucket_size > 0)
        add_count(items, "zero_bucket", d->reduce_bucket_size, usual);
    else
        add_size(items, "zero_bucket", d->reduce_bucket_size);
    add_switch(items, "zero_overlap", d->overlap_comm, usual);
    add_configured(items, d);
}

/* add_parallel() - what is used of it, and nothing else */
static void add_parallel(struct items *items,
                         const struct plm_parallel *p,
                         const struct plm_plan_result *plan)
{
    add_used(items, "ddp", p->ddp);
    add_used(items, "zero_redundancy", p->zero_optimizer);
    add_used(items, "data_parallel", p->data_parallel);
    if (p->bucket_cap_mb > 0)
        add(items, (struct recipe_item){
                       .key = "bucket_cap_mb", .kind = RECIPE_REAL, .real = p->bucket_cap_mb });
    if (p->gradient_as_bucket_view)
        add_bool(items, "gradient_as_bucket_view", true);
    if (p->find_unused_parameters)
        add_bool(items, "find_unused_parameters", true);
    if (p->static_graph)
        add_bool(items, "static_graph", true);
    if (p->load != PLM_LOAD_DEVICE)
        add_text(items, "load", words_load.items[p->load], false);
    add_fsdp(items, p);
    add_zero(items, p);
    add_used(items, "tp", p->tp);
    add_megatron(items, p);
    add_used(items, "cp", p->cp);
    add_used(items, "ep", p->ep);
    if (p->moe_imbalance > 0)
        add(items, (struct recipe_item){
                       .key = "moe_imbalance", .kind = RECIPE_REAL, .real = p->moe_imbalance });
    if (p->moe_capacity_factor > 0)
        add(items, (struct recipe_item){ .key = "moe_capacity_factor",
                                         .kind = RECIPE_REAL,
                                         .real = p->moe_capacity_factor });
    if (p->rotate != PLM_ROTATE_ALLGATHER)
        add_text(items, "cp_rotate", words_rotate.items[p->rotate], false);
    add_pipeline(items, p, plan);
}

const struct recipe_item *recipe_items(const struct report *report,
                                       struct arena *arena,
                                       size_t *ret_count)
{
    const struct plm_strategy *s = report->strategy;
    const struct plm_result *r = report->result;
    struct items items = { .arena = arena };

    add_count(&items, "batch", r->batch, false);
    add_count(&items, "seq", r->seq, r->seq == 0);
    add_text(&items, "precision", words_precision.items[s->precision], false);
    add_text(&items, "optimizer", words_optimizer.items[s->optimizer], false);
    add_text(&items, "checkpoint", checkpoint_text(s, arena), s->checkpoint == PLM_CHECKPOINT_NONE);
    add_text(&items, "checkpoint_chosen", r->checkpoint_chosen, !r->checkpoint_chosen);
    add_bool(&items, "checkpoint_reentrant", s->checkpoint_reentrant);
    if (s->checkpoint_selective)
        add_bool(&items, "checkpoint_selective", true);
    if (report->plan && s->parallel.pp <= 1)
        add_count(&items, "accumulate", report->plan->accumulate, report->plan->accumulate <= 1);
    else
        add_count(&items, "accumulate", s->accumulate ? s->accumulate : 1, s->accumulate <= 1);
    if (s->clip_grad_norm > 0)
        add(&items, (struct recipe_item){
                        .key = "clip_grad_norm", .kind = RECIPE_REAL, .real = s->clip_grad_norm });
    else
        add_text(&items, "clip_grad_norm", NULL, true);
    add_text(&items, "zero_grad", words_zero_grad.items[s->zero_grad],
             s->zero_grad == PLM_ZERO_GRAD_SET_TO_NONE);
    add_text(&items, "zero_grad_at", words_zero_grad_at.items[s->zero_grad_at],
             s->zero_grad_at == PLM_ZERO_GRAD_AT_END);
    add_bool(&items, "keep_outputs", s->keep_outputs);
    if (s->keep_outputs_in_step)
        add_bool(&items, "keep_outputs_in_step", true);
    add_text(&items, "frozen", s->frozen, !s->frozen);
    add_bool(&items, "eval", s->eval);
    add_bool(&items, "channels_last", s->channels_last);
    add_parallel(&items, &s->parallel, report->plan);
    if (s->steps > 0)
        add_count(&items, "steps", s->steps, true);
    else
        add_text(&items, "steps", NULL, true);
    add_text(&items, "framework", r->framework, false);
    add_text(&items, "allocator", s->allocator ? s->allocator : "", !s->allocator);
    add_text(&items, "cudnn_workspace", workspace_text(s, arena),
             s->cudnn_workspace == PLM_WORKSPACE_AUTO);
    add_text(&items, "assume", s->assume_ghostgpu ? "ghostgpu" : NULL, !s->assume_ghostgpu);
    add_text(&items, "device", r->device ? r->device->name : report->device_name, true);
    *ret_count = items.count;
    return items.items;
}

const char *recipe_option(const struct recipe_item *item, struct arena *arena)
{
    char *option = arena_copy(arena, item->key, strlen(item->key));

    for (char *c = option; *c; c++)
        if (*c == '_')
            *c = '-';
    return option;
}

/* add_word() - quoted, where a shell would not take it as it is */
static void add_word(struct buf *text, const char *word)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                "_-./:,=+@%";

    if (*word && word[strspn(word, plain)] == '\0') {
        buf_text(text, word);
        return;
    }
    buf_char(text, '\'');
    for (; *word; word++)
        if (*word == '\'')
            buf_text(text, "'\\''");
        else
            buf_char(text, *word);
    buf_char(text, '\'');
}

static void add_flag(struct buf *text, const struct recipe_item *item)
{
    if (item->usual || item->kind == RECIPE_ABSENT)
        return;
    if (strcmp(item->key, "checkpoint_chosen") == 0) { /* in place of auto, which needs a device */
        buf_printf(text, " --checkpoint %s", item->text);
        return;
    }
    if (strcmp(item->key, "checkpoint") == 0 && strcmp(item->text, "auto") == 0)
        return;
    buf_text(text, text->length ? " --" : "--");
    buf_text(text, recipe_option(item, text->arena));
    switch (item->kind) {
    case RECIPE_TEXT:
        buf_char(text, ' ');
        add_word(text, item->text);
        break;
    case RECIPE_COUNT:
        buf_printf(text, " %lld", (long long)item->count);
        break;
    case RECIPE_REAL:
        buf_printf(text, " %g", item->real);
        break;
    case RECIPE_BOOL:
    case RECIPE_ABSENT:
        break;
    }
}

const char *recipe_flags(const struct report *report, struct arena *arena)
{
    struct buf text = { .arena = arena };
    size_t count;
    const struct recipe_item *items = recipe_items(report, arena, &count);

    for (size_t i = 0; i < count; i++)
        add_flag(&text, &items[i]);
    for (size_t i = 0; i < report->strategy->setting_count; i++) {
        buf_printf(&text, " --set %s=", report->strategy->settings[i].name);
        add_word(&text, report->strategy->settings[i].value);
    }
    return buf_string(&text);
}
