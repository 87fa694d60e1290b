/*
 * cli/main.c - find the command, read its options, run it
 *
 * The environment is read by the program alone: here (NO_COLOR, TERM), in folders.c and in job.c (PATH); the library never sees it.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/answer.h"
#include "cli/docs.h"
#include "cli/folders.h"
#include "cli/help.h"
#include "cli/readers.h"
#include "cli/talk.h"

/*
 * open_standard() - make sure that descriptors 0 to 2 are taken
 *
 * Otherwise a file that is opened later becomes standard output. Returns whether standard output was closed.
 */
static bool open_standard(void)
{
    bool closed = fcntl(STDOUT_FILENO, F_GETFD) < 0 && errno == EBADF;

    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        while (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            if (open("/dev/null", O_RDWR) < 0)
                break;
    return closed;
}

static bool wants_colour(const struct cli *cli)
{
    const char *off = getenv("NO_COLOR"), *terminal = getenv("TERM");

    switch ((enum color_when)cli->options.color) {
    case COLOR_ALWAYS:
        return true;
    case COLOR_NEVER:
        return false;
    case COLOR_AUTO:
        break;
    }
    return !cli->options.output && isatty(STDOUT_FILENO) && !(off && *off) &&
           !(terminal && strcmp(terminal, "dumb") == 0);
}

static enum exit_status fail(const struct plm_error *error)
{
    return talk_fail(PLM_E_USAGE, error);
}

static enum exit_status check_arguments(const struct cli *cli)
{
    const struct command *command = cli->command;
    struct plm_error error;

    if (cli->argument_count < command->least)
        plm_fail(&error, PLM_E_USAGE, "%s: %s", command->name, command->missing);
    else if (cli->argument_count > command->most)
        plm_fail(&error, PLM_E_USAGE,
                 "%s: unexpected argument '%.60s'; usage: plimsoll %s [OPTIONS] %s", command->name,
                 cli->arguments[command->most], command->name, command->arguments);
    else
        return EXIT_FITS;
    return fail(&error);
}

static enum exit_status print_version(struct cli *cli)
{
    struct buf text = { .arena = &cli->arena };

    buf_printf(&text, "plimsoll %s\n", plm_version());
    return answer_write(cli, &text, EXIT_FITS);
}

/* split_tail() - what follows "--" is another program's; returns how many words are before it */
static int split_tail(struct cli *cli, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--") == 0) {
            cli->tail = (const char *const *)argv + i + 1;
            cli->tail_count = (size_t)(argc - i - 1);
            return i;
        }
    return argc;
}

/* run_command() - @argv[0] is the command's name */
static enum exit_status run_command(struct cli *cli, int argc, char **argv)
{
    enum command_id id;
    struct plm_error error;
    struct buf help = { .arena = &cli->arena };
    enum exit_status status;
    int first;

    if (command_find(argv[0], &id, &error) != PLM_OK)
        return fail(&error);
    if (command_at(id)->takes_tail)
        argc = split_tail(cli, argc, argv);
    if (options_parse(&cli->options, id, argc, argv, &first, &error) != PLM_OK)
        return fail(&error);
    cli->command = command_at(id);
    if (cli->options.output && strcmp(cli->options.output, "-") == 0 && id != COMMAND_TIMELINE &&
        id != COMMAND_CALIBRATE)
        cli->options.output = NULL; /* standard output, as everywhere */
    if (cli->options.help || cli->options.version) {
        cli->options.output = NULL;
        if (cli->options.version)
            return print_version(cli);
        help_command(id, &help);
        return answer_write(cli, &help, EXIT_FITS);
    }
    cli->arguments = (const char *const *)argv + first;
    cli->argument_count = (size_t)(argc - first);
    cli->colour = wants_colour(cli);
    status = check_arguments(cli);
    return status == EXIT_FITS ? cli->command->run(cli) : status;
}

static enum exit_status print_docs(struct cli *cli, const char *what)
{
    struct buf docs = { .arena = &cli->arena };
    struct plm_error error;
    enum plm_status status = docs_print(cli, what, &docs, &error);

    return status == PLM_OK ? answer_write(cli, &docs, EXIT_FITS) : talk_fail(status, &error);
}

static enum exit_status unknown_option(const char *word)
{
    static const char *const names[] = { "--help", "--version", "--color" };
    const char *near = error_nearest(word, names, sizeof names / sizeof *names);
    struct plm_error error;

    plm_fail(&error, PLM_E_USAGE,
             "unknown option '%.60s'%s%s%s (the command comes first: plimsoll COMMAND [OPTIONS])",
             word, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    return fail(&error);
}

/* run() - the options before the command, then the command */
static enum exit_status run(struct cli *cli, int argc, char **argv)
{
    struct buf help = { .arena = &cli->arena };

    for (int i = 1; i < argc; i++) {
        struct plm_error error;

        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0 ||
            (strcmp(argv[i], "help") == 0 && i + 1 == argc)) {
            help_program(&help);
            return answer_write(cli, &help, EXIT_FITS);
        }
        if (strcmp(argv[i], "--version") == 0)
            return print_version(cli);
        if (strncmp(argv[i], "--print-docs=", 13) == 0)
            return print_docs(cli, argv[i] + 13);
        if (strncmp(argv[i], "--color=", 8) == 0) {
            if (read_WORD(&cli->options, &option_descs[OPTION_COLOR], argv[i] + 8, &error) !=
                PLM_OK)
                return fail(&error);
        } else if (argv[i][0] == '-') {
            return unknown_option(argv[i]);
        } else if (strcmp(argv[i], "help") == 0) {
            char *words[] = { argv[i + 1], (char[]){ "--help" }, NULL };

            return run_command(cli, 2, words);
        } else {
            return run_command(cli, argc - i, argv + i);
        }
    }

    struct plm_error error;

    plm_fail(&error, PLM_E_USAGE, "needs a command ('plimsoll --help' lists them)");
    return fail(&error);
}

/* no_memory() - nothing can be cleaned up, and nothing need be: files are written once their text is complete */
static void no_memory(size_t bytes)
{
    fprintf(stderr, "plimsoll: out of memory: %zu more bytes were needed\n", bytes);
    _exit(EXIT_TROUBLE);
}

int main(int argc, char **argv)
{
    struct cli cli = { .stdout_closed = open_standard() };
    enum exit_status status;

    arena_set_handler(no_memory);
    signal(SIGXFSZ, SIG_IGN); /* a write that is too large fails instead, and its file is removed */
    cli.options.arena = &cli.arena;
    cli.context = plm_context_create();
    folders_add(cli.context, &cli.arena);
    status = run(&cli, argc, argv);
    plm_context_destroy(cli.context);
    arena_finish(&cli.arena);
    return (int)status;
}
