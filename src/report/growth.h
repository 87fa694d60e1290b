/* report/growth.h - has a peak grown since a result was written? */
#ifndef PLM_REPORT_GROWTH_H
#define PLM_REPORT_GROWTH_H

#include "report/report.h"

/* struct growth - zero: there is nothing to compare with */
struct growth {
    const struct plm_baseline_entry *before; /* NULL: the baseline does not have this strategy */
    const char
        *figure; /* that has grown the most: "reserved"; "out of memory"; NULL: none can be told */
    plm_bytes from, to;
    double share; /* by which: 0.02 is 2 %; negative: it is less */
    bool grew;    /* by more than is allowed */
};

/*
 * growth_find() - the entry of the same model under the same strategy; NULL: none
 *
 * Every option must be the same, as recipe_items() has it. One that the entry does not have, since the program that wrote it
 * did not know it, must have its default. Among several the one with the same capacity and context is taken; a profile may also
 * have changed since, and then it is the first.
 */
const struct plm_baseline_entry *growth_find(const struct report *report,
                                             const struct plm_baseline_entry *entries,
                                             size_t entry_count,
                                             struct arena *arena);

/* growth_unlike() - where none is the same: an option (or "model") in which the most alike entry differs; NULL: no entries */
const char *growth_unlike(const struct report *report,
                          const struct plm_baseline_entry *entries,
                          size_t entry_count,
                          struct arena *arena);

/*
 * growth_of() - the figure that has grown the most
 *
 * Running out of memory where it did not before is growth; where it did before, nothing is known of the peak.
 */
struct growth growth_of(const struct plm_result *result,
                        const struct plm_baseline_entry *before,
                        double allow);

#endif
