/* api/describe.c - what there is: a model's dims and options, and the operators' vocabulary */
#include <stdio.h>
#include <string.h>

#include "api/internal.h"
#include "base/buf.h"
#include "model/expression.h"

static const char *text_of(struct arena *arena, const struct names *names, struct value value)
{
    char text[96];

    value_describe(names, value, text);
    return arena_copy(arena, text, strlen(text));
}

static const char *words_of(struct arena *arena,
                            const struct names *names,
                            const struct model_option *option)
{
    char text[128];

    option_words(names, option, text);
    return arena_copy(arena, text, strlen(text));
}

static enum plm_status count_parameters(struct plm_model *model,
                                        uint64_t *ret_count,
                                        struct plm_error *reterr)
{
    /* the smallest run that makes every parameter: the model's own, on one sample */
    struct plm_strategy strategy = { .batch = 1, .steps = 1, .eval = true };
    struct simulation sim;
    enum plm_status status = simulate(&model->subject, &strategy, 0, &sim, reterr);

    if (status != PLM_OK)
        return status;
    struct plm_result result;

    estimate_result(&sim, NULL, 0, &result);
    *ret_count = result.parameters;
    simulation_finish(&sim);
    return PLM_OK;
}

enum plm_status plm_model_describe(struct plm_model *model,
                                   struct plm_model_info *ret_info,
                                   struct plm_error *reterr)
{
    const struct model *m = model->subject.model;
    const struct value *values;
    uint64_t parameters;
    enum plm_status status =
        model_globals(m,
                      &(struct graph_settings){ .settings = model->subject.settings,
                                                .setting_count = model->subject.setting_count,
                                                .training = true },
                      &model->arena, &values, reterr);

    if (status == PLM_OK)
        status = count_parameters(model, &parameters, reterr);
    if (status != PLM_OK)
        return status;
    struct plm_setting *dims = arena_array(&model->arena, struct plm_setting, m->dim_count);
    struct plm_setting *options = arena_array(&model->arena, struct plm_setting, m->option_count);

    for (size_t i = 0; i < m->dim_count; i++)
        dims[i] =
            (struct plm_setting){ names_text(&m->names, m->dims[i].name),
                                  text_of(&model->arena, &m->names, values[MODEL_RUN_COUNT + i]) };
    for (size_t i = 0; i < m->option_count; i++) {
        const struct model_option *option = &m->options[i];
        struct value value = values[MODEL_RUN_COUNT + m->dim_count + i];

        options[i] = (struct plm_setting){
            names_text(&m->names, option->name),
            option->word_count ? words_of(&model->arena, &m->names, option)
                               : text_of(&model->arena, &m->names, value),
        };
    }
    *ret_info = (struct plm_model_info){
        .name = m->name,
        .about = m->about ? m->about : "",
        .source = m->origin ? m->origin : "",
        .parameters = parameters,
        .batch = values[MODEL_BATCH].as.i,
        .seq = values[MODEL_SEQ].as.i,
        .dims = dims,
        .options = options,
        .dim_count = m->dim_count,
        .option_count = m->option_count,
    };
    return PLM_OK;
}

const struct plm_operator_info *plm_operators(size_t *ret_count)
{
    static const struct plm_operator_info rows[] = {
#define OP(ID, name, least, most, outputs, owns, cast, help) { #name, help, least, most, outputs },
#include "opdef/ops.def"
#undef OP
    };

    *ret_count = sizeof rows / sizeof rows[0];
    return rows;
}

/* The tables name operators and keys by number; here they are wanted as text. */
#define OP(ID, name, least, most, outputs, owns, cast, help)                                       \
    static const char op_text_##ID[] = #name;
#include "opdef/ops.def"
#undef OP
#define KEY(ID, name) static const char key_text_##ID[] = #name;
#include "opdef/keys.def"
#undef KEY

const struct plm_attribute_info *plm_attributes(size_t *ret_count)
{
#define TYPE_INT(choices) "integer"
#define TYPE_REAL(choices) "number"
#define TYPE_BOOL(choices) "true|false"
#define TYPE_INTS(choices) "integers"
#define TYPE_WORD(choices) choices
#define TYPE_DTYPE(choices) "dtype"
#define TYPE_NAME(choices) "name"
#define REQUIRED NULL
#define ABSENT ""
    static const struct plm_attribute_info rows[] = {
#define ATTR(OP, KEY, type, fallback, choices, help)                                               \
    { op_text_##OP, key_text_##KEY, TYPE_##type(choices), fallback, help },
#include "opdef/attrs.def"
#undef ATTR
    };

    *ret_count = sizeof rows / sizeof rows[0];
    return rows;
}
