/*
 * device/verified.h - plans that were played on a GPU, as its profile keeps them
 *
 * The section verified: is a list, one plan a line, newest last; `plimsoll verify` adds to it, and a new calibration begins without.
 */
#ifndef PLM_DEVICE_VERIFIED_H
#define PLM_DEVICE_VERIFIED_H

#include "base/buf.h"
#include "device/measured.h"
#include "yaml/document.h"

/* struct verified_line - one plan; the last four are 0 unless it held */
struct verified_line {
    const char *date, *model;
    int64_t batch;
    bool holds;
    plm_bytes planned,
        used; /* on the device at the peak: as planned, and by how much free memory fell */
    plm_bytes free, left; /* at the peak: free, and what could be had of it */
    bool left_at_least;   /* more was not tried */
};

/* verified_read() - the section's value; the list is in @arena */
PLM_MUST_CHECK enum plm_status verified_read(const struct yaml_node *node,
                                             struct arena *arena,
                                             const struct verified_line **ret_lines,
                                             size_t *ret_count,
                                             struct plm_error *reterr);

/*
 * verified_narrow() - let what plans have shown take the place of what probes have guessed at
 *
 * Of plans that held and filled at least half of @total: by how much they exceeded what was planned, and what of the rest could not be
 * had, each the worst.
 */
void verified_narrow(const struct verified_line *lines,
                     size_t line_count,
                     plm_bytes total,
                     struct measured_margin *margin);

/* verified_add() - a profile's text with one more line; the oldest go when there are VERIFIED_LINES */
void verified_add(const char *profile, const struct verified_line *line, struct buf *out);
enum { VERIFIED_LINES = 64 };

#endif
