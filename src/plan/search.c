/*
 * plan/search.c - the largest batch that is safe
 *
 * The search: double until a batch is not safe; bisect between the last safe and the first unsafe one; then try the next few
 * larger ones, up to where the tensors' own bytes no longer fit, since one of them may be safe after all.
 *
 *     candidate k is the batch k * multiple_of, or with a global batch its k-th divisor of that kind
 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/num.h"
#include "base/units.h"
#include "plan/search.h"
#include "train/megatron_order.h"
#include "train/mesh.h"

/*
 * The default margin, 5 % of the device and at least 1 GiB: contexts of 519 to 1690 MiB were published for GPUs whose profile says
 * 480 to 550, and reserved memory of convolutional networks is up to 4 % above what is simulated (plimsoll-method(7)).
 */
static const double default_share = 0.05;
static const plm_bytes default_least = UINT64_C(1) << 30;

enum {
    BATCH_MOST = 1 << 24, /* without --max-batch */
    PROBES = 4,           /* larger candidates that are tried after the bisection */
    AROUND = 3,           /* candidates on each side of the answer in the table */
    MICRO_BATCHES = 8,    /* more of them repeat what these did */
};

#define NUMBER_MOST (INT64_C(1) << 60) /* of a batch: doubled it is still a number */

struct tried {
    int64_t number; /* of the candidate */
    struct plm_candidate candidate;
    bool impossible; /* it cannot be run: sizes overflow, or there is more of it than is followed */
    bool beyond;     /* the tensors alone do not fit: neither will anything larger */
};

struct search {
    const struct subject *subject;
    const struct plm_search *options;
    struct arena *arena;
    struct plm_strategy strategy;
    plm_bytes cut;
    int64_t share;           /* of one rank, of the global batch */
    const int64_t *divisors; /* [divisor_count] of it */
    int64_t divisor_count;
    struct tried *tried;
    size_t tried_count, tried_capacity;
    struct plm_error *reterr;
};

struct search_margin search_margin(const struct plm_search *search,
                                   plm_bytes capacity,
                                   struct arena *arena)
{
    struct buf buf = { .arena = arena };
    char text[UNITS_TEXT];
    double share = search->has_margin ? search->margin_share : default_share;
    plm_bytes least = search->has_margin ? search->margin_bytes : default_least;
    struct search_margin m = { .margin = (plm_bytes)((double)capacity * share),
                               .reserve = search->reserve };
    const struct plm_device *device = search->strategy.device;
    bool by_share = m.margin >= least;

    if (!by_share)
        m.margin = least;
    if (!search->has_margin && device && device->margin_reason) {
        m.margin = device->margin;
        buf_printf(&buf, "calibrated: %s", device->margin_reason);
    } else if (search->has_margin)
        buf_text(&buf, "as given");
    else if (by_share)
        buf_printf(&buf, "%g %% of the device, for what differs between machines", share * 100);
    else
        buf_printf(&buf, "at least %s, for what differs between machines",
                   units_format_bytes(least, text));
    m.reason = buf_string(&buf);
    return m;
}

/* ------------------------------------------------------------------ candidates */

static int64_t multiple(const struct search *s)
{
    return s->options->multiple_of > 0 ? s->options->multiple_of : 1;
}

static int64_t batch_of(const struct search *s, int64_t number)
{
    return s->divisors ? s->divisors[number - 1] : number * multiple(s);
}

/* last_number() - of the largest candidate that may be tried */
static int64_t last_number(const struct search *s)
{
    int64_t most = s->options->max_batch > 0 ? s->options->max_batch : BATCH_MOST;

    if (s->divisors)
        return s->divisor_count;
    return most > multiple(s) ? most / multiple(s) : 1;
}

/* struct divisors - a growing list */
struct divisors {
    int64_t *items;
    size_t count, capacity;
};

static int by_size(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

void search_micros(struct plm_strategy *strategy, int64_t count)
{
    if (strategy->parallel.pp > 1)
        strategy->parallel.microbatches = count;
    else
        strategy->accumulate = count;
}

/* has_schedule() - would the pipeline, if there is one, run the share in micro-batches of @batch? */
static bool has_schedule(const struct search *s, int64_t batch)
{
    const struct plm_parallel *p = &s->strategy.parallel;
    int64_t local = p->virtual_stages > 1 ? p->virtual_stages : 1, micros = s->share / batch;
    struct plm_error unused;

    if (p->pp <= 1)
        return true;
    if (p->pp > INT16_MAX || local > INT16_MAX || micros > INT32_MAX ||
        p->microbatch_group > INT16_MAX)
        return false;
    const struct pipeline_shape shape = {
        .schedule = p->schedule,
        .ranks = (int32_t)p->pp,
        .local = (int32_t)local,
        .micros = (int32_t)micros,
        .group = (int32_t)p->microbatch_group,
    };

    return (p->megatron > 0 ? megatron_order_check(&shape, &unused)
                            : pipeline_check(&shape, &unused)) == PLM_OK;
}

static void add_divisor(struct search *s, int64_t d, int64_t most, struct divisors *to)
{
    if (d % multiple(s) == 0 && d <= most && has_schedule(s, d))
        arena_push(s->arena, to->items, to->count, to->capacity, d);
}

static void find_divisors(struct search *s)
{
    int64_t global = s->share;
    int64_t most = s->options->max_batch > 0 ? s->options->max_batch : global;
    struct divisors found = { 0 };

    for (int64_t d = 1; d <= global / d; d++) {
        if (global % d != 0)
            continue;
        add_divisor(s, d, most, &found);
        if (d != global / d)
            add_divisor(s, global / d, most, &found);
    }
    if (found.count > 0)
        qsort(found.items, found.count, sizeof *found.items, by_size);
    s->divisors = found.items;
    s->divisor_count = (int64_t)found.count;
}

/*
 * share_out() - global = micro-batch × micro-batches × data-parallel ranks
 */
static enum plm_status share_out(struct search *s)
{
    int64_t global = s->options->global_batch;
    int64_t ranks = mesh_sizes(&s->strategy.parallel).data;

    if (global <= 0)
        return PLM_OK;
    if (global % ranks != 0)
        return plm_fail(s->reterr, PLM_E_USAGE,
                        "a global batch of %lld is not shared by %lld data-parallel ranks",
                        (long long)global, (long long)ranks);
    s->share = global / ranks;
    find_divisors(s);
    if (s->divisor_count == 0)
        return plm_fail(
            s->reterr, PLM_E_USAGE,
            "a global batch of %lld leaves %lld for each of %lld data-parallel ranks, which no "
            "micro-batch that is asked for divides",
            (long long)global, (long long)s->share, (long long)ranks);
    return PLM_OK;
}

static struct plm_memory figures(const struct simulation *sim)
{
    const struct memory_sizes *peak = &sim->replay.peak;

    return (struct plm_memory){ peak->requested, peak->allocated, peak->reserved,
                                peak->reserved + simulation_outside(sim) };
}

static struct tried *find_tried(const struct search *s, int64_t number)
{
    for (size_t i = 0; i < s->tried_count; i++)
        if (s->tried[i].number == number)
            return &s->tried[i];
    return NULL;
}

/* leaves_room() - also for the workspaces that only cuDNN knows */
static bool leaves_room(const struct simulation *sim, plm_bytes cut)
{
    plm_bytes wanted;

    return bytes_add(sim->replay.peak.reserved, simulation_unknown_workspace(sim), &wanted) &&
           bytes_add(wanted, cut, &wanted) && wanted <= simulation_usable(sim);
}

static int64_t micros_of(const struct plm_strategy *s)
{
    int64_t pp = s->parallel.pp > 1 ? s->parallel.pp : 0;
    int64_t count = pp ? s->parallel.microbatches : s->accumulate;

    return count > 0 ? count : pp ? pp : 1;
}

/* strategy_of() - the search's strategy with a candidate's batch */
static struct plm_strategy strategy_of(const struct search *s, int64_t number)
{
    struct plm_strategy strategy = s->strategy;

    strategy.batch = batch_of(s, number);
    if (s->divisors)
        search_micros(&strategy, s->share / strategy.batch);
    return strategy;
}

/* simulate_number() - a candidate in the capacity less @cut; its checkpoints are those that fit with the margin */
static enum plm_status simulate_number(const struct search *s,
                                       int64_t number,
                                       plm_bytes cut,
                                       struct simulation *ret,
                                       struct plm_error *reterr)
{
    struct plm_strategy strategy = strategy_of(s, number), chosen;

    if (strategy.accumulate > MICRO_BATCHES)
        strategy.accumulate = MICRO_BATCHES;
    enum plm_status status =
        search_checkpoint(s->subject, &strategy, s->cut, s->arena, &chosen, reterr);

    return status == PLM_OK ? simulate(s->subject, &chosen, cut, ret, reterr) : status;
}

/* try_whole() - what an unsafe candidate does in the whole capacity, for the table */
static enum plm_status try_whole(const struct search *s, struct tried *tried)
{
    struct simulation sim;

    if (tried->candidate.safe || tried->impossible)
        return PLM_OK;
    enum plm_status status = simulate_number(s, tried->number, 0, &sim, s->reterr);

    if (status != PLM_OK)
        return status;
    tried->candidate.finishes = !sim.replay.out_of_memory;
    tried->candidate.peak = figures(&sim);
    simulation_finish(&sim);
    return PLM_OK;
}

/* try_number() - simulate a candidate with the margin, once */
static enum plm_status try_number(struct search *s, int64_t number, struct tried **ret)
{
    struct tried *known = find_tried(s, number), now = { .number = number };
    struct plm_strategy strategy = strategy_of(s, number);
    struct simulation sim;
    struct plm_error error;

    if (known) {
        *ret = known;
        return PLM_OK;
    }
    now.candidate.batch = strategy.batch;
    now.candidate.accumulate = micros_of(&strategy);
    if (s->options->progress)
        s->options->progress(s->options->progress_context, "searching the largest batch",
                             (unsigned)s->tried_count, 0);
    enum plm_status status = simulate_number(s, number, s->cut, &sim, &error);

    if (status == PLM_E_RANGE && number > 1) {
        now.impossible = now.beyond = true;
    } else if (status != PLM_OK) {
        if (s->reterr)
            *s->reterr = error;
        return status;
    } else {
        now.candidate.peak = figures(&sim);
        now.candidate.safe = !sim.replay.out_of_memory && memory_stats(sim.memory)->retries == 0 &&
                             leaves_room(&sim, s->cut);
        now.candidate.finishes = now.candidate.safe;
        /* a run that ended early shows how far the tensors' bytes got: when those alone are too many, so are more */
        now.beyond = sim.replay.out_of_memory &&
                     sim.replay.peak.requested + memory_failure(sim.memory).requested >
                         simulation_usable(&sim);
        simulation_finish(&sim);
    }
    arena_push(s->arena, s->tried, s->tried_count, s->tried_capacity, now);
    *ret = &s->tried[s->tried_count - 1];
    return PLM_OK;
}

static bool is_safe(const struct tried *tried)
{
    return tried->candidate.safe;
}

/* ------------------------------------------------------------------ the search */

/* bracket() - double from 1: @ret_low the last safe number (0: none), @ret_high the first unsafe one */
static enum plm_status bracket(struct search *s, int64_t *ret_low, int64_t *ret_high)
{
    int64_t low = 0, last = last_number(s);
    struct tried *tried;

    for (int64_t n = 1; low < last; n = n < last / 2 ? n * 2 : last) {
        enum plm_status status = try_number(s, n, &tried);

        if (status != PLM_OK)
            return status;
        if (!is_safe(tried)) {
            *ret_low = low;
            *ret_high = n;
            return PLM_OK;
        }
        low = n;
    }
    *ret_low = low;
    *ret_high = last + 1;
    return PLM_OK;
}

static enum plm_status find_largest(struct search *s, int64_t *ret_number)
{
    int64_t low = 0, high = 0;
    struct tried *tried;
    enum plm_status status = bracket(s, &low, &high);

    while (status == PLM_OK && low + 1 < high) {
        int64_t middle = low + (high - low) / 2;

        status = try_number(s, middle, &tried);
        if (status == PLM_OK)
            *(is_safe(tried) ? &low : &high) = middle;
    }
    int64_t base = low, last = last_number(s);

    for (int64_t n = base + 1; status == PLM_OK && n <= base + PROBES && n <= last; n++) {
        status = try_number(s, n, &tried);
        if (status == PLM_OK && is_safe(tried))
            low = n;
        if (status == PLM_OK && tried->beyond)
            break;
    }
    *ret_number = low;
    return status;
}

static int by_batch(const void *a, const void *b)
{
    const struct plm_candidate *x = a, *y = b;

    return (x->batch > y->batch) - (x->batch < y->batch);
}

/* fill_table() - the candidates around the answer, and whether a smaller one that was tried is not safe */
static enum plm_status fill_table(struct search *s, int64_t answer, struct plm_plan_result *ret)
{
    int64_t first = answer > AROUND ? answer - AROUND : 1, last = last_number(s);
    struct plm_candidate *table = arena_array(s->arena, struct plm_candidate, 2 * AROUND + 2);
    size_t count = 0;
    struct tried *tried;

    for (int64_t n = first; n <= answer + AROUND && n <= last; n++) {
        enum plm_status status = try_number(s, n, &tried);

        if (status == PLM_OK)
            status = try_whole(s, tried);
        if (status != PLM_OK)
            return status;
        if (!tried->impossible)
            table[count++] = tried->candidate;
    }
    qsort(table, count, sizeof *table, by_batch);
    ret->candidates = table;
    ret->candidate_count = count;
    for (size_t i = 0; i < s->tried_count; i++)
        ret->not_monotone =
            ret->not_monotone || (s->tried[i].number < answer && !is_safe(&s->tried[i]));
    return PLM_OK;
}

static enum plm_status check(const struct plm_search *o, struct plm_error *reterr)
{
    const struct plm_strategy *s = &o->strategy;

    if (!s->device && !s->capacity)
        return plm_fail(reterr, PLM_E_USAGE, "a plan needs a device or a capacity");
    if (o->global_batch < 0 || o->multiple_of < 0 || o->max_batch < 0)
        return plm_fail(reterr, PLM_E_USAGE, "batches are 1 or more");
    if (o->global_batch > INT32_MAX)
        return plm_fail(reterr, PLM_E_USAGE, "global-batch: at most %d samples", INT32_MAX);
    if (o->multiple_of > NUMBER_MOST || o->max_batch > NUMBER_MOST)
        return plm_fail(reterr, PLM_E_USAGE, "batches are at most %lld", (long long)NUMBER_MOST);
    if (o->margin_bytes > SIMULATE_BYTES_MOST || o->reserve > SIMULATE_BYTES_MOST)
        return plm_fail(reterr, PLM_E_USAGE, "%s: no device has more than 1PiB",
                        o->reserve > SIMULATE_BYTES_MOST ? "reserve" : "margin");
    if (o->global_batch > 0 && o->multiple_of > 0 && o->global_batch % o->multiple_of != 0)
        return plm_fail(reterr, PLM_E_USAGE,
                        "a global batch of %lld has no micro-batch that is a multiple of %lld",
                        (long long)o->global_batch, (long long)o->multiple_of);
    if (o->max_batch > 0 && o->multiple_of > o->max_batch)
        return plm_fail(reterr, PLM_E_USAGE, "no multiple of %lld is at most %lld",
                        (long long)o->multiple_of, (long long)o->max_batch);
    return PLM_OK;
}

/* is_last() - is it a limit of the search, or of what can be run at all, that ends at @answer, and not memory? */
static bool is_last(const struct search *s, int64_t answer)
{
    const struct tried *next = find_tried(s, answer + 1);

    return answer == last_number(s) || (next && next->impossible);
}

enum plm_status search_batch(const struct subject *subject,
                             const struct plm_search *search,
                             struct arena *arena,
                             struct plm_plan_result *ret,
                             struct plm_error *reterr)
{
    const struct plm_strategy *strategy = &search->strategy;
    enum plm_status status = check(search, reterr);

    if (status != PLM_OK)
        return status;
    ret->capacity = strategy->capacity ? strategy->capacity : strategy->device->total;
    ret->context = strategy->has_context ? strategy->context
                   : strategy->device    ? strategy->device->context
                                         : 0;
    struct search_margin margin = search_margin(search, ret->capacity, arena);
    struct search s = { .subject = subject,
                        .options = search,
                        .arena = arena,
                        .strategy = *strategy,
                        .cut = margin.margin + margin.reserve,
                        .reterr = reterr };
    int64_t answer = 0;

    s.strategy.minimum_capacity = false;
    status = mesh_complete(&s.strategy.parallel, reterr);
    if (status == PLM_OK)
        status = share_out(&s);
    if (status != PLM_OK)
        return status;
    ret->data_parallel = mesh_sizes(&s.strategy.parallel).data;
    ret->gpus = mesh_count(&s.strategy.parallel);
    ret->margin = margin.margin;
    ret->reserve = margin.reserve;
    ret->margin_reason = margin.reason;
    status = find_largest(&s, &answer);
    if (status == PLM_OK)
        status = fill_table(&s, answer, ret);
    if (status != PLM_OK)
        return status;
    ret->batch = answer ? batch_of(&s, answer) : 0;
    ret->limited = answer > 0 && is_last(&s, answer);
    ret->accumulate = answer ? find_tried(&s, answer)->candidate.accumulate : 0;
    return PLM_OK;
}
