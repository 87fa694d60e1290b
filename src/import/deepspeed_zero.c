/* import/deepspeed_zero.c - "zero_optimization" of a DeepSpeed configuration: zero/config.py and zero/offload_config.py */
#include <string.h>

#include "base/error.h"
#include "import/deepspeed_sections.h"
#include "yaml/decode.h"

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
        return keys_read_switch(c, key, value, NULL, &deepspeed_of(c)->field);                     \
    }

/* in elements; what it holds would have more bytes than there are addresses on a GPU (49 bits) */
#define BUCKET_MOST ((int64_t)1 << 48)

SIZE_KEY(prefetch_bucket_size)
SIZE_KEY(param_persistence_threshold)
SIZE_KEY(model_persistence_threshold)
SIZE_KEY(max_live_parameters)
SIZE_KEY(max_reuse_distance)
SIZE_KEY(sub_group_size)
SWITCH_KEY(contiguous_gradients)
SWITCH_KEY(reduce_scatter)
SWITCH_KEY(multi_rank_allreduce)

static enum plm_status overlap_comm(struct keys_context *c,
                                    const char *key,
                                    const struct yaml_node *value)
{
    return keys_read_switch(c, key, value, "zero-overlap", &deepspeed_of(c)->overlap_comm);
}

static enum plm_status reduce_bucket_size(struct keys_context *c,
                                          const char *key,
                                          const struct yaml_node *value)
{
    return keys_agree(c, key, value, BUCKET_MOST, "zero-bucket",
                      &deepspeed_of(c)->reduce_bucket_size);
}

static enum plm_status stage(struct keys_context *c, const char *key, const struct yaml_node *value)
{
    int64_t number;
    enum plm_status status = keys_read_whole(c, key, value, 1, &number);

    if (status || number > 3)
        return keys_refuse(c, key, value, "stage 1, 2 or 3 of ZeRO was expected");
    return keys_agree(c, key, value, 3, "zero", &strategy_of(c)->parallel.zero);
}

static enum plm_status round_robin(struct keys_context *c,
                                   const char *key,
                                   const struct yaml_node *value)
{
    return decode_bool(value, key, &deepspeed_of(c)->round_robin_gradients, c->reterr);
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

/* offload() - what it says is followed by section_check_offload(), which knows the stage and the other section */
static enum plm_status offload(struct keys_context *c,
                               const char *key,
                               const struct yaml_node *value)
{
    return READ_KEYS(c, key, value, offload_keys);
}

static const struct keys_entry zero_keys[] = {
    { "stage", stage },
    { "contiguous_gradients", switch_contiguous_gradients },
    { "reduce_scatter", switch_reduce_scatter },
    { "reduce_bucket_size", reduce_bucket_size },
    { "use_multi_rank_bucket_allreduce", switch_multi_rank_allreduce },
    { "allgather_partitions", NULL },
    { "allgather_bucket_size", NULL },
    { "overlap_comm", overlap_comm },
    { "compute_grad_norm", keys_refuse_false },
    { "load_from_fp32_weights", NULL },
    { "elastic_checkpoint", NULL },
    { "offload_param", offload },
    { "offload_optimizer", offload },
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

/* leave_to_trainer() - the sizes that Hugging Face's Trainer works out where it finds "auto" */
static void leave_to_trainer(struct plm_deepspeed *d, const struct yaml_node *zero)
{
    const struct {
        const char *key;
        int64_t *size;
    } sizes[] = {
        { "reduce_bucket_size", &d->reduce_bucket_size },
        { "stage3_prefetch_bucket_size", &d->prefetch_bucket_size },
        { "stage3_param_persistence_threshold", &d->param_persistence_threshold },
    };

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const struct yaml_node *value = keys_member(zero, sizes[i].key);

        if (value && !yaml_is_null(value) && keys_is_auto(value) && *sizes[i].size == 0)
            *sizes[i].size = PLM_DEEPSPEED_AUTO;
    }
}

enum plm_status section_zero_optimization(struct keys_context *c,
                                          const char *key,
                                          const struct yaml_node *value)
{
    enum plm_status status = READ_KEYS(c, key, value, zero_keys);

    if (!status)
        leave_to_trainer(deepspeed_of(c), value);
    return status;
}

/* struct place - what a section of offloading says, and where */
struct place {
    const char *key;
    const struct yaml_node *at; /* NULL: there is no such section, or it leaves the place open */
    bool host;
};

static enum plm_status read_place(struct keys_context *c,
                                  const struct yaml_node *zero,
                                  struct place *place)
{
    const struct yaml_node *section = keys_member(zero, place->key);
    const struct yaml_node *device = keys_member(section, "device");

    if (!section || keys_is_auto(section) || (device && keys_is_auto(device)))
        return PLM_OK;
    place->at = device ? device : section;
    place->host = device && strcmp(device->text, "cpu") == 0;
    if (device && !place->host && strcmp(device->text, "none") != 0)
        return keys_refuse(c, "device", device, "cpu or none; nvme is not modelled");
    return PLM_OK;
}

/* agree() - with --zero-offload, which has them on the host or, when it was given at all, not */
static enum plm_status agree(struct keys_context *c, const struct place *place, bool host)
{
    bool given = deepspeed_of(c)->has_offload || host;

    if (!place->at || !given || place->host == host)
        return PLM_OK;
    return plm_fail_at(c->reterr, PLM_E_USAGE, place->at->at,
                       "'%s' is %s; --zero-offload says otherwise", place->key,
                       place->host ? "on the host" : "on the device");
}

/*
 * section_check_offload() - parameters on the host while the optimizer stays on the device are not modelled
 *
 * DeepSpeed accepts that (stage3.py, _configure_offloading()): master weights and states take the device's memory then.
 */
enum plm_status section_check_offload(struct keys_context *c, const struct yaml_node *zero)
{
    enum plm_offload *offload = &deepspeed_of(c)->offload;
    struct place optimizer = { .key = "offload_optimizer" }, params = { .key = "offload_param" };
    bool only_optimizer = *offload == PLM_OFFLOAD_OPTIMIZER;
    enum plm_status status = read_place(c, zero, &optimizer);

    if (!status)
        status = read_place(c, zero, &params);
    if (!status)
        status = agree(c, &optimizer, *offload != PLM_OFFLOAD_NONE);
    if (!status && !only_optimizer)
        status = agree(c, &params, *offload == PLM_OFFLOAD_ALL);
    if (status)
        return status;
    if (optimizer.host && *offload == PLM_OFFLOAD_NONE)
        *offload = PLM_OFFLOAD_OPTIMIZER;
    if (!params.host)
        return PLM_OK;
    if (strategy_of(c)->parallel.zero < 3)
        return keys_refuse(c, params.key, params.at,
                           "parameters stay on the device before stage 3");
    if (*offload == PLM_OFFLOAD_NONE)
        return keys_refuse(c, params.key, params.at, "not modelled without 'offload_optimizer'");
    *offload = PLM_OFFLOAD_ALL;
    return PLM_OK;
}
