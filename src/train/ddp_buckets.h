/*
 * train/ddp_buckets.h - which tensors DistributedDataParallel sends together
 *
 * A bucket is sent as one flat tensor. Gradients have buckets that last; a broadcast of parameters and buffers has its own,
 * for as long as it takes.
 */
#ifndef PLM_TRAIN_DDP_BUCKETS_H
#define PLM_TRAIN_DDP_BUCKETS_H

#include "ghost/tensor.h"

/* struct bucket - members of one dtype */
struct bucket {
    uint32_t *members; /* [member_count] numbers of tensors, in order of assignment */
    size_t member_count, member_capacity;
    enum dtype dtype;
    int64_t numel;
    plm_bytes bytes;
    struct tensor *flat; /* once allocated; owned */
};

struct buckets {
    struct bucket *items;
    size_t count, capacity;
};

/* struct bucket_limits - a bucket is closed when it has this many bytes: the first of a dtype, and all that follow */
struct bucket_limits {
    plm_bytes first, others;
};

/*
 * buckets_assign() - cut @tensors into buckets
 *
 * A bucket that reaches its limit is closed with the tensor that made it so. With @order, the tensors are taken in that order
 * and buckets come in the order in which they were closed, those that never were last. @order NULL: as they stand, and
 * buckets come in the order of their first members.
 */
struct buckets buckets_assign(struct arena *arena,
                              struct tensor *const *tensors,
                              const uint32_t *order,
                              size_t count,
                              struct bucket_limits limits);

#endif
