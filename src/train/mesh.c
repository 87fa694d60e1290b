/* train/mesh.c - the mesh of a parallel run: its sizes, and a rank's place in it */
#include "train/mesh.h"

static int64_t at_least_1(int64_t size)
{
    return size > 1 ? size : 1;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

struct mesh_place mesh_sizes(const struct plm_parallel *p)
{
    struct mesh_place sizes = {
        .pipeline = at_least_1(p->pp),
        .context = at_least_1(p->cp),
        .tensor = at_least_1(p->tp),
    };
    int64_t model = sizes.pipeline * sizes.context * sizes.tensor;

    sizes.data = at_least_1(larger(p->ddp, larger(p->fsdp, p->fsdp1)));
    sizes.data = larger(sizes.data, p->zero_optimizer);
    if (p->hsdp_shard > 0)
        sizes.data = larger(sizes.data, p->hsdp_shard * at_least_1(p->hsdp_replicate));
    sizes.data = larger(sizes.data, p->gpus / model);
    return sizes;
}

enum plm_status mesh_complete(struct plm_parallel *p, struct plm_error *reterr)
{
    struct plm_parallel chosen = *p;
    int64_t gpus = p->gpus, data;

    if (gpus <= 0)
        return PLM_OK;
    chosen.gpus = 0;
    struct mesh_place sizes = mesh_sizes(&chosen);
    int64_t model = sizes.pipeline * sizes.context * sizes.tensor;

    if (gpus % model != 0)
        return plm_fail(
            reterr, PLM_E_USAGE,
            "gpus: %lld are not a multiple of the %lld that hold one model (tp × pp × cp)",
            (long long)gpus, (long long)model);
    data = gpus / model;
    if (p->zero > 0 || data == sizes.data)
        return PLM_OK;
    if (sizes.data > 1)
        return plm_fail(reterr, PLM_E_USAGE,
                        "gpus: %lld with %lld for each model make %lld for data parallelism; the "
                        "strategy has %lld",
                        (long long)gpus, (long long)model, (long long)data, (long long)sizes.data);
    p->ddp = data;
    return PLM_OK;
}

struct mesh_place mesh_place(const struct plm_parallel *parallel, int64_t rank)
{
    struct mesh_place sizes = mesh_sizes(parallel), place;

    place.tensor = rank % sizes.tensor;
    rank /= sizes.tensor;
    place.context = rank % sizes.context;
    rank /= sizes.context;
    place.data = rank % sizes.data;
    place.pipeline = rank / sizes.data;
    return place;
}

int64_t mesh_rank(const struct plm_parallel *parallel, struct mesh_place place)
{
    struct mesh_place sizes = mesh_sizes(parallel);

    return ((place.pipeline * sizes.data + place.data) * sizes.context + place.context) *
               sizes.tensor +
           place.tensor;
}

int64_t mesh_count(const struct plm_parallel *parallel)
{
    struct mesh_place sizes = mesh_sizes(parallel);

    return sizes.pipeline * sizes.data * sizes.context * sizes.tensor;
}
