/*
 * cli/cmd_calibrate.c - plimsoll calibrate: measure the GPU in hand, and keep its profile
 *
 * Ctrl-C ends the program and its children at once, and with them all that is held on the GPU; only while the profile is
 * written are signals kept back, so that no half of it is left.
 */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/units.h"
#include "cli/answer.h"
#include "cli/calibrate_cudnn.h"
#include "cli/clock.h"
#include "cli/folders.h"
#include "cli/job.h"
#include "cli/talk.h"
#include "plimsoll/calibrate.h"
#include "report/json.h"

/* profile_path() - where the profile goes; "-" is standard output */
static const char *profile_path(struct cli *cli, const char *folder, const char *name)
{
    struct buf path = { .arena = &cli->arena };

    if (cli->options.output)
        return cli->options.output;
    buf_printf(&path, "%s/%s.yaml", folder, name);
    return buf_string(&path);
}

/* ------------------------------------------------------------------ what is printed */

static const char *figure_text(const struct plm_figure *f, double value, struct buf *out)
{
    char text[UNITS_TEXT];

    out->length = 0;
    if (strcmp(f->unit, "bytes") == 0)
        buf_text(out, units_format_bytes((plm_bytes)value, text));
    else if (strcmp(f->unit, "bytes/s") == 0)
        buf_printf(out, "%s/s", units_format_bytes((plm_bytes)value, text));
    else if (strcmp(f->unit, "operations/s") == 0)
        buf_printf(out, "%.1f TFLOP/s", value * 1e-12);
    else if (strcmp(f->unit, "seconds") == 0)
        buf_printf(out, "%.1f us", value * 1e6);
    else if (strcmp(f->unit, "share") == 0)
        buf_printf(out, "%.0f %%", value * 100);
    else
        buf_printf(out, "%g", value);
    return buf_string(out);
}

static void print_figure(const struct plm_figure *f, struct arena *arena, struct buf *out)
{
    struct buf value = { .arena = arena };
    char size[UNITS_TEXT] = "";

    if (f->size > 0)
        units_format_bytes(f->size, size);
    buf_printf(out, "  %-20s %10s  %s%s", f->name, size, f->at_least ? "at least " : "",
               figure_text(f, f->value, &value));
    if (f->count > 1) {
        buf_printf(out, " (%s to ", figure_text(f, f->low, &value));
        buf_printf(out, "%s, %lld times)", figure_text(f, f->high, &value), (long long)f->count);
    }
    buf_char(out, '\n');
}

static void print_text(const struct plm_calibrated *c,
                       const char *path,
                       struct arena *arena,
                       struct buf *out)
{
    char total[UNITS_TEXT], context[UNITS_TEXT], libraries[UNITS_TEXT], margin[UNITS_TEXT];

    buf_printf(out, "%s (%s), driver %s for CUDA %s, runtime %s\n", c->title, c->uuid, c->driver,
               c->cuda, c->runtime);
    buf_printf(out, "  memory %s, context %s, libraries %s\n", units_format_bytes(c->total, total),
               units_format_bytes(c->context, context),
               units_format_bytes(c->libraries, libraries));
    buf_printf(out, "  margin of a plan: %s (%s)\n\nMeasured\n",
               units_format_bytes(c->margin, margin), c->margin_reason);
    for (size_t i = 0; i < c->figure_count; i++)
        print_figure(&c->figures[i], arena, out);
    if (c->skipped_count > 0)
        buf_text(out, "\nNot measured\n");
    for (size_t i = 0; i < c->skipped_count; i++)
        buf_printf(out, "  %s\n", c->skipped[i]);
    buf_printf(out, "\nThe profile is %s\n", path);
}

/* json_value() - bytes in full */
static void json_value(struct json *json, const char *key, double value)
{
    if (value == floor(value) && value >= 0 && value < 1e15)
        json_field_uint(json, key, (uint64_t)value);
    else
        json_field_real(json, key, value);
}

static void print_json(const struct plm_calibrated *c, const char *path, struct buf *out)
{
    struct json json = { .out = out };

    json_open(&json, '{');
    json_field_string(&json, "name", c->name);
    json_field_string(&json, "title", c->title);
    json_field_string(&json, "uuid", c->uuid);
    json_field_string(&json, "driver", c->driver);
    json_field_string(&json, "cuda", c->cuda);
    json_field_string(&json, "runtime", c->runtime);
    json_field_uint(&json, "total_bytes", c->total);
    json_field_uint(&json, "context_bytes", c->context);
    json_field_uint(&json, "libraries_bytes", c->libraries);
    json_field_uint(&json, "margin_bytes", c->margin);
    json_field_string(&json, "margin_reason", c->margin_reason);
    json_field_string(&json, "profile", path);
    json_key(&json, "figures");
    json_open(&json, '[');
    for (size_t i = 0; i < c->figure_count; i++) {
        const struct plm_figure *f = &c->figures[i];

        json_open(&json, '{');
        json_field_string(&json, "name", f->name);
        json_field_string(&json, "unit", f->unit);
        json_field_uint(&json, "size", f->size);
        json_value(&json, "value", f->value);
        json_value(&json, "low", f->low);
        json_value(&json, "high", f->high);
        json_field_int(&json, "count", f->count);
        json_field_bool(&json, "at_least", f->at_least);
        json_close(&json, '}');
    }
    json_close(&json, ']');
    json_key(&json, "skipped");
    json_open(&json, '[');
    for (size_t i = 0; i < c->skipped_count; i++)
        json_string(&json, c->skipped[i]);
    json_close(&json, ']');
    json_close(&json, '}');
    json_finish(&json);
}

/* ------------------------------------------------------------------ the command */

static enum exit_status keep(struct cli *cli,
                             const char *folder,
                             const struct plm_calibration *calibration)
{
    const struct plm_calibrated *c = plm_calibration_result(calibration);
    struct buf text = { .arena = &cli->arena };
    const char *path = profile_path(cli, folder, c->name);
    struct plm_error error;
    enum plm_status status;
    size_t length;
    const char *profile = plm_calibration_profile(calibration, &length);
    bool to_stdout = strcmp(path, "-") == 0;

    cli->options.output = NULL; /* the answer goes to standard output in any case */
    if (to_stdout) {
        buf_add(&text, profile, length);
        return answer_write(cli, &text, EXIT_FITS);
    }
    status = answer_save(path, profile, length, &error);
    if (status != PLM_OK)
        return answer_status(status, &error);
    if (cli->options.json)
        print_json(c, path, &text);
    else
        print_text(c, path, &cli->arena, &text);
    return answer_write(cli, &text, EXIT_FITS);
}

/* try_outputs() - what would keep the profile or the report from being written is told before anything is measured */
static enum exit_status try_outputs(struct cli *cli, const char *folder)
{
    const char *output = cli->options.output;
    struct plm_error error;
    enum plm_status status = PLM_OK;
    enum exit_status exit_status = answer_try(cli, NULL);

    if (exit_status != EXIT_FITS || (output && strcmp(output, "-") == 0))
        return exit_status;
    if (!output)
        status = folder ? folders_make(folder, &cli->arena, &error)
                        : plm_fail(&error, PLM_E_USAGE,
                                   "neither XDG_CONFIG_HOME nor HOME says where profiles are kept; "
                                   "-o FILE writes elsewhere");
    if (status != PLM_OK)
        return answer_status(status, &error);
    return answer_try(cli, profile_path(cli, folder, "GPU"));
}

static enum exit_status run(struct cli *cli)
{
    if (cli->options.cudnn_model)
        return calibrate_cudnn(cli);
    const char *folder = folders_profiles(&cli->arena);
    struct progress progress = { 0 };
    struct plm_calibrate_options options = {
        .device = (int)cli->options.ordinal,
        .quick = cli->options.quick,
        .managed = cli->options.managed,
        .python = cli->options.python,
        .max_fill = cli->options.max_fill,
        .watchdog = cli->options.watchdog,
        .date = clock_date(&cli->arena),
        .progress = progress_report,
        .progress_context = &progress,
    };
    struct plm_calibration *calibration = NULL;
    struct plm_error error;
    enum plm_status status;
    enum exit_status exit_status;

    if (options.python && !job_can_run(options.python))
        return talk_fail(plm_fail(&error, PLM_E_USAGE,
                                  "--python: '%.120s' cannot be run: there is no such program",
                                  options.python),
                         &error);
    exit_status = try_outputs(cli, folder);
    if (exit_status != EXIT_FITS)
        return exit_status;
    status = plm_calibrate(&options, &calibration, &error);
    progress_finish(&progress);
    if (status != PLM_OK)
        return talk_fail(status, &error);
    exit_status = keep(cli, folder, calibration);
    plm_calibration_destroy(calibration);
    return exit_status;
}

const struct command cmd_calibrate = {
    .name = "calibrate",
    .arguments = "",
    .help = "measure the GPU in hand, so that plans need a narrower margin",
    .about =
        "Measure the GPU in this machine: what a CUDA context takes, how device memory is given out and how much of it can be "
        "had, and how fast it is. The result is a device profile; 'plimsoll plan --device NAME' uses it, with a margin "
        "that comes from the measurement. Takes under a minute, and leaves the GPU as it was.",
    .run = run,
};
