/*
 * base/pool.h - memory that comes and goes in small pieces, from an arena
 *
 * Sizes are rounded up, small ones little; a piece that is given back is kept for the next of its size.
 */
#ifndef PLM_BASE_POOL_H
#define PLM_BASE_POOL_H

#include "base/arena.h"

enum { POOL_CLASSES = 118 };

/* struct pool - zero-initialise all but @arena */
struct pool {
    struct arena *arena;
    void *free[POOL_CLASSES];
};

/* pool_alloc() - @size zeroed bytes */
void *pool_alloc(struct pool *pool, size_t size);

/* pool_free() - give back what pool_alloc() gave for the same @size */
void pool_free(struct pool *pool, void *memory, size_t size);

#endif
