/*
 * plan/simulate.h - one run: a model under a strategy, step by step, through the allocator of a device
 *
 * The stages in a row: graph, ghost run, schedule, allocator. Everything lives in the simulation's own arena and
 * goes with it; a simulation is not moved once it has begun.
 */
#ifndef PLM_PLAN_SIMULATE_H
#define PLM_PLAN_SIMULATE_H

#include "memory/replay.h"
#include "model/model.h"
#include "plan/nccl.h"
#include "plan/workspaces.h"
#include "plimsoll/plimsoll.h"
#include "train/train.h"

/* struct subject - what is simulated: a model, and settings that come before the strategy's (config.json's) */
struct subject {
    const struct model *model;
    const struct model_setting *settings; /* [setting_count] */
    size_t setting_count;
    struct cudnn *cudnn; /* who knows cuDNN's workspaces; NULL: nobody */
};

enum {
    SIMULATE_PERIOD_MOST = 8, /* cycles of micro-batches that are recognised */
};

/* struct mark_state - the allocator where a mark was played */
struct mark_state {
    uint64_t fingerprint, retries;
};

/* struct simulation - the values of all stages */
struct simulation {
    struct arena arena;
    struct plm_strategy strategy;
    struct names names; /* the graph's, and those that the run adds */
    const struct framework *framework;
    struct surroundings around;
    struct workspaces workspaces; /* who answered for cuDNN */
    struct memory_options memory_options;
    plm_bytes capacity; /* device's total, as the strategy has it; 0: none */
    plm_bytes context;
    struct nccl_bytes nccl; /* beside the context */
    bool has_device;        /* some capacity was given */
    const struct graph *graph;
    struct schedule schedule;
    struct run *run;
    struct memory *memory;
    struct replay replay;
    struct mark_state *states; /* [state_count] by mark */
    size_t state_count, state_capacity;
    size_t events_repeated; /* from this event on, steps are copies of the one before */
    bool settled;   /* the allocator goes through the same states in every step from now on */
    unsigned steps; /* that were run, whole or in part */
    unsigned micro_batches; /* of the step that runs now */
    uint64_t micro_states
        [SIMULATE_PERIOD_MOST];   /* fingerprints of the allocator after the last of them */
    const struct plm_rank *ranks; /* [rank_count] one of each class; none when all are alike */
    size_t rank_count;
    const char *rank_reason; /* why this one is the worst; or NULL */
};

enum {
    SIMULATE_STEPS_MOST = 8
}; /* without --steps: reserved memory that has not repeated by then does not settle */

/* the largest capacity, context or margin: an expandable segment, larger than its device, still finds addresses */
#define SIMULATE_BYTES_MOST (UINT64_C(1) << 50)

/*
 * simulate() - run @strategy, of its ranks the worst (ranks.h); running out of memory is in replay.out_of_memory, and not an error
 *
 * @capacity_cut is taken off what the allocator may hold (a margin). On success the simulation must be finished.
 */
PLM_MUST_CHECK enum plm_status simulate(const struct subject *subject,
                                        const struct plm_strategy *strategy,
                                        plm_bytes capacity_cut,
                                        struct simulation *ret,
                                        struct plm_error *reterr);

/* simulate_rank() - of the ranks of a parallel run only strategy->parallel.rank */
PLM_MUST_CHECK enum plm_status simulate_rank(const struct subject *subject,
                                             const struct plm_strategy *strategy,
                                             plm_bytes capacity_cut,
                                             struct simulation *ret,
                                             struct plm_error *reterr);
void simulation_finish(struct simulation *sim);

/* simulation_graph() - only the first stage, for dumps */
PLM_MUST_CHECK enum plm_status simulation_graph(const struct subject *subject,
                                                const struct plm_strategy *strategy,
                                                struct simulation *ret,
                                                struct plm_error *reterr);

/*
 * Phases: the events between two marks. A mark's name says what has ended, so phase i ends at marks[i + 1]; marks[0] is
 * where the run begins.
 */
size_t simulation_phase_count(const struct simulation *sim);
/* simulation_phase_at() - the phase that an event belongs to */
size_t simulation_phase_at(const struct simulation *sim, size_t event);

/*
 * simulation_unknown_workspace() - how much more cuDNN's workspaces may take, where only cuDNN knows
 *
 * Four times what the largest such call reads and writes: in the 70 recorded runs in which cuDNN chose (tests/reference), reserved memory
 * was at most 3.4 times that above the figure without them.
 */
plm_bytes simulation_unknown_workspace(const struct simulation *sim);

/* simulation_outside() - what the process holds of the device beside the allocator: context and NCCL's buffers */
plm_bytes simulation_outside(const struct simulation *sim);

/* simulation_usable() - what the allocator may hold: capacity less what is outside; 0: no limit */
plm_bytes simulation_usable(const struct simulation *sim);

#endif
