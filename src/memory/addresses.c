/*
 * memory/addresses.c - the gaps of the address space, highest first
 *
 * Invariant: gaps[i].begin > gaps[i + 1].end, so neighbours were merged. Only what the allocator gave back makes
 * gaps, so there are few and a walk from the top is quick.
 */
#include <string.h>

#include "memory/addresses.h"

/* Far larger than any device: 2^56, but not at 0, which means "none". */
static const struct address_gap everything = { .begin = UINT64_C(1) << 32,
                                               .end = UINT64_C(1) << 56 };

void addresses_start(struct addresses *addresses, struct arena *arena)
{
    addresses->gap_count = 0;
    arena_push(arena, addresses->gaps, addresses->gap_count, addresses->gap_capacity, everything);
}

static void remove_gap(struct addresses *addresses, size_t at)
{
    addresses->gap_count--;
    memmove(&addresses->gaps[at], &addresses->gaps[at + 1],
            (addresses->gap_count - at) * sizeof *addresses->gaps);
}

plm_bytes addresses_take(struct addresses *addresses, plm_bytes bytes)
{
    for (size_t i = 0; i < addresses->gap_count; i++) {
        struct address_gap *gap = &addresses->gaps[i];

        if (gap->end - gap->begin < bytes)
            continue;
        plm_bytes address = gap->end - bytes;

        gap->end = address;
        if (gap->begin == gap->end)
            remove_gap(addresses, i);
        return address;
    }
    return 0;
}

void addresses_give(struct addresses *addresses,
                    struct arena *arena,
                    plm_bytes begin,
                    plm_bytes bytes)
{
    struct address_gap gap = { .begin = begin, .end = begin + bytes };
    size_t at = 0;

    while (at < addresses->gap_count && addresses->gaps[at].begin >= gap.end)
        at++;
    if (at > 0 && addresses->gaps[at - 1].begin == gap.end) {
        gap.end = addresses->gaps[at - 1].end;
        remove_gap(addresses, --at);
    }
    if (at < addresses->gap_count && addresses->gaps[at].end == gap.begin) {
        addresses->gaps[at].end = gap.end;
        return;
    }
    arena_push(arena, addresses->gaps, addresses->gap_count, addresses->gap_capacity, gap);
    memmove(&addresses->gaps[at + 1], &addresses->gaps[at],
            (addresses->gap_count - 1 - at) * sizeof *addresses->gaps);
    addresses->gaps[at] = gap;
}
