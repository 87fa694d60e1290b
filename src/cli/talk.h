/* cli/talk.h - standard error: mistakes, warnings and progress; standard output is for the answer */
#ifndef PLM_CLI_TALK_H
#define PLM_CLI_TALK_H

#include <stddef.h>

#include "cli/command.h"

/* talk_error() - "file:line:column: path: message", or "plimsoll: message" where there is no file */
void talk_error(const struct plm_error *error);

/* talk_left_out() - the same as warnings: what is wrong with files that nobody asked for */
void talk_left_out(const struct plm_error *wrong, size_t wrong_count);

/* talk_fail() - talk_error(), and the exit status for @status */
enum exit_status talk_fail(enum plm_status status, const struct plm_error *error);

/* talk_warnings() - each as "plimsoll: warning: …" */
void talk_warnings(const char *const *warnings, size_t warning_count);

/* talk_note() - "plimsoll: …": what is neither a mistake nor a warning */
void talk_note(const char *text);

/* struct progress - zero-initialise; a line on the terminal for what takes more than a second */
struct progress {
    double started, shown; /* seconds of the monotonic clock; 0: not yet */
};

/* progress_report() - the callback of struct plm_search and struct plm_comparison, with a struct progress as its context */
void progress_report(void *context, const char *what, unsigned done, unsigned total);

/* progress_finish() - clear the line */
void progress_finish(struct progress *progress);

#endif
