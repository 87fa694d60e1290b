/*
 * cli/complete.c - completions for bash, zsh and fish, from the tables
 *
 * Names of models and devices are asked of the program when they are needed, so that what a user adds is offered too.
 */
#include <string.h>

#include "cli/docs.h"

static const struct command *at(unsigned id)
{
    return command_at((enum command_id)id);
}

static bool takes_model(unsigned id)
{
    return strstr(at(id)->arguments, "MODEL") != NULL;
}

static bool takes_device(unsigned id)
{
    return strstr(at(id)->arguments, "DEVICE") != NULL;
}

static void commands(struct buf *out)
{
    for (unsigned i = 0; i < COMMAND_COUNT; i++)
        buf_printf(out, "%s%s", i ? " " : "", at(i)->name);
}

/* candidates() - the words after an option, separated by spaces */
static void candidates(const struct option_desc *desc, struct buf *out)
{
    size_t count = desc->words ? desc->words->count : 0;
    const char *const *items = desc->words ? desc->words->items : NULL;

    if (desc->complete == COMPLETE_FRAMEWORKS)
        items = plm_frameworks(&count);
    for (size_t i = 0; i < count; i++)
        buf_printf(out, "%s%s", i ? " " : "", items[i]);
}

/* ------------------------------------------------------------------ bash */

static void bash_value(const struct option_desc *desc, struct buf *out)
{
    if (!desc->argument)
        return;
    buf_printf(out, "    --%s", desc->name);
    if (desc->letter)
        buf_printf(out, "|-%c", desc->letter);
    buf_text(out, ")\n        ");
    switch (desc->complete) {
    case COMPLETE_NOTHING:
        buf_text(out, "COMPREPLY=()");
        break;
    case COMPLETE_WORDS:
    case COMPLETE_FRAMEWORKS:
        buf_text(out, "COMPREPLY=($(compgen -W \"");
        candidates(desc, out);
        buf_text(out, "\" -- \"$word\"))");
        break;
    case COMPLETE_FILES:
        buf_text(out, "COMPREPLY=($(compgen -f -- \"$word\"))");
        break;
    case COMPLETE_DEVICES:
        buf_text(out, "COMPREPLY=($(compgen -W \"$(plimsoll --print-docs=devices 2>/dev/null)\" -- "
                      "\"$word\") $(compgen -f -- \"$word\"))");
        break;
    }
    buf_text(out, "\n        return\n        ;;\n");
}

static void bash(struct buf *out)
{
    buf_text(out, "# bash completion for plimsoll, made by plimsoll --print-docs=bash\n"
                  "# shellcheck shell=bash disable=SC2207\n"
                  "_plimsoll() {\n"
                  "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}\n"
                  "    if ((COMP_CWORD == 1)); then\n"
                  "        COMPREPLY=($(compgen -W \"");
    commands(out);
    buf_text(out, " --help --version\" -- \"$word\"))\n"
                  "        return\n"
                  "    fi\n"
                  "    case $before in\n");
    for (size_t i = 0; i < OPTION_COUNT; i++)
        bash_value(&option_descs[i], out);
    buf_text(out, "    esac\n    case ${COMP_WORDS[1]} in\n");
    for (unsigned id = 0; id < COMMAND_COUNT; id++) {
        buf_printf(out, "    %s)\n        if [[ $word == -* ]]; then\n", at(id)->name);
        buf_text(out, "            COMPREPLY=($(compgen -W \"");
        for (size_t i = 0; i < OPTION_COUNT; i++)
            if (option_taken(&option_descs[i], id))
                buf_printf(out, "--%s ", option_descs[i].name);
        buf_text(out, "\" -- \"$word\"))\n");
        if (takes_model(id) || takes_device(id))
            buf_printf(out,
                       "        else\n"
                       "            COMPREPLY=($(compgen -W \"$(plimsoll --print-docs=%s "
                       "2>/dev/null)\" -- \"$word\") $(compgen -f -- \"$word\"))\n",
                       takes_model(id) ? "models" : "devices");
        buf_text(out, "        fi\n        ;;\n");
    }
    buf_text(out, "    esac\n}\ncomplete -o filenames -F _plimsoll plimsoll\n");
}

/* ------------------------------------------------------------------ zsh */

/* quoted() - @text inside single quotes, with what _arguments would read escaped */
static void quoted(struct buf *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '\'')
            buf_text(out, "'\\'");
        else if (strchr("[]:\\", *text))
            buf_char(out, '\\');
        buf_char(out, *text);
    }
}

static void zsh_option(const struct option_desc *desc, struct buf *out)
{
    bool again =
        desc->read == option_descs[OPTION_SET].read || desc->read == option_descs[OPTION_VARY].read;

    buf_text(out, "            '");
    if (desc->letter)
        buf_printf(out, "(-%c --%s)'{-%c,--%s}'[", desc->letter, desc->name, desc->letter,
                   desc->name);
    else
        buf_printf(out, "%s--%s[", again ? "*" : "", desc->name);
    quoted(out, desc->help);
    buf_char(out, ']');
    if (desc->argument && strchr(desc->argument, ' '))
        buf_text(out, ":first: "); /* of two words */
    if (desc->argument) {
        buf_char(out, ':');
        quoted(out, desc->argument);
        buf_char(out, ':');
        switch (desc->complete) {
        case COMPLETE_NOTHING:
            buf_char(out, ' ');
            break;
        case COMPLETE_WORDS:
        case COMPLETE_FRAMEWORKS:
            buf_char(out, '(');
            candidates(desc, out);
            buf_char(out, ')');
            break;
        case COMPLETE_FILES:
            buf_text(out, "_files");
            break;
        case COMPLETE_DEVICES:
            buf_text(out, "_plimsoll_devices");
            break;
        }
    }
    buf_text(out, "' \\\n");
}

static void zsh(struct buf *out)
{
    buf_text(out, "#compdef plimsoll\n"
                  "# zsh completion for plimsoll, made by plimsoll --print-docs=zsh\n\n"
                  "_plimsoll_models() {\n"
                  "    compadd -- ${(f)\"$(plimsoll --print-docs=models 2>/dev/null)\"}\n"
                  "    _files\n}\n\n"
                  "_plimsoll_devices() {\n"
                  "    compadd -- ${(f)\"$(plimsoll --print-docs=devices 2>/dev/null)\"}\n"
                  "    _files\n}\n\n"
                  "_plimsoll() {\n"
                  "    if ((CURRENT == 2)); then\n"
                  "        local -a commands=(\n");
    for (unsigned id = 0; id < COMMAND_COUNT; id++) {
        buf_printf(out, "            '%s:", at(id)->name);
        quoted(out, at(id)->help);
        buf_text(out, "'\n");
    }
    buf_text(out, "        )\n"
                  "        _describe command commands\n"
                  "        return\n"
                  "    fi\n"
                  "    local command=$words[2]\n"
                  "    shift words\n"
                  "    ((CURRENT--))\n"
                  "    case $command in\n");
    for (unsigned id = 0; id < COMMAND_COUNT; id++) {
        buf_printf(out, "    %s)\n        _arguments \\\n", at(id)->name);
        for (size_t i = 0; i < OPTION_COUNT; i++)
            if (option_taken(&option_descs[i], id))
                zsh_option(&option_descs[i], out);
        if (takes_model(id))
            buf_text(out, "            '1:model:_plimsoll_models'\n");
        else if (takes_device(id))
            buf_text(out, "            '1:device:_plimsoll_devices'\n");
        else
            buf_text(out, "            '1: : '\n");
        buf_text(out, "        ;;\n");
    }
    buf_text(out, "    esac\n}\n\n_plimsoll \"$@\"\n");
}

/* ------------------------------------------------------------------ fish */

/* fish_quoted() - inside single quotes, where fish reads \ and ' */
static void fish_quoted(struct buf *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\')
            buf_char(out, '\\');
        buf_char(out, *text);
    }
}

static void fish_option(const struct option_desc *desc, struct buf *out)
{
    buf_text(out, "complete -c plimsoll -n '__fish_seen_subcommand_from");
    for (unsigned id = 0; id < COMMAND_COUNT; id++)
        if (option_taken(desc, id))
            buf_printf(out, " %s", at(id)->name);
    buf_printf(out, "' -l %s", desc->name);
    if (desc->letter)
        buf_printf(out, " -s %c", desc->letter);
    if (desc->argument)
        switch (desc->complete) {
        case COMPLETE_NOTHING:
            buf_text(out, " -x");
            break;
        case COMPLETE_WORDS:
        case COMPLETE_FRAMEWORKS:
            buf_text(out, " -x -a '");
            candidates(desc, out);
            buf_char(out, '\'');
            break;
        case COMPLETE_FILES:
            buf_text(out, " -r -F");
            break;
        case COMPLETE_DEVICES:
            buf_text(out, " -r -F -a '(plimsoll --print-docs=devices 2>/dev/null)'");
            break;
        }
    buf_text(out, " -d '");
    fish_quoted(out, desc->help);
    buf_text(out, "'\n");
}

static void fish(struct buf *out)
{
    buf_text(out, "# fish completion for plimsoll, made by plimsoll --print-docs=fish\n");
    buf_text(out, "complete -c plimsoll -f\n");
    for (unsigned id = 0; id < COMMAND_COUNT; id++) {
        buf_printf(out, "complete -c plimsoll -n __fish_use_subcommand -a %s -d '", at(id)->name);
        fish_quoted(out, at(id)->help);
        buf_text(out, "'\n");
        if (takes_model(id) || takes_device(id))
            buf_printf(out,
                       "complete -c plimsoll -n '__fish_seen_subcommand_from %s' -F -a '(plimsoll "
                       "--print-docs=%s 2>/dev/null)'\n",
                       at(id)->name, takes_model(id) ? "models" : "devices");
    }
    buf_text(out,
             "complete -c plimsoll -n __fish_use_subcommand -l version -d 'Print the version'\n");
    buf_text(out,
             "complete -c plimsoll -n __fish_use_subcommand -l help -d 'Print the commands'\n");
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (option_descs[i].commands)
            fish_option(&option_descs[i], out);
}

bool complete_shell(const char *shell, struct buf *out)
{
    if (strcmp(shell, "bash") == 0)
        bash(out);
    else if (strcmp(shell, "zsh") == 0)
        zsh(out);
    else if (strcmp(shell, "fish") == 0)
        fish(out);
    else
        return false;
    return true;
}
