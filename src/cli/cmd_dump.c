/* cli/cmd_dump.c - plimsoll dump: a stage of the pipeline as text */
#include "base/error.h"
#include "cli/answer.h"
#include "cli/load.h"
#include "cli/talk.h"

enum { LARGEST_DUMP = 1 << 30 };

static enum exit_status answer(struct cli *cli,
                               struct plm_model *model,
                               const struct plm_strategy *strategy)
{
    struct buf text = { .arena = &cli->arena, .maximum = LARGEST_DUMP };
    const char *dump;
    struct plm_error error;
    enum plm_status status = plm_dump(model, strategy, cli->options.stage, &dump, &error);

    if (status != PLM_OK)
        return talk_fail(status, &error);
    buf_text(&text, dump);
    return answer_write(cli, &text, EXIT_FITS);
}

static enum exit_status run(struct cli *cli)
{
    struct plm_model *model;
    struct plm_strategy strategy;
    struct plm_error error;
    enum plm_status status;
    enum exit_status exit_status;

    if (!cli->options.stage)
        return talk_fail(
            plm_fail(&error, PLM_E_USAGE,
                     "dump: needs --stage; accepted: document, model, graph, schedule, memory"),
            &error);
    status = load_both(cli, &model, &strategy, &error);
    if (status != PLM_OK)
        return talk_fail(status, &error);
    exit_status = answer(cli, model, &strategy);
    plm_model_destroy(model);
    return exit_status;
}

const struct command cmd_dump = {
    .name = "dump",
    .arguments = "MODEL",
    .help = "a stage between model file and answer, as text",
    .about =
        "Print what one stage of the pipeline hands to the next: the document as read, the model, the graph of operators, the schedule of "
        "allocations and frees, or the allocator's memory event by event.",
    .least = 1,
    .most = 1,
    .missing = load_missing,
    .run = run,
};
