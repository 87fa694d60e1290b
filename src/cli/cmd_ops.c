/* cli/cmd_ops.c - plimsoll ops: the operators of a model file, or one with its attributes */
#include <string.h>

#include "base/error.h"
#include "cli/answer.h"
#include "cli/talk.h"

static const struct column op_columns[] = {
    { "name", "operator", CELL_TEXT },
    { "inputs", "inputs", CELL_TEXT },
    { "outputs", NULL, CELL_COUNT },
    { "help", "what it does", CELL_TEXT },
};
enum { OP_COLUMNS = sizeof op_columns / sizeof *op_columns };

static const char *inputs(struct arena *arena, const struct plm_operator_info *op)
{
    struct buf text = { .arena = arena };

    if (op->least == op->most)
        buf_printf(&text, "%d", op->least);
    else if (op->most < 0 || op->most > 64)
        buf_printf(&text, "%d or more", op->least);
    else
        buf_printf(&text, "%d to %d", op->least, op->most);
    return buf_string(&text);
}

static enum exit_status list_operators(struct cli *cli)
{
    size_t count;
    const struct plm_operator_info *operators = plm_operators(&count);
    struct cell *cells = arena_array(&cli->arena, struct cell, count * OP_COLUMNS);
    struct list list = { "operators", op_columns, OP_COLUMNS, cells, count, cli->colour };
    struct buf text = { .arena = &cli->arena };

    for (size_t i = 0; i < count; i++) {
        struct cell *row = cells + i * OP_COLUMNS;

        row[0].text = operators[i].name;
        row[1].text = inputs(&cli->arena, &operators[i]);
        row[2].number = (uint64_t)operators[i].outputs;
        row[3].text = operators[i].help;
    }
    answer_renderer(cli)->list(&list, &text);
    return answer_write(cli, &text, EXIT_FITS);
}

static const struct column attribute_columns[] = {
    { "name", "attribute", CELL_TEXT },
    { "type", "type", CELL_TEXT },
    { "default", "default", CELL_TEXT },
    { "help", "what it is", CELL_TEXT },
};
enum { ATTRIBUTE_COLUMNS = sizeof attribute_columns / sizeof *attribute_columns };

static enum exit_status list_attributes(struct cli *cli, const struct plm_operator_info *op)
{
    size_t count, row_count = 0;
    const struct plm_attribute_info *attributes = plm_attributes(&count);
    struct cell *cells = arena_array(&cli->arena, struct cell, count * ATTRIBUTE_COLUMNS);
    struct buf text = { .arena = &cli->arena };

    for (size_t i = 0; i < count; i++) {
        struct cell *row = cells + row_count * ATTRIBUTE_COLUMNS;

        if (strcmp(attributes[i].op, op->name) != 0)
            continue;
        row[0].text = attributes[i].name;
        row[1].text = attributes[i].type;
        row[2].text = attributes[i].fallback;
        row[3].text = attributes[i].help;
        row_count++;
    }

    struct list list = { "attributes", attribute_columns, ATTRIBUTE_COLUMNS,
                         cells,        row_count,         cli->colour };
    bool plain = !cli->options.json && !cli->options.csv;

    if (plain)
        buf_printf(&text, "%s: %s; inputs: %s\n%s", op->name, op->help, inputs(&cli->arena, op),
                   row_count ? "\n" : "");
    if (!plain || row_count > 0)
        answer_renderer(cli)->list(&list, &text);
    return answer_write(cli, &text, EXIT_FITS);
}

static enum exit_status run(struct cli *cli)
{
    size_t count;
    const struct plm_operator_info *operators = plm_operators(&count);
    const char **names, *near;
    struct plm_error error;

    if (cli->argument_count == 0)
        return list_operators(cli);
    names = arena_array(&cli->arena, const char *, count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(operators[i].name, cli->arguments[0]) == 0)
            return list_attributes(cli, &operators[i]);
        names[i] = operators[i].name;
    }
    near = error_nearest(cli->arguments[0], names, count);
    return talk_fail(plm_fail(&error, PLM_E_USAGE,
                              "unknown operator '%.60s'%s%s%s ('plimsoll ops' lists them)",
                              cli->arguments[0], near ? "; did you mean '" : "", near ? near : "",
                              near ? "'?" : ""),
                     &error);
}

const struct command cmd_ops = {
    .name = "ops",
    .arguments = "[OPERATOR]",
    .help = "the operators of a model file, or the attributes of one",
    .about = "List the operators that a model file may name; with an OPERATOR its attributes.",
    .most = 1,
    .run = run,
};
