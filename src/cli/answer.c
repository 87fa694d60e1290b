/* cli/answer.c - the answer's way out, checked */
#include <signal.h>
#include <unistd.h>

#include "base/error.h"
#include "base/save.h"
#include "cli/answer.h"
#include "cli/talk.h"

const struct renderer *answer_renderer(const struct cli *cli)
{
    if (cli->options.json)
        return &renderer_json;
    return cli->options.csv ? &renderer_csv : &renderer_text;
}

enum plm_status answer_save(const char *path,
                            const char *data,
                            size_t length,
                            struct plm_error *reterr)
{
    sigset_t all, before;
    enum plm_status status;

    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    status = save_file(path, data, length, reterr);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return status;
}

/* Room that is asked for: no profile and no report is larger, and only the longest watch is. */
enum { ROOM = 256 * 1024 };

static enum plm_status stdout_closed(struct plm_error *reterr)
{
    return plm_fail(reterr, PLM_E_IO, "cannot write to standard output: it is closed");
}

enum exit_status answer_status(enum plm_status status, const struct plm_error *error)
{
    talk_error(error);
    return status == PLM_E_USAGE ? EXIT_USAGE : EXIT_TROUBLE;
}

enum exit_status answer_try(const struct cli *cli, const char *file)
{
    sigset_t all, before;
    struct plm_error error;
    enum plm_status status;

    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    if (file)
        status = save_try(file, ROOM, &error);
    else
        status = cli->stdout_closed ? stdout_closed(&error) : PLM_OK;
    sigprocmask(SIG_SETMASK, &before, NULL);
    return status == PLM_OK ? EXIT_FITS : answer_status(status, &error);
}

enum exit_status answer_write(const struct cli *cli,
                              const struct buf *answer,
                              enum exit_status status)
{
    struct plm_error error;
    enum plm_status written;

    if (answer->full) {
        plm_fail(&error, PLM_E_RANGE, "the answer is too large to print");
        talk_error(&error);
        return EXIT_TROUBLE;
    }
    if (cli->options.output)
        written = answer_save(cli->options.output, buf_string(answer), answer->length, &error);
    else if (cli->stdout_closed)
        written = stdout_closed(&error);
    else
        written = save_stream(STDOUT_FILENO, "standard output", buf_string(answer), answer->length,
                              &error);
    return written == PLM_OK ? status : answer_status(written, &error);
}
