/*
 * memory/addresses.h - where the driver puts what it is asked for
 *
 * On Linux, cudaMalloc takes the highest gap that fits, from its upper end, at multiples of 2 MiB; freed ranges
 * are used again. That reproduces the absolute addresses of recorded runs, and matters only
 * to versions of PyTorch that order free blocks by address.
 */
#ifndef PLM_MEMORY_ADDRESSES_H
#define PLM_MEMORY_ADDRESSES_H

#include "base/arena.h"
#include "plimsoll/types.h"

struct address_gap {
    plm_bytes begin, end;
};

struct addresses {
    struct address_gap *gaps; /* [gap_count], from the highest down; none touch */
    size_t gap_count, gap_capacity;
};

/* addresses_start() - all free */
void addresses_start(struct addresses *addresses, struct arena *arena);

/* addresses_take() - @bytes, a multiple of MEMORY_PAGE; 0 when no gap is large enough */
plm_bytes addresses_take(struct addresses *addresses, plm_bytes bytes);

/* addresses_give() - back what was taken */
void addresses_give(struct addresses *addresses,
                    struct arena *arena,
                    plm_bytes begin,
                    plm_bytes bytes);

#endif
