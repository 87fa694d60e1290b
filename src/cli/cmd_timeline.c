/* cli/cmd_timeline.c - plimsoll timeline: memory over the step, as a picture or a trace */
#include "base/error.h"
#include "cli/answer.h"
#include "cli/load.h"
#include "cli/talk.h"
#include "report/timeline.h"

enum { LARGEST_FILE = 1 << 30 };

static enum exit_status answer(struct cli *cli,
                               struct plm_estimate *estimate,
                               timeline_writer *write)
{
    struct buf text = { .arena = &cli->arena, .maximum = LARGEST_FILE };
    struct timeline_report report = { .result = plm_estimate_result(estimate) };
    struct plm_error error;
    enum plm_status status = plm_estimate_timeline(estimate, &report.timeline, &error);

    if (status != PLM_OK)
        return talk_fail(status, &error);
    talk_warnings(report.result->warnings, report.result->warning_count);
    write(&report, &text);
    return answer_write(cli, &text, report.result->fits == 0 ? EXIT_NO_FIT : EXIT_FITS);
}

static enum exit_status run(struct cli *cli)
{
    timeline_writer *write;
    struct plm_model *model;
    struct plm_strategy strategy;
    struct plm_estimate *estimate;
    struct plm_error error;
    enum plm_status status;
    enum exit_status exit_status;

    if (!cli->options.output)
        return talk_fail(plm_fail(&error, PLM_E_USAGE,
                                  "timeline: needs -o FILE, whose name ends in one of %s",
                                  timeline_endings),
                         &error);
    write = timeline_writer_for(cli->options.output);
    if (!write)
        return talk_fail(
            plm_fail(&error, PLM_E_USAGE,
                     "--output: cannot tell the format of '%.80s'; accepted endings: %s",
                     cli->options.output, timeline_endings),
            &error);
    status = load_both(cli, &model, &strategy, &error);
    if (status != PLM_OK)
        return talk_fail(status, &error);
    status = plm_estimate(model, &strategy, &estimate, &error);
    if (status == PLM_OK) {
        exit_status = answer(cli, estimate, write);
        plm_estimate_destroy(estimate);
    } else {
        exit_status = talk_fail(status, &error);
    }
    plm_model_destroy(model);
    return exit_status;
}

const struct command cmd_timeline = {
    .name = "timeline",
    .arguments = "MODEL",
    .help = "memory over the step, as a picture, a page or a trace",
    .about =
        "Run the training step of MODEL without data and write its memory over time to the file of -o: a picture (.svg), a page "
        "that names each tensor under the pointer (.html), a trace for Perfetto (.json), or a snapshot for PyTorch's "
        "memory_viz (.pickle).",
    .least = 1,
    .most = 1,
    .missing = load_missing,
    .run = run,
};
