/*
 * memory/memory.h - the allocator between a program and its device: PyTorch's, to the byte
 *
 * A struct memory answers, for each request in turn, where PyTorch's CUDACachingAllocator would put it and what it would then
 * hold from the device. It knows byte counts and streams and nothing of what they mean.
 *
 *     allocated <= active <= reserved <= capacity,   requested <= active
 *
 * Running out of memory is an answer, not an error. A memory may be reset and used again; it
 * lives in the arena it was made in, which it grows.
 */
#ifndef PLM_MEMORY_MEMORY_H
#define PLM_MEMORY_MEMORY_H

#include <stdbool.h>

#include "base/arena.h"
#include "memory/settings.h"
#include "plimsoll/types.h"

typedef uint32_t memory_block_id; /* of a live block; 0 is none */

/* the device hands out memory in pages of this size; capacities are multiples of it */
#define MEMORY_PAGE (UINT64_C(2) << 20)

struct memory_options {
    struct memory_settings settings;
    struct memory_rules rules;
    plm_bytes capacity;     /* what the allocator may hold; 0: no limit */
    plm_bytes device_total; /* the whole device, of which settings.fraction is a part; 0: unknown */
    uint32_t
        events_lag; /* allocations that pass until a recorded event is seen as complete; 0: the next sees it */
};

/* struct memory_sizes - @allocated counts blocks, @active also those that wait for an event */
struct memory_sizes {
    plm_bytes requested, allocated, active, reserved;
};

struct memory_stats {
    struct memory_sizes now;
    struct memory_sizes peak; /* since the last memory_reset_peaks() */
    uint64_t retries;         /* num_alloc_retries: the cache was released to try again */
    uint64_t ooms;            /* num_ooms: requests that failed */
};

/* struct memory_failure - the request that did not fit */
struct memory_failure {
    plm_bytes requested;
    plm_bytes rounded;
    plm_bytes segment; /* what the device was asked for: "Tried to allocate …" */
};

enum memory_device_event {
    MEMORY_SEGMENT_ALLOC,
    MEMORY_SEGMENT_FREE,
    MEMORY_SEGMENT_MAP,   /* expandable segments: pages gain memory */
    MEMORY_SEGMENT_UNMAP, /* and lose it */
};

/* memory_watch_fn - what was asked of the device; @address and @bytes are the range */
typedef void memory_watch_fn(void *user,
                             enum memory_device_event event,
                             plm_bytes address,
                             plm_bytes bytes,
                             uint16_t stream);

struct memory;

/* memory_new() - an allocator without any memory, in @arena */
struct memory *memory_new(struct arena *arena, const struct memory_options *options);

/* memory_reset() - forget all blocks, statistics and segments; the options stay, but for these two */
void memory_reset(struct memory *memory, plm_bytes capacity, plm_bytes device_total);

/* memory_watch() - have @watch called for each segment that comes or goes; NULL to stop */
void memory_watch(struct memory *memory, memory_watch_fn *watch, void *user);

/* memory_alloc() - @bytes > 0 on @stream; false when they do not fit: see memory_failure() */
PLM_MUST_CHECK bool memory_alloc(struct memory *memory,
                                 plm_bytes bytes,
                                 uint16_t stream,
                                 memory_block_id *ret_block);

/*
 * memory_pass() - an allocation that is released at once: memory_alloc() and memory_free(), but quicker
 *
 * False when that would change the state of the allocator, but for its peaks: then nothing has happened.
 */
bool memory_pass(struct memory *memory, plm_bytes bytes, uint16_t stream);

/* memory_free() - release a live block; it is reused once its uses on other streams are over */
void memory_free(struct memory *memory, memory_block_id block);

/* memory_use() - @block is used on @stream too (record_stream) */
void memory_use(struct memory *memory, memory_block_id block, uint16_t stream);

/* memory_empty() - empty_cache(): wait for all events, return what is not in use to the device */
void memory_empty(struct memory *memory);

/* memory_stats() - valid as long as the memory, and always up to date */
const struct memory_stats *memory_stats(const struct memory *memory);

/* memory_reset_peaks() - reset_peak_memory_stats(): peaks start again at what is held now */
void memory_reset_peaks(struct memory *memory);

/* memory_failure() - the last request that failed; zeros when none did */
struct memory_failure memory_failure(const struct memory *memory);

/*
 * memory_fingerprint() - equal for two memories (or one at two times) whose blocks are at the same addresses in the same state
 *
 * The same requests then get the same answers, except that garbage collection also looks at ages.
 */
uint64_t memory_fingerprint(const struct memory *memory);

enum memory_block_state {
    MEMORY_BLOCK_LIVE,
    MEMORY_BLOCK_WAITING,  /* released, but an event on another stream is not complete */
    MEMORY_BLOCK_FREE,     /* and what follows: not in use */
    MEMORY_BLOCK_UNMAPPED, /* address space of an expandable segment */
};

/* struct memory_block_view - a block as a picture of the memory shows it */
struct memory_block_view {
    enum memory_block_state state;
    plm_bytes address, bytes, requested;
    uint32_t segment;
    memory_block_id next; /* in the segment, by address; 0 at its end */
};

/* struct memory_segment_view - an area of addresses that were taken from the device as one */
struct memory_segment_view {
    plm_bytes address, bytes;
    uint16_t stream;
    bool large; /* of the large pool */
    bool expandable;
    memory_block_id first;
};

/* memory_segment_limit() - segments have the numbers 1 … limit, with gaps */
uint32_t memory_segment_limit(const struct memory *memory);

/* memory_segment() - false when there is no segment of that number */
bool memory_segment(const struct memory *memory,
                    uint32_t segment,
                    struct memory_segment_view *ret_view);

struct memory_block_view memory_block(const struct memory *memory, memory_block_id block);

#endif
