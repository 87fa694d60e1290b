/* import/deepspeed_json.c - a DeepSpeed configuration file as a strategy, and what its numbers of samples must agree with */
#include "import/deepspeed_json.h"
#include "base/error.h"
#include "import/deepspeed_sections.h"

enum { COUNT_MOST = INT32_MAX }; /* of samples and micro-batches */

static enum plm_status micro_batch(struct keys_context *c,
                                   const char *key,
                                   const struct yaml_node *value)
{
    return keys_agree(c, key, value, COUNT_MOST, "batch", &strategy_of(c)->batch);
}

static enum plm_status accumulation(struct keys_context *c,
                                    const char *key,
                                    const struct yaml_node *value)
{
    return keys_agree(c, key, value, COUNT_MOST, "accumulate", &strategy_of(c)->accumulate);
}

static const struct keys_entry root_keys[] = {
    { "train_batch_size", NULL },
    { "train_micro_batch_size_per_gpu", micro_batch },
    { "gradient_accumulation_steps", accumulation },
    { "gradient_clipping", section_clipping },
    { "zero_optimization", section_zero_optimization },
    { "bf16", section_bf16 },
    { "bfloat16", section_bf16 },
    { "fp16", section_fp16 },
    { "optimizer", section_optimizer },
    { "communication_data_type", section_communication_type },
    { "data_types", section_data_types },
    { "scheduler", NULL },
    { "zero_allow_untested_optimizer", NULL },
    { "zero_force_ds_cpu_optimizer", NULL },
    { "steps_per_print", NULL },
    { "wall_clock_breakdown", NULL },
    { "memory_breakdown", NULL },
    { "dump_state", NULL },
    { "seed", NULL },
    { "prescale_gradients", NULL },
    { "gradient_predivide_factor", keys_refuse_above_1 },
    { "disable_allgather", NULL },
    { "sparse_gradients", keys_refuse_true },
    { "amp", keys_refuse_enabled },
    { "torch_autocast", keys_refuse_enabled },
    { "activation_checkpointing", NULL },
    { "flops_profiler", NULL },
    { "tensorboard", NULL },
    { "wandb", NULL },
    { "csv_monitor", NULL },
    { "comet", NULL },
    { "monitor_config", NULL },
    { "comms_logger", NULL },
    { "comms_config", NULL },
    { "aio", NULL },
    { "checkpoint", NULL },
    { "elasticity", NULL },
    { "autotuning", NULL },
    { "compile", NULL },
    { "nebula", NULL },
    { "dataloader_drop_last", NULL },
    { "use_node_local_storage", NULL },
    { "eigenvalue", keys_refuse_enabled },
    { "progressive_layer_drop", keys_refuse_enabled },
    { "curriculum_learning", keys_refuse_enabled },
    { "data_efficiency", keys_refuse_enabled },
    { "compression_training", keys_refuse_any },
    { "quantize_training", keys_refuse_any },
    { "tensor_parallel", keys_refuse_any },
    { "expert_parallel", keys_refuse_any },
    { "sequence_parallel_size", keys_refuse_above_1 },
};

/* check_batch() - train_batch_size is micro-batch × micro-batches × ranks; it gives the first when that is missing */
static enum plm_status check_batch(struct keys_context *c, const struct yaml_node *root)
{
    const struct yaml_node *value = yaml_get(root, "train_batch_size");
    struct plm_strategy *s = strategy_of(c);
    int64_t whole, micros = s->accumulate > 0 ? s->accumulate : 1;

    if (!value || keys_is_auto(value) || s->parallel.gpus < 1)
        return PLM_OK;
    enum plm_status status = keys_read_whole(c, "train_batch_size", value, 1, &whole);

    if (status)
        return status;
    if (whole > COUNT_MOST)
        return keys_refuse(c, "train_batch_size", value, "at most 2147483647 is accepted");
    if (s->batch == 0 && whole % micros == 0 && whole / micros % s->parallel.gpus == 0)
        s->batch = whole / micros / s->parallel.gpus;
    if (s->batch > 0 && whole % s->batch == 0 && whole / s->batch % micros == 0 &&
        whole / s->batch / micros == s->parallel.gpus)
        return PLM_OK;
    if (s->batch == 0)
        return plm_fail_at(c->reterr, PLM_E_USAGE, value->at,
                           "'train_batch_size' is %lld, which %lld × %lld (micro-batches × GPUs) "
                           "do not divide",
                           (long long)whole, (long long)micros, (long long)s->parallel.gpus);
    return plm_fail_at(c->reterr, PLM_E_USAGE, value->at,
                       "'train_batch_size' is %lld, and not micro-batch × micro-batches × GPUs, "
                       "%lld × %lld × %lld",
                       (long long)whole, (long long)s->batch, (long long)micros,
                       (long long)s->parallel.gpus);
}

/* check_root() - a file without ZeRO is not one for this */
static enum plm_status check_root(struct keys_context *c, const struct yaml_node *root)
{
    const struct yaml_node *zero = yaml_get(root, "zero_optimization");

    if (strategy_of(c)->parallel.zero == 0)
        return plm_fail_at(c->reterr, PLM_E_USAGE, zero ? zero->at : root->at,
                           "'stage' of 'zero_optimization' is missing: stage 1, 2 or 3 of ZeRO is "
                           "modelled, not stage 0");
    enum plm_status status = section_check_offload(c, zero);

    return status ? status : check_batch(c, root);
}

enum plm_status deepspeed_json_import(const struct yaml_node *root,
                                      struct plm_strategy *strategy,
                                      struct plm_error *reterr)
{
    struct keys_context c = { .strategy = strategy, .reterr = reterr };
    enum plm_status status = READ_KEYS(&c, "the configuration", root, root_keys);

    return status ? status : check_root(&c, root);
}
