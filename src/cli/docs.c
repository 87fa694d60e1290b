/* cli/docs.c - sections of the manual from the tables, in scdoc's notation */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "cli/docs.h"
#include "cli/help.h"

/* plain() - @text with scdoc's own characters escaped; some at the start would begin a list or a table */
static void plain(struct buf *out, const char *text)
{
    if (*text && strchr("-|[]#.", *text))
        buf_char(out, '\\');
    for (; *text; text++) {
        if (strchr("\\*_`<>", *text))
            buf_char(out, '\\');
        buf_char(out, *text);
    }
}

static void scd_option(const struct option_desc *desc, struct buf *out)
{
    struct buf text = { .arena = out->arena };

    if (desc->letter)
        buf_printf(out, "*-%c*, ", desc->letter);
    buf_printf(out, "*--%s*", desc->name);
    if (desc->argument) {
        buf_text(out, " _");
        plain(out, desc->argument);
        buf_char(out, '_');
    }
    buf_text(out, "\n\t");
    help_option(desc, &text);
    plain(out, buf_string(&text));
    buf_text(out, "\n\n");
}

static void scd_options(unsigned command, struct buf *out)
{
    for (unsigned group = 0; group < GROUP_COUNT; group++) {
        bool first = true;

        for (size_t i = 0; i < OPTION_COUNT; i++) {
            if (option_descs[i].group != group || !option_taken(&option_descs[i], command))
                continue;
            if (first)
                buf_printf(out, "## %s\n\n", option_groups[group]);
            first = false;
            scd_option(&option_descs[i], out);
        }
    }
}

static void scd_commands(struct buf *out)
{
    for (unsigned i = 0; i < COMMAND_COUNT; i++) {
        const struct command *command = command_at((enum command_id)i);

        buf_printf(out, "*plimsoll-%s*(1)\n\t", command->name);
        plain(out, command->help);
        buf_text(out, "\n\n");
    }
}

static void scd_attribute(const struct plm_attribute_info *attribute, struct buf *out)
{
    buf_text(out, "\t- *");
    plain(out, attribute->name);
    buf_text(out, "* (");
    plain(out, attribute->type);
    if (attribute->fallback && attribute->fallback[0]) {
        buf_text(out, ", ");
        plain(out, attribute->fallback);
    }
    buf_text(out, "): ");
    plain(out, attribute->help);
    buf_char(out, '\n');
}

static void scd_operators(struct buf *out)
{
    size_t operator_count, attribute_count;
    const struct plm_operator_info *operators = plm_operators(&operator_count);
    const struct plm_attribute_info *attributes = plm_attributes(&attribute_count);

    for (size_t i = 0; i < operator_count; i++) {
        const struct plm_operator_info *op = &operators[i];
        bool first = true;

        buf_char(out, '*');
        plain(out, op->name);
        buf_text(out, "*\n\t");
        plain(out, op->help);
        if (op->least == op->most)
            buf_printf(out, "; %d input%s\n", op->least, op->least == 1 ? "" : "s");
        else if (op->most < 0 || op->most > 64)
            buf_printf(out, "; %d input%s or more\n", op->least, op->least == 1 ? "" : "s");
        else
            buf_printf(out, "; %d to %d inputs\n", op->least, op->most);
        for (size_t j = 0; j < attribute_count; j++)
            if (strcmp(attributes[j].op, op->name) == 0) {
                if (first)
                    buf_char(out, '\n');
                first = false;
                scd_attribute(&attributes[j], out);
            }
        buf_char(out, '\n');
    }
}

static void scd_frameworks(struct buf *out)
{
    size_t count;
    const char *const *names = plm_frameworks(&count);

    for (size_t i = 0; i < count; i++) {
        buf_text(out, "- *");
        plain(out, names[i]);
        buf_printf(out, "*%s\n", i == 0 ? " (default)" : "");
    }
    buf_char(out, '\n');
}

/* section() - one generated part; false when there is none of this name */
static bool section(const char *name, struct buf *out)
{
    if (strcmp(name, "commands") == 0)
        scd_commands(out);
    else if (strcmp(name, "operators") == 0)
        scd_operators(out);
    else if (strcmp(name, "frameworks") == 0)
        scd_frameworks(out);
    else {
        unsigned i = 0;

        while (i < COMMAND_COUNT && strcmp(command_at((enum command_id)i)->name, name) != 0)
            i++;
        if (i == COMMAND_COUNT)
            return false;
        scd_options(i, out);
    }
    return true;
}

static enum plm_status page(struct buf *out, struct plm_error *reterr)
{
    char line[4096];

    while (fgets(line, sizeof line, stdin)) {
        size_t length = strcspn(line, "\n");

        if (strncmp(line, "@scd:", 5) != 0 || line[length - 1] != '@') {
            buf_text(out, line);
            continue;
        }
        line[length - 1] = '\0';
        if (!section(line + 5, out))
            return plm_fail(reterr, PLM_E_USAGE, "no section '%.60s' to print", line + 5);
    }
    return PLM_OK;
}

static void print_names(const char *const *names, size_t count, struct buf *out)
{
    for (size_t i = 0; i < count; i++)
        buf_printf(out, "%s\n", names[i]);
}

static void print_devices(struct cli *cli, struct buf *out)
{
    struct plm_device_list list;

    plm_devices(cli->context, &list);
    for (size_t i = 0; i < list.count; i++)
        buf_printf(out, "%s\n", list.items[i].name);
}

enum plm_status docs_print(struct cli *cli,
                           const char *what,
                           struct buf *out,
                           struct plm_error *reterr)
{
    if (strcmp(what, "page") == 0)
        return page(out, reterr);
    if (strcmp(what, "devices") == 0)
        return print_devices(cli, out), PLM_OK;
    if (strcmp(what, "models") == 0) {
        const char *const *names;
        size_t count;
        enum plm_status status = plm_model_names(cli->context, &names, &count, reterr);

        if (status == PLM_OK)
            print_names(names, count, out);
        return status;
    }
    if (complete_shell(what, out) || (strncmp(what, "scd:", 4) == 0 && section(what + 4, out)))
        return PLM_OK;
    return plm_fail(reterr, PLM_E_USAGE,
                    "--print-docs: '%.40s' is not accepted; accepted: scd:NAME, page, bash, zsh, "
                    "fish, models, devices",
                    what);
}
