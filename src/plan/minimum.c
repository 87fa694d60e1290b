/*
 * plan/minimum.c - the smallest memory for the allocator in which the run still finishes
 *
 * The run is written anew, where nothing ends it early: also of one that does not fit its device it is known how much it
 * would take. Without --steps it has as many steps as are ever run, since a run in little memory may need more
 * of them until its memory repeats.
 */
#include "memory/capacity.h"
#include "plan/estimate.h"

enum plm_status estimate_minimum(const struct subject *subject,
                                 const struct plm_strategy *strategy,
                                 struct plm_result *ret,
                                 struct plm_error *reterr)
{
    struct plm_strategy free = *strategy;
    struct simulation sim;
    struct memory_minimum minimum;

    if (free.steps == 0)
        free.steps = SIMULATE_STEPS_MOST;
    free.capacity = SIMULATE_BYTES_MOST;
    enum plm_status status = simulate(subject, &free, 0, &sim, reterr);

    if (status != PLM_OK)
        return status;
    if (!sim.replay.out_of_memory &&
        memory_minimum_capacity(&sim.schedule, &sim.memory_options, &sim.arena, &minimum)) {
        ret->has_minimum_capacity = true;
        ret->minimum_capacity = minimum.capacity;
    }
    simulation_finish(&sim);
    return PLM_OK;
}
