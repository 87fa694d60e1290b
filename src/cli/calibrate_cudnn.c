/* cli/calibrate_cudnn.c - plimsoll calibrate --cudnn MODEL: tables for machines that have no libcudnn */
#include <time.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/save.h"
#include "cli/answer.h"
#include "cli/calibrate_cudnn.h"
#include "cli/folders.h"
#include "cli/libraries.h"
#include "cli/talk.h"

enum { TABLE_BYTES = 1024 * 1024 }; /* of one table, a large one */

/* prepare() - the folder is made when it is not there, and may be written to: that is known before cuDNN is asked for minutes */
static enum plm_status prepare(const char *folder, struct arena *arena, struct plm_error *reterr)
{
    struct buf file = { .arena = arena };
    enum plm_status status;

    if (!folder)
        return plm_fail(reterr, PLM_E_USAGE,
                        "calibrate --cudnn: needs the tables' folder, -o FOLDER");
    buf_printf(&file, "%s/table.yaml", folder);
    status = folders_make(folder, arena, reterr);
    return status == PLM_OK ? save_try(buf_string(&file), TABLE_BYTES, reterr) : status;
}

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
    if (folder)
        status = plm_model_load(cli->context, cli->options.cudnn_model, &model, &error);
    if (status == PLM_OK)
        status = libraries_add(cli->context, NULL, &cli->arena, &error);
    if (status == PLM_OK)
        status = prepare(folder, &cli->arena, &error);
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
