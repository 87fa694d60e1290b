/*
 * base/pool.c - a list of free pieces for each size
 *
 * Small sizes have a list for each multiple of UNIT, larger ones for each power of two.
 */
#include <assert.h>
#include <string.h>

#include "base/num.h"
#include "base/pool.h"

enum { UNIT = 16, SMALL_LOG2 = 10, SMALL_CLASSES = (1 << SMALL_LOG2) / UNIT };

static_assert(SMALL_CLASSES + 64 - SMALL_LOG2 == POOL_CLASSES, "a class for every size");

static unsigned class_of(size_t size)
{
    if (size <= 1 << SMALL_LOG2)
        return size > 0 ? (unsigned)((size - 1) / UNIT) : 0;
    return SMALL_CLASSES + num_log2(size - 1) - SMALL_LOG2;
}

static size_t size_of(unsigned class)
{
    if (class < SMALL_CLASSES)
        return (size_t)(class + 1) * UNIT;
    return (size_t)2 << (class - SMALL_CLASSES + SMALL_LOG2);
}

void *pool_alloc(struct pool *pool, size_t size)
{
    unsigned class = class_of(size);
    void *memory = pool->free[class];

    if (!memory)
        return arena_alloc(pool->arena, 1, size_of(class), alignof(max_align_t));
    memcpy(&pool->free[class], memory, sizeof(void *));
    return memset(memory, 0, size);
}

void pool_free(struct pool *pool, void *memory, size_t size)
{
    unsigned class = class_of(size);

    memcpy(memory, &pool->free[class], sizeof(void *));
    pool->free[class] = memory;
}
