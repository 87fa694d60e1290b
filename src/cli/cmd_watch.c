/*
 * cli/cmd_watch.c - plimsoll watch: a running job's device memory against the plan's line
 *
 * Here is what is asked: the job, the line, what is written at the end. watch_loop.c follows the job.
 */
#include <string.h>

#include "base/error.h"
#include "base/units.h"
#include "cli/answer.h"
#include "cli/here.h"
#include "cli/load.h"
#include "cli/talk.h"
#include "cli/watch_loop.h"

enum { LARGEST_FILE = 1 << 30 };

static const double INTERVAL = 0.5, INTERVAL_LEAST = 0.01, INTERVAL_MOST = 3600; /* seconds */
static const double MARGIN_SHARE = 0.05; /* of the device's memory */

/* struct watching - one invocation */
struct watching {
    struct cli *cli;
    struct plm_model *model; /* NULL: the line is a figure, or there is none */
    struct plm_strategy strategy;
    struct watch_plan plan;
};

/* ------------------------------------------------------------------ what was asked */

static enum plm_status refuse(struct plm_error *reterr, const char *why)
{
    return plm_fail(reterr, PLM_E_USAGE, "watch: %s", why);
}

/* describes_run() - is an option given that says how a model is run */
static bool describes_run(const struct options *options)
{
    static const bool of_run[GROUP_COUNT] = {
        [GROUP_MODEL] = true,
        [GROUP_TRAINING] = true,
        [GROUP_PARALLEL] = true,
        [GROUP_DEVICE] = true,
    };

    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (options->given[i] && of_run[option_descs[i].group])
            return true;
    return false;
}

static enum plm_status check(const struct cli *cli, struct plm_error *reterr)
{
    const struct options *options = &cli->options;
    bool has_model = cli->argument_count > 0;

    if (options->pid == 0 && cli->tail_count == 0)
        return refuse(reterr, "needs --pid P or -- COMMAND");
    if (options->pid != 0 && cli->tail_count > 0)
        return refuse(reterr, "--pid and -- COMMAND do not go together");
    if (has_model && options->plan)
        return refuse(reterr, "MODEL and --plan do not go together: each gives the plan's line");
    if (!has_model && describes_run(options))
        return refuse(reterr, "options that describe a run need a MODEL");
    if ((options->json || options->csv) && !options->output && cli->tail_count > 0)
        return refuse(reterr, "--json and --csv need -o FILE: standard output is the command's");
    if (options->interval != 0 &&
        (options->interval < INTERVAL_LEAST || options->interval > INTERVAL_MOST))
        return refuse(reterr, "--interval: from 0.01 to 3600 seconds");
    return PLM_OK;
}

static bool ends_in(const char *text, const char *ending)
{
    size_t length = strlen(text), wanted = strlen(ending);

    return length >= wanted && strcmp(text + length - wanted, ending) == 0;
}

/* choose_format() - by the file's name, unless it is said */
static enum plm_status choose_format(struct cli *cli, struct plm_error *reterr)
{
    const char *path = cli->options.output;

    if (!path)
        return PLM_OK;
    if (!cli->options.json && !cli->options.csv) {
        cli->options.json = ends_in(path, ".json");
        cli->options.csv = ends_in(path, ".csv");
    }
    if (!cli->options.json && !cli->options.csv)
        return plm_fail(reterr, PLM_E_USAGE,
                        "--output: cannot tell the format of '%.80s'; accepted endings: .json, "
                        ".csv, or give --json or --csv",
                        path);
    return PLM_OK;
}

/* ------------------------------------------------------------------ the plan's line */

static enum plm_status plan_of_file(struct cli *cli,
                                    struct watch_plan *ret_plan,
                                    struct plm_error *reterr)
{
    struct plm_baseline *file;
    const struct plm_baseline_entry *entries;
    size_t count;
    enum plm_status status = plm_baseline_load(cli->options.plan, &file, reterr);

    if (status != PLM_OK)
        return status;
    entries = plm_baseline_entries(file, &count);
    if (count != 1)
        status = plm_fail(reterr, PLM_E_USAGE,
                          "--plan: '%.120s' holds %zu strategies; accepted: what 'plimsoll "
                          "estimate --json' or 'plan --json' wrote",
                          cli->options.plan, count);
    else
        *ret_plan = (struct watch_plan){ .source = cli->options.plan,
                                         .device = entries[0].peak.device,
                                         .low = entries[0].peak.device,
                                         .high = entries[0].peak.device,
                                         .without_context = entries[0].context == 0,
                                         .fails = entries[0].out_of_memory };
    plm_baseline_destroy(file);
    return status;
}

static void plan_of_result(struct cli *cli,
                           const struct plm_result *result,
                           struct watch_plan *ret_plan)
{
    struct buf source = { .arena = &cli->arena };
    plm_bytes fixed = result->peak.device - result->nccl;

    buf_printf(&source, "%s, batch %lld", result->model, (long long)result->batch);
    *ret_plan = (struct watch_plan){
        .source = buf_string(&source),
        .device = result->peak.device,
        .low = fixed + result->nccl_low + (result->workspace_unknown ? result->workspace_low : 0),
        .high =
            fixed + result->nccl_high + (result->workspace_unknown ? result->workspace_high : 0),
        .without_context = result->context == 0,
        .fails = result->out_of_memory,
    };
}

/* read_line() - the plan's line, or the model that it is to come from: all that can be wrong without a GPU */
static enum plm_status read_line(struct watching *w, struct plm_error *reterr)
{
    struct cli *cli = w->cli;
    plm_bytes bytes;

    if (cli->argument_count > 0) {
        enum plm_status status = load_input(cli, &w->model, &w->strategy, reterr);

        return status == PLM_OK ? load_check(w->model, &w->strategy, reterr) : status;
    }
    if (!cli->options.plan)
        return PLM_OK;
    if (!units_parse_bytes(cli->options.plan, &bytes))
        return plan_of_file(cli, &w->plan, reterr);
    if (bytes == 0)
        return plm_fail(reterr, PLM_E_USAGE, "--plan: 0 is not accepted; accepted: a size above 0");
    w->plan =
        (struct watch_plan){ .source = "--plan", .device = bytes, .low = bytes, .high = bytes };
    return PLM_OK;
}

/* plan_model() - the model's line on the GPU that is watched */
static enum plm_status plan_model(struct watching *w,
                                  const struct plm_watch_result *seen,
                                  struct plm_error *reterr)
{
    struct plm_estimate *estimate;
    enum plm_status status = load_here(w->cli, &w->cli->options, &w->strategy.device, reterr);

    if (status != PLM_OK)
        return status;
    if (!w->strategy.device)
        w->strategy.device =
            here_profile(w->cli, seen->gpus[0].uuid, seen->gpus[0].name, seen->driver);
    status = plm_estimate(w->model, &w->strategy, &estimate, reterr);
    if (status != PLM_OK)
        return status;
    const struct plm_result *result = plm_estimate_result(estimate);

    talk_warnings(result->warnings, result->warning_count);
    plan_of_result(w->cli, result, &w->plan);
    plm_estimate_destroy(estimate);
    return PLM_OK;
}

/* ------------------------------------------------------------------ what came out */

/* write_data() - JSON or CSV, to the file or to standard output */
static enum exit_status write_data(struct cli *cli,
                                   const struct watch_report *report,
                                   enum exit_status status)
{
    struct buf data = { .arena = &cli->arena, .maximum = LARGEST_FILE };

    if (cli->options.json)
        watch_json(report, &data);
    else
        watch_csv(report, &data);
    return answer_write(cli, &data, status);
}

/*
 * answer() - the summary is talk where a command has standard output to itself, and where data go there
 *
 * The command's own trouble counts for more than a file that could not be written.
 */
static enum exit_status answer(struct cli *cli,
                               const struct watch_report *report,
                               enum exit_status status)
{
    struct buf text = { .arena = &cli->arena };
    bool data = cli->options.json || cli->options.csv, talk = cli->tail_count > 0;
    struct layout layout = { &text, talk ? watch_colour(cli) : cli->colour };
    enum exit_status written = EXIT_FITS;

    watch_text(report, &layout);
    if (talk)
        fputs(buf_string(&text), stderr);
    if (data)
        written = write_data(cli, report, EXIT_FITS);
    if (!talk && (!data || cli->options.output)) {
        cli->options.output = NULL;
        written = answer_write(cli, &text, written);
    }
    return status == EXIT_FITS ? written : status;
}

static enum exit_status follow(struct watching *w, struct plm_watch *watch)
{
    struct cli *cli = w->cli;
    struct plm_error error;
    enum plm_status status = w->model ? plan_model(w, plm_watch_result(watch), &error) : PLM_OK;

    if (status != PLM_OK)
        return talk_fail(status, &error);
    struct watch_report report = {
        .result = plm_watch_result(watch),
        .plan = &w->plan,
        .interval = cli->options.interval != 0 ? cli->options.interval : INTERVAL,
        .margin_share = cli->options.has_margin ? cli->options.margin_share : MARGIN_SHARE,
        .margin_bytes = cli->options.margin_bytes,
        .pid = cli->options.pid,
    };
    bool began;
    enum exit_status ended = watch_loop(cli, watch, &report, &began);

    return began ? answer(cli, &report, ended) : ended;
}

/* open_and_follow() - once the input is right */
static enum exit_status open_and_follow(struct watching *w)
{
    const struct options *o = &w->cli->options;
    struct plm_watch_options options = { .gpu = o->gpu_id, .pid = o->pid };
    struct plm_watch *watch;
    struct plm_error error;
    enum plm_status status;
    enum exit_status exit_status = EXIT_FITS;

    if (o->output || w->cli->tail_count == 0) /* a command has standard output to itself */
        exit_status = answer_try(w->cli, o->output);
    if (exit_status != EXIT_FITS)
        return exit_status;
    status = plm_watch_open(&options, &watch, &error);
    if (status != PLM_OK)
        return talk_fail(status, &error);
    exit_status = follow(w, watch);
    plm_watch_destroy(watch);
    return exit_status;
}

static enum exit_status run(struct cli *cli)
{
    struct watching w = { .cli = cli };
    struct plm_error error;
    enum plm_status status = check(cli, &error);
    enum exit_status exit_status;

    if (status == PLM_OK)
        status = choose_format(cli, &error);
    if (status == PLM_OK)
        status = read_line(&w, &error);
    exit_status = status == PLM_OK ? open_and_follow(&w) : talk_fail(status, &error);
    plm_model_destroy(w.model);
    return exit_status;
}

const struct command cmd_watch = {
    .name = "watch",
    .arguments = "[MODEL] [-- COMMAND [ARGUMENT…]]",
    .help = "follow a running job's device memory",
    .about =
        "Run COMMAND, or follow the process of --pid, and watch the device memory that it and the processes it starts take, "
        "against what is planned: the estimate of MODEL with the options of its run, or the figure of --plan. At the end it says how "
        "the plan compared, and whether memory leaks. The command's exit status is passed on.",
    .least = 0,
    .most = 1,
    .missing = "",
    .takes_tail = true,
    .run = run,
};
