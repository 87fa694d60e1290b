/*
 * device/measured.h - what calibration found of one GPU, as a profile's measured: section holds it
 *
 * The same struct is filled by the probes, written to a profile and read from one.
 */
#ifndef PLM_DEVICE_MEASURED_H
#define PLM_DEVICE_MEASURED_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/buf.h"
#include "yaml/document.h"

enum figure_id {
#define FIGURE(id, name, unit, how) FIGURE_##id,
#include "device/figures.def"
#undef FIGURE
    FIGURE_COUNT
};

enum figure_unit {
    UNIT_BYTES,
    UNIT_SECONDS,
    UNIT_BYTES_PER_SECOND,
    UNIT_OPERATIONS_PER_SECOND,
    UNIT_SHARE,
    UNIT_NUMBER,
    UNIT_UNITS
};

/* struct figure_desc - a row of figures.def */
struct figure_desc {
    const char *name;
    enum figure_unit unit;
    const char *how;
};

extern const struct figure_desc figure_descs[FIGURE_COUNT];
extern const char *const figure_units[UNIT_UNITS]; /* as a profile writes them */

/* figure_find() - the row called @name, or FIGURE_COUNT */
enum figure_id figure_find(const char *name);

/* struct figure - one value: the median of @count repeats between low and high */
struct figure {
    enum figure_id id;
    plm_bytes size; /* of the block or working set that it is for; 0: it has none */
    double value, low, high;
    int64_t count;
    bool at_least; /* more was not tried */
};

/* struct skipped - a figure that was not taken */
struct skipped {
    enum figure_id id;
    const char *reason;
};

/* struct fit_point - used = context (+ libraries) + reserved + residual; used is without what others hold */
struct fit_point {
    plm_bytes reserved, used;
    double residual;
    bool libraries; /* the process had loaded them */
};

/* fit_residual() - what the fit leaves of the point's used */
double fit_residual(const struct fit_point *point, plm_bytes context, plm_bytes libraries);

/* struct measured - all of it; texts are in the arena that it was made with */
struct measured {
    const char *date; /* UTC, as 2026-12-01T12:30:00Z */
    const char *program;
    const char *uuid, *driver;  /* the driver's version, "580.65.06", or what cuda says */
    const char *cuda, *runtime; /* the CUDA versions of driver and runtime: "13.0" */
    const char *compute_mode;
    bool ecc, mig, quick;
    double max_fill;
    const struct figure *figures; /* [figure_count] */
    size_t figure_count;
    const struct skipped *skipped; /* [skipped_count] */
    size_t skipped_count;
    plm_bytes context, libraries;   /* of the fit */
    const struct fit_point *points; /* [point_count] */
    size_t point_count;
};

/*
 * measured_context() - what a process takes before its first tensor: context, libraries, and the framework's kernels where they were
 * seen
 */
plm_bytes measured_context(const struct measured *measured);

/* measured_figure() - the first for @id and @size; NULL when it was not taken */
const struct figure *measured_figure(const struct measured *measured,
                                     enum figure_id id,
                                     plm_bytes size);

/* measured_quote() - a YAML text in double quotes, on one line */
void measured_quote(struct buf *out, const char *text);

/* measured_write() - the section, beginning with "measured:" */
void measured_write(const struct measured *measured, struct buf *out);

/* measured_read() - the section's value; every mistake has its place in the file */
PLM_MUST_CHECK enum plm_status measured_read(const struct yaml_node *node,
                                             struct arena *arena,
                                             struct measured *ret_measured,
                                             struct plm_error *reterr);

/* struct measured_margin - what must stay free on a calibrated device, and of what it is made */
struct measured_margin {
    plm_bytes margin;
    plm_bytes residual;  /* by how much a process's memory exceeded the fit, at most */
    plm_bytes spread;    /* by how much contexts differed */
    plm_bytes unusable;  /* what was free and could not be had */
    plm_bytes framework; /* what the framework's own kernels may take, which no probe can see */
};

/* measured_margin() - from the residuals; the manual's "The default margin" says how */
struct measured_margin measured_margin(const struct measured *measured);

/* measured_margin_reason() - its parts in words */
const char *measured_margin_reason(const struct measured_margin *margin, struct arena *arena);

#endif
