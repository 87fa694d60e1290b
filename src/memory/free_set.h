/*
 * memory/free_set.h - free blocks of one pool and stream, ordered by size and then by place
 *
 * A sorted array cut into short runs: finding takes two binary searches, adding and removing moves at most one run.
 * Places are unique, so the order is total.
 */
#ifndef PLM_MEMORY_FREE_SET_H
#define PLM_MEMORY_FREE_SET_H

#include <stdbool.h>

#include "base/arena.h"
#include "plimsoll/types.h"

struct free_entry {
    plm_bytes size;
    uint64_t place;
    uint32_t block;
};

struct free_run;

/* struct free_set - zero-initialise to start */
struct free_set {
    struct free_run **runs; /* [run_count], none empty */
    size_t run_count, run_capacity;
    struct free_run *spare; /* emptied runs, for reuse */
    size_t entry_count;
};

/* struct free_position - an entry of a set; any change to the set makes it invalid */
struct free_position {
    uint32_t run, index;
};

void free_set_add(struct free_set *set, struct arena *arena, struct free_entry entry);

/* free_set_remove() - the entry with that size and place, which must be there */
void free_set_remove(struct free_set *set, plm_bytes size, uint64_t place);

/* free_set_remove_at() - the entry at @position */
void free_set_remove_at(struct free_set *set, struct free_position position);

/* free_set_change() - put @entry in the place of the one at @position; quick when their ranks are the same */
void free_set_change(struct free_set *set,
                     struct arena *arena,
                     struct free_position position,
                     struct free_entry entry);

/* free_set_clear() - empty, keeping its memory for reuse */
void free_set_clear(struct free_set *set);

/* free_set_lower() - the first entry not smaller than (size, place); may be past the end */
struct free_position free_set_lower(const struct free_set *set, plm_bytes size, uint64_t place);

/* free_set_at() - NULL past the end */
const struct free_entry *free_set_at(const struct free_set *set, struct free_position position);

struct free_position free_set_next(const struct free_set *set, struct free_position position);

/* free_set_previous() - false when @position is the first; @position may be past the end */
bool free_set_previous(const struct free_set *set, struct free_position *position);

#endif
