/* report/phases.h - a run's phases as the few rows that a reader wants */
#ifndef PLM_REPORT_PHASES_H
#define PLM_REPORT_PHASES_H

#include "base/arena.h"
#include "plimsoll/plimsoll.h"

/* struct phase_row - one phase of a step, its micro-batches together; of steps first to last, which are alike */
struct phase_row {
    const char *name;
    int first, last; /* -1: before the first step */
    struct plm_memory peak;
    plm_bytes allocated_end;
};

/* phases_fold() - micro-batches become one row, and steps that are alike too */
const struct phase_row *phases_fold(const struct plm_result *result,
                                    struct arena *arena,
                                    size_t *ret_count);

#endif
