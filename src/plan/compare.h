/*
 * plan/compare.h - several strategies of one model, on several threads
 *
 * A strategy is a job: it has a simulation and arenas of its own, and nothing that two jobs share is written to.
 * So what comes out depends on the strategies alone.
 */
#ifndef PLM_PLAN_COMPARE_H
#define PLM_PLAN_COMPARE_H

#include "plan/simulate.h"

/* compare_jobs() - how many threads to use: what is asked for, or the processors; never more than strategies */
unsigned compare_jobs(const struct plm_comparison *comparison);

/*
 * compare_run() - fill in @items [strategy_count]
 *
 * What they point to is in @arenas [jobs], one for each thread. @warnings come before each run's own.
 */
void compare_run(const struct subject *subject,
                 const struct plm_comparison *comparison,
                 const char *const *warnings,
                 size_t warning_count,
                 struct arena *arenas,
                 unsigned jobs,
                 struct plm_compared *items);

/* compare_keep() - a copy of @result in @arena, with phases folded, see plimsoll.h */
const struct plm_result *compare_keep(const struct plm_result *result, struct arena *arena);

/* compare_difference() - two results of compare_keep(), term by term */
const struct plm_difference *compare_difference(const struct plm_result *a,
                                                const struct plm_result *b,
                                                struct arena *arena);

#endif
