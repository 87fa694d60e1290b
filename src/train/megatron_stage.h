/*
 * train/megatron_stage.h - what Megatron's schedules do with one of a rank's stages
 *
 * Mirrors forward_step(), backward_step(), deallocate_output_tensor() of core/pipeline_parallel/schedules.py and
 * p2p_communication.py (megatron-core 0.16.1).
 */
#ifndef PLM_TRAIN_MEGATRON_STAGE_H
#define PLM_TRAIN_MEGATRON_STAGE_H

#include "train/megatron.h"
#include "train/pipeline.h"

/* struct flight - a micro-batch between its forward and its backward */
struct flight {
    struct tensor *input, *output; /* owned */
    struct held *held;             /* of recomputed layers */
};

/* megatron_bind() - a name that is bound again lets go of what it had; @x is taken over */
void megatron_bind(struct tensor **name, struct tensor *x);

/* megatron_is_last() - does @stage compute the loss? */
bool megatron_is_last(const struct run *run, const struct stage *stage);

/* megatron_receive() - a buffer for what comes over a cut, owned; NULL where nothing does */
struct tensor *megatron_receive(struct run *run, const struct ports *ports);

/* megatron_forward() - forward_step() of @now's input; its output and what its layers hold are bound */
void megatron_forward(struct run *run, struct stage *stage, struct flight *now, int32_t micro);

/* megatron_deallocate() - output.data = torch.empty((1,)): its history stays */
void megatron_deallocate(struct tensor **output);

/* megatron_backward() - backward_step() of @now, given @grad unless the stage is the last; the input's gradient, owned */
struct tensor *megatron_backward(
    struct run *run, struct stage *stage, struct flight *now, struct tensor *grad, int32_t micro);

/* flight_drop() - let go of it; also after a failure */
void flight_drop(struct run *run, struct flight *flight);

#endif
