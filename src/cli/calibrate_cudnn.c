/* cli/calibrate_cudnn.c - plimsoll calibrate --cudnn MODEL: tables for machines that have no libcudnn */
#include <time.h>

#include "base/buf.h"
#include "base/error.h"
#include "cli/answer.h"
#include "cli/calibrate_cudnn.h"
#include "cli/libraries.h"
#include "cli/talk.h"

enum exit_status calibrate_cudnn(struct cli *cli)
{
    struct buf text = { .arena = &cli->arena };
    const char *folder = cli->options.output;
    struct plm_model *model = NULL;
    struct plm_error error;
    char source[96];
    time_t now = time(NULL);
    struct tm day = { 0 };
    size_t count = 0;
    enum plm_status status = PLM_OK;

    gmtime_r(&now, &day);
    strftime(source, sizeof source,
             "what cuDNN plans for a described device, asked by plimsoll calibrate --cudnn on %F",
             &day);
    if (!folder)
        status =
            plm_fail(&error, PLM_E_USAGE, "calibrate --cudnn: needs the tables' folder, -o FOLDER");
    if (status == PLM_OK)
        status = libraries_add(cli->context, NULL, &cli->arena, &error);
    if (status == PLM_OK)
        status = plm_model_load(cli->context, cli->options.cudnn_model, &model, &error);
    if (status == PLM_OK)
        status = plm_cudnn_tables(model, folder, source, &count, &error);
    plm_model_destroy(model);
    if (status != PLM_OK)
        return talk_fail(status, &error);
    cli->options.output = NULL; /* the report goes to standard output */
    buf_printf(&text, "%zu tables in %s have the workspaces of %s\n", count, folder,
               cli->options.cudnn_model);
    return answer_write(cli, &text, EXIT_FITS);
}
