/* model/settings.c - the values of dims and options under `--set` and the command line */
#include <string.h>

#include "base/units.h"
#include "model/internal.h"

static enum plm_status fail_unknown(const struct model *model,
                                    const char *name,
                                    struct arena *scratch,
                                    struct plm_error *reterr)
{
    size_t count = model->global_count - MODEL_RUN_COUNT;
    const char **names = arena_array(scratch, const char *, count);

    for (size_t i = 0; i < count; i++)
        names[i] = names_text(&model->names, model->global_names[MODEL_RUN_COUNT + i]);
    const char *near = error_nearest(name, names, count);

    if (strcmp(name, "batch") == 0 || strcmp(name, "seq") == 0)
        return plm_fail(reterr, PLM_E_USAGE, "'%.60s' is not set by --set, but by --%.60s", name,
                        name);
    return plm_fail(reterr, PLM_E_USAGE, "model '%.60s' has no dim or option '%.60s'%s%s%s",
                    model->name, name, near ? "; did you mean '" : "", near ? near : "",
                    near ? "'?" : "");
}

static enum plm_status set_dim(const struct model *model,
                               const struct model_dim *dim,
                               const char *text,
                               struct value *ret,
                               struct plm_error *reterr)
{
    int64_t number;

    if (!units_parse_int(text, &number))
        return plm_fail(reterr, PLM_E_USAGE, "dim '%.60s' takes an integer, not '%.60s'",
                        names_text(&model->names, dim->name), text);
    if (number < 0)
        return plm_fail(reterr, PLM_E_RANGE, "dim '%.60s' must not be negative, but is %lld",
                        names_text(&model->names, dim->name), (long long)number);
    *ret = (struct value){ .kind = VALUE_INT, .as.i = number };
    return PLM_OK;
}

static enum plm_status apply_setting(const struct model *model,
                                     const struct model_setting *setting,
                                     struct arena *scratch,
                                     struct value *values,
                                     struct plm_error *reterr)
{
    name_id name = names_find(&model->names, setting->name, strlen(setting->name));
    size_t i = MODEL_RUN_COUNT;
    char words[128];

    while (i < model->global_count && model->global_names[i] != name)
        i++;
    if (name == 0 || i == model->global_count)
        return fail_unknown(model, setting->name, scratch, reterr);
    if (i < MODEL_RUN_COUNT + model->dim_count)
        return set_dim(model, &model->dims[i - MODEL_RUN_COUNT], setting->value, &values[i],
                       reterr);
    const struct model_option *option = &model->options[i - MODEL_RUN_COUNT - model->dim_count];

    if (!option_read(&model->names, option, setting->value, &values[i]))
        return plm_fail(reterr, PLM_E_USAGE, "option '%.60s' must be %s, not '%.60s'",
                        setting->name, option_words(&model->names, option, words), setting->value);
    return PLM_OK;
}

static enum plm_status eval_dims(const struct model *model,
                                 struct value *values,
                                 struct plm_error *reterr)
{
    struct expr_env env = { .names = &model->names, .globals = values };
    char text[96];

    for (size_t i = 0; i < model->dim_count; i++) {
        const struct model_dim *dim = &model->dims[model->dim_order[i]];
        struct value *value = &values[MODEL_RUN_COUNT + model->dim_order[i]];

        if (value->kind != VALUE_NONE) /* set */
            continue;
        enum plm_status status = expr_eval(dim->value, &env, value, reterr);

        if (status)
            return load_prefix(reterr, status, names_text(&model->names, dim->name));
        if (value->kind != VALUE_INT)
            return plm_fail_at(reterr, PLM_E_MODEL, dim->at, "dim '%s' must be an integer, not %s",
                               names_text(&model->names, dim->name),
                               value_describe(&model->names, *value, text));
    }
    return PLM_OK;
}

static struct value truth(bool holds)
{
    return (struct value){ .kind = VALUE_BOOL, .as.i = holds };
}

static struct value integer(int64_t number)
{
    return (struct value){ .kind = VALUE_INT, .as.i = number };
}

/* thousandths() - @number, which is at most in the thousands, as expressions have it: an integer */
static struct value thousandths(double number)
{
    return integer((int64_t)(number * 1000 + 0.5));
}

enum plm_status model_globals(const struct model *model,
                              const struct graph_settings *settings,
                              struct arena *arena,
                              const struct value **ret_values,
                              struct plm_error *reterr)
{
    struct value *values = arena_array(arena, struct value, model->global_count);
    int64_t cp = settings->cp > 1 ? settings->cp : 1;
    int64_t seq = settings->seq ? settings->seq : model->seq;
    enum plm_status status = PLM_OK;

    if (settings->batch < 0 || settings->seq < 0)
        return plm_fail(reterr, PLM_E_RANGE, "batch and seq must be positive");
    if (cp > 1 && seq % (2 * cp) != 0)
        return plm_fail(reterr, PLM_E_USAGE,
                        "cp: a sequence is shared out in two chunks for each rank: %lld tokens are "
                        "not a multiple of 2 × %lld",
                        (long long)seq, (long long)cp);
    values[MODEL_BATCH] = integer(settings->batch ? settings->batch : model->batch);
    values[MODEL_SEQ] = integer(seq / cp);
    values[MODEL_TRAINING] = truth(settings->training);
    values[MODEL_CHECKPOINTING] = truth(settings->checkpointing);
    values[MODEL_READS_ZERO] = truth(settings->reads_zero);
    values[MODEL_AUTOCAST] = truth(settings->autocast);
    values[MODEL_HALF] = truth(settings->half);
    values[MODEL_TP] = integer(settings->tp ? settings->tp : 1);
    values[MODEL_SEQUENCE_PARALLEL] = truth(settings->sequence_parallel);
    values[MODEL_RECOMPUTE_SELECTIVE] = truth(settings->recompute_selective);
    values[MODEL_CP] = integer(cp);
    values[MODEL_EP] = integer(settings->ep > 1 ? settings->ep : 1);
    values[MODEL_IMBALANCE] = thousandths(settings->imbalance > 0 ? settings->imbalance : 1);
    values[MODEL_CAPACITY] = thousandths(settings->capacity);
    values[MODEL_PYTORCH] = integer(settings->pytorch ? settings->pytorch : GRAPH_PYTORCH_NEWEST);
    values[MODEL_GRAD_ENABLED] = truth(false); /* decided node by node, see graph.c */
    for (size_t i = 0; i < model->option_count; i++)
        values[MODEL_RUN_COUNT + model->dim_count + i] = model->options[i].value;
    for (size_t i = 0; i < settings->setting_count && !status; i++)
        status = apply_setting(model, &settings->settings[i], arena, values, reterr);
    if (!status)
        status = eval_dims(model, values, reterr);
    if (!status)
        *ret_values = values;
    return status;
}
