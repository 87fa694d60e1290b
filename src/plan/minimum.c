/*
 * plan/minimum.c - the smallest memory for the allocator in which the run still finishes
 *
 * The run is written anew, where nothing ends it early: also of one that does not fit its device it is known how much it
 * would take. Without --steps it has as many steps as are ever run, since a run in little memory may need more
 * of them until its memory repeats. Where ranks differ, each is tried: the one that reserves most in plenty of
 * memory need not be the one that needs most.
 */
#include "memory/capacity.h"
#include "plan/estimate.h"
#include "plan/ranks.h"

/* minimum_of_rank() - 0 when no device has as much */
static enum plm_status minimum_of_rank(const struct subject *subject,
                                       const struct plm_strategy *strategy,
                                       plm_bytes *ret,
                                       struct plm_error *reterr)
{
    struct simulation sim;
    struct memory_minimum minimum;
    enum plm_status status = simulate_rank(subject, strategy, 0, &sim, reterr);

    *ret = 0;
    if (status != PLM_OK)
        return status;
    if (!sim.replay.out_of_memory &&
        memory_minimum_capacity(&sim.schedule, &sim.memory_options, &sim.arena, &minimum))
        *ret = minimum.capacity;
    simulation_finish(&sim);
    return PLM_OK;
}

enum plm_status estimate_minimum(const struct subject *subject,
                                 const struct plm_strategy *strategy,
                                 struct plm_result *ret,
                                 struct plm_error *reterr)
{
    struct arena scratch = { 0 };
    struct plm_strategy free = *strategy;
    size_t count = 0, found = 0;
    plm_bytes largest = 0;

    if (free.steps == 0)
        free.steps = SIMULATE_STEPS_MOST;
    free.capacity = SIMULATE_BYTES_MOST;
    enum plm_status status = ranks_complete(&free, reterr);
    const struct rank_class *classes =
        status == PLM_OK ? ranks_classes(&free, &scratch, &count) : NULL;

    for (size_t i = 0; status == PLM_OK && i < count; i++) {
        plm_bytes minimum;

        free.parallel.rank = classes[i].rank;
        status = minimum_of_rank(subject, &free, &minimum, reterr);
        if (status == PLM_OK && minimum > 0)
            found++;
        if (status == PLM_OK && minimum > largest)
            largest = minimum;
    }
    arena_finish(&scratch);
    if (status == PLM_OK && found == count) {
        ret->has_minimum_capacity = true;
        ret->minimum_capacity = largest;
    }
    return status;
}
