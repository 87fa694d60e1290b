/*
 * train/ddp_buckets.c - which tensors DistributedDataParallel sends together
 *
 * Mirrors torch/csrc/distributed/c10d/reducer.cpp (2.15), compute_bucket_assignment_by_size.
 * Invariant: every number in @order is a member of exactly one bucket.
 */
#include "train/ddp_buckets.h"

/* struct open - the bucket that a dtype is filling */
struct open {
    struct bucket bucket;
    bool closed_one; /* so the first limit is used up */
};

static void add_bucket(struct arena *arena, struct buckets *buckets, struct bucket bucket)
{
    arena_push(arena, buckets->items, buckets->count, buckets->capacity, bucket);
}

/* sort_by_first() - there are as many buckets as 25 MiB go into a model: few */
static void sort_by_first(struct buckets *buckets)
{
    for (size_t i = 1; i < buckets->count; i++)
        for (size_t k = i; k > 0 && buckets->items[k].members[0] < buckets->items[k - 1].members[0];
             k--) {
            struct bucket earlier = buckets->items[k];

            buckets->items[k] = buckets->items[k - 1];
            buckets->items[k - 1] = earlier;
        }
}

struct buckets buckets_assign(struct arena *arena,
                              struct tensor *const *tensors,
                              const uint32_t *order,
                              size_t count,
                              struct bucket_limits limits)
{
    struct buckets buckets = { 0 };
    struct open open[DTYPE_COUNT] = { 0 };

    for (size_t i = 0; i < count; i++) {
        uint32_t number = order ? order[i] : (uint32_t)i;
        const struct tensor *x = tensors[number];
        struct open *o = &open[x->dtype];
        struct bucket *b = &o->bucket;

        arena_push(arena, b->members, b->member_count, b->member_capacity, number);
        b->dtype = x->dtype;
        b->numel += tensor_numel(x);
        b->bytes += tensor_bytes(x);
        if (b->bytes < (o->closed_one ? limits.others : limits.first))
            continue;
        add_bucket(arena, &buckets, *b);
        *o = (struct open){ .closed_one = true };
    }
    for (unsigned dtype = 0; dtype < DTYPE_COUNT; dtype++)
        if (open[dtype].bucket.member_count > 0)
            add_bucket(arena, &buckets, open[dtype].bucket);
    if (!order)
        sort_by_first(&buckets);
    return buckets;
}
