/*
 * memory/memory.c - the allocator's interface: malloc with its chain of retries, free, statistics
 *
 * DeviceCachingAllocator::malloc and free, PyTorch 2.15, and the driver's pool (backend:cudaMallocAsync) by the same
 * machinery with other sizes; see sizes.c for what is assumed about that.
 */
#include <assert.h>

#include "base/num.h"
#include "memory/state.h"

/* More than any device has; keeps sums and places far from overflow. */
#define REQUEST_MOST (UINT64_C(1) << 44)

/* An expandable segment reserves 1 1/8 of the device's memory; expandable_segments_reserve can only lower that. */
#define RESERVE_PART 1.125

static plm_bytes expandable_space(const struct memory *memory, plm_bytes device_total)
{
    const struct memory_settings *settings = &memory->options.settings;
    double total = (double)(device_total != 0 ? device_total : REQUEST_MOST);
    double most = total * RESERVE_PART, wanted = most;

    if (settings->expandable_reserve_bytes != 0)
        wanted = (double)settings->expandable_reserve_bytes;
    else if (settings->expandable_reserve > 0)
        wanted = total * settings->expandable_reserve;
    wanted = wanted < most ? wanted : most;
    return wanted < (double)REQUEST_MOST ? (plm_bytes)wanted : REQUEST_MOST;
}

static void set_limits(struct memory *memory, plm_bytes capacity, plm_bytes device_total)
{
    const struct memory_settings *settings = &memory->options.settings;
    double fraction = settings->fraction;
    bool native = settings->backend == MEMORY_NATIVE;

    memory->options.capacity = capacity;
    memory->options.device_total = device_total;
    memory->capacity = capacity != 0 ? capacity : MEMORY_NO_LIMIT;
    memory->allowed = MEMORY_NO_LIMIT;
    memory->reject_above = MEMORY_NO_LIMIT;
    if (fraction > 0 && fraction < 1 && device_total != 0)
        memory->allowed = (plm_bytes)(fraction * (double)device_total);
    /* With a fraction, its limit is tested first, and passing that one is tried again. */
    if (settings->throw_on_oom && native && memory->allowed == MEMORY_NO_LIMIT && device_total != 0)
        memory->reject_above = device_total;
    memory->collects = native && settings->gc_threshold > 0 && memory->allowed != MEMORY_NO_LIMIT;
    memory->expandable = native && settings->expandable_segments;
    memory->address_space = expandable_space(memory, device_total);
}

struct memory *memory_new(struct arena *arena, const struct memory_options *options)
{
    struct memory *memory = arena_new(arena, struct memory);

    memory->arena = arena;
    memory->options = *options;
    sizes_prepare(&memory->sizes, &options->settings);
    memory_reset(memory, options->capacity, options->device_total);
    return memory;
}

void memory_reset(struct memory *memory, plm_bytes capacity, plm_bytes device_total)
{
    set_limits(memory, capacity, device_total);
    memory->device_used = 0;
    memory->stats = (struct memory_stats){ 0 };
    memory->failure = (struct memory_failure){ 0 };
    memory->calls = 0;
    for (size_t i = 0; i < POOL_KINDS; i++)
        memory->pool_calls[i] = 0;
    memory->block_count = memory->segment_count = 0;
    memory->blocks_unused = memory->segments_unused = memory->registrations = 0;
    /* number 0 is none */
    arena_push(memory->arena, memory->blocks, memory->block_count, memory->block_capacity,
               (struct block){ 0 });
    arena_push(memory->arena, memory->segments, memory->segment_count, memory->segment_capacity,
               (struct segment){ 0 });
    for (size_t i = 0; i < memory->pool_count; i++) {
        free_set_clear(&memory->pools[i].free);
        free_set_clear(&memory->pools[i].unmapped);
    }
    memory->wait_first = memory->wait_count = 0;
    addresses_start(&memory->addresses, memory->arena);
}

void memory_watch(struct memory *memory, memory_watch_fn *watch, void *user)
{
    memory->watch = watch;
    memory->watch_user = user;
}

/* No cached block fits: ask the device, and release more and more of the cache while it says no. */
static uint32_t find_more(struct memory *memory,
                          plm_bytes rounded,
                          uint16_t stream,
                          enum pool_kind kind)
{
    plm_bytes segment = sizes_segment(&memory->sizes, rounded);

    if (memory->collects)
        release_old(memory);
    if (memory->reject_above != MEMORY_NO_LIMIT &&
        memory->stats.now.reserved + segment > memory->reject_above)
        return 0;
    uint32_t block = alloc_segment(memory, rounded, stream, kind);

    if (block == 0 && release_oversize(memory, rounded, stream, kind))
        block = alloc_segment(memory, rounded, stream, kind);
    if (block == 0) {
        release_all(memory);
        memory->stats.retries++;
        block = alloc_segment(memory, rounded, stream, kind);
    }
    if (block != 0 && alloc_should_split(memory, block, rounded, kind))
        pool_add(memory, block_split(memory, block, rounded));
    return block;
}

/* count_peak() - what is in use with a block of @size more, of which @requested were asked for */
static void count_peak(struct memory_stats *stats, plm_bytes requested, plm_bytes size)
{
    stats->peak.requested = num_max(stats->peak.requested, stats->now.requested + requested);
    stats->peak.allocated = num_max(stats->peak.allocated, stats->now.allocated + size);
    stats->peak.active = num_max(stats->peak.active, stats->now.active + size);
}

static void count_alloc(struct memory_stats *stats, plm_bytes requested, plm_bytes size)
{
    count_peak(stats, requested, size);
    stats->now.requested += requested;
    stats->now.allocated += size;
    stats->now.active += size;
}

static bool fail(struct memory *memory, plm_bytes bytes, plm_bytes rounded)
{
    memory->stats.ooms++;
    memory->failure = (struct memory_failure){
        .requested = bytes,
        .rounded = rounded,
        .segment = sizes_segment(&memory->sizes, rounded),
    };
    return false;
}

bool memory_alloc(struct memory *memory,
                  plm_bytes bytes,
                  uint16_t stream,
                  memory_block_id *ret_block)
{
    assert(bytes > 0);
    memory->calls++;
    if (memory->wait_count > 0)
        release_waiting(memory, false);
    plm_bytes rounded = sizes_round(&memory->sizes, num_min(bytes, REQUEST_MOST));
    enum pool_kind kind = sizes_pool(&memory->sizes, rounded);

    if (bytes > REQUEST_MOST)
        return fail(memory, bytes, rounded);
    uint32_t block = alloc_find(memory, rounded, stream, kind);

    if (block == 0)
        block = find_more(memory, rounded, stream, kind);
    if (block == 0)
        return fail(memory, bytes, rounded);
    struct block *it = &memory->blocks[block];

    it->state = MEMORY_BLOCK_LIVE;
    it->requested = bytes;
    count_alloc(&memory->stats, bytes, it->size);
    *ret_block = block;
    return true;
}

bool memory_pass(struct memory *memory, plm_bytes bytes, uint16_t stream)
{
    plm_bytes rounded = sizes_round(&memory->sizes, num_min(bytes, REQUEST_MOST));

    /* ages of blocks and releases that wait go by the number of calls */
    if (memory->collects || memory->wait_count > 0)
        return false;
    plm_bytes size = alloc_would_take(memory, rounded, stream, sizes_pool(&memory->sizes, rounded));

    if (size == 0)
        return false;
    memory->calls++;
    count_peak(&memory->stats, bytes, size);
    return true;
}

void memory_free(struct memory *memory, memory_block_id block)
{
    struct block *it = &memory->blocks[block];

    assert(block != 0 && it->state == MEMORY_BLOCK_LIVE);
    memory->stats.now.allocated -= it->size;
    if (!it->used_elsewhere) {
        alloc_free(memory, block);
        return;
    }
    it->state = MEMORY_BLOCK_WAITING;
    arena_push(memory->arena, memory->waits, memory->wait_count, memory->wait_capacity,
               (struct waiting){ .block = block, .since = memory->calls });
}

void memory_use(struct memory *memory, memory_block_id block, uint16_t stream)
{
    struct block *it = &memory->blocks[block];

    assert(block != 0 && it->state == MEMORY_BLOCK_LIVE);
    if (memory->sizes.one_pool)
        return; /* the driver orders frees itself */
    if (stream != memory->segments[it->segment].stream)
        it->used_elsewhere = true;
}

void memory_empty(struct memory *memory)
{
    release_all(memory);
}

const struct memory_stats *memory_stats(const struct memory *memory)
{
    return &memory->stats;
}

void memory_reset_peaks(struct memory *memory)
{
    memory->stats.peak = memory->stats.now;
}

struct memory_failure memory_failure(const struct memory *memory)
{
    return memory->failure;
}

uint32_t memory_segment_limit(const struct memory *memory)
{
    return (uint32_t)memory->segment_count - 1;
}

bool memory_segment(const struct memory *memory,
                    uint32_t segment,
                    struct memory_segment_view *ret_view)
{
    if (segment == 0 || segment >= memory->segment_count || memory->segments[segment].first == 0)
        return false;
    const struct segment *it = &memory->segments[segment];

    *ret_view = (struct memory_segment_view){
        .address = it->address,
        .bytes = it->bytes,
        .stream = it->stream,
        .large = it->pool == POOL_LARGE,
        .expandable = it->expandable,
        .first = it->first,
    };
    return true;
}

struct memory_block_view memory_block(const struct memory *memory, memory_block_id block)
{
    const struct block *it = &memory->blocks[block];

    return (struct memory_block_view){
        .state = (enum memory_block_state)it->state,
        .address = block_address(memory, block),
        .bytes = it->size,
        .requested = it->requested,
        .segment = it->segment,
        .next = it->next,
    };
}

/* mix() - one step of FNV-1a, on words */
static uint64_t mix(uint64_t hash, uint64_t word)
{
    return (hash ^ word) * UINT64_C(0x100000001b3);
}

uint64_t memory_fingerprint(const struct memory *memory)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 1; i < memory->segment_count; i++) {
        const struct segment *segment = &memory->segments[i];

        if (segment->first == 0)
            continue;
        hash = mix(mix(hash, segment->address), segment->stream);
        for (uint32_t b = segment->first; b != 0; b = memory->blocks[b].next) {
            const struct block *block = &memory->blocks[b];

            hash = mix(mix(hash, block->size), (block->requested << 2) ^ block->state);
            hash ^= hash >> 29;
        }
    }
    return hash;
}
