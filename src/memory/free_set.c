/*
 * memory/free_set.c - an ordered set as a list of short sorted runs, a B-tree of height two
 *
 * Invariants: no run is empty; entries ascend within a run and from run to run. A full run is cut in half. Training
 * runs keep hundreds of free blocks, fragmented ones thousands: a flat array would move kilobytes at each step.
 */
#include <assert.h>
#include <string.h>

#include "memory/free_set.h"

enum { RUN_ENTRIES = 48 };

struct free_run {
    uint32_t count;
    struct free_run *next; /* among the spare ones */
    struct free_entry entries[RUN_ENTRIES];
};

/* Size above place as one number, so that a comparison is a subtraction and decides no branch. */
__extension__ typedef unsigned __int128 rank;

static inline rank rank_of(plm_bytes size, uint64_t place)
{
    return (rank)size << 64 | place;
}

static inline bool comes_before(const struct free_entry *entry, plm_bytes size, uint64_t place)
{
    return rank_of(entry->size, entry->place) < rank_of(size, place);
}

/* The run in which (size, place) is or would be: the first whose last entry is not before it. */
static uint32_t find_run(const struct free_set *set, plm_bytes size, uint64_t place)
{
    uint32_t low = 0, high = (uint32_t)set->run_count;

    while (low < high) {
        uint32_t middle = (low + high) / 2;
        const struct free_run *run = set->runs[middle];

        if (comes_before(&run->entries[run->count - 1], size, place))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/*
 * The number of entries before (size, place). Outcomes of comparisons are random here, so none decides a branch: the
 * number of rounds depends on the run's count only.
 */
static uint32_t find_index(const struct free_run *run, plm_bytes size, uint64_t place)
{
    const struct free_entry *low = run->entries;
    size_t count = run->count;

    if (count == 0)
        return 0;
    while (count > 1) {
        size_t half = count / 2;
        size_t step = half & -(size_t)comes_before(&low[half - 1], size, place);

        low += step;
        count -= half;
    }
    return (uint32_t)(low - run->entries) + comes_before(low, size, place);
}

static void insert_run(struct free_set *set, struct arena *arena, size_t at)
{
    struct free_run *run = set->spare;

    if (run)
        set->spare = run->next;
    else
        run = arena_new(arena, struct free_run);
    run->count = 0;
    arena_push(arena, set->runs, set->run_count, set->run_capacity, run);
    memmove(&set->runs[at + 1], &set->runs[at], (set->run_count - 1 - at) * sizeof *set->runs);
    set->runs[at] = run;
}

static void cut_run(struct free_set *set, struct arena *arena, size_t at)
{
    insert_run(set, arena, at + 1);

    struct free_run *left = set->runs[at], *right = set->runs[at + 1];

    left->count = RUN_ENTRIES / 2;
    right->count = RUN_ENTRIES - left->count;
    memcpy(right->entries, &left->entries[left->count], right->count * sizeof *right->entries);
}

void free_set_add(struct free_set *set, struct arena *arena, struct free_entry entry)
{
    uint32_t at = find_run(set, entry.size, entry.place);

    if (set->run_count == 0)
        insert_run(set, arena, 0);
    else if (at == set->run_count)
        at--;
    if (set->runs[at]->count == RUN_ENTRIES) {
        struct free_run *run = set->runs[at];

        cut_run(set, arena, at);
        at += comes_before(&run->entries[run->count - 1], entry.size, entry.place);
    }
    struct free_run *run = set->runs[at];
    uint32_t index = find_index(run, entry.size, entry.place);

    memmove(&run->entries[index + 1], &run->entries[index],
            (run->count - index) * sizeof *run->entries);
    run->entries[index] = entry;
    run->count++;
    set->entry_count++;
}

void free_set_remove_at(struct free_set *set, struct free_position position)
{
    struct free_run *run = set->runs[position.run];

    run->count--;
    set->entry_count--;
    memmove(&run->entries[position.index], &run->entries[position.index + 1],
            (run->count - position.index) * sizeof *run->entries);
    if (run->count > 0)
        return;
    run->next = set->spare;
    set->spare = run;
    set->run_count--;
    memmove(&set->runs[position.run], &set->runs[position.run + 1],
            (set->run_count - position.run) * sizeof *set->runs);
}

/* Is @entry after all that is before @position, and before all that is after it? */
static bool fits_at(const struct free_set *set,
                    struct free_position position,
                    const struct free_entry *entry)
{
    const struct free_entry *next = free_set_at(set, free_set_next(set, position));
    struct free_position previous = position;

    if (next && comes_before(next, entry->size, entry->place))
        return false;
    return !free_set_previous(set, &previous) ||
           comes_before(free_set_at(set, previous), entry->size, entry->place);
}

void free_set_change(struct free_set *set,
                     struct arena *arena,
                     struct free_position position,
                     struct free_entry entry)
{
    if (fits_at(set, position, &entry)) {
        set->runs[position.run]->entries[position.index] = entry;
        return;
    }
    free_set_remove_at(set, position);
    free_set_add(set, arena, entry);
}

void free_set_remove(struct free_set *set, plm_bytes size, uint64_t place)
{
    struct free_position position = free_set_lower(set, size, place);

    assert(free_set_at(set, position) && free_set_at(set, position)->size == size &&
           free_set_at(set, position)->place == place);
    free_set_remove_at(set, position);
}

void free_set_clear(struct free_set *set)
{
    for (size_t i = 0; i < set->run_count; i++) {
        set->runs[i]->next = set->spare;
        set->spare = set->runs[i];
    }
    set->run_count = 0;
    set->entry_count = 0;
}

struct free_position free_set_lower(const struct free_set *set, plm_bytes size, uint64_t place)
{
    uint32_t run = find_run(set, size, place);

    if (run == set->run_count)
        return (struct free_position){ run, 0 };
    return (struct free_position){ run, find_index(set->runs[run], size, place) };
}

const struct free_entry *free_set_at(const struct free_set *set, struct free_position position)
{
    return position.run < set->run_count ? &set->runs[position.run]->entries[position.index] : NULL;
}

struct free_position free_set_next(const struct free_set *set, struct free_position position)
{
    if (position.index + 1 < set->runs[position.run]->count)
        return (struct free_position){ position.run, position.index + 1 };
    return (struct free_position){ position.run + 1, 0 };
}

bool free_set_previous(const struct free_set *set, struct free_position *position)
{
    if (position->index > 0) {
        position->index--;
        return true;
    }
    if (position->run == 0)
        return false;
    position->run--;
    position->index = set->runs[position->run]->count - 1;
    return true;
}
