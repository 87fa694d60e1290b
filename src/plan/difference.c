/*
 * plan/difference.c - two strategies term by term
 *
 *     the sum of the categories' terms = the allocated peak, of each
 *     saved_in_all <= saved_there
 *
 * The second holds since the dearer peak is in phase @from, and the cheaper one is nowhere lower than there. Where the two
 * differ, some of the saving is lost in the phase that has become the peak.
 */
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "plan/compare.h"

struct terms {
    struct arena *arena;
    struct plm_term *items;
    size_t count, capacity;
};

static struct plm_term *term(struct terms *terms, const char *name)
{
    for (size_t i = 0; i < terms->count; i++)
        if (strcmp(terms->items[i].name, name) == 0)
            return &terms->items[i];
    arena_push(terms->arena, terms->items, terms->count, terms->capacity,
               (struct plm_term){ .name = name });
    return &terms->items[terms->count - 1];
}

static int by_size(const void *x, const void *y)
{
    const struct plm_term *a = x, *b = y;
    plm_bytes most_a = num_max(a->a, a->b), most_b = num_max(b->a, b->b);

    return most_a != most_b ? (most_a < most_b ? 1 : -1) : strcmp(a->name, b->name);
}

/* rounding() - what the allocator's blocks take beyond what is alive in them */
static plm_bytes rounding(const struct plm_result *result)
{
    plm_bytes live = 0;

    for (size_t i = 0; i < result->live_by_category_count; i++)
        live += result->live_by_category[i].bytes;
    return result->peak.allocated > live ? result->peak.allocated - live : 0;
}

static void find_categories(const struct plm_result *a,
                            const struct plm_result *b,
                            struct arena *arena,
                            struct plm_difference *ret)
{
    struct terms terms = { .arena = arena };

    for (size_t i = 0; i < a->live_by_category_count; i++)
        term(&terms, a->live_by_category[i].name)->a = a->live_by_category[i].bytes;
    for (size_t i = 0; i < b->live_by_category_count; i++)
        term(&terms, b->live_by_category[i].name)->b = b->live_by_category[i].bytes;
    if (terms.count > 0)
        qsort(terms.items, terms.count, sizeof *terms.items, by_size);
    *term(&terms, "rounding of blocks") =
        (struct plm_term){ "rounding of blocks", rounding(a), rounding(b) };
    ret->categories = terms.items;
    ret->category_count = terms.count;
}

static void find_phases(const struct plm_result *a,
                        const struct plm_result *b,
                        struct arena *arena,
                        struct plm_difference *ret)
{
    struct terms terms = { .arena = arena };

    for (size_t i = 0; i < a->phase_count; i++)
        term(&terms, a->phases[i].name)->a = a->phases[i].peak.allocated;
    for (size_t i = 0; i < b->phase_count; i++)
        term(&terms, b->phases[i].name)->b = b->phases[i].peak.allocated;
    ret->phases = terms.items;
    ret->phase_count = terms.count;
}

const struct plm_difference *compare_difference(const struct plm_result *a,
                                                const struct plm_result *b,
                                                struct arena *arena)
{
    struct plm_difference *d = arena_new(arena, struct plm_difference);

    find_categories(a, b, arena, d);
    find_phases(a, b, arena, d);
    d->b_saves = b->peak.allocated <= a->peak.allocated;

    const struct plm_result *dear = d->b_saves ? a : b, *cheap = d->b_saves ? b : a;
    plm_bytes there = 0; /* what the cheaper one takes in the dearer one's phase */

    d->from = dear->at.phase;
    d->to = cheap->at.phase;
    for (size_t i = 0; i < d->phase_count; i++)
        if (strcmp(d->phases[i].name, d->from) == 0)
            there = d->b_saves ? d->phases[i].b : d->phases[i].a;
    d->saved_in_all = dear->peak.allocated - cheap->peak.allocated;
    d->saved_there = dear->peak.allocated - there;
    if (d->saved_there > d->saved_in_all)
        d->vanishes = d->to;
    return d;
}
