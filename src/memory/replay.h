/*
 * memory/replay.h - a schedule played through an allocator
 *
 * A replay goes on from where it stopped, so a caller may append the next step to the schedule and run again.
 * Peaks are kept for each phase, from its mark to the next, as torch.cuda.reset_peak_memory_stats() at
 * each mark would: a phase starts with what is held then.
 */
#ifndef PLM_MEMORY_REPLAY_H
#define PLM_MEMORY_REPLAY_H

#include "memory/memory.h"
#include "schedule/schedule.h"

/* struct replay_phase - @end is after the last event of the phase that was played */
struct replay_phase {
    struct memory_sizes end;
    struct memory_sizes peak;
};

/* replay_observer_fn - called after @event was played; not for the tries that were skipped */
typedef void replay_observer_fn(void *user, size_t event, const struct memory_stats *stats);

/*
 * struct replay_kept - a chain that fell back, and where it begins from then on, in a schedule that keeps
 *
 * So PyTorch keeps the plan that worked for a call, and tries all of them again when that no longer fits. Chains are told apart by
 * what they ask for.
 */
struct replay_kept {
    uint64_t chain;  /* hash of its bytes */
    uint32_t offset; /* of the try that worked last */
};

struct replay {
    const struct schedule *schedule;
    struct memory *memory;
    struct arena *arena;          /* holds the arrays */
    replay_observer_fn *observer; /* may be NULL; with @user, the only member to set from outside */
    void *user;

    size_t event; /* the next to play; after a failure the one that failed */
    bool out_of_memory;
    size_t tries_failed; /* TRY_ALLOCs that had to be replaced */

    struct memory_sizes peak;    /* of everything that was played */
    size_t peak_event;           /* the first at which allocated was at its peak */
    struct replay_phase *phases; /* [phase_count], by number of the mark */
    size_t phase_count, phase_capacity;

    memory_block_id *blocks; /* [block_count], by allocation; 0: holds nothing */
    size_t block_count, block_capacity;
    struct replay_kept *kept; /* [kept_count] */
    size_t kept_count, kept_capacity;
};

/*
 * replay_start() - nothing played yet; @memory must be new or reset
 *
 * A replay that was used before keeps its arrays; otherwise @replay is zero-initialised.
 */
void replay_start(struct replay *replay,
                  const struct schedule *schedule,
                  struct memory *memory,
                  struct arena *arena);

/* replay_fingerprint() - equal where what follows is played the same: the memory's, and which of alternatives are tried first */
uint64_t replay_fingerprint(const struct replay *replay);

/*
 * replay_run() - play the events before @event_end
 *
 * Returns false when one did not fit: nothing after it is played, and memory_failure() tells what was asked
 * for. The schedule must be one that schedule_check() accepts.
 */
PLM_MUST_CHECK bool replay_run(struct replay *replay, size_t event_end);

#endif
