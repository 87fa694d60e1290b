/*
 * train/train.h - the training loop with ghosts: load, then steps of batch, forward, backward, optimizer
 *
 * The caller makes a run, asks it for step after step, and replays what each has added to the schedule.
 */
#ifndef PLM_TRAIN_TRAIN_H
#define PLM_TRAIN_TRAIN_H

#include "ghost/ghost.h"
#include "model/graph.h"
#include "plimsoll/plimsoll.h"

/* struct param - a parameter or buffer of the model; in the order of registration */
struct param {
    name_id name; /* "transformer.wte.weight" */
    bool buffer, frozen;
    enum dtype dtype; /* on the device, under the run's precision */
    unsigned dims;
    int64_t sizes[8];
    bool elsewhere;        /* on another rank of the pipeline: not loaded here */
    uint32_t stage;        /* of this rank's stages, the first that has it */
    struct tensor *tensor; /* the leaf, once loaded: what the optimizer sees */
    enum shard shard;      /* over the ranks of tensor parallelism; @sizes are those of the whole */
    bool on_device;        /* made by `op: parameter`: loaded as its shard */
    bool on_host;          /* made by one with `host: true`: moved as it is, in its type */
    bool experts;  /* which expert parallelism, if any, shares out; @sizes are those of the whole */
    bool sequence; /* each rank has the gradient of its part of the sequence */
    bool tied;     /* named by some `tie:` */
    const struct graph_step
        *tied_at;        /* the `tie:` that named it, as long as no operator has it as its own */
    struct tensor *used; /* what modules compute with, when a wrapper gives them another */
};

struct run; /* everything that lives as long as the run */

/*
 * train_create() - find the model's parameters by a mute run
 *
 * The schedule starts empty. @graph, @strategy and @around must outlive the run.
 */
PLM_MUST_CHECK enum plm_status train_create(const struct graph *graph,
                                            const struct plm_strategy *strategy,
                                            const struct surroundings *around,
                                            struct names *names,
                                            struct schedule *schedule,
                                            struct arena *arena,
                                            struct run **ret_run,
                                            struct plm_error *reterr);

/*
 * train_load() - move the model to the device, make the optimizer: the marks "start", "model_load", "optimizer_init"
 *
 * "start" comes first; every other mark stands where the phase that it names has ended, as the reference loop measures:
 * then "fwd" and "bwd" of each micro-batch, "opt", "end" of each step. So what lies between two marks is the phase
 * that the second one names. A step of an evaluation has "fwd" alone.
 */
PLM_MUST_CHECK enum plm_status train_load(struct run *run, struct plm_error *reterr);

/*
 * train_watch() - ask @period after each micro-batch in what cycle those of the step repeat; 0: not yet
 *
 * Whole cycles are left out then, but not the last micro-batch: a step of a million of them ends like one of a few.
 */
void train_watch(struct run *run, unsigned (*period)(void *user), void *user);

/* train_step() - one step of the loop, appended to the schedule with its marks */
PLM_MUST_CHECK enum plm_status train_step(struct run *run, struct plm_error *reterr);

/* train_repeated() - is the last step known to make the requests of the one before? */
bool train_repeated(const struct run *run);

/* train_forget() - the next step is run in any case: to see that copies change nothing */
void train_forget(struct run *run);

const struct param *train_params(const struct run *run, size_t *ret_count);
const struct ghost *train_ghost(const struct run *run); /* for its records */

/* train_about() - what this rank has of the model, for people; NULL when it has all */
const char *train_about(const struct run *run);

/* train_warnings() - "nothing to checkpoint", as data */
const char *const *train_warnings(const struct run *run, size_t *ret_count);

#endif
