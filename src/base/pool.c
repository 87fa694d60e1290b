/* base/pool.c - one list of free pieces for each power of two */
#include <string.h>

#include "base/num.h"
#include "base/pool.h"

enum { SMALLEST_LOG2 = 5 };

static unsigned class_of(size_t size)
{
    unsigned log2 = size <= 1 ? 0 : num_log2(size - 1) + 1;

    return log2 <= SMALLEST_LOG2 ? 0 : log2 - SMALLEST_LOG2;
}

void *pool_alloc(struct pool *pool, size_t size)
{
    unsigned class = class_of(size);
    void *memory = pool->free[class];

    if (!memory)
        return arena_alloc(pool->arena, 1, (size_t)1 << (class + SMALLEST_LOG2),
                           alignof(max_align_t));
    memcpy(&pool->free[class], memory, sizeof(void *));
    return memset(memory, 0, size);
}

void pool_free(struct pool *pool, void *memory, size_t size)
{
    unsigned class = class_of(size);

    memcpy(memory, &pool->free[class], sizeof(void *));
    pool->free[class] = memory;
}
