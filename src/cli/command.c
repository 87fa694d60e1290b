/* cli/command.c - which command is meant */
#include <string.h>

#include "base/error.h"
#include "cli/command.h"

static const struct command *const commands[COMMAND_COUNT] = {
#define COMMAND(id, name) [COMMAND_##id] = &cmd_##name,
#include "cli/commands.def"
#undef COMMAND
};

static const char *const names[COMMAND_COUNT] = {
#define COMMAND(id, name) [COMMAND_##id] = #name,
#include "cli/commands.def"
#undef COMMAND
};

const struct command *command_at(enum command_id id)
{
    return commands[id];
}

enum plm_status command_find(const char *name, enum command_id *ret_id, struct plm_error *reterr)
{
    size_t length = strlen(name), found = COMMAND_COUNT;

    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strncmp(names[i], name, length) != 0 || length == 0)
            continue;
        if (names[i][length] == '\0') {
            *ret_id = (enum command_id)i;
            return PLM_OK;
        }
        if (found < COMMAND_COUNT)
            return plm_fail(reterr, PLM_E_USAGE, "command '%.40s' is ambiguous: '%s' or '%s'", name,
                            names[found], names[i]);
        found = i;
    }
    if (found == COMMAND_COUNT) {
        const char *near = error_nearest(name, names, COMMAND_COUNT);

        return plm_fail(reterr, PLM_E_USAGE,
                        "unknown command '%.40s'%s%s%s ('plimsoll --help' lists them)", name,
                        near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    }
    *ret_id = (enum command_id)found;
    return PLM_OK;
}
