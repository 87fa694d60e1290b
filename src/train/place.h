/*
 * train/place.h - where a rank stands in the mesh of a parallel run
 *
 * Ranks are numbered as torchtitan's device mesh does ("pp", "dp", "cp", "tp"): tensor-parallel neighbours first, pipeline stages last.
 */
#ifndef PLM_TRAIN_PLACE_H
#define PLM_TRAIN_PLACE_H

#include "plimsoll/plimsoll.h"

struct place {
    int64_t pipeline, data, context, tensor;
};

/* place_sizes() - of the mesh in each direction, at least 1 */
struct place place_sizes(const struct plm_parallel *parallel);

/* place_of() - of @rank, which is below the product of the sizes */
struct place place_of(const struct plm_parallel *parallel, int64_t rank);

/* place_rank() - the other way round */
int64_t place_rank(const struct plm_parallel *parallel, struct place place);

/* place_count() - ranks in all */
int64_t place_count(const struct plm_parallel *parallel);

#endif
