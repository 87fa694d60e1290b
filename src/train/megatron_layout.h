/* train/megatron_layout.h - where Megatron puts parameters and gradients in one buffer, and what of it each rank has */
#ifndef PLM_TRAIN_MEGATRON_LAYOUT_H
#define PLM_TRAIN_MEGATRON_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

/* struct buffer_range - elements of the buffer, from @begin up to @end */
struct buffer_range {
    int64_t begin, end;
};

/* struct buffer_layout - where the parameters are in the buffer, the last one first */
struct buffer_layout {
    int64_t numel;
    struct buffer_range *params; /* [param_count] */
    uint32_t *bucket_of;         /* [param_count] */
    struct buffer_range *buckets;
    size_t bucket_count, bucket_capacity;
};

struct buffer_shape {
    const int64_t *numels; /* [param_count] in the order of registration */
    const bool *alone;     /* [param_count]: has a bucket of its own */
    size_t param_count;
    int64_t ranks;       /* data-parallel */
    int64_t bucket_size; /* elements that close a bucket; 0: one bucket */
    bool sharded;        /* the distributed optimizer's: parameters and buckets are padded */
};

/* buffer_layout() - _ParamAndGradBuffer.__init__ */
void buffer_layout(const struct buffer_shape *shape,
                   struct arena *arena,
                   struct buffer_layout *ret);

/* buffer_part() - what @rank has of parameter @i; empty when begin >= end */
struct buffer_range buffer_part(const struct buffer_layout *layout,
                                size_t i,
                                int64_t rank,
                                int64_t ranks);

#endif
