/*
 * device/measured.c - the measured: section of a profile: written, read and checked
 *
 * What is written is read back as the same struct. A reader meets files that were cut, edited or copied from elsewhere: every key and
 * number is checked, and a mistake is an error with its line and column.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/num.h"
#include "base/units.h"
#include "device/measured.h"
#include "yaml/decode.h"

const struct figure_desc figure_descs[FIGURE_COUNT] = {
#define FIGURE(id_, name_, unit_, how_)                                                            \
    [FIGURE_##id_] = { .name = name_, .unit = UNIT_##unit_, .how = how_ },
#include "device/figures.def"
#undef FIGURE
};

const char *const figure_units[UNIT_UNITS] = {
    [UNIT_BYTES] = "bytes",
    [UNIT_SECONDS] = "seconds",
    [UNIT_BYTES_PER_SECOND] = "bytes/s",
    [UNIT_OPERATIONS_PER_SECOND] = "operations/s",
    [UNIT_SHARE] = "share",
    [UNIT_NUMBER] = "number",
};

enum figure_id figure_find(const char *name)
{
    unsigned i = 0;

    while (i < FIGURE_COUNT && strcmp(figure_descs[i].name, name) != 0)
        i++;
    return (enum figure_id)i;
}

const struct figure *measured_figure(const struct measured *measured,
                                     enum figure_id id,
                                     plm_bytes size)
{
    for (size_t i = 0; i < measured->figure_count; i++)
        if (measured->figures[i].id == id && measured->figures[i].size == size)
            return &measured->figures[i];
    return NULL;
}

/* ------------------------------------------------------------------ the margin */

/*
 * The largest context that was published for a PyTorch process (nvidia-smi less reserved memory; plimsoll-method(7)). It holds the
 * kernels that PyTorch loads as they are first used; the probes' process loads none of them.
 */
static const plm_bytes FRAMEWORK_MOST = (plm_bytes)1690 << 20;

/* The default margin's least (plan/search.c), which is kept where nothing was measured: this part alone shall not be above that. */
static const plm_bytes FRAMEWORK_KEPT = (plm_bytes)1 << 30;

/*
 * unusable() - what was free and could not be had, in whatever blocks it was asked for; 0 when the limit stopped the probe
 *
 * Large blocks meet the limit where another one would exceed it; what counts is how the probe ended that held the most.
 */
static plm_bytes unusable(const struct measured *m)
{
    const struct figure *free_bytes = measured_figure(m, FIGURE_FREE, 0), *most = NULL;

    for (size_t i = 0; i < m->figure_count; i++) {
        const struct figure *f = &m->figures[i];

        if (f->id == FIGURE_USABLE &&
            (!most || f->value > most->value || (f->value == most->value && !f->at_least)))
            most = f;
    }
    if (!free_bytes || !most || most->at_least || most->value <= 0)
        return 0;
    return free_bytes->value > most->value ? (plm_bytes)(free_bytes->value - most->value) : 0;
}

plm_bytes measured_context(const struct measured *m)
{
    const struct figure *framework = measured_figure(m, FIGURE_FRAMEWORK, 0);

    return m->context + m->libraries + (framework ? (plm_bytes)framework->value : 0);
}

/*
 * framework_part() - room for kernels that the framework loads
 *
 * Where a small model was trained, another may load other kernels: as much again. Otherwise nothing is known but what was published.
 */
static plm_bytes framework_part(const struct measured *m)
{
    const struct figure *framework = measured_figure(m, FIGURE_FRAMEWORK, 0);
    plm_bytes known = m->context + m->libraries;

    if (framework)
        return num_min((plm_bytes)framework->value, FRAMEWORK_KEPT);
    return num_min(FRAMEWORK_MOST > known ? FRAMEWORK_MOST - known : 0, FRAMEWORK_KEPT);
}

struct measured_margin measured_margin(const struct measured *m)
{
    const struct figure *context = measured_figure(m, FIGURE_CONTEXT, 0);
    struct measured_margin margin = { .unusable = unusable(m) };
    double residual = 0;

    for (size_t i = 0; i < m->point_count; i++)
        residual = fmax(residual, m->points[i].residual);
    margin.residual = (plm_bytes)residual;
    margin.spread = context ? (plm_bytes)(context->high - context->low) : 0;
    margin.framework = framework_part(m);
    margin.margin = margin.residual + margin.spread + margin.unusable + margin.framework;
    return margin;
}

const char *measured_margin_reason(const struct measured_margin *margin, struct arena *arena)
{
    const struct {
        plm_bytes bytes;
        const char *what;
    } parts[] = {
        { margin->residual, "measured beyond the fit" },
        { margin->spread, "between contexts" },
        { margin->unusable, "free that could not be had" },
        { margin->framework, "for kernels that the framework loads" },
    };
    struct buf text = { .arena = arena };
    char size[UNITS_TEXT];

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].bytes > 0)
            buf_printf(&text, "%s%s %s", text.length ? ", " : "",
                       units_format_bytes(parts[i].bytes, size), parts[i].what);
    return text.length ? buf_string(&text) : "the measurement left none open";
}

double fit_residual(const struct fit_point *point, plm_bytes context, plm_bytes libraries)
{
    plm_bytes known = context + (point->libraries ? libraries : 0) + point->reserved;

    return (double)point->used - (double)known;
}

/* ------------------------------------------------------------------ writing */

/* number() - bytes and counts without a fraction, the rest so that it reads back as the same */
static void number(struct buf *out, enum figure_unit unit, double value)
{
    bool whole = (unit == UNIT_BYTES || unit == UNIT_NUMBER) && value == floor(value);

    buf_printf(out, whole ? "%.0f" : "%.9g", value);
}

void measured_quote(struct buf *out, const char *text)
{
    buf_char(out, '"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            buf_char(out, '\\');
        buf_char(out, (unsigned char)*text >= 0x20 ? *text : ' ');
    }
    buf_char(out, '"');
}

static void write_figure(const struct figure *f, struct buf *out)
{
    enum figure_unit unit = figure_descs[f->id].unit;

    buf_text(out, "        - {");
    if (f->size > 0)
        buf_printf(out, "size: %" PRIu64 ", ", f->size);
    buf_text(out, "value: ");
    number(out, unit, f->value);
    if (f->count > 1) {
        buf_text(out, ", low: ");
        number(out, unit, f->low);
        buf_text(out, ", high: ");
        number(out, unit, f->high);
        buf_printf(out, ", count: %" PRId64, f->count);
    }
    buf_printf(out, "%s}\n", f->at_least ? ", at_least: true" : "");
}

static void write_figures(const struct measured *m, struct buf *out)
{
    for (unsigned id = 0; id < FIGURE_COUNT; id++) {
        bool begun = false;

        for (size_t i = 0; i < m->figure_count; i++) {
            if (m->figures[i].id != id)
                continue;
            if (!begun)
                buf_printf(out, "    %s:\n      unit: %s\n      how: \"%s\"\n      values:\n",
                           figure_descs[id].name, figure_units[figure_descs[id].unit],
                           figure_descs[id].how);
            begun = true;
            write_figure(&m->figures[i], out);
        }
    }
}

static void write_fit(const struct measured *m, struct buf *out)
{
    buf_printf(out, "  fit:\n    context: %" PRIu64 "\n    libraries: %" PRIu64 "\n    points:\n",
               m->context, m->libraries);
    for (size_t i = 0; i < m->point_count; i++)
        buf_printf(out,
                   "      - {reserved: %" PRIu64 ", used: %" PRIu64
                   ", libraries: %s, residual: %.0f}\n",
                   m->points[i].reserved, m->points[i].used,
                   m->points[i].libraries ? "true" : "false", m->points[i].residual);
}

void measured_write(const struct measured *m, struct buf *out)
{
    buf_printf(
        out,
        "measured:\n  date: %s\n  program: \"%s\"\n  uuid: \"%s\"\n  driver: \"%s\"\n"
        "  cuda: \"%s\"\n  runtime: \"%s\"\n  compute_mode: %s\n  ecc: %s\n  mig: %s\n  quick: %s\n"
        "  max_fill: %.9g\n  figures:\n",
        m->date, m->program, m->uuid, m->driver, m->cuda, m->runtime, m->compute_mode,
        m->ecc ? "true" : "false", m->mig ? "true" : "false", m->quick ? "true" : "false",
        m->max_fill);
    write_figures(m, out);
    if (m->skipped_count > 0)
        buf_text(out, "  skipped:\n");
    for (size_t i = 0; i < m->skipped_count; i++) {
        buf_printf(out, "    - {figure: %s, reason: ", figure_descs[m->skipped[i].id].name);
        measured_quote(out, m->skipped[i].reason);
        buf_text(out, "}\n");
    }
    write_fit(m, out);
}

/* ------------------------------------------------------------------ reading */

enum { FIGURES_MAX = 4096 };
static const double VALUE_MAX = 1e18;

/* struct section - measured: as written */
struct section {
    const char *date, *program, *uuid, *driver, *cuda, *runtime, *compute_mode;
    bool ecc, mig, quick;
    double max_fill;
    const struct yaml_node *figures, *skipped, *fit;
};

#define ROW(struct_, key_, type_, required_, help_)                                                \
    {                                                                                              \
        .key = #key_, .type = type_, .required = required_,                                        \
        .offset = offsetof(struct struct_, key_), .help = help_                                    \
    }

static const struct decode_row section_rows[] = {
    ROW(section, date, DECODE_TEXT, true, "when it was measured, UTC"),
    ROW(section, program, DECODE_TEXT, true, "the version of plimsoll"),
    ROW(section, uuid, DECODE_TEXT, true, "of the GPU"),
    ROW(section, driver, DECODE_TEXT, true, "the driver's version"),
    ROW(section, cuda, DECODE_TEXT, true, "the CUDA version that the driver speaks"),
    ROW(section, runtime, DECODE_TEXT, true, "the version of the CUDA runtime"),
    ROW(section, compute_mode, DECODE_TEXT, true, "of the GPU"),
    ROW(section, ecc, DECODE_BOOL, true, "whether memory has error correction"),
    ROW(section, mig, DECODE_BOOL, true, "whether it is a slice of a GPU"),
    ROW(section, quick, DECODE_BOOL, true, "whether --quick was given"),
    ROW(section, max_fill, DECODE_REAL, true, "the share of free memory that probes could take"),
    ROW(section, figures, DECODE_MAPPING, true, "what was measured"),
    ROW(section, skipped, DECODE_SEQUENCE, false, "what was not, and why"),
    ROW(section, fit, DECODE_MAPPING, true, "device memory against what was reserved"),
};

/* struct group - one figure with its values */
struct group {
    const char *unit, *how;
    const struct yaml_node *values;
};

static const struct decode_row group_rows[] = {
    ROW(group, unit, DECODE_TEXT, true, "of the values"),
    ROW(group, how, DECODE_TEXT, true, "how it was taken"),
    ROW(group, values, DECODE_SEQUENCE, true, "one for each size"),
};

static const struct decode_row figure_rows[] = {
    ROW(figure, size, DECODE_BYTES, false, "of the block or working set"),
    ROW(figure, value, DECODE_REAL, true, "the median"),
    ROW(figure, low, DECODE_REAL, false, "the least"),
    ROW(figure, high, DECODE_REAL, false, "the most"),
    ROW(figure, count, DECODE_INT, false, "of repeats"),
    ROW(figure, at_least, DECODE_BOOL, false, "more was not tried"),
};

struct skip_row {
    const char *figure, *reason;
};

static const struct decode_row skip_rows[] = {
    ROW(skip_row, figure, DECODE_TEXT, true, "which"),
    ROW(skip_row, reason, DECODE_TEXT, true, "why"),
};

struct fit_section {
    plm_bytes context, libraries;
    const struct yaml_node *points;
};

static const struct decode_row fit_rows[] = {
    ROW(fit_section, context, DECODE_BYTES, true, "of one process"),
    ROW(fit_section, libraries, DECODE_BYTES, true, "that a process loads"),
    ROW(fit_section, points, DECODE_SEQUENCE, true, "what was reserved and used"),
};

static const struct decode_row point_rows[] = {
    ROW(fit_point, reserved, DECODE_BYTES, true, "by an allocator"),
    ROW(fit_point, used, DECODE_BYTES, true, "of the device, by this process"),
    ROW(fit_point, libraries, DECODE_BOOL, true, "whether the process had loaded them"),
    ROW(fit_point, residual, DECODE_REAL, true, "used - (context + libraries + reserved)"),
};

#define DECODE(node, what, rows, into, reterr)                                                     \
    decode_mapping(node, what, rows, sizeof(rows) / sizeof *(rows), NULL, into, reterr)

static enum plm_status read_figure(const struct yaml_node *node,
                                   enum figure_id id,
                                   struct figure *ret,
                                   struct plm_error *reterr)
{
    struct figure f = { .low = NAN, .high = NAN, .count = 1 };
    enum plm_status status = DECODE(node, "a measured value", figure_rows, &f, reterr);

    if (status != PLM_OK)
        return status;
    f.id = id;
    if (isnan(f.low))
        f.low = f.value;
    if (isnan(f.high))
        f.high = f.value;
    if (!(f.low >= 0 && f.low <= f.value && f.value <= f.high && f.high <= VALUE_MAX) ||
        f.count < 1)
        return plm_fail_at(reterr, PLM_E_RANGE, node->at,
                           "%s: a value lies between 'low' and 'high', and they from 0 to %g",
                           figure_descs[id].name, VALUE_MAX);
    *ret = f;
    return PLM_OK;
}

static enum plm_status fail_name(const struct yaml_node *at, struct plm_error *reterr)
{
    const char *names[FIGURE_COUNT];

    for (size_t i = 0; i < FIGURE_COUNT; i++)
        names[i] = figure_descs[i].name;
    return decode_fail_unknown(at->at, "unknown figure", at->text, names, FIGURE_COUNT, reterr);
}

static enum plm_status read_figures(const struct yaml_node *node,
                                    struct arena *arena,
                                    struct measured *m,
                                    struct plm_error *reterr)
{
    struct figure *figures = NULL;
    size_t capacity = 0;

    for (size_t i = 0; i < node->item_count; i++) {
        enum figure_id id = figure_find(node->keys[i]->text);
        struct group group = { 0 };
        enum plm_status status;

        if (id == FIGURE_COUNT)
            return fail_name(node->keys[i], reterr);
        status = DECODE(node->items[i], "a figure", group_rows, &group, reterr);
        if (status != PLM_OK)
            return status;
        if (strcmp(group.unit, figure_units[figure_descs[id].unit]) != 0)
            return plm_fail_at(reterr, PLM_E_SYNTAX, node->items[i]->at, "%s: the unit must be %s",
                               figure_descs[id].name, figure_units[figure_descs[id].unit]);
        for (size_t k = 0; k < group.values->item_count; k++) {
            struct figure f;

            if (m->figure_count == FIGURES_MAX)
                return plm_fail_at(reterr, PLM_E_RANGE, node->at, "at most %d values", FIGURES_MAX);
            status = read_figure(group.values->items[k], id, &f, reterr);
            if (status != PLM_OK)
                return status;
            arena_push(arena, figures, m->figure_count, capacity, f);
        }
    }
    m->figures = figures;
    return PLM_OK;
}

static enum plm_status read_skipped(const struct yaml_node *node,
                                    struct arena *arena,
                                    struct measured *m,
                                    struct plm_error *reterr)
{
    struct skipped *skipped = arena_array(arena, struct skipped, node->item_count);

    for (size_t i = 0; i < node->item_count; i++) {
        struct skip_row row = { 0 };
        enum plm_status status =
            DECODE(node->items[i], "what was skipped", skip_rows, &row, reterr);

        if (status != PLM_OK)
            return status;
        skipped[i] = (struct skipped){ .id = figure_find(row.figure), .reason = row.reason };
        if (skipped[i].id == FIGURE_COUNT)
            return fail_name(yaml_get(node->items[i], "figure"), reterr);
    }
    m->skipped = skipped;
    m->skipped_count = node->item_count;
    return PLM_OK;
}

static enum plm_status read_fit(const struct yaml_node *node,
                                struct arena *arena,
                                struct measured *m,
                                struct plm_error *reterr)
{
    struct fit_section fit = { 0 };
    struct fit_point *points;
    enum plm_status status = DECODE(node, "the fit", fit_rows, &fit, reterr);

    if (status != PLM_OK)
        return status;
    points = arena_array(arena, struct fit_point, fit.points->item_count);
    for (size_t i = 0; i < fit.points->item_count; i++) {
        const struct yaml_node *at = fit.points->items[i];
        struct fit_point *p = &points[i];

        status = DECODE(at, "a point", point_rows, p, reterr);
        if (status != PLM_OK)
            return status;
        if (!(fabs(p->residual) <= VALUE_MAX) ||
            fit_residual(p, fit.context, fit.libraries) != p->residual)
            return plm_fail_at(reterr, PLM_E_RANGE, at->at,
                               "'residual' must be used - (context + libraries + reserved)");
    }
    m->context = fit.context;
    m->libraries = fit.libraries;
    m->points = points;
    m->point_count = fit.points->item_count;
    return PLM_OK;
}

enum plm_status measured_read(const struct yaml_node *node,
                              struct arena *arena,
                              struct measured *ret_measured,
                              struct plm_error *reterr)
{
    struct section s = { 0 };
    struct measured m;
    enum plm_status status = DECODE(node, "measured", section_rows, &s, reterr);

    if (status != PLM_OK)
        return status;
    if (!(s.max_fill > 0 && s.max_fill <= 1))
        return plm_fail_at(reterr, PLM_E_RANGE, yaml_get(node, "max_fill")->at,
                           "'max_fill' must be above 0 and at most 1");
    m = (struct measured){
        .date = s.date,
        .program = s.program,
        .uuid = s.uuid,
        .driver = s.driver,
        .cuda = s.cuda,
        .runtime = s.runtime,
        .compute_mode = s.compute_mode,
        .ecc = s.ecc,
        .mig = s.mig,
        .quick = s.quick,
        .max_fill = s.max_fill,
    };
    status = read_figures(s.figures, arena, &m, reterr);
    if (status == PLM_OK && s.skipped)
        status = read_skipped(s.skipped, arena, &m, reterr);
    if (status == PLM_OK)
        status = read_fit(s.fit, arena, &m, reterr);
    if (status == PLM_OK)
        *ret_measured = m;
    return status;
}
