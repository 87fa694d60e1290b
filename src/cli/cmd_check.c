/* cli/cmd_check.c - plimsoll check: is this model file right? */
#include "base/units.h"
#include "cli/answer.h"
#include "cli/load.h"
#include "cli/talk.h"

/*
 * check() - run one step: names and types were checked by loading, shapes are checked only by a run
 *
 * Without a device, so that nothing depends on one.
 */
static enum plm_status check(const struct cli *cli,
                             struct plm_model *model,
                             struct buf *out,
                             struct plm_error *reterr)
{
    struct plm_strategy strategy = cli->options.strategy;
    struct plm_estimate *estimate;
    enum plm_status status;

    strategy.steps = 1;
    status = plm_estimate(model, &strategy, &estimate, reterr);
    if (status != PLM_OK)
        return status;

    const struct plm_result *result = plm_estimate_result(estimate);
    char parameters[UNITS_TEXT];

    talk_warnings(result->warnings, result->warning_count);
    buf_printf(out, "%s: right: %s parameters; a step with batch %lld", result->model,
               units_format_grouped(result->parameters, parameters), (long long)result->batch);
    if (result->seq > 0)
        buf_printf(out, " and seq %lld", (long long)result->seq);
    buf_text(out, " runs\n");
    plm_estimate_destroy(estimate);
    return PLM_OK;
}

static enum exit_status run(struct cli *cli)
{
    struct buf text = { .arena = &cli->arena };
    struct plm_model *model;
    struct plm_error error;
    enum plm_status status = load_model(cli, &model, &error);

    if (status != PLM_OK)
        return talk_fail(status, &error);
    status = check(cli, model, &text, &error);
    plm_model_destroy(model);
    return status == PLM_OK ? answer_write(cli, &text, EXIT_FITS) : talk_fail(status, &error);
}

const struct command cmd_check = {
    .name = "check",
    .arguments = "MODEL",
    .help = "is a model file right?",
    .about =
        "Read MODEL, check it, and run one training step of it without data, which checks every shape. Nothing is estimated.",
    .least = 1,
    .most = 1,
    .missing = load_missing,
    .run = run,
};
