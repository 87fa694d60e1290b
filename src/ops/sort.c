/*
 * ops/sort.c - temporary storage of cub's radix sort and scan
 *
 * Both were measured on the ghost GPU (PyTorch 2.15): the steps were found by bisection on seven GPUs, and the formulas
 * give every size that was tried. Each array inside the storage is rounded up to 256 bytes, and 255 are added to
 * align the first.
 */
#include "ops/sort.h"
#include "base/num.h"

enum { ALIGNMENT = 256 };

static plm_bytes aligned(uint64_t bytes)
{
    return num_round_up(bytes, ALIGNMENT);
}

plm_bytes sort_scratch(const struct ghost *g, uint64_t count, uint64_t largest)
{
    enum { SINGLE_TILE = 2304, DIGIT_BITS = 8, DIGITS = 256 };
    int major = g->around.cc / 10;
    uint64_t tile = major >= 9 ? 4608 : g->around.cc >= 80 ? 3840 : 2816;
    unsigned bits = largest ? num_log2(largest) + 1 : 1;
    uint64_t passes = num_ceil_div(bits, DIGIT_BITS);

    if (count <= SINGLE_TILE)
        return 1; /* one block does it in shared memory */
    return ALIGNMENT - 1 + passes * DIGITS * sizeof(uint64_t) +
           num_ceil_div(count, tile) * DIGITS * sizeof(uint32_t) + ALIGNMENT +
           (passes > 1 ? 2 * aligned(count * sizeof(int64_t)) : 0);
}

plm_bytes scan_scratch(const struct ghost *g, uint64_t count, enum dtype dtype)
{
    enum { PADDING = 32 }; /* a warp of tiles in front */
    unsigned size = dtype_defs[dtype].bytes;
    bool narrow = g->around.framework->scan_narrow;

    if (size == 4) { /* status and value of a tile in one word */
        uint64_t tiles = num_ceil_div(count, 1920) + PADDING;

        return ALIGNMENT - 1 + ALIGNMENT + aligned((narrow ? 4 : 8) * tiles);
    }
    if (size == 8) {
        uint64_t tiles = num_ceil_div(count, narrow ? 448 : 896) + PADDING;

        return ALIGNMENT - 1 + ALIGNMENT + aligned((narrow ? 8 : 16) * tiles);
    }
    /* 16-bit floats are no machine type: status, partial and inclusive sums are kept apart */
    uint64_t tiles = num_ceil_div(count, 3840) + PADDING;

    return ALIGNMENT - 1 + ALIGNMENT + aligned(4 * tiles) + 2 * aligned(size * tiles);
}
