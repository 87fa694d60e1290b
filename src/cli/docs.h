/*
 * cli/docs.h - the hidden printer behind --print-docs: what the manual and the shells need, from the tables
 *
 * --print-docs=scd:COMMAND     the OPTIONS section of a command's manual page, for scdoc
 * --print-docs=scd:commands    the list of commands
 * --print-docs=scd:operators   the operators with their attributes, for plimsoll-model(5)
 * --print-docs=scd:frameworks  the names that --framework takes
 * --print-docs=page            copies standard input; a line "@scd:NAME@" is replaced by the section NAME
 * --print-docs=bash|zsh|fish   completions
 * --print-docs=models|devices  names, one a line, for the completions
 */
#ifndef PLM_CLI_DOCS_H
#define PLM_CLI_DOCS_H

#include "base/buf.h"
#include "cli/command.h"

PLM_MUST_CHECK enum plm_status docs_print(struct cli *cli,
                                          const char *what,
                                          struct buf *out,
                                          struct plm_error *reterr);

/* complete_shell() - the completions for "bash", "zsh" or "fish"; false when it is none of them */
bool complete_shell(const char *shell, struct buf *out);

#endif
