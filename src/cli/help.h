/* cli/help.h - what --help prints */
#ifndef PLM_CLI_HELP_H
#define PLM_CLI_HELP_H

#include "base/buf.h"
#include "cli/command.h"

void help_program(struct buf *out);
void help_command(unsigned command, struct buf *out);

/* help_option() - the sentence of an option with the words it accepts; also for the manual */
void help_option(const struct option_desc *desc, struct buf *out);

#endif
