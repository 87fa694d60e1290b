/* cli/cmd_estimate.c - plimsoll estimate: what a run takes at its worst moment */
#include "cli/answer.h"
#include "cli/load.h"
#include "cli/talk.h"

static enum exit_status answer(struct cli *cli,
                               const struct plm_strategy *strategy,
                               const struct plm_result *result)
{
    struct buf text = { .arena = &cli->arena };
    struct report report = {
        .strategy = strategy,
        .device_name = cli->options.device,
        .result = result,
        .colour = cli->colour,
    };

    talk_warnings(result->warnings, result->warning_count);
    answer_renderer(cli)->estimate(&report, &text);
    return answer_write(cli, &text, result->fits == 0 ? EXIT_NO_FIT : EXIT_FITS);
}

static enum exit_status run(struct cli *cli)
{
    struct plm_model *model;
    struct plm_strategy strategy;
    struct plm_estimate *estimate;
    struct plm_error error;
    enum plm_status status = load_both(cli, &model, &strategy, &error);
    enum exit_status exit_status;

    if (status != PLM_OK)
        return talk_fail(status, &error);
    status = plm_estimate(model, &strategy, &estimate, &error);
    if (status == PLM_OK) {
        exit_status = answer(cli, &strategy, plm_estimate_result(estimate));
        plm_estimate_destroy(estimate);
    } else {
        exit_status = talk_fail(status, &error);
    }
    plm_model_destroy(model);
    return exit_status;
}

const struct command cmd_estimate = {
    .name = "estimate",
    .arguments = "MODEL",
    .help = "how much memory a run takes at its worst moment",
    .about =
        "Run the training step of MODEL without data and print the most memory that it takes: what tensors "
        "ask for, what the allocator uses and reserves, and what the device shows; where the peak is, what is "
        "alive there, and whether it fits the device.",
    .least = 1,
    .most = 1,
    .missing = load_missing,
    .run = run,
};
