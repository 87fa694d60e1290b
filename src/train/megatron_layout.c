/*
 * train/megatron_layout.c - where Megatron puts parameters and gradients in one buffer
 *
 * Mirrors _ParamAndGradBuffer.__init__ (megatron/core/distributed/param_and_grad_buffer.py, megatron-core 0.16.1). The last
 * parameter comes first, as gradients do. Without the distributed optimizer nothing is padded: numel = sum of the parameters.
 * With it a parameter begins at a multiple of 64 elements and a bucket ends at one of lcm(ranks, 128), so that each rank has
 * an equal part of each bucket, whatever parameters that cuts.
 */
#include "train/megatron_layout.h"
#include "base/num.h"

enum { PARAM_ALIGNMENT = 64, BUCKET_ALIGNMENT = 128 };

static int64_t padded(int64_t n, int64_t to)
{
    return (int64_t)num_round_up((uint64_t)n, (uint64_t)to);
}

static int64_t common_multiple(int64_t a, int64_t b)
{
    int64_t x = a, y = b;

    while (y != 0) {
        int64_t rest = x % y;

        x = y;
        y = rest;
    }
    return a / x * b;
}

/* struct filling - the buffer so far */
struct filling {
    const struct buffer_shape *shape;
    struct arena *arena;
    struct buffer_layout *layout;
    int64_t bucket_begin;
    size_t bucket_params;
};

/* close_bucket() - at @end, which is padded: where the next one begins */
static int64_t close_bucket(struct filling *f, int64_t end)
{
    struct buffer_layout *l = f->layout;

    if (f->shape->sharded)
        end = padded(end, common_multiple(f->shape->ranks, BUCKET_ALIGNMENT));
    arena_push(f->arena, l->buckets, l->bucket_count, l->bucket_capacity,
               ((struct buffer_range){ f->bucket_begin, end }));
    f->bucket_begin = end;
    f->bucket_params = 0;
    return end;
}

void buffer_layout(const struct buffer_shape *shape, struct arena *arena, struct buffer_layout *ret)
{
    struct filling f = { .shape = shape, .arena = arena, .layout = ret };
    int64_t at = 0;

    *ret = (struct buffer_layout){ 0 };
    ret->params = arena_array(arena, struct buffer_range, shape->param_count);
    ret->bucket_of = arena_array(arena, uint32_t, shape->param_count);
    for (size_t i = shape->param_count; i-- > 0;) {
        bool alone = shape->sharded && shape->alone[i];

        if (shape->sharded)
            at = padded(at, PARAM_ALIGNMENT);
        if (alone && f.bucket_params > 0)
            at = close_bucket(&f, at);
        ret->params[i] = (struct buffer_range){ at, at + shape->numels[i] };
        ret->bucket_of[i] = (uint32_t)ret->bucket_count;
        f.bucket_params++;
        at += shape->numels[i];
        if (alone || (shape->bucket_size > 0 && at - f.bucket_begin >= shape->bucket_size))
            at = close_bucket(&f, at);
    }
    if (f.bucket_params > 0)
        at = close_bucket(&f, at);
    ret->numel = at;
}

struct buffer_range buffer_part(const struct buffer_layout *layout,
                                size_t i,
                                int64_t rank,
                                int64_t ranks)
{
    const struct buffer_range *bucket = &layout->buckets[layout->bucket_of[i]];
    struct buffer_range part = layout->params[i];
    int64_t size = (bucket->end - bucket->begin) / ranks;
    int64_t begin = bucket->begin + rank * size, end = begin + size;

    if (part.begin < begin)
        part.begin = begin;
    if (part.end > end)
        part.end = end;
    return part;
}
