/* cli/answer.c - the answer's way out, checked */
#include <unistd.h>

#include "base/error.h"
#include "cli/answer.h"
#include "cli/talk.h"
#include "report/save.h"

const struct renderer *answer_renderer(const struct cli *cli)
{
    if (cli->options.json)
        return &renderer_json;
    return cli->options.csv ? &renderer_csv : &renderer_text;
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
        written = save_file(cli->options.output, buf_string(answer), answer->length, &error);
    else if (cli->stdout_closed)
        written = plm_fail(&error, PLM_E_IO, "cannot write to standard output: it is closed");
    else
        written = save_stream(STDOUT_FILENO, "standard output", buf_string(answer), answer->length,
                              &error);
    if (written == PLM_OK)
        return status;
    talk_error(&error);
    return written == PLM_E_USAGE ? EXIT_USAGE : EXIT_TROUBLE;
}
