/* import/deepspeed_training.c - precision, clipping and optimizer of a DeepSpeed configuration: config.py and precision_config.py */
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "import/deepspeed_sections.h"
#include "yaml/decode.h"

/* ------------------------------------------------------------------ precision */

/* enable() - a section's "enabled": true chooses the precision, false leaves it to another one or to the option */
static enum plm_status enable(struct keys_context *c,
                              const struct yaml_node *value,
                              enum plm_precision precision)
{
    struct plm_strategy *s = strategy_of(c);
    bool chosen = s->has_precision || s->precision != PLM_PRECISION_FP32, on;
    enum plm_status status = decode_bool(value, "enabled", &on, c->reterr);

    if (status)
        return status;
    if (chosen && on != (s->precision == precision))
        return keys_refuse(c, "enabled", value, "another section or --precision says otherwise");
    if (on) {
        s->precision = precision;
        s->has_precision = true;
    }
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

static enum plm_status check_grad_overflow(struct keys_context *c,
                                           const char *key,
                                           const struct yaml_node *value)
{
    return keys_read_switch(c, key, value, NULL, &deepspeed_of(c)->check_grad_overflow);
}

static const struct keys_entry bf16_keys[] = {
    { "enabled", enable_bf16 },
    { "immediate_grad_update", NULL },
    { "check_grad_overflow", check_grad_overflow },
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

enum plm_status section_bf16(struct keys_context *c, const char *key, const struct yaml_node *value)
{
    return READ_KEYS(c, key, value, bf16_keys);
}

enum plm_status section_fp16(struct keys_context *c, const char *key, const struct yaml_node *value)
{
    return READ_KEYS(c, key, value, fp16_keys);
}

enum plm_status section_communication_type(struct keys_context *c,
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

enum plm_status section_data_types(struct keys_context *c,
                                   const char *key,
                                   const struct yaml_node *value)
{
    return READ_KEYS(c, key, value, data_types_keys);
}

/* ------------------------------------------------------------------ clipping and optimizer */

enum plm_status section_clipping(struct keys_context *c,
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

/* adam() - DeepSpeed's own fused kernel, unless it is told to take PyTorch's */
static enum plm_optimizer adam(const struct yaml_node *params, bool decoupled)
{
    const struct yaml_node *torch = keys_member(params, "torch_adam");

    if (torch && strcmp(torch->text, "true") == 0)
        return decoupled ? PLM_OPTIMIZER_ADAMW : PLM_OPTIMIZER_ADAM;
    return decoupled ? PLM_OPTIMIZER_ADAMW_FUSED : PLM_OPTIMIZER_ADAM_FUSED;
}

/* sgd() - has states only with a momentum other than 0 */
static enum plm_status sgd(struct keys_context *c,
                           const struct yaml_node *params,
                           enum plm_optimizer *ret)
{
    const struct yaml_node *momentum = keys_member(params, "momentum");
    double number = 0;
    enum plm_status status = momentum ? keys_read_number(c, "momentum", momentum, &number) : PLM_OK;

    *ret = number != 0 ? PLM_OPTIMIZER_SGD_MOMENTUM : PLM_OPTIMIZER_SGD;
    return status;
}

enum plm_status section_optimizer(struct keys_context *c,
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
    if ((strategy_of(c)->has_optimizer || *chosen != PLM_OPTIMIZER_ADAMW) && *chosen != read)
        return keys_refuse(c, "type", type, "--optimizer says otherwise");
    *chosen = read;
    return PLM_OK;
}
