/*
 * memory/expandable.c - segments that reserve addresses once and gain memory page by page
 *
 * expandable_segments:True. One segment for each stream and pool reserves more addresses than the device has memory; its blocks are
 * live, free, or unmapped (addresses without memory). Mapped and unmapped areas begin at multiples of the
 * page, so an unmapped block always does.
 */
#include "base/num.h"
#include "memory/state.h"

static plm_bytes page_of(const struct memory *memory, uint32_t block)
{
    const struct segment *segment = &memory->segments[memory->blocks[block].segment];

    return memory->sizes.segment[segment->pool];
}

static bool is_available(const struct memory *memory, uint32_t block)
{
    return block != 0 && memory->blocks[block].state >= MEMORY_BLOCK_FREE;
}

/* Do free and unmapped blocks in a row, from @block on, hold @rounded bytes? */
static bool has_room(const struct memory *memory, uint32_t block, plm_bytes rounded)
{
    plm_bytes bytes = 0;

    while (bytes < rounded && is_available(memory, block)) {
        bytes += memory->blocks[block].size;
        block = memory->blocks[block].next;
    }
    return bytes >= rounded;
}

static uint32_t new_segment(struct memory *memory, uint16_t stream, enum pool_kind kind)
{
    plm_bytes page = memory->sizes.segment[kind];
    uint32_t block =
        segment_new(memory, num_round_up(memory->address_space, page), stream, kind, true);

    if (block != 0)
        unmapped_add(memory, block);
    return block;
}

/* Where the request can grow: an unmapped block, or the free one before it. */
static uint32_t find_room(struct memory *memory,
                          plm_bytes rounded,
                          uint16_t stream,
                          enum pool_kind kind)
{
    const struct free_set *unmapped = &pool_of(memory, stream, kind)->unmapped;
    struct free_position position = free_set_least(unmapped, 0);

    for (uint32_t block; (block = free_set_at(unmapped, position)) != 0;
         position = free_set_next(unmapped, position)) {
        uint32_t previous = memory->blocks[block].previous;

        if (is_available(memory, previous))
            block = previous;
        if (has_room(memory, block, rounded))
            return block;
    }
    if (rounded > memory->address_space)
        return 0;
    return new_segment(memory, stream, kind);
}

static uint32_t merge_free(struct memory *memory, uint32_t block)
{
    uint32_t previous = memory->blocks[block].previous;

    if (previous != 0 && memory->blocks[previous].state == MEMORY_BLOCK_FREE) {
        pool_remove(memory, previous);
        block_merge(memory, previous);
        block = previous;
    }
    uint32_t next = memory->blocks[block].next;

    if (next != 0 && memory->blocks[next].state == MEMORY_BLOCK_FREE) {
        pool_remove(memory, next);
        block_merge(memory, block);
    }
    return block;
}

/* Give memory to the first @bytes of an unmapped block, all or nothing. Returns the free block they are in, or 0. */
static uint32_t map_block(struct memory *memory, uint32_t block, plm_bytes bytes)
{
    plm_bytes page = page_of(memory, block);
    uint64_t page_count = num_ceil_div(bytes, page);

    if (!reserved_fits(memory, page, page_count))
        return 0;
    bytes = page_count * page;
    unmapped_remove(memory, block);
    if (bytes < memory->blocks[block].size)
        unmapped_add(memory, block_split(memory, block, bytes));
    segment_report(memory, MEMORY_SEGMENT_MAP, block, bytes);
    memory->blocks[block].state = MEMORY_BLOCK_FREE;
    block = merge_free(memory, block);
    pool_add(memory, block);
    reserved_add(memory, bytes);
    return block;
}

uint32_t expandable_grow(struct memory *memory,
                         plm_bytes rounded,
                         uint16_t stream,
                         enum pool_kind kind)
{
    uint32_t block = find_room(memory, rounded, stream, kind);

    if (block != 0 && memory->blocks[block].state == MEMORY_BLOCK_UNMAPPED)
        block = map_block(memory, block, num_min(memory->blocks[block].size, rounded));
    while (block != 0 && memory->blocks[block].size < rounded) {
        uint32_t next = memory->blocks[block].next;
        plm_bytes missing = rounded - memory->blocks[block].size;

        block = map_block(memory, next, num_min(missing, memory->blocks[next].size));
    }
    if (block != 0)
        pool_remove(memory, block);
    return block;
}

static uint32_t merge_unmapped(struct memory *memory, uint32_t block)
{
    uint32_t previous = memory->blocks[block].previous;

    if (previous != 0 && memory->blocks[previous].state == MEMORY_BLOCK_UNMAPPED) {
        unmapped_remove(memory, previous);
        block_merge(memory, previous);
        block = previous;
    }
    uint32_t next = memory->blocks[block].next;

    if (next != 0 && memory->blocks[next].state == MEMORY_BLOCK_UNMAPPED) {
        unmapped_remove(memory, next);
        block_merge(memory, block);
    }
    return block;
}

void expandable_unmap(struct memory *memory, uint32_t block)
{
    plm_bytes page = page_of(memory, block);
    const struct segment *segment = &memory->segments[memory->blocks[block].segment];
    plm_bytes begin = block_address(memory, block) - segment->address;
    plm_bytes end = begin + memory->blocks[block].size;
    plm_bytes first = num_round_up(begin, page), last = end / page * page;

    if (first >= last)
        return; /* no whole page */
    pool_remove(memory, block);
    if (first > begin) {
        uint32_t rest = block_split(memory, block, first - begin);

        pool_add(memory, block);
        block = rest;
    }
    if (last < end)
        pool_add(memory, block_split(memory, block, last - first));
    segment_report(memory, MEMORY_SEGMENT_UNMAP, block, last - first);
    reserved_subtract(memory, last - first);
    memory->blocks[block].state = MEMORY_BLOCK_UNMAPPED;
    block = merge_unmapped(memory, block);
    if (block_is_whole_segment(memory, block))
        segment_delete(memory, block);
    else
        unmapped_add(memory, block);
}
