/* cli/cmd_models.c - plimsoll models: the zoo, or what can be set in one model */
#include <string.h>

#include "base/units.h"
#include "cli/answer.h"
#include "cli/load.h"
#include "cli/talk.h"
#include "report/layout.h"

static const struct column zoo_columns[] = {
    { "name", "model", CELL_TEXT },       { "parameters", "parameters", CELL_COUNT },
    { "about", "what it is", CELL_TEXT }, { "source", NULL, CELL_TEXT },
    { "batch", NULL, CELL_COUNT },        { "seq", NULL, CELL_COUNT },
};
enum { ZOO_COLUMNS = sizeof zoo_columns / sizeof *zoo_columns };

static const char *copy(struct arena *arena, const char *text)
{
    struct buf buf = { .arena = arena };

    buf_text(&buf, text ? text : "");
    return buf_string(&buf);
}

/* zoo_row() - the cells of one model; its text is copied, as it goes with the model */
static enum plm_status zoo_row(struct cli *cli,
                               const char *name,
                               struct cell cells[ZOO_COLUMNS],
                               struct plm_error *reterr)
{
    struct plm_model *model;
    struct plm_model_info info;
    enum plm_status status = plm_model_load(cli->context, name, &model, reterr);

    if (status != PLM_OK)
        return status;
    status = plm_model_describe(model, &info, reterr);
    if (status == PLM_OK) {
        cells[0].text = name;
        cells[1].number = info.parameters;
        cells[2].text = copy(&cli->arena, info.about);
        cells[3].text = copy(&cli->arena, info.source);
        cells[4].number = (uint64_t)info.batch;
        cells[5].number = (uint64_t)info.seq;
    }
    plm_model_destroy(model);
    return status;
}

static enum exit_status list_zoo(struct cli *cli)
{
    const char *const *names;
    size_t name_count, row_count = 0;
    enum exit_status exit_status = EXIT_FITS;
    struct plm_error error;
    enum plm_status status = plm_model_names(cli->context, &names, &name_count, &error);
    struct buf text = { .arena = &cli->arena };
    struct cell *cells;

    if (status != PLM_OK)
        return talk_fail(status, &error);
    cells = arena_array(&cli->arena, struct cell, name_count * ZOO_COLUMNS);
    for (size_t i = 0; i < name_count; i++) {
        status = zoo_row(cli, names[i], cells + row_count * ZOO_COLUMNS, &error);
        if (status == PLM_OK)
            row_count++;
        else /* the others are listed all the same */
            exit_status = talk_fail(status, &error);
    }

    struct list list = { "models", zoo_columns, ZOO_COLUMNS, cells, row_count, cli->colour };

    answer_renderer(cli)->list(&list, &text);
    return answer_write(cli, &text, exit_status);
}

static const struct column setting_columns[] = {
    { "kind", "kind", CELL_TEXT },
    { "name", "name", CELL_TEXT },
    { "value", "value (the first is the default)", CELL_TEXT },
};
enum { SETTING_COLUMNS = sizeof setting_columns / sizeof *setting_columns };

static void heading(const struct plm_model_info *info, struct buf *out)
{
    char parameters[UNITS_TEXT];

    struct layout layout = { .out = out };

    buf_text(out, info->name);
    if (info->about && info->about[0]) {
        buf_text(out, ": ");
        layout_wrap(&layout, info->about, strlen(info->name) + 2, 2);
    } else {
        buf_char(out, '\n');
    }
    if (info->source && info->source[0]) {
        buf_text(out, "source: ");
        layout_wrap(&layout, info->source, 8, 2);
    }
    buf_printf(out, "%s parameters; batch %lld", units_format_grouped(info->parameters, parameters),
               (long long)info->batch);
    if (info->seq > 0)
        buf_printf(out, " and seq %lld", (long long)info->seq);
    buf_text(out, " by default\n\nWhat --set takes\n");
}

static enum exit_status describe(struct cli *cli, const struct plm_model_info *info)
{
    size_t row_count = info->dim_count + info->option_count;
    struct cell *cells = arena_array(&cli->arena, struct cell, row_count * SETTING_COLUMNS);
    struct list list = {
        "settings", setting_columns, SETTING_COLUMNS, cells, row_count, cli->colour
    };
    struct buf text = { .arena = &cli->arena };

    for (size_t i = 0; i < row_count; i++) {
        bool dim = i < info->dim_count;
        const struct plm_setting *setting =
            dim ? &info->dims[i] : &info->options[i - info->dim_count];

        cells[i * SETTING_COLUMNS].text = dim ? "dim" : "option";
        cells[i * SETTING_COLUMNS + 1].text = setting->name;
        cells[i * SETTING_COLUMNS + 2].text = setting->value;
    }
    if (!cli->options.json && !cli->options.csv)
        heading(info, &text);
    answer_renderer(cli)->list(&list, &text);
    return answer_write(cli, &text, EXIT_FITS);
}

static enum exit_status run(struct cli *cli)
{
    struct plm_model *model;
    struct plm_model_info info;
    struct plm_error error;
    enum plm_status status;
    enum exit_status exit_status;

    if (cli->argument_count == 0)
        return list_zoo(cli);
    status = load_model(cli, &model, &error);
    if (status != PLM_OK)
        return talk_fail(status, &error);
    status = plm_model_describe(model, &info, &error);
    exit_status = status == PLM_OK ? describe(cli, &info) : talk_fail(status, &error);
    plm_model_destroy(model);
    return exit_status;
}

const struct command cmd_models = {
    .name = "models",
    .arguments = "[MODEL]",
    .help = "the models that are known by name, or what --set takes for one",
    .about =
        "List the zoo with parameter counts. With a MODEL: what it mirrors, and the dims and options that --set takes.",
    .most = 1,
    .run = run,
};
