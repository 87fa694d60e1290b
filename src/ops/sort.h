/* ops/sort.h - what sorting on the device takes beside its inputs and outputs */
#ifndef PLM_OPS_SORT_H
#define PLM_OPS_SORT_H

#include "ghost/ghost.h"

/*
 * sort_scratch() - bytes of cub's temporary storage for sorting @count pairs of int64 keys and values
 *
 * @largest is the largest key that the caller announces; only its bits are sorted.
 */
plm_bytes sort_scratch(const struct ghost *g, uint64_t count, uint64_t largest);

/* scan_scratch() - bytes of cub's temporary storage for a running sum of @count elements of @dtype */
plm_bytes scan_scratch(const struct ghost *g, uint64_t count, enum dtype dtype);

#endif
