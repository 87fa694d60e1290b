/* train/ddp_sync.h - what DistributedDataParallel sends between ranks besides gradients */
#ifndef PLM_TRAIN_DDP_SYNC_H
#define PLM_TRAIN_DDP_SYNC_H

#include "train/internal.h"

struct bucket;

/* ddp_verify_params() - do all ranks have the same parameters? */
void ddp_verify_params(struct run *run, struct leaf *const *leaves, size_t count, int64_t ranks);

/* ddp_broadcast_state() - rank 0's parameters and buffers of the stage to all; ddp_broadcast_buffers() - buffers alone */
void ddp_broadcast_state(struct run *run);
void ddp_broadcast_buffers(struct run *run);

/* ddp_flatten() - flatten_dense_tensors() of a bucket of @tensors: one tensor as it is, several copied into one; owned */
struct tensor *ddp_flatten(struct run *run,
                           struct tensor *const *tensors,
                           const struct bucket *bucket);

/* ddp_send_indices() - rank 0's buckets to all: how many, and which of @members go where */
void ddp_send_indices(struct run *run, size_t members, size_t buckets);

#endif
