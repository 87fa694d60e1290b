/*
 * memory/free_set.h - free blocks of one pool and stream, ordered by size and then by place
 *
 * A bin for each size that is there. Places are unique, so the order is total.
 */
#ifndef PLM_MEMORY_FREE_SET_H
#define PLM_MEMORY_FREE_SET_H

#include <stdbool.h>

#include "base/arena.h"
#include "plimsoll/types.h"

struct free_entry {
    plm_bytes size;
    uint64_t place;
    uint32_t block; /* not 0 */
};

struct free_run;
struct free_bin;

/* struct free_set - zero-initialise to start */
struct free_set {
    struct free_size {
        plm_bytes size;
        struct free_bin *bin;
    } * sizes; /* [bin_count], ascending; no bin is empty */
    size_t bin_count, bin_capacity;
    struct free_bin *spare_bins; /* emptied, for reuse */
    struct free_run *spare_runs;
};

/* struct free_position - an entry of a set, or past the end; any change to the set makes it invalid */
struct free_position {
    uint32_t bin, run, index;
};

void free_set_add(struct free_set *set, struct arena *arena, struct free_entry entry);

/* free_set_remove() - the entry with that size and place, which must be there */
void free_set_remove(struct free_set *set, plm_bytes size, uint64_t place);

/* free_set_remove_at() - the entry at @position */
void free_set_remove_at(struct free_set *set, struct free_position position);

/* free_set_change() - put @entry in the place of the one at @position; quick when it has a bin for itself */
void free_set_change(struct free_set *set,
                     struct arena *arena,
                     struct free_position position,
                     struct free_entry entry);

/* free_set_clear() - empty, keeping its memory for reuse */
void free_set_clear(struct free_set *set);

/* free_set_least() - the first entry of at least @size; may be past the end */
struct free_position free_set_least(const struct free_set *set, plm_bytes size);

/* free_set_find() - the entry with that size and place, which must be there */
struct free_position free_set_find(const struct free_set *set, plm_bytes size, uint64_t place);

/* free_set_at() - the block of an entry; 0 past the end */
uint32_t free_set_at(const struct free_set *set, struct free_position position);

struct free_position free_set_next(const struct free_set *set, struct free_position position);

/* free_set_previous() - false when @position is the first; @position may be past the end */
bool free_set_previous(const struct free_set *set, struct free_position *position);

#endif
