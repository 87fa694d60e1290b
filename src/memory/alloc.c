/*
 * memory/alloc.c - finding a free block, making one, and putting one back
 *
 * DeviceCachingAllocator's get_free_block, alloc_block, free_block and try_merge_blocks, PyTorch 2.15.
 */
#include "base/num.h"
#include "memory/state.h"

/* What a block counts for in an expandable segment: with the unmapped addresses that follow it. */
static plm_bytes size_with_growth(const struct memory *memory, uint32_t block)
{
    const struct block *it = &memory->blocks[block];

    if (it->next == 0 || memory->blocks[it->next].state != MEMORY_BLOCK_UNMAPPED)
        return it->size;
    return it->size + memory->blocks[it->next].size;
}

/*
 * Best fit would always take the tail of an expandable segment, which is small now but can grow. So the
 * search goes on while the next larger block has less to offer than this one and its growth.
 */
static struct free_position skip_growing(const struct memory *memory,
                                         const struct free_set *set,
                                         struct free_position position)
{
    plm_bytes size = size_with_growth(memory, free_set_at(set, position));

    for (;;) {
        struct free_position next = free_set_next(set, position);
        uint32_t block = free_set_at(set, next);

        if (block == 0 || size_with_growth(memory, block) >= size)
            return position;
        size = size_with_growth(memory, block);
        position = next;
    }
}

bool alloc_should_split(const struct memory *memory,
                        uint32_t block,
                        plm_bytes rounded,
                        enum pool_kind kind)
{
    if (memory->blocks[block].size - rounded < memory->sizes.least_remainder[kind])
        return false;
    return kind == POOL_SMALL || memory->expandable || rounded < memory->sizes.max_split;
}

/* best_fit() - the free block that a request gets, still whole, and where it is; 0 when none serves */
static uint32_t best_fit(struct memory *memory,
                         plm_bytes rounded,
                         const struct free_set *set,
                         struct free_position *ret_position)
{
    const struct sizes *sizes = &memory->sizes;
    struct free_position position = free_set_least(set, rounded);
    uint32_t block = free_set_at(set, position);

    if (block == 0)
        return 0;
    if (memory->expandable) {
        position = skip_growing(memory, set, position);
        block = free_set_at(set, position);
    }
    plm_bytes size = memory->blocks[block].size;

    /* Oversize blocks are kept for oversize requests, and not for much smaller ones. */
    if (rounded < sizes->max_split && size >= sizes->max_split)
        return 0;
    if (rounded >= sizes->max_split && size >= rounded + sizes->max_non_split_rounding)
        return 0;
    *ret_position = position;
    return block;
}

uint32_t alloc_find(struct memory *memory, plm_bytes rounded, uint16_t stream, enum pool_kind kind)
{
    struct free_set *set = &pool_of(memory, stream, kind)->free;
    struct free_position position;
    uint32_t block = best_fit(memory, rounded, set, &position);

    memory->pool_calls[kind] += memory->collects;
    if (block == 0)
        return 0;
    if (alloc_should_split(memory, block, rounded, kind))
        pool_change(memory, position, block_split(memory, block, rounded));
    else
        free_set_remove_at(set, position);
    return block;
}

plm_bytes alloc_would_take(struct memory *memory,
                           plm_bytes rounded,
                           uint16_t stream,
                           enum pool_kind kind)
{
    struct free_position position;
    uint32_t block = best_fit(memory, rounded, &pool_of(memory, stream, kind)->free, &position);

    if (block == 0)
        return 0;
    return alloc_should_split(memory, block, rounded, kind) ? rounded : memory->blocks[block].size;
}

uint32_t alloc_segment(struct memory *memory,
                       plm_bytes rounded,
                       uint16_t stream,
                       enum pool_kind kind)
{
    plm_bytes bytes = sizes_segment(&memory->sizes, rounded);

    if (memory->allowed != MEMORY_NO_LIMIT && memory->stats.now.reserved + bytes > memory->allowed)
        return 0;
    if (memory->expandable)
        return expandable_grow(memory, rounded, stream, kind);
    if (!reserved_fits(memory, bytes, 1))
        return 0;
    uint32_t block = segment_new(memory, bytes, stream, kind, false);

    if (block != 0) {
        reserved_add(memory, bytes);
        segment_report(memory, MEMORY_SEGMENT_ALLOC, block, bytes);
    }
    return block;
}

void alloc_free(struct memory *memory, uint32_t block)
{
    struct block *it = &memory->blocks[block];

    memory->stats.now.active -= it->size;
    memory->stats.now.requested -= it->requested;
    it->requested = 0;
    it->used_elsewhere = false;
    uint32_t previous = it->previous, next = it->next;
    bool joins_previous = previous != 0 && memory->blocks[previous].state == MEMORY_BLOCK_FREE;
    bool joins_next = next != 0 && memory->blocks[next].state == MEMORY_BLOCK_FREE;

    if (!joins_previous && !joins_next) {
        pool_add(memory, block);
        return;
    }
    if (joins_previous && joins_next)
        pool_remove(memory, next);
    struct free_position position = pool_find(memory, joins_previous ? previous : next);

    if (joins_next)
        block_merge(memory, block);
    if (joins_previous)
        block_merge(memory, previous);
    pool_change(memory, position, joins_previous ? previous : block);
}
