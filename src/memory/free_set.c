/*
 * memory/free_set.c - a sorted array of sizes, for each a bin of places
 *
 * Training keeps hundreds of free blocks of few sizes (Llama 8B in bf16: 187 of 8 sizes, on average), and most
 * requests find their very size. A bin may still hold thousands (the gradients of as many experts), so it is a list of short
 * sorted runs.
 *
 * Invariants: no bin of the set and no run in it is empty; places descend within a run and from run to run, so that the lowest, which an
 * allocation takes, is the last entry of the last run. A full run is cut in half.
 */
#include <assert.h>
#include <string.h>

#include "memory/free_set.h"

enum { RUN_ENTRIES = 63 }; /* one less than a power of two: see find_index() */

struct run_entry {
    uint64_t place;
    uint32_t block;
};

struct free_run {
    uint32_t count;
    struct free_run *next;                 /* among the spare ones */
    struct run_entry entries[RUN_ENTRIES]; /* places behind @count are 0, which is below all */
};

struct free_bin {
    struct free_run **runs; /* [run_count] */
    size_t run_count, run_capacity;
    struct free_bin *next; /* among the spare ones */
};

/*
 * find_bin() - the number of smaller sizes
 *
 * Outcomes of comparisons are random here, so none decides a branch: the number of rounds depends on the count only.
 */
static uint32_t find_bin(const struct free_set *set, plm_bytes size)
{
    const struct free_size *low = set->sizes;
    size_t count = set->bin_count;

    if (count == 0)
        return 0;
    while (count > 1) {
        size_t half = count / 2;

        low += half & -(size_t)(low[half - 1].size < size);
        count -= half;
    }
    return (uint32_t)(low - set->sizes) + (low->size < size);
}

/* find_run() - the first run with a place that is not above @place; or the last */
static uint32_t find_run(const struct free_bin *bin, uint64_t place)
{
    uint32_t low = 0, high = (uint32_t)bin->run_count - 1;

    while (low < high) {
        uint32_t middle = (low + high) / 2;
        const struct free_run *run = bin->runs[middle];

        if (run->entries[run->count - 1].place > place)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/*
 * find_index() - the number of places above @place
 *
 * Always the same six rounds: a number of rounds that depends on the count cannot be predicted either.
 */
static uint32_t find_index(const struct free_run *run, uint64_t place)
{
    uint32_t index = 0;

    for (uint32_t half = (RUN_ENTRIES + 1) / 2; half > 0; half /= 2)
        index += half & -(uint32_t)(run->entries[index + half - 1].place > place);
    return index;
}

/* ------------------------------------------------------------------ runs and bins come and go */

static struct free_run *new_run(struct free_set *set, struct arena *arena)
{
    struct free_run *run = set->spare_runs;

    if (!run)
        return arena_new(arena, struct free_run);
    set->spare_runs = run->next;
    *run = (struct free_run){ 0 };
    return run;
}

static void cut_run(struct free_set *set, struct arena *arena, struct free_bin *bin, size_t at)
{
    struct free_run *left = bin->runs[at], *right = new_run(set, arena);

    left->count = RUN_ENTRIES / 2;
    right->count = RUN_ENTRIES - left->count;
    memcpy(right->entries, &left->entries[left->count], right->count * sizeof *right->entries);
    memset(&left->entries[left->count], 0, right->count * sizeof *left->entries);
    arena_push(arena, bin->runs, bin->run_count, bin->run_capacity, right);
    memmove(&bin->runs[at + 2], &bin->runs[at + 1], (bin->run_count - 2 - at) * sizeof *bin->runs);
    bin->runs[at + 1] = right;
}

static void drop_run(struct free_set *set, struct free_bin *bin, size_t at)
{
    bin->runs[at]->next = set->spare_runs;
    set->spare_runs = bin->runs[at];
    bin->run_count--;
    memmove(&bin->runs[at], &bin->runs[at + 1], (bin->run_count - at) * sizeof *bin->runs);
}

/* new_bin() - with one empty run, which a bin keeps when it is dropped */
static struct free_bin *new_bin(struct free_set *set, struct arena *arena)
{
    struct free_bin *bin = set->spare_bins;

    if (bin) {
        set->spare_bins = bin->next;
        return bin;
    }
    bin = arena_new(arena, struct free_bin);
    arena_push(arena, bin->runs, bin->run_count, bin->run_capacity, new_run(set, arena));
    return bin;
}

static void insert_bin(struct free_set *set, struct arena *arena, size_t at, plm_bytes size)
{
    struct free_size added = { size, new_bin(set, arena) };

    arena_push(arena, set->sizes, set->bin_count, set->bin_capacity, added);
    memmove(&set->sizes[at + 1], &set->sizes[at], (set->bin_count - 1 - at) * sizeof *set->sizes);
    set->sizes[at] = added;
}

static void drop_bin(struct free_set *set, size_t at)
{
    struct free_bin *bin = set->sizes[at].bin;

    assert(bin->run_count == 1 && bin->runs[0]->count == 0);
    bin->next = set->spare_bins;
    set->spare_bins = bin;
    set->bin_count--;
    memmove(&set->sizes[at], &set->sizes[at + 1], (set->bin_count - at) * sizeof *set->sizes);
}

/* ------------------------------------------------------------------ entries */

static void add_to_run(struct free_run *run, const struct free_entry *entry)
{
    uint32_t index = find_index(run, entry->place);

    memmove(&run->entries[index + 1], &run->entries[index],
            (run->count - index) * sizeof *run->entries);
    run->entries[index] = (struct run_entry){ entry->place, entry->block };
    run->count++;
}

void free_set_add(struct free_set *set, struct arena *arena, struct free_entry entry)
{
    uint32_t at = find_bin(set, entry.size);

    if (at == set->bin_count || set->sizes[at].size != entry.size)
        insert_bin(set, arena, at, entry.size);
    struct free_bin *bin = set->sizes[at].bin;
    uint32_t run = find_run(bin, entry.place);

    if (bin->runs[run]->count == RUN_ENTRIES) {
        cut_run(set, arena, bin, run);
        run = find_run(bin, entry.place);
    }
    add_to_run(bin->runs[run], &entry);
}

void free_set_remove_at(struct free_set *set, struct free_position position)
{
    struct free_bin *bin = set->sizes[position.bin].bin;
    struct free_run *run = bin->runs[position.run];

    run->count--;
    if (position.index < run->count)
        memmove(&run->entries[position.index], &run->entries[position.index + 1],
                (run->count - position.index) * sizeof *run->entries);
    run->entries[run->count].place = 0;
    if (run->count > 0)
        return;
    if (bin->run_count == 1)
        drop_bin(set, position.bin);
    else
        drop_run(set, bin, position.run);
}

/* is_alone() - has the bin this one entry, and may its size become @size? */
static bool is_alone(const struct free_set *set, uint32_t at, plm_bytes size)
{
    const struct free_bin *bin = set->sizes[at].bin;

    return bin->run_count == 1 && bin->runs[0]->count == 1 &&
           (at == 0 || set->sizes[at - 1].size < size) &&
           (at + 1 == set->bin_count || set->sizes[at + 1].size > size);
}

void free_set_change(struct free_set *set,
                     struct arena *arena,
                     struct free_position position,
                     struct free_entry entry)
{
    if (is_alone(set, position.bin, entry.size)) {
        set->sizes[position.bin].size = entry.size;
        set->sizes[position.bin].bin->runs[0]->entries[0] =
            (struct run_entry){ entry.place, entry.block };
        return;
    }
    free_set_remove_at(set, position);
    free_set_add(set, arena, entry);
}

void free_set_remove(struct free_set *set, plm_bytes size, uint64_t place)
{
    free_set_remove_at(set, free_set_find(set, size, place));
}

void free_set_clear(struct free_set *set)
{
    while (set->bin_count > 0) {
        struct free_bin *bin = set->sizes[set->bin_count - 1].bin;

        while (bin->run_count > 1)
            drop_run(set, bin, bin->run_count - 1);
        *bin->runs[0] = (struct free_run){ 0 };
        drop_bin(set, set->bin_count - 1);
    }
}

/* ------------------------------------------------------------------ positions */

/* lowest() - the lowest place of a bin; past the end when there is no such bin */
static struct free_position lowest(const struct free_set *set, uint32_t at)
{
    if (at == set->bin_count)
        return (struct free_position){ at, 0, 0 };
    const struct free_bin *bin = set->sizes[at].bin;

    return (struct free_position){
        .bin = at,
        .run = (uint32_t)bin->run_count - 1,
        .index = bin->runs[bin->run_count - 1]->count - 1,
    };
}

struct free_position free_set_least(const struct free_set *set, plm_bytes size)
{
    return lowest(set, find_bin(set, size));
}

struct free_position free_set_find(const struct free_set *set, plm_bytes size, uint64_t place)
{
    struct free_position position = { .bin = find_bin(set, size) };

    assert(position.bin < set->bin_count && set->sizes[position.bin].size == size);
    const struct free_bin *bin = set->sizes[position.bin].bin;

    position.run = find_run(bin, place);
    position.index = find_index(bin->runs[position.run], place);
    assert(position.index < bin->runs[position.run]->count &&
           bin->runs[position.run]->entries[position.index].place == place);
    return position;
}

uint32_t free_set_at(const struct free_set *set, struct free_position position)
{
    if (position.bin == set->bin_count)
        return 0;
    return set->sizes[position.bin].bin->runs[position.run]->entries[position.index].block;
}

struct free_position free_set_next(const struct free_set *set, struct free_position position)
{
    if (position.index > 0)
        return (struct free_position){ position.bin, position.run, position.index - 1 };
    if (position.run > 0)
        return (struct free_position){ position.bin, position.run - 1,
                                       set->sizes[position.bin].bin->runs[position.run - 1]->count -
                                           1 };
    return lowest(set, position.bin + 1);
}

bool free_set_previous(const struct free_set *set, struct free_position *position)
{
    bool inside = position->bin < set->bin_count;
    const struct free_bin *bin = inside ? set->sizes[position->bin].bin : NULL;

    if (inside && position->index + 1 < bin->runs[position->run]->count) {
        position->index++;
        return true;
    }
    if (inside && position->run + 1 < bin->run_count) {
        position->run++;
        position->index = 0;
        return true;
    }
    if (position->bin == 0)
        return false;
    *position = (struct free_position){ .bin = position->bin - 1 };
    return true;
}
