/* cli/command.h - a command of the program, and what one invocation of it knows */
#ifndef PLM_CLI_COMMAND_H
#define PLM_CLI_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/options.h"

enum command_id {
#define COMMAND(id, name) COMMAND_##id,
#include "cli/commands.def"
#undef COMMAND
    COMMAND_COUNT
};

/* the program's exit status; a launch script tells the first two apart from trouble */
enum exit_status {
    EXIT_FITS = 0,    /* or: the answer was given and has no verdict */
    EXIT_NO_FIT = 1,  /* does not fit; plan: not even the smallest batch is safe */
    EXIT_USAGE = 2,   /* bad usage or input */
    EXIT_TROUBLE = 3, /* the device, the output or the program itself */
};

/* struct cli - one invocation */
struct cli {
    struct arena arena; /* lives as long as the invocation */
    struct options options;
    const struct command *command;
    const char *const *arguments; /* [argument_count]: what is not an option */
    size_t argument_count;
    const char *const *tail; /* [tail_count]: what follows "--", if the command takes that */
    size_t tail_count;
    struct plm_context *context; /* with the folders added */
    bool colour;                 /* on standard output */
    bool stdout_closed;          /* standard output was closed when the program started */
};

struct command {
    const char *name;
    const char *arguments; /* for the usage line: "MODEL" */
    const char *help;      /* one line */
    const char *about;     /* a paragraph for --help */
    size_t least, most;    /* arguments */
    const char *missing;   /* what to say when there are fewer */
    bool takes_tail;       /* what follows "--" is another program with its arguments */
    enum exit_status (*run)(struct cli *cli);
};

#define COMMAND(id, name) extern const struct command cmd_##name;
#include "cli/commands.def"
#undef COMMAND

/* command_at() - by number; the order is that of commands.def */
const struct command *command_at(enum command_id id);

/* command_find() - by name or by a prefix that fits no other */
PLM_MUST_CHECK enum plm_status command_find(const char *name,
                                            enum command_id *ret_id,
                                            struct plm_error *reterr);

#endif
