/*
 * memory/sizes.c - how sizes are rounded, and how large a new segment is
 *
 * Constants: c10/core/AllocatorConfig.h and CUDACachingAllocator.cpp of PyTorch 2.15, unchanged since 2.4.
 */
#include "base/num.h"
#include "memory/state.h"

#define SMALL_MOST (UINT64_C(1) << 20) /* kSmallSize: rounded sizes up to here use the small pool */
#define SMALL_SEGMENT (UINT64_C(2) << 20)  /* kSmallBuffer */
#define LARGE_SEGMENT (UINT64_C(20) << 20) /* kLargeBuffer; large_segment_size_mb changes it */
#define LARGE_OWN_LEAST                                                                            \
    (UINT64_C(10) << 20)               /* kMinLargeAlloc: from here on a segment of its own size */
#define LARGE_UNIT (UINT64_C(2) << 20) /* kRoundLarge */
#define LARGE_REMAINDER (UINT64_C(1) << 20) /* a large block is split if more than this is left */

/*
 * The driver's pool is not documented. These are assumptions, not measured: it takes memory from the device in
 * steps of 32 MiB, splits blocks at multiples of 512 bytes, and serves all streams from one set.
 */
#define ASYNC_STEP (UINT64_C(32) << 20)

static uint8_t log2_or_0(uint64_t n)
{
    return n > 1 ? (uint8_t)num_log2(n) : 0;
}

static void prepare_async(struct sizes *sizes)
{
    *sizes = (struct sizes){
        .max_split = MEMORY_NO_LIMIT,
        .segment = { ASYNC_STEP, ASYNC_STEP },
        .least_remainder = { BLOCK_UNIT, BLOCK_UNIT },
        .segment_unit = ASYNC_STEP,
        .one_pool = true,
    };
}

void sizes_prepare(struct sizes *sizes, const struct memory_settings *settings)
{
    if (settings->backend == MEMORY_ASYNC) {
        prepare_async(sizes);
        return;
    }
    plm_bytes large = settings->large_segment ? settings->large_segment : LARGE_SEGMENT;

    /* The device maps whole pages only; PyTorch would fail with a segment of 21 MiB. */
    if (settings->expandable_segments)
        large = num_round_up(large, MEMORY_PAGE);
    *sizes = (struct sizes){
        .max_split = settings->max_split ? settings->max_split : MEMORY_NO_LIMIT,
        .max_non_split_rounding =
            settings->max_non_split_rounding ? settings->max_non_split_rounding : LARGE_SEGMENT,
        .segment = { SMALL_SEGMENT, large },
        .least_remainder = { BLOCK_UNIT,
                             settings->expandable_segments ? BLOCK_UNIT : LARGE_REMAINDER + 1 },
        .segment_unit = LARGE_UNIT,
    };
    for (size_t i = 0; i < MEMORY_DIVISIONS; i++)
        sizes->divisions_log2[i] = log2_or_0(settings->divisions[i]);
}

/* Up to the next of the 2^divisions_log2 steps between two powers of two. */
static plm_bytes round_to_step(plm_bytes bytes, unsigned divisions_log2)
{
    plm_bytes floor = num_floor_power2(bytes);
    plm_bytes step = floor >> divisions_log2;

    return (bytes + step - 1) & ~(step - 1);
}

plm_bytes sizes_round(const struct sizes *sizes, plm_bytes bytes)
{
    if (bytes < BLOCK_UNIT)
        return BLOCK_UNIT;
    unsigned log2 = num_log2(bytes);
    unsigned class = log2 <= 20 ? 0 : (unsigned)num_min(log2 - 20, MEMORY_DIVISIONS - 1);
    unsigned divisions_log2 = sizes->divisions_log2[class];

    /* a step of at least 512 bytes: bytes > 512 * divisions */
    if (divisions_log2 > 0 && (bytes - 1) >> BLOCK_UNIT_LOG2 >> divisions_log2 > 0)
        return round_to_step(bytes, divisions_log2);
    return num_round_up(bytes, BLOCK_UNIT);
}

enum pool_kind sizes_pool(const struct sizes *sizes, plm_bytes rounded)
{
    return rounded <= SMALL_MOST && !sizes->one_pool ? POOL_SMALL : POOL_LARGE;
}

plm_bytes sizes_segment(const struct sizes *sizes, plm_bytes rounded)
{
    if (sizes->one_pool)
        return num_round_up(rounded, sizes->segment_unit);
    if (rounded <= SMALL_MOST)
        return sizes->segment[POOL_SMALL];
    if (rounded < LARGE_OWN_LEAST)
        return sizes->segment[POOL_LARGE];
    return num_round_up(rounded, sizes->segment_unit);
}
