/* train/place.c - the mesh of a parallel run: its sizes, and a rank's place in it */
#include "train/place.h"

static int64_t at_least_1(int64_t size)
{
    return size > 1 ? size : 1;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

struct place place_sizes(const struct plm_parallel *p)
{
    struct place sizes = {
        .pipeline = at_least_1(p->pp),
        .context = at_least_1(p->cp),
        .tensor = at_least_1(p->tp),
    };
    int64_t model = sizes.pipeline * sizes.context * sizes.tensor;

    sizes.data = at_least_1(larger(p->ddp, larger(p->fsdp, p->fsdp1)));
    sizes.data = larger(sizes.data, larger(p->zero_optimizer, p->data_parallel));
    if (p->hsdp_shard > 0)
        sizes.data = larger(sizes.data, p->hsdp_shard * at_least_1(p->hsdp_replicate));
    sizes.data = larger(sizes.data, p->gpus / model);
    return sizes;
}

struct place place_of(const struct plm_parallel *parallel, int64_t rank)
{
    struct place sizes = place_sizes(parallel), place;

    place.tensor = rank % sizes.tensor;
    rank /= sizes.tensor;
    place.context = rank % sizes.context;
    rank /= sizes.context;
    place.data = rank % sizes.data;
    place.pipeline = rank / sizes.data;
    return place;
}

int64_t place_rank(const struct plm_parallel *parallel, struct place place)
{
    struct place sizes = place_sizes(parallel);

    return ((place.pipeline * sizes.data + place.data) * sizes.context + place.context) *
               sizes.tensor +
           place.tensor;
}

int64_t place_count(const struct plm_parallel *parallel)
{
    struct place sizes = place_sizes(parallel);

    return sizes.pipeline * sizes.data * sizes.context * sizes.tensor;
}
