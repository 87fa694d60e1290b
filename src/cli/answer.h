/* cli/answer.h - the answer's way to standard output or to the file of --output */
#ifndef PLM_CLI_ANSWER_H
#define PLM_CLI_ANSWER_H

#include "base/buf.h"
#include "cli/command.h"
#include "report/report.h"

/* answer_renderer() - what --json and --csv ask for */
const struct renderer *answer_renderer(const struct cli *cli);

/*
 * answer_write() - print @answer; returns @status, or the status of the failure, which was then reported
 *
 * Everything is written at the end and checked: a full disk and a closed standard output are failures.
 */
enum exit_status answer_write(const struct cli *cli,
                              const struct buf *answer,
                              enum exit_status status);

/* answer_status() - report that an answer could not be written; its exit status */
enum exit_status answer_status(enum plm_status status, const struct plm_error *error);

/*
 * answer_try() - could an answer be written to @file (NULL: to standard output); a failure is reported, and EXIT_FITS is none
 *
 * For what takes long: it is known before it begins.
 */
enum exit_status answer_try(const struct cli *cli, const char *file);

/* answer_save() - save_file() with signals kept back meanwhile, so that an interruption leaves no half of a file */
PLM_MUST_CHECK enum plm_status answer_save(const char *path,
                                           const char *data,
                                           size_t length,
                                           struct plm_error *reterr);

#endif
