/*
 * memory/state.h - the allocator's insides, shared by the files of this folder and by nobody else
 *
 * A segment is an area of addresses taken from the device; it is covered by blocks, linked in the order of addresses:
 *
 *     segment.bytes == Σ block.size          reserved == Σ size of the blocks that are not unmapped
 *     no two neighbours are both free, nor both unmapped
 *
 * Splitting keeps the number of the left part, merging that of the left block; so segment.first never changes.
 *
 * Files: sizes.c (rounding), blocks.c (segments, blocks, pools), alloc.c (finding a block), expandable.c
 * (segments that grow), release.c (giving back), memory.c (the interface).
 */
#ifndef PLM_MEMORY_STATE_H
#define PLM_MEMORY_STATE_H

#include "memory/addresses.h"
#include "memory/free_set.h"
#include "memory/memory.h"

#define MEMORY_NO_LIMIT UINT64_MAX

enum {
    BLOCK_UNIT = 512, /* kMinBlockSize: all sizes and offsets are multiples */
    BLOCK_UNIT_LOG2 = 9,
};

enum pool_kind { POOL_SMALL, POOL_LARGE, POOL_KINDS };

struct block {
    plm_bytes size;
    plm_bytes requested; /* while live or waiting */
    uint64_t place;      /* the order among free blocks of equal size; see segment_place() */
    uint64_t age_start;  /* free blocks: the pool's calls when it was put there */
    uint32_t previous,
        next; /* neighbours in the segment; 0: none. @next also chains unused numbers */
    uint32_t segment;
    uint8_t state;       /* enum memory_block_state */
    bool used_elsewhere; /* by another stream, since it was allocated */
};

struct segment {
    plm_bytes address, bytes;
    uint64_t place; /* of its first byte */
    uint32_t first; /* block; 0: this number is unused */
    uint32_t unused_next;
    uint16_t stream;
    uint8_t pool; /* enum pool_kind */
    bool expandable;
};

struct pool {
    struct free_set free;
    struct free_set unmapped; /* ordered by address */
};

/* struct waiting - a released block that another stream may still use */
struct waiting {
    uint32_t block;
    uint64_t since; /* memory.calls when it was released */
};

/* struct sizes - the numbers that rounding depends on, with defaults filled in */
struct sizes {
    plm_bytes max_split; /* MEMORY_NO_LIMIT: none */
    plm_bytes max_non_split_rounding;
    plm_bytes segment
        [POOL_KINDS]; /* of a request that does not ask for more; page of an expandable one */
    plm_bytes least_remainder[POOL_KINDS]; /* what must be left over for a block to be split */
    plm_bytes segment_unit;                /* larger segments are multiples */
    uint8_t divisions_log2[MEMORY_DIVISIONS];
    bool one_pool; /* the driver's pool: no classes of size, no streams */
};

struct memory {
    struct arena *arena;
    struct memory_options options;
    struct sizes sizes;
    plm_bytes capacity;      /* MEMORY_NO_LIMIT: none */
    plm_bytes allowed;       /* PyTorch's own limit on reserved, from the fraction */
    plm_bytes reject_above;  /* throw_on_oom: beyond this nothing is tried again */
    plm_bytes address_space; /* of one expandable segment */
    plm_bytes device_used;   /* reserved, in whole pages */
    bool collects;           /* garbage collection is on */
    bool expandable;
    struct memory_stats stats;
    struct memory_failure failure;
    uint64_t calls;                  /* requests so far */
    uint64_t pool_calls[POOL_KINDS]; /* the clock of ages; runs only while collecting */

    struct block *blocks; /* [block_count]; number 0 is none */
    size_t block_count, block_capacity;
    uint32_t blocks_unused;
    struct segment *segments; /* [segment_count]; number 0 is none */
    size_t segment_count, segment_capacity;
    uint32_t segments_unused;
    uint32_t registrations; /* segments made so far */
    struct pool *pools;     /* [pool_count], by stream * POOL_KINDS + kind */
    size_t pool_count, pool_capacity;
    struct waiting *waits; /* [wait_first … wait_count), in the order of release */
    size_t wait_first, wait_count, wait_capacity;
    uint32_t *victims; /* blocks that are about to be given back */
    size_t victim_count, victim_capacity;
    struct addresses addresses;

    memory_watch_fn *watch;
    void *watch_user;
};

/* sizes.c */
void sizes_prepare(struct sizes *sizes, const struct memory_settings *settings);
plm_bytes sizes_round(const struct sizes *sizes, plm_bytes bytes);
enum pool_kind sizes_pool(const struct sizes *sizes, plm_bytes rounded);
plm_bytes sizes_segment(const struct sizes *sizes, plm_bytes rounded);

/* blocks.c */
struct pool *pool_of(struct memory *memory, uint16_t stream, enum pool_kind kind);
void pool_add(struct memory *memory, uint32_t block);
void pool_remove(struct memory *memory, uint32_t block);
/* pool_find() - of a free block */
struct free_position pool_find(struct memory *memory, uint32_t block);
/* pool_change() - @block becomes free and takes the place of another of its pool and stream */
void pool_change(struct memory *memory, struct free_position position, uint32_t block);
void unmapped_add(struct memory *memory, uint32_t block);
void unmapped_remove(struct memory *memory, uint32_t block);

/* segment_new() - its one block, in no set; 0 when there are no addresses */
uint32_t segment_new(
    struct memory *memory, plm_bytes bytes, uint16_t stream, enum pool_kind kind, bool expandable);
/* segment_delete() - @block must be its only one, and in no set */
void segment_delete(struct memory *memory, uint32_t block);
bool block_is_whole_segment(const struct memory *memory, uint32_t block);
plm_bytes block_address(const struct memory *memory, uint32_t block);
/* block_split() - cut @block after @size; the new right part is in no set */
uint32_t block_split(struct memory *memory, uint32_t block, plm_bytes size);
/* block_merge() - join @left with its right neighbour; neither is in a set */
void block_merge(struct memory *memory, uint32_t left);
void segment_report(struct memory *memory,
                    enum memory_device_event event,
                    uint32_t block,
                    plm_bytes bytes);
void reserved_add(struct memory *memory, plm_bytes bytes);
void reserved_subtract(struct memory *memory, plm_bytes bytes);
/* reserved_fits() - @count times @bytes more within the device */
bool reserved_fits(const struct memory *memory, plm_bytes bytes, uint64_t count);

/* alloc.c */
bool alloc_should_split(const struct memory *memory,
                        uint32_t block,
                        plm_bytes rounded,
                        enum pool_kind kind);
/* alloc_find() - a cached block, already split; 0 when none fits */
uint32_t alloc_find(struct memory *memory, plm_bytes rounded, uint16_t stream, enum pool_kind kind);
/* alloc_would_take() - the size of the block that alloc_find() would make; 0 when none fits */
plm_bytes alloc_would_take(struct memory *memory,
                           plm_bytes rounded,
                           uint16_t stream,
                           enum pool_kind kind);
uint32_t alloc_segment(struct memory *memory,
                       plm_bytes rounded,
                       uint16_t stream,
                       enum pool_kind kind);
void alloc_free(struct memory *memory, uint32_t block);

/* expandable.c */
uint32_t expandable_grow(struct memory *memory,
                         plm_bytes rounded,
                         uint16_t stream,
                         enum pool_kind kind);
void expandable_unmap(struct memory *memory, uint32_t block);

/* release.c */
bool release_oversize(struct memory *memory,
                      plm_bytes rounded,
                      uint16_t stream,
                      enum pool_kind kind);
void release_all(struct memory *memory);
void release_old(struct memory *memory);
void release_waiting(struct memory *memory, bool all);

#endif
