/* train/zero_optimizer.h - PyTorch's ZeroRedundancyOptimizer: each rank updates some of the parameters */
#ifndef PLM_TRAIN_ZERO_OPTIMIZER_H
#define PLM_TRAIN_ZERO_OPTIMIZER_H

#include <stddef.h>
#include <stdint.h>

struct arena;
struct run;

/*
 * zero_optimizer_partition() - give this rank's optimizer its parameters: run->updated
 *
 * The rank is the strategy's, or, when that is 0, the one with most elements, which is named in a warning unless it is 0.
 */
void zero_optimizer_partition(struct run *run, int64_t ranks);

/* zero_optimizer_assign() - the rank of each of @count parameters, in ret[count], and the elements of each rank */
void zero_optimizer_assign(
    const int64_t *numels,
    size_t count,
    size_t ranks,
    struct arena *arena,
    uint32_t *ret_order, /* [count] largest first, the earlier of equals first */
    uint32_t *ret_rank,  /* [count] */
    int64_t *ret_load);  /* [ranks] */

#endif
