/* cli/cmd_plan.c - plimsoll plan: the largest batch that is safe */
#include "base/error.h"
#include "cli/answer.h"
#include "cli/load.h"
#include "cli/talk.h"

static enum exit_status answer(struct cli *cli,
                               const struct plm_search *search,
                               const struct plm_plan_result *plan)
{
    struct buf text = { .arena = &cli->arena };
    struct report report = {
        .strategy = &search->strategy,
        .device_name = cli->options.device,
        .result = plan->result,
        .search = search,
        .plan = plan,
        .colour = cli->colour,
    };

    talk_warnings(plan->result->warnings, plan->result->warning_count);
    answer_renderer(cli)->plan(&report, &text);
    return answer_write(cli, &text, plan->batch == 0 ? EXIT_NO_FIT : EXIT_FITS);
}

static enum exit_status search_model(struct cli *cli,
                                     struct plm_model *model,
                                     struct plm_search *search)
{
    struct progress progress = { 0 };
    struct plm_plan *plan;
    struct plm_error error;
    enum plm_status status;
    enum exit_status exit_status;

    search->progress = progress_report;
    search->progress_context = &progress;
    status = plm_plan(model, search, &plan, &error);
    progress_finish(&progress);
    if (status != PLM_OK)
        return talk_fail(status, &error);
    exit_status = answer(cli, search, plm_plan_result(plan));
    plm_plan_destroy(plan);
    return exit_status;
}

static enum exit_status run(struct cli *cli)
{
    const struct options *options = &cli->options;
    struct plm_model *model;
    struct plm_search search = {
        .margin_share = options->margin_share,
        .margin_bytes = options->margin_bytes,
        .has_margin = options->has_margin,
        .reserve = options->reserve,
        .global_batch = options->global_batch,
        .multiple_of = options->multiple_of,
        .max_batch = options->max_batch,
    };
    struct plm_error error;
    enum plm_status status;
    enum exit_status exit_status;

    if (!options->device && options->strategy.capacity == 0)
        return talk_fail(plm_fail(&error, PLM_E_USAGE,
                                  "plan: needs --device NAME ('plimsoll devices' lists them) or "
                                  "--capacity SIZE"),
                         &error);
    status = load_both(cli, &model, &search.strategy, &error);
    if (status != PLM_OK)
        return talk_fail(status, &error);
    exit_status = search_model(cli, model, &search);
    plm_model_destroy(model);
    return exit_status;
}

const struct command cmd_plan = {
    .name = "plan",
    .arguments = "MODEL",
    .help = "the largest batch that is safe on a device",
    .about =
        "Find the largest micro-batch with which MODEL trains on a device and leaves a margin free; print it with the margin, "
        "the batches around it, and options that are ready to paste.",
    .least = 1,
    .most = 1,
    .missing = load_missing,
    .run = run,
};
