/*
 * base/arena.h - memory with one lifetime
 *
 * An arena hands out zeroed memory and takes it back all at once. The whole program's policy: one
 * arena for each result, one scratch arena for each call. "A pointer returned by the library belongs to the
 * object it came from and lives as long as that object."
 *
 * arena.c is the only file that calls malloc. Inputs are bounded (file size, nodes, depth), so running out
 * of memory is not an input error: the handler is called, and by default it reports and aborts.
 */
#ifndef PLM_BASE_ARENA_H
#define PLM_BASE_ARENA_H

#include <stdalign.h>
#include <stddef.h>

struct arena_chunk;

/* struct arena - zero-initialise to start; then only the functions below touch it */
struct arena {
    struct arena_chunk *chunks;
    char *next, *end; /* free space of the newest chunk */
};

/* arena_alloc() - @count zeroed objects of @size bytes; never NULL, also when count is 0 */
void *arena_alloc(struct arena *arena, size_t count, size_t size, size_t alignment);

#define arena_new(arena, type) ((type *)arena_alloc(arena, 1, sizeof(type), alignof(type)))
#define arena_array(arena, type, count)                                                            \
    ((type *)arena_alloc(arena, count, sizeof(type), alignof(type)))

/* arena_copy() - @length bytes of @text and a closing zero */
char *arena_copy(struct arena *arena, const char *text, size_t length);

/* arena_grow() - a copy of @items with room for more, at least twice as many; the old ones stay in the arena */
void *arena_grow(
    struct arena *arena, const void *items, size_t *capacity, size_t size, size_t alignment);

/*
 * arena_push() - append to a growing array in an arena
 *
 * @items, @count and @capacity are three lvalues that belong together. The value comes last and may hold commas.
 */
#define arena_push(arena, items, count, capacity, ...)                                             \
    do {                                                                                           \
        if ((count) == (capacity))                                                                 \
            (items) =                                                                              \
                arena_grow(arena, items, &(capacity), sizeof *(items), alignof(max_align_t));      \
        (items)[(count)++] = __VA_ARGS__;                                                          \
    } while (0)

/* arena_reserve() - room for @more items behind the @count that a growing array has */
#define arena_reserve(arena, items, count, capacity, more)                                         \
    do {                                                                                           \
        while ((capacity) - (count) < (more))                                                      \
            (items) =                                                                              \
                arena_grow(arena, items, &(capacity), sizeof *(items), alignof(max_align_t));      \
    } while (0)

/* arena_reset() - everything handed out becomes invalid; the newest chunk is kept for reuse */
void arena_reset(struct arena *arena);

/* arena_finish() - give all memory back; the arena is then as new */
void arena_finish(struct arena *arena);

/* arena_set_handler() - what to call when malloc fails; it must not return. NULL restores the default */
void arena_set_handler(void (*handler)(size_t bytes));

#endif
