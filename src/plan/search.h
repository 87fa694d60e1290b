/*
 * plan/search.h - the largest batch that is safe
 *
 * Memory is not monotone in the batch: rounding, fragmentation and libraries' choices see to that. The bytes that tensors ask
 * for are. They bound the search from above; below the bound, candidates are simulated.
 */
#ifndef PLM_PLAN_SEARCH_H
#define PLM_PLAN_SEARCH_H

#include "plan/simulate.h"

/* struct search_margin - what must stay free, and why */
struct search_margin {
    plm_bytes margin, reserve;
    const char *reason;
};

/* search_margin() - of a device of @capacity, as @search has it; the reason is in @arena */
struct search_margin search_margin(const struct plm_search *search,
                                   plm_bytes capacity,
                                   struct arena *arena);

/*
 * search_batch() - fill in @ret, except for its result
 *
 * A batch is safe when the run finishes within the capacity less margin and reserve, without releasing the allocator's cache
 * to get there.
 */
PLM_MUST_CHECK enum plm_status search_batch(const struct subject *subject,
                                            const struct plm_search *search,
                                            struct arena *arena,
                                            struct plm_plan_result *ret,
                                            struct plm_error *reterr);

/* search_micros() - make @count the micro-batches of a step: accumulated, or sent through the pipeline */
void search_micros(struct plm_strategy *strategy, int64_t count);

/*
 * search_checkpoint() - the fewest recomputed operators with which @strategy fits: for --checkpoint auto
 *
 * Writes a strategy that names the places (none, full, or blocks). When not even all of them fit it names all.
 */
PLM_MUST_CHECK enum plm_status search_checkpoint(const struct subject *subject,
                                                 const struct plm_strategy *strategy,
                                                 plm_bytes capacity_cut,
                                                 struct arena *arena,
                                                 struct plm_strategy *ret,
                                                 struct plm_error *reterr);

#endif
