/*
 * memory/blocks.c - segments, the blocks that cover them, and the pools of free ones
 *
 * Blocks and segments are numbers into arrays; numbers that are no longer used are chained and used again, so a
 * replay allocates nothing once it has seen its largest state.
 */
#include <assert.h>

#include "base/num.h"
#include "memory/state.h"

/* A place holds a registration number above an offset in units of 512 bytes: up to 32 TiB. */
enum { PLACE_OFFSET_BITS = 36 };

struct pool *pool_of(struct memory *memory, uint16_t stream, enum pool_kind kind)
{
    size_t at = (memory->sizes.one_pool ? 0 : (size_t)stream * POOL_KINDS) + kind;

    while (memory->pool_count <= at)
        arena_push(memory->arena, memory->pools, memory->pool_count, memory->pool_capacity,
                   (struct pool){ 0 });
    return &memory->pools[at];
}

static struct pool *pool_of_block(struct memory *memory, const struct block *block)
{
    const struct segment *segment = &memory->segments[block->segment];
    size_t at = (memory->sizes.one_pool ? 0 : (size_t)segment->stream * POOL_KINDS) + segment->pool;

    return &memory->pools[at];
}

void pool_add(struct memory *memory, uint32_t block)
{
    struct block *it = &memory->blocks[block];

    it->state = MEMORY_BLOCK_FREE;
    it->age_start = memory->pool_calls[memory->segments[it->segment].pool];
    free_set_add(&pool_of_block(memory, it)->free, memory->arena,
                 (struct free_entry){ .size = it->size, .place = it->place, .block = block });
}

struct free_position pool_find(struct memory *memory, uint32_t block)
{
    const struct block *it = &memory->blocks[block];

    return free_set_find(&pool_of_block(memory, it)->free, it->size, it->place);
}

void pool_change(struct memory *memory, struct free_position position, uint32_t block)
{
    struct block *it = &memory->blocks[block];

    it->state = MEMORY_BLOCK_FREE;
    it->age_start = memory->pool_calls[memory->segments[it->segment].pool];
    free_set_change(&pool_of_block(memory, it)->free, memory->arena, position,
                    (struct free_entry){ .size = it->size, .place = it->place, .block = block });
}

void pool_remove(struct memory *memory, uint32_t block)
{
    struct block *it = &memory->blocks[block];

    free_set_remove(&pool_of_block(memory, it)->free, it->size, it->place);
}

void unmapped_add(struct memory *memory, uint32_t block)
{
    struct block *it = &memory->blocks[block];

    it->state = MEMORY_BLOCK_UNMAPPED;
    free_set_add(&pool_of_block(memory, it)->unmapped, memory->arena,
                 (struct free_entry){ .place = block_address(memory, block), .block = block });
}

void unmapped_remove(struct memory *memory, uint32_t block)
{
    free_set_remove(&pool_of_block(memory, &memory->blocks[block])->unmapped, 0,
                    block_address(memory, block));
}

static uint32_t block_new(struct memory *memory, struct block block)
{
    uint32_t number = memory->blocks_unused;

    if (number != 0) {
        memory->blocks_unused = memory->blocks[number].next;
        memory->blocks[number] = block;
        return number;
    }
    number = (uint32_t)memory->block_count;
    arena_push(memory->arena, memory->blocks, memory->block_count, memory->block_capacity, block);
    return number;
}

static void block_drop(struct memory *memory, uint32_t block)
{
    memory->blocks[block].next = memory->blocks_unused;
    memory->blocks_unused = block;
}

/*
 * Among equal sizes, PyTorch 2.15 takes the oldest segment and in it the lowest offset
 * (BlockComparatorSizeCounterAddress); up to 2.11 the lowest address.
 */
static uint64_t segment_place(struct memory *memory, plm_bytes address)
{
    if (memory->options.rules.order_by_address)
        return address >> BLOCK_UNIT_LOG2;
    return (uint64_t)++memory->registrations << PLACE_OFFSET_BITS;
}

uint32_t segment_new(
    struct memory *memory, plm_bytes bytes, uint16_t stream, enum pool_kind kind, bool expandable)
{
    plm_bytes address = addresses_take(&memory->addresses, num_round_up(bytes, MEMORY_PAGE));
    struct segment segment = {
        .address = address,
        .bytes = bytes,
        .stream = stream,
        .pool = (uint8_t)kind,
        .expandable = expandable,
    };
    uint32_t number = memory->segments_unused;

    if (address == 0)
        return 0;
    segment.place = segment_place(memory, address);
    if (number != 0) {
        memory->segments_unused = memory->segments[number].unused_next;
    } else {
        number = (uint32_t)memory->segment_count;
        arena_push(memory->arena, memory->segments, memory->segment_count, memory->segment_capacity,
                   segment);
    }
    segment.first = block_new(
        memory, (struct block){ .size = bytes, .place = segment.place, .segment = number });
    memory->segments[number] = segment;
    (void)pool_of(memory, stream, kind);
    return segment.first;
}

void segment_delete(struct memory *memory, uint32_t block)
{
    uint32_t number = memory->blocks[block].segment;
    struct segment *segment = &memory->segments[number];

    assert(block_is_whole_segment(memory, block) && segment->first == block);
    addresses_give(&memory->addresses, memory->arena, segment->address,
                   num_round_up(segment->bytes, MEMORY_PAGE));
    segment->first = 0;
    segment->unused_next = memory->segments_unused;
    memory->segments_unused = number;
    block_drop(memory, block);
}

bool block_is_whole_segment(const struct memory *memory, uint32_t block)
{
    return memory->blocks[block].previous == 0 && memory->blocks[block].next == 0;
}

plm_bytes block_address(const struct memory *memory, uint32_t block)
{
    const struct block *it = &memory->blocks[block];
    const struct segment *segment = &memory->segments[it->segment];

    return segment->address + ((it->place - segment->place) << BLOCK_UNIT_LOG2);
}

uint32_t block_split(struct memory *memory, uint32_t block, plm_bytes size)
{
    struct block right = memory->blocks[block];

    assert(size > 0 && size < right.size && size % BLOCK_UNIT == 0);
    right.size -= size;
    right.place += size >> BLOCK_UNIT_LOG2;
    right.previous = block;
    uint32_t number = block_new(memory, right);

    if (right.next != 0)
        memory->blocks[right.next].previous = number;
    memory->blocks[block].next = number;
    memory->blocks[block].size = size;
    return number;
}

void block_merge(struct memory *memory, uint32_t left)
{
    struct block *block = &memory->blocks[left];
    uint32_t right = block->next;

    block->size += memory->blocks[right].size;
    block->next = memory->blocks[right].next;
    if (block->next != 0)
        memory->blocks[block->next].previous = left;
    block_drop(memory, right);
}

void segment_report(struct memory *memory,
                    enum memory_device_event event,
                    uint32_t block,
                    plm_bytes bytes)
{
    if (memory->watch)
        memory->watch(memory->watch_user, event, block_address(memory, block), bytes,
                      memory->segments[memory->blocks[block].segment].stream);
}

void reserved_add(struct memory *memory, plm_bytes bytes)
{
    struct memory_stats *stats = &memory->stats;

    memory->device_used += num_round_up(bytes, MEMORY_PAGE);
    stats->now.reserved += bytes;
    if (stats->now.reserved > stats->peak.reserved)
        stats->peak.reserved = stats->now.reserved;
}

void reserved_subtract(struct memory *memory, plm_bytes bytes)
{
    memory->device_used -= num_round_up(bytes, MEMORY_PAGE);
    memory->stats.now.reserved -= bytes;
}

bool reserved_fits(const struct memory *memory, plm_bytes bytes, uint64_t count)
{
    plm_bytes wanted;

    if (memory->capacity == MEMORY_NO_LIMIT)
        return true;
    return bytes_mul(num_round_up(bytes, MEMORY_PAGE), count, &wanted) &&
           bytes_add(wanted, memory->device_used, &wanted) && wanted <= memory->capacity;
}
