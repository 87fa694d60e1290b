/* cli/watch_loop.h - follow a job from its beginning to its end */
#ifndef PLM_CLI_WATCH_LOOP_H
#define PLM_CLI_WATCH_LOOP_H

#include <stdio.h>

#include "cli/command.h"
#include "report/watch.h"

/* watch_colour() - is standard error coloured */
bool watch_colour(const struct cli *cli);

/*
 * watch_loop() - run the command of @cli, or wait for the process of --pid, with a sample every report->interval seconds
 *
 * Draws and warns on standard error. Fills in the title and the end of @report. Returns the command's exit status, or that of a
 * failure, which was then reported; *ret_began says whether there is something to report.
 */
enum exit_status watch_loop(struct cli *cli,
                            struct plm_watch *watch,
                            struct watch_report *report,
                            bool *ret_began);

#endif
