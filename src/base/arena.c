/*
 * base/arena.c - memory with one lifetime: a list of chunks, small ones from the heap, each twice as large as the last, then
 * large ones from the system
 *
 * Invariant: chunks are zeroed where they have not been handed out, so arena_alloc() need not clear.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/pages.h"

/* with their heads */
enum { CHUNK_FIRST = 16 * 1024, CHUNK_HEAP_MOST = 64 * 1024, CHUNK_LARGE = 2 * PAGES_UNIT };
/* Longer arrays grow fourfold: room that is never used costs no memory, but copies do. */
enum { GROW_FAST = 64 * 1024 };

struct arena_chunk {
    struct arena_chunk *older;
    size_t size; /* with this head */
    alignas(max_align_t) char data[];
};

static void report_and_abort(size_t bytes)
{
    fprintf(stderr, "plimsoll: out of memory: %zu more bytes were needed\n", bytes);
    abort();
}

static void (*out_of_memory)(size_t bytes) = report_and_abort;

void arena_set_handler(void (*handler)(size_t bytes))
{
    out_of_memory = handler ? handler : report_and_abort;
}

/* chunk_size() - of the next chunk, with its head and room for @least bytes */
static size_t chunk_size(const struct arena *arena, size_t least)
{
    size_t size = arena->chunks ? arena->chunks->size * 2 : CHUNK_FIRST;
    size_t needed = least + sizeof(struct arena_chunk);

    if (size <= CHUNK_HEAP_MOST && needed <= CHUNK_HEAP_MOST)
        return size > needed ? size : needed;
    return needed > CHUNK_LARGE ? (needed + PAGES_UNIT - 1) / PAGES_UNIT * PAGES_UNIT : CHUNK_LARGE;
}

static void add_chunk(struct arena *arena, size_t least)
{
    size_t size = chunk_size(arena, least);
    struct arena_chunk *chunk = size <= CHUNK_HEAP_MOST ? calloc(1, size) : pages_take(size);

    if (!chunk) {
        out_of_memory(least);
        abort(); /* the handler must not return */
    }
    chunk->older = arena->chunks;
    chunk->size = size;
    arena->chunks = chunk;
    arena->next = chunk->data;
    arena->end = (char *)chunk + size;
}

static void drop_chunk(struct arena_chunk *chunk)
{
    if (chunk->size <= CHUNK_HEAP_MOST)
        free(chunk);
    else
        pages_give(chunk, chunk->size);
}

void *arena_alloc(struct arena *arena, size_t count, size_t size, size_t alignment)
{
    size_t bytes;

    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 2) {
        out_of_memory(SIZE_MAX);
        abort();
    }
    size_t skip = -(uintptr_t)arena->next & (alignment - 1);

    if (!arena->chunks || (size_t)(arena->end - arena->next) < skip + bytes) {
        add_chunk(arena, bytes + alignment);
        skip = -(uintptr_t)arena->next & (alignment - 1);
    }
    void *memory = arena->next + skip;

    arena->next += skip + bytes;
    return memory;
}

char *arena_copy(struct arena *arena, const char *text, size_t length)
{
    char *copy = arena_alloc(arena, length + 1, 1, 1);

    if (length > 0)
        memcpy(copy, text, length);
    return copy;
}

void *arena_grow(
    struct arena *arena, const void *items, size_t *capacity, size_t size, size_t alignment)
{
    size_t wanted = *capacity < 4 ? 8 : *capacity * (*capacity * size < GROW_FAST ? 2 : 4);
    void *grown = arena_alloc(arena, wanted, size, alignment);

    if (*capacity > 0)
        memcpy(grown, items, *capacity * size);
    *capacity = wanted;
    return grown;
}

void arena_reset(struct arena *arena)
{
    struct arena_chunk *newest = arena->chunks;

    if (!newest)
        return;
    while (newest->older) {
        struct arena_chunk *chunk = newest->older;

        newest->older = chunk->older;
        drop_chunk(chunk);
    }
    memset(newest->data, 0, (size_t)(arena->next - newest->data));
    arena->next = newest->data;
}

void arena_finish(struct arena *arena)
{
    while (arena->chunks) {
        struct arena_chunk *chunk = arena->chunks;

        arena->chunks = chunk->older;
        drop_chunk(chunk);
    }
    *arena = (struct arena){ 0 };
}
