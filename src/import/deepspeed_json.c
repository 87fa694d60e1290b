/* import/deepspeed_json.c - a DeepSpeed configuration file as a strategy, key by key */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "import/deepspeed_json.h"
#include "import/deepspeed_keys.h"
#include "yaml/decode.h"

static struct plm_strategy *strategy_of(struct keys_context *c)
{
    return c->strategy;
}

static struct plm_deepspeed *deepspeed_of(struct keys_context *c)
{
    return &strategy_of(c)->parallel.deepspeed;
}

#define READ_KEYS(c, what, mapping, keys)                                                          \
    keys_read(c, what, mapping, keys, sizeof(keys) / sizeof *(keys))

#define SIZE_KEY(field)                                                                            \
    static enum plm_status size_##field(struct keys_context *c, const char *key,                   \
                                        const struct yaml_node *value)                             \
    {                                                                                              \
        return keys_read_size(c, key, value, &deepspeed_of(c)->field);                             \
    }

#define SWITCH_KEY(field)                                                                          \
    static enum plm_status switch_##field(struct keys_context *c, const char *key,                 \
                                          const struct yaml_node *value)                           \
    {                                                                                              \
        return keys_read_switch(c, key, value, &deepspeed_of(c)->field);                           \
    }

/* ------------------------------------------------------------------ zero_optimization */

SIZE_KEY(prefetch_bucket_size)
SIZE_KEY(param_persistence_threshold)
SIZE_KEY(model_persistence_threshold)
SIZE_KEY(max_live_parameters)
SIZE_KEY(max_reuse_distance)
SIZE_KEY(sub_group_size)
SWITCH_KEY(overlap_comm)
SWITCH_KEY(contiguous_gradients)
SWITCH_KEY(reduce_scatter)
SWITCH_KEY(multi_rank_allreduce)
SWITCH_KEY(check_grad_overflow)

static enum plm_status reduce_bucket_size(struct keys_context *c,
                                          const char *key,
                                          const struct yaml_node *value)
{
    return keys_agree(c, key, value, "zero-bucket", &deepspeed_of(c)->reduce_bucket_size);
}

static enum plm_status stage(struct keys_context *c, const char *key, const struct yaml_node *value)
{
    int64_t number;
    enum plm_status status = keys_read_whole(c, key, value, 1, &number);

    if (status || number > 3)
        return keys_refuse(c, key, value, "stage 1, 2 or 3 of ZeRO was expected");
    if (strategy_of(c)->parallel.zero > 0 && strategy_of(c)->parallel.zero != number)
        return keys_refuse(c, key, value, "--zero says otherwise");
    strategy_of(c)->parallel.zero = number;
    return PLM_OK;
}

static enum plm_status round_robin(struct keys_context *c,
                                   const char *key,
                                   const struct yaml_node *value)
{
    return decode_bool(value, key, &deepspeed_of(c)->round_robin_gradients, c->reterr);
}

/* offloads() - "device" of a section: is it the host? */
static enum plm_status offloads(struct keys_context *c, const struct yaml_node *section, bool *ret)
{
    const struct yaml_node *device = yaml_get(section, "device");

    *ret = false;
    if (!device || strcmp(device->text, "none") == 0)
        return PLM_OK;
    if (strcmp(device->text, "cpu") != 0)
        return keys_refuse(c, "device", device, "cpu or none; nvme is not modelled");
    *ret = true;
    return PLM_OK;
}

static const struct keys_entry offload_keys[] = {
    { "device", NULL },
    { "pin_memory", NULL },
    { "nvme_path", NULL },
    { "buffer_count", NULL },
    { "buffer_size", NULL },
    { "max_in_cpu", NULL },
    { "pipeline_read", NULL },
    { "pipeline_write", NULL },
    { "fast_init", NULL },
    { "ratio", keys_refuse_above_1 },
    { "super_offload", keys_refuse_true },
    { "cpuadam_cores_perc", NULL },
};

static enum plm_status offload_optimizer(struct keys_context *c,
                                         const char *key,
                                         const struct yaml_node *value)
{
    bool offloaded;
    enum plm_status status = READ_KEYS(c, key, value, offload_keys);

    if (!status)
        status = offloads(c, value, &offloaded);
    if (!status && offloaded && deepspeed_of(c)->offload == PLM_OFFLOAD_NONE)
        deepspeed_of(c)->offload = PLM_OFFLOAD_OPTIMIZER;
    return status;
}

/* offload_param() - what it says is followed by check_offload(), which knows the stage and the other section */
static enum plm_status offload_param(struct keys_context *c,
                                     const char *key,
                                     const struct yaml_node *value)
{
    bool offloaded;
    enum plm_status status = READ_KEYS(c, key, value, offload_keys);

    return status ? status : offloads(c, value, &offloaded);
}

static const struct keys_entry zero_keys[] = {
    { "stage", stage },
    { "contiguous_gradients", switch_contiguous_gradients },
    { "reduce_scatter", switch_reduce_scatter },
    { "reduce_bucket_size", reduce_bucket_size },
    { "use_multi_rank_bucket_allreduce", switch_multi_rank_allreduce },
    { "allgather_partitions", NULL },
    { "allgather_bucket_size", NULL },
    { "overlap_comm", switch_overlap_comm },
    { "compute_grad_norm", keys_refuse_false },
    { "load_from_fp32_weights", NULL },
    { "elastic_checkpoint", NULL },
    { "offload_param", offload_param },
    { "offload_optimizer", offload_optimizer },
    { "zenflow", keys_refuse_any },
    { "sub_group_size", size_sub_group_size },
    { "cpu_offload", keys_refuse_true },
    { "cpu_offload_param", keys_refuse_true },
    { "cpu_offload_use_pin_memory", NULL },
    { "prefetch_bucket_size", size_prefetch_bucket_size },
    { "stage3_prefetch_bucket_size", size_prefetch_bucket_size },
    { "param_persistence_threshold", size_param_persistence_threshold },
    { "stage3_param_persistence_threshold", size_param_persistence_threshold },
    { "model_persistence_threshold", size_model_persistence_threshold },
    { "stage3_model_persistence_threshold", size_model_persistence_threshold },
    { "max_live_parameters", size_max_live_parameters },
    { "stage3_max_live_parameters", size_max_live_parameters },
    { "max_reuse_distance", size_max_reuse_distance },
    { "stage3_max_reuse_distance", size_max_reuse_distance },
    { "gather_16bit_weights_on_model_save", NULL },
    { "stage3_gather_16bit_weights_on_model_save", NULL },
    { "stage3_gather_fp16_weights_on_model_save", NULL },
    { "module_granularity_threshold", keys_refuse_above_0 },
    { "stage3_module_granularity_threshold", keys_refuse_above_0 },
    { "use_all_reduce_for_fetch_params", keys_refuse_true },
    { "stage3_use_all_reduce_for_fetch_params", keys_refuse_true },
    { "allgather_sequential", keys_refuse_true },
    { "stage3_allgather_sequential", keys_refuse_true },
    { "ignore_unused_parameters", NULL },
    { "legacy_stage1", keys_refuse_true },
    { "round_robin_gradients", round_robin },
    { "parameter_alignment", keys_refuse_true },
    { "zero_hpz_partition_size", keys_refuse_above_1 },
    { "zero_quantized_weights", keys_refuse_true },
    { "zero_quantized_nontrainable_weights", keys_refuse_true },
    { "zero_quantized_gradients", keys_refuse_true },
    { "memory_efficient_linear", keys_refuse_false },
    { "pipeline_loading_checkpoint", NULL },
    { "override_module_apply", NULL },
    { "log_trace_cache_warnings", NULL },
    { "enable_sanity_checks", NULL },
    { "save_muon_momentum_buffer_in_memory", NULL },
    { "leaf_module", keys_refuse_any },
};

static enum plm_status zero_optimization(struct keys_context *c,
                                         const char *key,
                                         const struct yaml_node *value)
{
    return READ_KEYS(c, key, value, zero_keys);
}

/* ------------------------------------------------------------------ precision */

/* enable() - a section's "enabled": true chooses the precision */
static enum plm_status enable(struct keys_context *c,
                              const struct yaml_node *value,
                              enum plm_precision precision)
{
    bool on;
    enum plm_status status = decode_bool(value, "enabled", &on, c->reterr);

    if (status || !on)
        return status;
    if (strategy_of(c)->precision != PLM_PRECISION_FP32 && strategy_of(c)->precision != precision)
        return keys_refuse(c, "enabled", value, "another section or --precision says otherwise");
    strategy_of(c)->precision = precision;
    return PLM_OK;
}

static enum plm_status enable_bf16(struct keys_context *c,
                                   const char *key,
                                   const struct yaml_node *value)
{
    (void)key;
    return enable(c, value, PLM_PRECISION_BF16);
}

static enum plm_status enable_fp16(struct keys_context *c,
                                   const char *key,
                                   const struct yaml_node *value)
{
    (void)key;
    return enable(c, value, PLM_PRECISION_FP16);
}

static const struct keys_entry bf16_keys[] = {
    { "enabled", enable_bf16 },
    { "immediate_grad_update", NULL },
    { "check_grad_overflow", switch_check_grad_overflow },
    { "bf16_master_weights_and_grads", keys_refuse_true },
    { "bf16_optimizer_states", keys_refuse_true },
};

static const struct keys_entry fp16_keys[] = {
    { "enabled", enable_fp16 },
    { "auto_cast", keys_refuse_true },
    { "loss_scale", NULL },
    { "initial_scale_power", NULL },
    { "loss_scale_window", NULL },
    { "hysteresis", NULL },
    { "consecutive_hysteresis", NULL },
    { "min_loss_scale", NULL },
    { "fp16_master_weights_and_grads", keys_refuse_true },
};

static enum plm_status bf16(struct keys_context *c, const char *key, const struct yaml_node *value)
{
    return READ_KEYS(c, key, value, bf16_keys);
}

static enum plm_status fp16(struct keys_context *c, const char *key, const struct yaml_node *value)
{
    return READ_KEYS(c, key, value, fp16_keys);
}

static enum plm_status communication_type(struct keys_context *c,
                                          const char *key,
                                          const struct yaml_node *value)
{
    static const struct {
        const char *name;
        enum plm_reduced reduced;
    } types[] = { { "fp32", PLM_REDUCED_FP32 },    { "float32", PLM_REDUCED_FP32 },
                  { "fp16", PLM_REDUCED_FP16 },    { "float16", PLM_REDUCED_FP16 },
                  { "bf16", PLM_REDUCED_BF16 },    { "bfp16", PLM_REDUCED_BF16 },
                  { "bfloat16", PLM_REDUCED_BF16 } };

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strcmp(types[i].name, value->text) == 0) {
            deepspeed_of(c)->communication_dtype = types[i].reduced;
            return PLM_OK;
        }
    return keys_refuse(c, key, value, "fp32, bf16 or fp16 was expected");
}

static const struct keys_entry data_types_keys[] = {
    { "grad_accum_dtype", keys_refuse_any },
    { "param_dtype", NULL },
    { "buffer_dtype", keys_refuse_any },
    { "keep_in_fp32_modules", keys_refuse_any },
};

static enum plm_status data_types(struct keys_context *c,
                                  const char *key,
                                  const struct yaml_node *value)
{
    return READ_KEYS(c, key, value, data_types_keys);
}

/* ------------------------------------------------------------------ batch, clipping, optimizer */

static enum plm_status micro_batch(struct keys_context *c,
                                   const char *key,
                                   const struct yaml_node *value)
{
    return keys_agree(c, key, value, "batch", &strategy_of(c)->batch);
}

static enum plm_status accumulation(struct keys_context *c,
                                    const char *key,
                                    const struct yaml_node *value)
{
    return keys_agree(c, key, value, "accumulate", &strategy_of(c)->accumulate);
}

static enum plm_status clipping(struct keys_context *c,
                                const char *key,
                                const struct yaml_node *value)
{
    double norm;
    enum plm_status status = keys_read_number(c, key, value, &norm);

    if (status)
        return status;
    if (norm < 0)
        return keys_refuse(c, key, value, "a norm from 0 was expected");
    if (strategy_of(c)->clip_grad_norm > 0 && strategy_of(c)->clip_grad_norm != norm)
        return keys_refuse(c, key, value, "--clip-grad-norm says otherwise");
    strategy_of(c)->clip_grad_norm = norm;
    deepspeed_of(c)->no_clipping = norm == 0;
    return PLM_OK;
}

/* member() - of a section that may be missing */
static const struct yaml_node *member(const struct yaml_node *section, const char *key)
{
    return section ? yaml_get(section, key) : NULL;
}

/* adam() - DeepSpeed's own fused kernel, unless it is told to take PyTorch's */
static enum plm_optimizer adam(const struct yaml_node *params, bool decoupled)
{
    const struct yaml_node *torch = member(params, "torch_adam");

    if (torch && strcmp(torch->text, "true") == 0)
        return decoupled ? PLM_OPTIMIZER_ADAMW : PLM_OPTIMIZER_ADAM;
    return decoupled ? PLM_OPTIMIZER_ADAMW_FUSED : PLM_OPTIMIZER_ADAM_FUSED;
}

/* sgd() - has states only with a momentum other than 0 */
static enum plm_status sgd(struct keys_context *c,
                           const struct yaml_node *params,
                           enum plm_optimizer *ret)
{
    const struct yaml_node *momentum = member(params, "momentum");
    double number = 0;
    enum plm_status status = momentum ? keys_read_number(c, "momentum", momentum, &number) : PLM_OK;

    *ret = number != 0 ? PLM_OPTIMIZER_SGD_MOMENTUM : PLM_OPTIMIZER_SGD;
    return status;
}

static enum plm_status optimizer(struct keys_context *c,
                                 const char *key,
                                 const struct yaml_node *value)
{
    const struct yaml_node *type = yaml_get(value, "type"), *params = yaml_get(value, "params");
    enum plm_optimizer *chosen = &strategy_of(c)->optimizer, read;
    enum plm_status status = PLM_OK;

    if (!type)
        return keys_refuse(c, key, value, "'type' is missing");
    if (strcasecmp(type->text, "adam") == 0)
        read = adam(params, false);
    else if (strcasecmp(type->text, "adamw") == 0)
        read = adam(params, true);
    else if (strcmp(type->text, "SGD") == 0)
        status = sgd(c, params, &read);
    else if (strcmp(type->text, "RMSprop") == 0)
        read = PLM_OPTIMIZER_RMSPROP;
    else
        return keys_refuse(c, "type", type, "Adam, AdamW, SGD and RMSprop are modelled");
    if (status)
        return status;
    if (*chosen != PLM_OPTIMIZER_ADAMW && *chosen != read) /* adamw: none was asked for */
        return keys_refuse(c, "type", type, "--optimizer says otherwise");
    *chosen = read;
    return PLM_OK;
}

/* ------------------------------------------------------------------ the file */

static const struct keys_entry root_keys[] = {
    { "train_batch_size", NULL },
    { "train_micro_batch_size_per_gpu", micro_batch },
    { "gradient_accumulation_steps", accumulation },
    { "gradient_clipping", clipping },
    { "zero_optimization", zero_optimization },
    { "bf16", bf16 },
    { "bfloat16", bf16 },
    { "fp16", fp16 },
    { "optimizer", optimizer },
    { "communication_data_type", communication_type },
    { "data_types", data_types },
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

/*
 * check_offload() - parameters on the host while the optimizer stays on the device are not modelled
 *
 * DeepSpeed accepts that (stage3.py, _configure_offloading()): master weights and states take the device's memory then.
 */
static enum plm_status check_offload(struct keys_context *c, const struct yaml_node *zero)
{
    const struct yaml_node *param = member(zero, "offload_param");
    bool offloaded = false;
    enum plm_status status = param ? offloads(c, param, &offloaded) : PLM_OK;

    if (status || !offloaded)
        return status;
    if (strategy_of(c)->parallel.zero < 3)
        return keys_refuse(c, "offload_param", param,
                           "parameters stay on the device before stage 3");
    if (deepspeed_of(c)->offload == PLM_OFFLOAD_NONE)
        return keys_refuse(c, "offload_param", param, "not modelled without 'offload_optimizer'");
    deepspeed_of(c)->offload = PLM_OFFLOAD_ALL;
    return PLM_OK;
}

/* check_root() - a file without ZeRO is not one for this */
static enum plm_status check_root(struct keys_context *c, const struct yaml_node *root)
{
    const struct yaml_node *zero = yaml_get(root, "zero_optimization");

    if (strategy_of(c)->parallel.zero == 0)
        return plm_fail_at(c->reterr, PLM_E_USAGE, zero ? zero->at : root->at,
                           "'stage' of 'zero_optimization' is missing: stage 1, 2 or 3 of ZeRO is "
                           "modelled, not stage 0");
    enum plm_status status = check_offload(c, zero);

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
