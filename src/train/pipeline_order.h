/*
 * train/pipeline_order.h - in which order a rank of a pipeline computes, sends and receives
 *
 * Mirrors torch/distributed/pipelining/schedules.py (2.15). Each rank has a list of compute actions; those of interleaved and
 * zero-bubble schedules are then lowered as _prepare_schedule_with_comms does: a receive stands where its sender computes.
 */
#ifndef PLM_TRAIN_PIPELINE_ORDER_H
#define PLM_TRAIN_PIPELINE_ORDER_H

#include "base/arena.h"
#include "base/error.h"
#include "plimsoll/plimsoll.h"

enum action_kind {
    ACTION_FORWARD,
    ACTION_BACKWARD,        /* of inputs and weights */
    ACTION_BACKWARD_INPUT,  /* zero-bubble splits it … */
    ACTION_BACKWARD_WEIGHT, /* … in two */
    ACTION_RECEIVE_FORWARD,
    ACTION_SEND_FORWARD,
    ACTION_WAIT_SEND_FORWARD,
    ACTION_RECEIVE_BACKWARD,
    ACTION_SEND_BACKWARD,
    ACTION_WAIT_SEND_BACKWARD,
    /* what the lowering adds for wrapped stages, also where no stage is: each takes its turn in the round of ranks */
    ACTION_UNSHARD,
    ACTION_RESHARD,
    ACTION_REDUCE_GRADIENTS,
    ACTION_WAIT_REDUCE_GRADIENTS,
    ACTION_COUNT,
};

/* action_marks - "F", "B", "I", "W", "RECV_F", …: as the framework writes them after the stage's number */
extern const char *const action_marks[ACTION_COUNT];

struct action {
    enum action_kind kind;
    int32_t stage, micro; /* micro: -1 for those of a whole stage */
};

struct action_list {
    struct action *actions; /* [count] */
    size_t count, capacity;
};

/* struct pipeline_shape - how many ranks, stages and micro-batches */
struct pipeline_shape {
    enum plm_schedule schedule;
    int32_t ranks;  /* at least 2 */
    int32_t local;  /* stages of one rank; stage s is on rank s % ranks */
    int32_t micros; /* micro-batches of a step */
    int32_t
        group; /* Megatron's: of them, so many go through a stage in a row; 0: as many as ranks */
};

/* pipeline_check() - does the framework accept this shape? Refuses with its reason */
PLM_MUST_CHECK enum plm_status pipeline_check(const struct pipeline_shape *shape,
                                              struct plm_error *reterr);

/* pipeline_computes() - the compute actions of @rank, in order; of all schedules */
void pipeline_computes(const struct pipeline_shape *shape,
                       int32_t rank,
                       struct arena *arena,
                       struct action_list *ret);

/* pipeline_lower() - the actions of @rank with communication, for interleaved and zero-bubble schedules */
void pipeline_lower(const struct pipeline_shape *shape,
                    int32_t rank,
                    struct arena *arena,
                    struct action_list *ret);

/* pipeline_in_flight() - the most micro-batches of one rank, over its stages, whose backward has not yet run */
int32_t pipeline_in_flight(const struct action_list *list);

#endif
