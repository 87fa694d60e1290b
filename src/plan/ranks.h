/*
 * plan/ranks.h - the ranks of a parallel run, in classes of those that have the same to do
 *
 * Stages of a pipeline differ, and so may the first and the last shard. simulate() runs one rank of each class and keeps the worst.
 */
#ifndef PLM_PLAN_RANKS_H
#define PLM_PLAN_RANKS_H

#include "plan/simulate.h"

/* struct rank_class - a rank that stands for its class */
struct rank_class {
    const char *name; /* "stage 0, last shard"; "" when all ranks are alike */
    int64_t rank;
};

/* ranks_complete() - fill in what numbers of ranks leave open */
PLM_MUST_CHECK enum plm_status ranks_complete(struct plm_strategy *strategy,
                                              struct plm_error *reterr);

/* ranks_classes() - of a complete strategy, at least one; a technique whose ranks differ adds a row to the table in ranks.c */
const struct rank_class *ranks_classes(const struct plm_strategy *strategy,
                                       struct arena *arena,
                                       size_t *ret_count);

#endif
