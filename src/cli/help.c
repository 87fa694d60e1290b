/* cli/help.c - --help, from the tables of commands and options; 80 columns */
#include <string.h>

#include "cli/help.h"
#include "report/layout.h"

enum { INDENT = 29 };

static void wrapped(struct buf *out, const char *text, size_t column, size_t indent)
{
    struct layout layout = { .out = out };

    layout_wrap(&layout, text, column, indent);
}

void help_option(const struct option_desc *desc, struct buf *out)
{
    buf_text(out, desc->help);
    if (desc->words && !strchr(desc->argument, '|') && desc->words->count > 1 &&
        strcmp(desc->argument, "HOW") != 0) {
        buf_text(out, " One of ");
        for (size_t i = 0; i < desc->words->count; i++)
            buf_printf(out, "%s%s%s", i ? ", " : "", desc->words->items[i],
                       i == 0 && desc->group != GROUP_OUTPUT ? " (default)" : "");
        buf_char(out, '.');
    }
}

static void print_option(const struct option_desc *desc, struct buf *out)
{
    struct buf left = { .arena = out->arena }, text = { .arena = out->arena };

    if (desc->letter)
        buf_printf(&left, "  -%c, ", desc->letter);
    else
        buf_text(&left, "      ");
    buf_printf(&left, "--%s", desc->name);
    if (desc->argument)
        buf_printf(&left, " %s", desc->argument);
    buf_text(out, buf_string(&left));
    if (left.length + 2 > INDENT)
        buf_printf(out, "\n%*s", INDENT, "");
    else
        buf_printf(out, "%*s", (int)(INDENT - left.length), "");
    help_option(desc, &text);
    wrapped(out, buf_string(&text), INDENT, INDENT);
}

void help_command(unsigned id, struct buf *out)
{
    const struct command *command = command_at((enum command_id)id);

    buf_printf(out, "usage: plimsoll %s [OPTIONS]%s%s\n\n", command->name,
               command->arguments[0] ? " " : "", command->arguments);
    wrapped(out, command->about, 0, 0);
    for (unsigned group = 0; group < GROUP_COUNT; group++) {
        bool first = true;

        for (size_t i = 0; i < OPTION_COUNT; i++) {
            if (option_descs[i].group != group || !option_taken(&option_descs[i], id))
                continue;
            if (first)
                buf_printf(out, "\n%s\n", option_groups[group]);
            first = false;
            print_option(&option_descs[i], out);
        }
    }
    buf_printf(out, "\nThe manual: man plimsoll-%s\n", command->name);
}

void help_program(struct buf *out)
{
    buf_text(out,
             "usage: plimsoll COMMAND [OPTIONS] [ARGUMENTS]\n\n"
             "How much GPU memory a training run takes, and the largest batch that is safe.\n\n"
             "Commands\n");
    for (unsigned i = 0; i < COMMAND_COUNT; i++)
        buf_printf(out, "  %-10s %s\n", command_at(i)->name, command_at(i)->help);
    buf_text(out, "\nOptions\n"
                  "  -h, --help        print this, or with a command its options\n"
                  "      --version     print the version\n"
                  "      --color=WHEN  auto, always or never\n\n"
                  "To begin with\n"
                  "  plimsoll plan gpt2 --device rtx4090 --precision amp-bf16\n"
                  "  plimsoll estimate gpt2 --batch 8 --device rtx4090\n"
                  "  plimsoll models\n\n"
                  "Exit status: 0 fits, 1 does not fit, 2 bad usage or input, 3 trouble.\n"
                  "The manual: man plimsoll\n");
}
