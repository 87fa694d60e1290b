/* cli/cmd_compare.c - plimsoll compare: strategies side by side, two term by term, and what has grown */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/num.h"
#include "base/save.h"
#include "base/units.h"
#include "cli/answer.h"
#include "cli/load.h"
#include "cli/talk.h"
#include "cli/vary.h"
#include "report/compare.h"

enum { LARGEST_ANSWER = 1 << 30 };

static const size_t NONE = SIZE_MAX;

/* struct device - one that was found already: profiles are files, and grids large */
struct device {
    const char *name;
    const struct plm_device *found;
};

/* struct comparing - one invocation */
struct comparing {
    struct cli *cli;
    struct vary_grid grid;
    struct compare_row *rows; /* [row_count], in the order of the grid, or the two of --diff */
    size_t *runs; /* [row_count]: which strategy; NONE for one that its options refuse */
    size_t *
        leaders; /* [row_count], of rows that differ in the batch alone, at the first: the first that is run */
    size_t row_count;
    struct plm_strategy *strategies; /* [run_count] */
    bool *searched;
    size_t run_count;
    struct device *devices;
    size_t device_count, device_capacity;
    struct plm_baseline *baseline;
};

/* ------------------------------------------------------------------ what is asked */

static enum plm_status find_device(struct comparing *c,
                                   const struct options *options,
                                   const struct plm_device **ret,
                                   struct plm_error *reterr)
{
    for (size_t i = 0; options->device && i < c->device_count; i++)
        if (strcmp(c->devices[i].name, options->device) == 0) {
            *ret = c->devices[i].found;
            return PLM_OK;
        }
    enum plm_status status = load_device(c->cli, options, ret, reterr);

    if (status == PLM_OK && options->device)
        arena_push(&c->cli->arena, c->devices, c->device_count, c->device_capacity,
                   (struct device){ options->device, *ret });
    return status;
}

/* add_strategy() - of the row, unless the file of --deepspeed says otherwise than its options: it is refused then, alone */
static enum plm_status add_strategy(struct comparing *c,
                                    const struct options *options,
                                    struct compare_row *row,
                                    struct plm_error *reterr)
{
    const struct plm_device *device;
    struct plm_strategy *strategy = &c->strategies[c->run_count];
    struct plm_compared refused = { 0 };
    enum plm_status status = find_device(c, options, &device, reterr);

    if (status != PLM_OK)
        return status;
    refused.status = load_given(c->cli, options, strategy, &refused.error);
    if (refused.status != PLM_OK) {
        struct plm_compared *kept = arena_new(&c->cli->arena, struct plm_compared);

        *kept = refused;
        row->compared = kept;
        row->report.strategy = &c->cli->options.strategy;
        c->runs[c->row_count] = NONE;
        return PLM_OK;
    }
    strategy->device = device;
    row->report.strategy = strategy;
    c->runs[c->row_count] = c->run_count++;
    return PLM_OK;
}

/* add_row() - one more strategy to run */
static enum plm_status add_row(struct comparing *c,
                               const struct options *options,
                               const char *label,
                               const char *const *values,
                               size_t number,
                               struct plm_error *reterr)
{
    struct compare_row *row = &c->rows[c->row_count];

    *row = (struct compare_row){
        .report = { .device_name = options->device, .colour = c->cli->colour },
        .values = values,
        .label = label,
        .number = number,
    };
    if (c->cli->options.largest_batch && !options->device && !options->strategy.capacity)
        return plm_fail(reterr, PLM_E_USAGE,
                        "compare: --largest-batch needs --device NAME ('plimsoll devices' lists "
                        "them) or --capacity SIZE");
    enum plm_status status = add_strategy(c, options, row, reterr);

    if (status == PLM_OK)
        c->row_count++;
    return status;
}

static enum plm_status add_point(struct comparing *c, size_t point, struct plm_error *reterr)
{
    struct arena *arena = &c->cli->arena;
    const char **values = arena_array(arena, const char *, c->grid.axis_count);
    struct options options;
    enum plm_status status =
        vary_point(&c->cli->options, &c->grid, point, values, &options, reterr);

    if (status != PLM_OK)
        return status;
    return add_row(c, &options, vary_label(&c->grid, values, arena), values, point + 1, reterr);
}

/* add_named() - a strategy of --diff: a number, or a list of options */
static enum plm_status add_named(struct comparing *c, const char *name, struct plm_error *reterr)
{
    struct options options;
    int64_t number;
    enum plm_status status;

    if (units_parse_int(name, &number)) {
        if (number < 1 || (uint64_t)number > c->grid.point_count)
            return plm_fail(reterr, PLM_E_USAGE,
                            "--diff: there is no strategy %s; --vary makes %zu", name,
                            c->grid.point_count);
        return add_point(c, (size_t)number - 1, reterr);
    }
    status = vary_list(&c->cli->options, COMMAND_COMPARE, name, &options, reterr);
    if (status != PLM_OK)
        return status;
    const char **values = arena_array(&c->cli->arena, const char *, c->grid.axis_count);

    for (size_t i = 0; i < c->grid.axis_count; i++)
        values[i] = "";
    return add_row(c, &options, name, values, c->row_count + 1, reterr);
}

static enum plm_status read_rows(struct comparing *c, struct plm_error *reterr)
{
    const struct options *options = &c->cli->options;
    struct arena *arena = &c->cli->arena;
    enum plm_status status = vary_read(options, COMMAND_COMPARE, &c->grid, reterr);
    size_t count = options->diff[0] ? 2 : c->grid.point_count;

    if (status != PLM_OK)
        return status;
    c->rows = arena_array(arena, struct compare_row, count);
    c->runs = arena_array(arena, size_t, count);
    c->leaders = arena_array(arena, size_t, c->grid.point_count);
    c->strategies = arena_array(arena, struct plm_strategy, count);
    c->searched = arena_array(arena, bool, count);
    for (size_t i = 0; status == PLM_OK && i < count; i++)
        status =
            options->diff[0] ? add_named(c, options->diff[i], reterr) : add_point(c, i, reterr);
    return status;
}

static enum plm_status check_options(const struct options *options, struct plm_error *reterr)
{
    if (options->diff[0] && options->baseline)
        return plm_fail(reterr, PLM_E_USAGE, "--diff and --baseline do not go together");
    if (options->diff[0] && options->largest_batch)
        return plm_fail(reterr, PLM_E_USAGE, "--diff and --largest-batch do not go together");
    if (options->allow > 0 && !options->baseline)
        return plm_fail(reterr, PLM_E_USAGE, "--allow: needs --baseline FILE");
    if (options->sort == SORT_LARGEST_BATCH && !options->largest_batch)
        return plm_fail(reterr, PLM_E_USAGE, "--sort largest-batch: needs --largest-batch");
    return PLM_OK;
}

/* ------------------------------------------------------------------ what came of it */

static void warn(const struct comparing *c, const struct compare_row *row)
{
    struct buf text = { .arena = &c->cli->arena };
    const struct plm_error *error = &row->compared->error;

    buf_printf(&text, "strategy %zu%s%s%s is refused: ", row->number, row->label[0] ? " (" : "",
               row->label, row->label[0] ? ")" : "");
    if (error->line > 0)
        buf_printf(&text, "%s:%u:%u: ", error->file, error->line, error->column);
    buf_text(&text, error->message);
    talk_warnings(&(const char *){ buf_string(&text) }, 1);
}

/* warned_before() - in a row above @row: what holds for all is said once */
static bool warned_before(const struct comparing *c, size_t row, const char *warning)
{
    for (size_t i = 0; i < row; i++) {
        const struct plm_result *result = c->rows[i].report.result;

        for (size_t j = 0; result && j < result->warning_count; j++)
            if (strcmp(result->warnings[j], warning) == 0)
                return true;
    }
    return false;
}

static void talk_rows(const struct comparing *c)
{
    for (size_t i = 0; i < c->row_count; i++) {
        const struct plm_result *result = c->rows[i].report.result;

        if (!result)
            warn(c, &c->rows[i]);
        for (size_t j = 0; result && j < result->warning_count; j++)
            if (!warned_before(c, i, result->warnings[j]))
                talk_warnings(&result->warnings[j], 1);
    }
}

/* take() - results into the rows; false when all were refused */
static bool take(struct comparing *c, const struct plm_compare *compare)
{
    size_t count;
    const struct plm_compared *results = plm_compare_results(compare, &count);
    bool any = false;

    for (size_t i = 0; i < c->row_count; i++) {
        struct compare_row *row = &c->rows[i];

        if (c->runs[i] == NONE)
            continue;
        row->compared = &results[c->runs[i]];
        row->report.result = row->compared->result;
        any = any || row->report.result;
        if (c->cli->options.diff[0] || !row->report.result)
            continue;
        const struct plm_compared *leader = &results[c->leaders[vary_first(&c->grid, i, "batch")]];

        row->has_largest_batch = leader->has_largest_batch;
        row->largest_batch = leader->largest_batch;
    }
    return any;
}

static void talk_growth(const struct comparing *c, const struct compare_row *row)
{
    const struct growth *growth = &row->growth;
    struct buf text = { .arena = &c->cli->arena };
    char from[UNITS_TEXT], to[UNITS_TEXT];

    buf_printf(&text, "strategy %zu%s%s%s", row->number, row->label[0] ? " (" : "", row->label,
               row->label[0] ? ")" : "");
    if (row->report.result->out_of_memory)
        buf_text(&text, " runs out of memory and did not before");
    else
        buf_printf(&text, ": %s memory grew by %.2f %%, from %s to %s", growth->figure,
                   100 * growth->share, units_format_bytes(growth->from, from),
                   units_format_bytes(growth->to, to));
    talk_note(buf_string(&text));
}

/* fail_unlike() - none of the strategies is in the baseline: why the first is not */
static enum plm_status fail_unlike(struct comparing *c,
                                   const struct plm_baseline_entry *entries,
                                   size_t count,
                                   struct plm_error *reterr)
{
    const char *key = NULL;

    for (size_t i = 0; i < c->row_count && !key; i++)
        if (c->rows[i].report.result)
            key = growth_unlike(&c->rows[i].report, entries, count, &c->cli->arena);
    return plm_fail(reterr, PLM_E_USAGE,
                    "--baseline: none of these strategies is in '%.80s': model and options must be "
                    "the same%s%.40s%s",
                    c->cli->options.baseline, key ? ", and '" : "", key ? key : "",
                    key ? "' is not" : "");
}

/* judge() - hold the rows against the baseline; *ret_grew when some peak has grown */
static enum plm_status judge(struct comparing *c, bool *ret_grew, struct plm_error *reterr)
{
    const struct options *options = &c->cli->options;
    const struct plm_baseline_entry *entries;
    size_t count, found = 0;

    *ret_grew = false;
    if (!options->baseline)
        return PLM_OK;
    entries = plm_baseline_entries(c->baseline, &count);
    for (size_t i = 0; i < c->row_count; i++) {
        struct compare_row *row = &c->rows[i];
        struct arena scratch = { 0 };
        const struct plm_baseline_entry *before =
            row->report.result ? growth_find(&row->report, entries, count, &scratch) : NULL;

        arena_finish(&scratch);
        if (!before)
            continue;
        found++;
        row->growth = growth_of(row->report.result, before, options->allow);
        if (row->growth.grew)
            talk_growth(c, row);
        *ret_grew = *ret_grew || row->growth.grew;
    }
    return found > 0 ? PLM_OK : fail_unlike(c, entries, count, reterr);
}

/* struct sorted - first those that finish, then those whose figures are what was reached, then those that were refused */
struct sorted {
    unsigned rank;
    uint64_t key;
    struct compare_row row;
};

static unsigned rank_of(enum sort_field field, const struct compare_row *row)
{
    if (field == SORT_NUMBER)
        return 0;
    if (!row->report.result)
        return 2;
    return field != SORT_LARGEST_BATCH && row->report.result->out_of_memory;
}

static uint64_t key_of(enum sort_field field, const struct compare_row *row)
{
    const struct plm_result *result = row->report.result;

    if (!result)
        return 0;
    switch (field) {
    case SORT_NUMBER:
        break;
    case SORT_REQUESTED:
        return result->peak.requested;
    case SORT_ALLOCATED:
        return result->peak.allocated;
    case SORT_RESERVED:
        return result->peak.reserved;
    case SORT_DEVICE:
        return result->peak.device;
    case SORT_PER_PARAMETER:
        return (uint64_t)(row->compared->bytes_per_parameter * 1e6);
    case SORT_LARGEST_BATCH:
        return UINT64_MAX - (uint64_t)row->largest_batch;
    }
    return 0;
}

static int by_key(const void *a, const void *b)
{
    const struct sorted *x = a, *y = b;

    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return (x->row.number > y->row.number) - (x->row.number < y->row.number);
}

static void sort_rows(struct comparing *c)
{
    struct sorted *sorted = arena_array(&c->cli->arena, struct sorted, c->row_count);

    for (size_t i = 0; i < c->row_count; i++)
        sorted[i] = (struct sorted){ rank_of(c->cli->options.sort, &c->rows[i]),
                                     key_of(c->cli->options.sort, &c->rows[i]), c->rows[i] };
    qsort(sorted, c->row_count, sizeof *sorted, by_key);
    for (size_t i = 0; i < c->row_count; i++)
        c->rows[i] = sorted[i].row;
}

/* ------------------------------------------------------------------ the answer */

static bool is_svg(const char *file)
{
    size_t length = file ? strlen(file) : 0;

    return length > 4 && strcmp(file + length - 4, ".svg") == 0;
}

/* write_chart() - to the file of --output; the table then goes to standard output */
static enum plm_status write_chart(struct comparing *c,
                                   const struct compare_report *report,
                                   struct plm_error *reterr)
{
    struct buf chart = { .arena = &c->cli->arena, .maximum = LARGEST_ANSWER };
    const char *file = c->cli->options.output;

    if (!is_svg(file))
        return PLM_OK;
    compare_write_svg(report, &chart);
    c->cli->options.output = NULL;
    if (chart.full)
        return plm_fail(reterr, PLM_E_RANGE, "the chart is too large to write");
    return save_file(file, buf_string(&chart), chart.length, reterr);
}

static enum exit_status answer(struct comparing *c,
                               struct plm_compare *compare,
                               const char *model,
                               bool grew)
{
    const struct options *options = &c->cli->options;
    const char **axes = arena_array(&c->cli->arena, const char *, c->grid.axis_count);
    struct buf text = { .arena = &c->cli->arena, .maximum = LARGEST_ANSWER };
    struct compare_report report = {
        .model = model,
        .axes = axes,
        .axis_count = c->grid.axis_count,
        .rows = c->rows,
        .row_count = c->row_count,
        .largest_batch = options->largest_batch,
        .baseline = options->baseline,
        .allow = options->allow,
        .colour = c->cli->colour,
    };
    struct difference_report pair = {
        .model = model, .a = &c->rows[0], .b = &c->rows[c->row_count - 1], .colour = c->cli->colour
    };
    struct plm_error error;
    enum plm_status status;

    for (size_t i = 0; i < c->grid.axis_count; i++)
        axes[i] = c->grid.axes[i].option->name;
    if (options->diff[0]) {
        status = plm_compare_difference(compare, 0, 1, &pair.difference, &error);
        if (status != PLM_OK)
            return talk_fail(status, &error);
    } else {
        sort_rows(c);
    }
    status = write_chart(c, &report, &error);
    if (status != PLM_OK) {
        talk_error(&error);
        return status == PLM_E_USAGE ? EXIT_USAGE : EXIT_TROUBLE;
    }
    if (options->diff[0])
        answer_renderer(c->cli)->difference(&pair, &text);
    else
        answer_renderer(c->cli)->compare(&report, &text);
    return answer_write(c->cli, &text, grew ? EXIT_NO_FIT : EXIT_FITS);
}

static enum exit_status judge_and_answer(struct comparing *c, struct plm_compare *compare)
{
    struct plm_error error;
    enum plm_status status;
    const char *model = NULL;
    bool grew;

    if (!take(c, compare))
        return talk_fail(c->rows[0].compared->status, &c->rows[0].compared->error);
    talk_rows(c);
    status = judge(c, &grew, &error);
    if (status != PLM_OK)
        return talk_fail(status, &error);
    for (size_t i = 0; !model; i++)
        model = c->rows[i].report.result ? c->rows[i].report.result->model : NULL;
    return answer(c, compare, model, grew);
}

/* choose_searched() - those that differ in the batch alone have the same largest one, which one of them is run for */
static void choose_searched(struct comparing *c)
{
    for (size_t i = 0; i < c->grid.point_count; i++)
        c->leaders[i] = NONE;
    for (size_t i = 0; !c->cli->options.diff[0] && i < c->row_count; i++) {
        size_t *leader = &c->leaders[vary_first(&c->grid, i, "batch")];

        if (c->runs[i] == NONE || *leader != NONE)
            continue;
        *leader = c->runs[i];
        c->searched[c->runs[i]] = true;
    }
}

static enum exit_status compare_model(struct comparing *c, struct plm_model *model)
{
    const struct options *options = &c->cli->options;
    struct progress progress = { 0 };
    struct plm_comparison comparison = {
        .strategies = c->strategies,
        .strategy_count = c->run_count,
        .largest_batch = options->largest_batch ? c->searched : NULL,
        .search = { .margin_share = options->margin_share,
                    .margin_bytes = options->margin_bytes,
                    .has_margin = options->has_margin,
                    .reserve = options->reserve,
                    .multiple_of = options->multiple_of,
                    .max_batch = options->max_batch },
        .jobs = (unsigned)num_min((uint64_t)options->jobs, UINT32_MAX),
        .progress = progress_report,
        .progress_context = &progress,
    };
    struct plm_compare *compare;
    struct plm_error error;
    enum plm_status status;
    enum exit_status exit_status;

    choose_searched(c);
    status = plm_compare(model, &comparison, &compare, &error);
    progress_finish(&progress);
    if (status != PLM_OK)
        return talk_fail(status, &error);
    exit_status = judge_and_answer(c, compare);
    plm_compare_destroy(compare);
    return exit_status;
}

static enum exit_status run(struct cli *cli)
{
    struct comparing c = { .cli = cli };
    struct plm_model *model;
    struct plm_error error;
    enum plm_status status = check_options(&cli->options, &error);
    enum exit_status exit_status;

    if (status == PLM_OK)
        status = read_rows(&c, &error);
    if (status == PLM_OK && cli->options.baseline)
        status = plm_baseline_load(cli->options.baseline, &c.baseline, &error);
    if (status == PLM_OK)
        status = load_model(cli, &model, &error);
    if (status == PLM_OK) {
        exit_status = compare_model(&c, model);
        plm_model_destroy(model);
    } else {
        exit_status = talk_fail(status, &error);
    }
    plm_baseline_destroy(c.baseline);
    return exit_status;
}

const struct command cmd_compare = {
    .name = "compare",
    .arguments = "MODEL",
    .help = "strategies side by side, two term by term, or against a baseline",
    .about =
        "Run MODEL under every combination of the values of --vary and print what each takes and whether it fits; or two of them "
        "term by term (--diff); or hold them against what was written before (--baseline), as a gate in continuous integration.",
    .least = 1,
    .most = 1,
    .missing = load_missing,
    .run = run,
};
