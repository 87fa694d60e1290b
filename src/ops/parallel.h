/* ops/parallel.h - Megatron's regions between split layers, as functions that other operators call; recorded */
#ifndef PLM_OPS_PARALLEL_H
#define PLM_OPS_PARALLEL_H

#include "ghost/autograd.h"

/*
 * parallel_reduced() - a partial result, summed over @ranks: in place, or each gets its part of the first dimension
 * in a tensor of its own (reduce-scatter)
 */
struct tensor *parallel_reduced(struct tensor *x, int64_t ranks, bool scatters);

#endif
