/*
 * train/mesh.h - where a rank stands in the mesh of a parallel run
 *
 * Ranks are numbered as torchtitan's device mesh does ("pp", "dp", "cp", "tp"): tensor-parallel neighbours first, pipeline stages last.
 */
#ifndef PLM_TRAIN_MESH_H
#define PLM_TRAIN_MESH_H

#include "base/error.h"
#include "plimsoll/plimsoll.h"

struct mesh_place {
    int64_t pipeline, data, context, tensor;
};

/* mesh_sizes() - of the mesh in each direction, at least 1 */
struct mesh_place mesh_sizes(const struct plm_parallel *parallel);

/*
 * mesh_complete() - what --gpus leaves for data parallelism
 *
 * It must be what the strategy's own technique says; without one it is DistributedDataParallel's.
 */
PLM_MUST_CHECK enum plm_status mesh_complete(struct plm_parallel *parallel,
                                             struct plm_error *reterr);

/* mesh_place() - of @rank, which is below the product of the sizes */
struct mesh_place mesh_place(const struct plm_parallel *parallel, int64_t rank);

/* mesh_rank() - the other way round */
int64_t mesh_rank(const struct plm_parallel *parallel, struct mesh_place place);

/* mesh_reduced() - ranks that share what is reduced over @data of them: those of a sequence too ("dp_shard_cp") */
int64_t mesh_reduced(const struct plm_parallel *parallel, int64_t data);

/* mesh_reduced_place() - of parallel->rank, among all of those */
int64_t mesh_reduced_place(const struct plm_parallel *parallel);

/* mesh_expert_shards() - ranks that have the same experts, and shard them between each other ("efsdp") or reduce their gradients */
int64_t mesh_expert_shards(const struct plm_parallel *parallel);

/* mesh_count() - ranks in all */
int64_t mesh_count(const struct plm_parallel *parallel);

#endif
