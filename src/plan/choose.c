/*
 * plan/choose.c - --checkpoint auto: the fewest recomputed operators that fit the device
 *
 * Places are tried in the order of what they save for each operator that they recompute; the shortest prefix of that order
 * that fits is taken. Places of one kind (the layers of a transformer) save the same, and the first of them come first: of a row
 * of one kind only the ends are simulated, and more where those differ.
 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "plan/search.h"

enum { MEASURED_MOST = 64 }; /* places that are simulated one by one */

struct place {
    uint32_t number; /* from 0 */
    name_id block;
    uint64_t ops;    /* that its recomputation runs again */
    plm_bytes saved; /* alone */
    double worth;    /* bytes saved for each operator */
};

static uint64_t ops_of(const struct graph_body *body)
{
    uint64_t count = 0;

    for (size_t i = 0; i < body->step_count; i++) {
        const struct graph_step *step = &body->steps[i];

        count += step->kind == STEP_OP;
        if (step->body)
            count += ops_of(step->body);
    }
    return count;
}

static void find_places(const struct graph_body *body, struct place *places)
{
    for (size_t i = 0; i < body->step_count; i++) {
        const struct graph_step *step = &body->steps[i];

        if (step->place)
            places[step->place - 1] = (struct place){ .number = step->place - 1,
                                                      .block = step->body->name,
                                                      .ops = ops_of(step->body) };
        if (step->body)
            find_places(step->body, places);
    }
}

/* by_worth() - most saved for an operator first; then in the model's order */
static int by_worth(const void *a, const void *b)
{
    const struct place *x = a, *y = b;

    if (x->worth != y->worth)
        return x->worth < y->worth ? 1 : -1;
    return (x->number > y->number) - (x->number < y->number);
}

static int by_number(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/* add_ranges() - "0-3,7" */
static void add_ranges(struct buf *buf,
                       const struct place *places,
                       size_t count,
                       struct arena *arena)
{
    uint32_t *numbers = arena_array(arena, uint32_t, count);

    for (size_t i = 0; i < count; i++)
        numbers[i] = places[i].number;
    qsort(numbers, count, sizeof *numbers, by_number);
    for (size_t first = 0, last; first < count; first = last + 1) {
        for (last = first; last + 1 < count && numbers[last + 1] == numbers[last] + 1;)
            last++;
        buf_printf(buf, "%s%u", first ? "," : "", numbers[first]);
        if (last > first)
            buf_printf(buf, "-%u", numbers[last]);
    }
}

/* with_places() - the strategy that checkpoints the first @count of @places */
static struct plm_strategy with_places(const struct plm_strategy *strategy,
                                       const struct place *places,
                                       size_t count,
                                       struct arena *arena)
{
    struct plm_strategy s = *strategy;
    struct buf buf = { .arena = arena };

    add_ranges(&buf, places, count, arena);
    s.checkpoint = count ? PLM_CHECKPOINT_BLOCKS : PLM_CHECKPOINT_NONE;
    s.checkpoint_blocks = count ? buf_string(&buf) : NULL;
    return s;
}

/* fits() - does it finish, without releasing the cache; and the bytes that its tensors take at most */
static enum plm_status fits(const struct subject *subject,
                            const struct plm_strategy *strategy,
                            plm_bytes cut,
                            bool *ret_fits,
                            plm_bytes *ret_requested,
                            struct plm_error *reterr)
{
    struct simulation sim;
    enum plm_status status = simulate(subject, strategy, cut, &sim, reterr);

    if (status != PLM_OK)
        return status;
    *ret_fits = !sim.replay.out_of_memory && memory_stats(sim.memory)->retries == 0;
    *ret_requested = sim.replay.peak.requested;
    simulation_finish(&sim);
    return PLM_OK;
}

/* struct weighing - the same run with one place after another, where there is no capacity to end it early */
struct weighing {
    const struct subject *subject;
    struct plm_strategy strategy;
    plm_bytes without; /* any checkpoint */
    struct place *places;
    struct arena *arena;
    struct plm_error *reterr;
};

static enum plm_status weigh(const struct weighing *w, size_t i)
{
    struct plm_strategy one = with_places(&w->strategy, &w->places[i], 1, w->arena);
    plm_bytes with = 0;
    bool unused;
    enum plm_status status = fits(w->subject, &one, 0, &unused, &with, w->reterr);

    w->places[i].saved = status == PLM_OK && w->without > with ? w->without - with : 0;
    return status;
}

/* weigh_between() - @first and @last are weighed; what is between them is as they are, when they are alike */
static enum plm_status weigh_between(const struct weighing *w, size_t first, size_t last)
{
    size_t middle = first + (last - first) / 2;
    enum plm_status status = PLM_OK;

    if (w->places[first].saved == w->places[last].saved) {
        for (size_t i = first + 1; i < last; i++)
            w->places[i].saved = w->places[first].saved;
        return PLM_OK;
    }
    if (last - first > 1)
        status = weigh(w, middle);
    if (status == PLM_OK && last - first > 1)
        status = weigh_between(w, first, middle);
    if (status == PLM_OK && last - first > 1)
        status = weigh_between(w, middle, last);
    return status;
}

static bool alike(const struct place *a, const struct place *b)
{
    return a->block == b->block && a->ops == b->ops;
}

/* measure() - what each place saves alone */
static enum plm_status measure(const struct subject *subject,
                               const struct plm_strategy *strategy,
                               struct place *places,
                               size_t count,
                               struct arena *arena,
                               struct plm_error *reterr)
{
    struct weighing w = { .subject = subject,
                          .strategy = *strategy,
                          .places = places,
                          .arena = arena,
                          .reterr = reterr };
    bool unused;

    w.strategy.capacity = SIMULATE_BYTES_MOST;
    w.strategy.steps = 1;
    struct plm_strategy none = with_places(&w.strategy, places, 0, arena);
    enum plm_status status = fits(subject, &none, 0, &unused, &w.without, reterr);

    for (size_t first = 0, next; status == PLM_OK && first < count; first = next) {
        for (next = first + 1; next < count && alike(&places[first], &places[next]);)
            next++;
        status = weigh(&w, first);
        if (status == PLM_OK && next - first > 1)
            status = weigh(&w, next - 1);
        if (status == PLM_OK)
            status = weigh_between(&w, first, next - 1);
    }
    for (size_t i = 0; i < count; i++)
        places[i].worth = (double)places[i].saved / (double)(places[i].ops ? places[i].ops : 1);
    return status;
}

enum plm_status search_checkpoint(const struct subject *subject,
                                  const struct plm_strategy *strategy,
                                  plm_bytes capacity_cut,
                                  struct arena *arena,
                                  struct plm_strategy *ret,
                                  struct plm_error *reterr)
{
    struct simulation shape;
    plm_bytes unused;
    bool ok;

    *ret = *strategy;
    if (strategy->checkpoint != PLM_CHECKPOINT_AUTO)
        return PLM_OK;
    if (!strategy->device && !strategy->capacity)
        return plm_fail(reterr, PLM_E_USAGE,
                        "checkpoint: auto needs a device or a capacity that the run shall fit");
    struct plm_strategy full = *strategy;

    full.checkpoint = PLM_CHECKPOINT_FULL;
    enum plm_status status = simulation_graph(subject, &full, &shape, reterr);

    if (status != PLM_OK)
        return status;
    size_t count = shape.graph->place_count;
    struct place *places = arena_array(arena, struct place, count);

    find_places(shape.graph->main, places);
    simulation_finish(&shape);
    if (count == 0) { /* a run of it warns */
        *ret = full;
        return PLM_OK;
    }
    struct plm_strategy now = with_places(strategy, places, 0, arena);

    status = fits(subject, &now, capacity_cut, &ok, &unused, reterr);
    if (status != PLM_OK || ok) {
        *ret = now;
        return status;
    }
    now = with_places(strategy, places, count, arena);
    status = fits(subject, &now, capacity_cut, &ok, &unused, reterr);
    if (status != PLM_OK || !ok) { /* not even all of them are enough */
        *ret = now;
        return status;
    }
    if (count <= MEASURED_MOST)
        status = measure(subject, strategy, places, count, arena, reterr);
    qsort(places, count, sizeof *places, by_worth);
    size_t low = 0, high = count; /* low does not fit */

    while (status == PLM_OK && low + 1 < high) {
        size_t middle = low + (high - low) / 2;

        now = with_places(strategy, places, middle, arena);
        status = fits(subject, &now, capacity_cut, &ok, &unused, reterr);
        *(ok ? &high : &low) = middle;
    }
    *ret = with_places(strategy, places, high, arena);
    return status;
}
