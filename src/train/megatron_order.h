/*
 * train/megatron_order.h - in which order a rank of Megatron's pipeline computes
 *
 * Mirrors core/pipeline_parallel/schedules.py (megatron-core 0.16.1): get_pp_rank_microbatches(), get_schedule_table(). With one stage
 * on a rank it is 1F1B, with several interleaved 1F1B: micro-batches go through a rank's stages in groups of shape->group.
 */
#ifndef PLM_TRAIN_MEGATRON_ORDER_H
#define PLM_TRAIN_MEGATRON_ORDER_H

#include "train/pipeline_order.h"

/* struct turn - of a rank: which of its stages, and which micro-batch */
struct turn {
    int32_t local, micro;
};

/* megatron_order_check() - does Megatron accept this shape? Refuses with its reason */
PLM_MUST_CHECK enum plm_status megatron_order_check(const struct pipeline_shape *shape,
                                                    struct plm_error *reterr);

/* megatron_warm_up() - how many forwards come before the first backward, beside the one right before it; of all: shape->micros times shape->local */
int32_t megatron_warm_up(const struct pipeline_shape *shape, int32_t rank);

/* megatron_forward_turn() - the @k-th forward of a rank; megatron_backward_turn() its @k-th backward */
struct turn megatron_forward_turn(const struct pipeline_shape *shape, int32_t k);
struct turn megatron_backward_turn(const struct pipeline_shape *shape, int32_t k);

/* megatron_computes() - what a rank computes, in order */
void megatron_computes(const struct pipeline_shape *shape,
                       int32_t rank,
                       struct arena *arena,
                       struct action_list *ret);

#endif
