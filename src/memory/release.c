/*
 * memory/release.c - giving memory back to the device, and taking back blocks that waited for an event
 *
 * DeviceCachingAllocator's release_available_cached_blocks, release_cached_blocks, garbage_collect_cached_blocks and
 * process_events, PyTorch 2.15. Only blocks that are a whole segment can go, and whole pages of expandable segments.
 */
#include "memory/state.h"

static void release_block(struct memory *memory, uint32_t block)
{
    plm_bytes bytes = memory->blocks[block].size;

    pool_remove(memory, block);
    segment_report(memory, MEMORY_SEGMENT_FREE, block, bytes);
    reserved_subtract(memory, bytes);
    segment_delete(memory, block);
}

static void add_victim(struct memory *memory, uint32_t block)
{
    arena_push(memory->arena, memory->victims, memory->victim_count, memory->victim_capacity,
               block);
}

/* With max_split_size: one oversize block that is large enough, or several from the largest down. */
bool release_oversize(struct memory *memory,
                      plm_bytes rounded,
                      uint16_t stream,
                      enum pool_kind kind)
{
    plm_bytes least = memory->sizes.max_split;

    if (least == MEMORY_NO_LIMIT || memory->expandable)
        return false;
    plm_bytes wanted = rounded < least ? least : rounded;
    const struct free_set *set = &pool_of(memory, stream, kind)->free;
    struct free_position position = free_set_least(set, wanted);
    uint32_t block = free_set_at(set, position);

    if (block != 0) {
        release_block(memory, block);
        return true;
    }
    plm_bytes released = 0;

    memory->victim_count = 0;
    while (released < wanted && free_set_previous(set, &position)) {
        block = free_set_at(set, position);
        if (memory->blocks[block].size < least)
            break;
        released += memory->blocks[block].size;
        add_victim(memory, block);
    }
    for (size_t i = 0; i < memory->victim_count; i++)
        release_block(memory, memory->victims[i]);
    return released >= wanted;
}

static void find_victims(struct memory *memory, const struct free_set *set)
{
    struct free_position position = free_set_least(set, 0);

    for (uint32_t block; (block = free_set_at(set, position)) != 0;
         position = free_set_next(set, position))
        if (memory->expandable || block_is_whole_segment(memory, block))
            add_victim(memory, block);
}

/* empty_cache(), and the last resort before a request fails: large pool first, streams in order */
void release_all(struct memory *memory)
{
    static const enum pool_kind order[] = { POOL_LARGE, POOL_SMALL };

    release_waiting(memory, true);
    for (size_t i = 0; i < POOL_KINDS; i++) {
        memory->victim_count = 0;
        for (size_t at = order[i]; at < memory->pool_count; at += POOL_KINDS)
            find_victims(memory, &memory->pools[at].free);
        for (size_t v = 0; v < memory->victim_count; v++) {
            if (memory->expandable)
                expandable_unmap(memory, memory->victims[v]);
            else
                release_block(memory, memory->victims[v]);
        }
    }
}

static uint64_t age_of(const struct memory *memory, uint32_t block)
{
    return memory->pool_calls[POOL_LARGE] - memory->blocks[block].age_start;
}

/*
 * Garbage collection: above the threshold, large segments that were unused for longer than the average go, until
 * enough was reclaimed.
 */
void release_old(struct memory *memory)
{
    plm_bytes threshold =
        (plm_bytes)(memory->options.settings.gc_threshold * (double)memory->allowed);

    if (memory->stats.now.reserved <= threshold || memory->expandable)
        return;
    plm_bytes wanted = memory->stats.now.reserved - threshold, reclaimed = 0;
    uint64_t age_sum = 0;

    memory->victim_count = 0;
    for (size_t at = POOL_LARGE; at < memory->pool_count; at += POOL_KINDS)
        find_victims(memory, &memory->pools[at].free);
    for (size_t i = 0; i < memory->victim_count; i++)
        age_sum += age_of(memory, memory->victims[i]);
    for (bool freed = true; freed && reclaimed < wanted && memory->victim_count > 0;) {
        double age_least = (double)age_sum / (double)memory->victim_count;
        size_t kept = 0;

        freed = false;
        for (size_t i = 0; i < memory->victim_count; i++) {
            uint32_t block = memory->victims[i];
            uint64_t age = age_of(memory, block);

            if ((double)age < age_least) {
                memory->victims[kept++] = block;
                continue;
            }
            age_sum -= age;
            reclaimed += memory->blocks[block].size;
            release_block(memory, block);
            freed = true;
        }
        memory->victim_count = kept;
    }
}

/* Take back blocks whose events are complete; with @all, wait for every event. */
void release_waiting(struct memory *memory, bool all)
{
    while (memory->wait_first < memory->wait_count) {
        struct waiting waiting = memory->waits[memory->wait_first];

        if (!all && memory->calls - waiting.since <= memory->options.events_lag)
            return;
        memory->wait_first++;
        alloc_free(memory, waiting.block);
    }
    memory->wait_first = memory->wait_count = 0;
}
