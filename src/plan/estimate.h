/*
 * plan/estimate.h - what a simulation says, as a struct plm_result
 */
#ifndef PLM_PLAN_ESTIMATE_H
#define PLM_PLAN_ESTIMATE_H

#include "plan/simulate.h"

/* estimate_result() - fill in everything; what it points to is in the simulation's arena */
void estimate_result(struct simulation *sim,
                     const char *const *warnings,
                     size_t warning_count,
                     struct plm_result *ret);

/* estimate_minimum() - the smallest capacity; none when no device has it */
PLM_MUST_CHECK enum plm_status estimate_minimum(const struct subject *subject,
                                                const struct plm_strategy *strategy,
                                                struct plm_result *ret,
                                                struct plm_error *reterr);

/* estimate_alive() - which allocations are alive at the peak; [ret_count] */
const bool *estimate_alive(struct simulation *sim, size_t *ret_count);

/* estimate_live() - what is alive at the peak, by category, block and operator, largest first */
void estimate_live(struct simulation *sim, struct plm_result *result);

/* estimate_ledger() - bytes per parameter: the most that each kind of tensor takes at any moment */
void estimate_ledger(struct simulation *sim, struct plm_result *result);

/* estimate_advice() - one line: where the peak is and what would lower it */
const char *estimate_advice(struct simulation *sim, const struct plm_result *result);

/* estimate_chosen() - what PLM_CHECKPOINT_AUTO became, as the option is written */
const char *estimate_chosen(const struct plm_strategy *chosen, struct arena *arena);

/* estimate_unverified() - the rules behind this run that no reference has confirmed */
void estimate_unverified(struct simulation *sim, struct plm_result *result);

/* estimate_timeline() - the run event by event, played again */
const struct plm_timeline *estimate_timeline(struct simulation *sim,
                                             const struct plm_result *result);

/* category_name() - "activations", "optimizer states", … for people; category_key() for programs */
const char *category_name(enum category category);

/* phase_name() - what a mark's name is to people: "forward" for "fwd" */
const char *phase_name(const char *mark);

/* record_op_name() - the operator of an allocation; "" when none made it */
const char *record_op_name(const struct record *record);

#endif
