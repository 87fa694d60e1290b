/* plan/ranks.c - the classes of ranks, and the worst of them */
#include <stddef.h>
#include <string.h>

#include "base/buf.h"
#include "base/units.h"
#include "plan/estimate.h"
#include "plan/ranks.h"
#include "train/mesh.h"

/* ------------------------------------------------------------------ classes */

/* struct kind - ranks that are alike in one direction of the mesh */
struct kind {
    const char *name;
    int64_t at; /* a coordinate that stands for them */
};

/* A direction: which coordinate of struct mesh_place, and its kinds; none where all ranks are alike. */
struct direction {
    size_t offset;
    size_t (*kinds)(const struct plm_parallel *p, struct arena *arena, struct kind **ret);
};

static size_t stages(const struct plm_parallel *p, struct arena *arena, struct kind **ret)
{
    bool looped = p->schedule == PLM_SCHEDULE_INTERLEAVED && p->virtual_stages > 1;
    size_t count = p->pp > 1 ? (size_t)p->pp : 0;

    *ret = arena_array(arena, struct kind, count);
    for (size_t i = 0; i < count; i++) {
        struct buf name = { .arena = arena };

        buf_printf(&name, "%s %zu", looped ? "pipeline rank" : "stage", i);
        (*ret)[i] = (struct kind){ buf_string(&name), (int64_t)i };
    }
    return count;
}

/* shards() - sizes that do not divide leave the last rank with less */
static size_t shards(const struct plm_parallel *p, struct arena *arena, struct kind **ret)
{
    int64_t count = p->fsdp > 1                ? p->fsdp
                    : p->fsdp1 > 1             ? p->fsdp1
                    : p->hsdp_shard > 1        ? p->hsdp_shard
                    : p->zero_optimizer > 1    ? p->zero_optimizer
                    : p->distributed_optimizer ? p->megatron
                    : p->zero > 0              ? mesh_sizes(p).data
                                               : 1;

    *ret = arena_array(arena, struct kind, 2);
    (*ret)[0] = (struct kind){ "first shard", 0 };
    (*ret)[1] = (struct kind){ "last shard", count - 1 };
    return count > 1 ? 2 : 0;
}

/* chunks() - ranks of a ring differ in when they attend to half of their queries, and when to half of the keys */
static size_t chunks(const struct plm_parallel *p, struct arena *arena, struct kind **ret)
{
    size_t count = p->cp > 1 ? (size_t)p->cp : 0;

    *ret = arena_array(arena, struct kind, count);
    for (size_t i = 0; i < count; i++) {
        struct buf name = { .arena = arena };

        buf_printf(&name, "sequence part %zu", i);
        (*ret)[i] = (struct kind){ buf_string(&name), (int64_t)i };
    }
    return count;
}

static const struct direction directions[] = {
    { offsetof(struct mesh_place, pipeline), stages },
    { offsetof(struct mesh_place, data), shards },
    { offsetof(struct mesh_place, context), chunks },
};

enum { DIRECTIONS = sizeof directions / sizeof directions[0] };

enum plm_status ranks_complete(struct plm_strategy *strategy, struct plm_error *reterr)
{
    struct plm_parallel *p = &strategy->parallel;
    enum plm_status status = mesh_complete(p, reterr);

    if (status == PLM_OK && p->pp == 1 && p->microbatches > 0 && strategy->accumulate <= 1)
        strategy->accumulate = p->microbatches; /* one rank accumulates them */
    return status;
}

const struct rank_class *ranks_classes(const struct plm_strategy *strategy,
                                       struct arena *arena,
                                       size_t *ret_count)
{
    const struct plm_parallel *p = &strategy->parallel;
    struct kind *kinds[DIRECTIONS];
    size_t counts[DIRECTIONS], count = 1;

    for (size_t d = 0; d < DIRECTIONS; d++) {
        counts[d] = directions[d].kinds(p, arena, &kinds[d]);
        count *= counts[d] ? counts[d] : 1;
    }
    if (p->has_rank)
        count = 1;
    struct rank_class *classes = arena_array(arena, struct rank_class, count);

    for (size_t i = 0; i < count; i++) {
        struct mesh_place place = { 0 };
        struct buf name = { .arena = arena };
        size_t rest = i;

        for (size_t d = DIRECTIONS; d-- > 0;) {
            const struct kind *kind = counts[d] ? &kinds[d][rest % counts[d]] : NULL;

            if (!kind)
                continue;
            rest /= counts[d];
            memcpy((char *)&place + directions[d].offset, &kind->at, sizeof kind->at);
        }
        rest = i;
        for (size_t d = 0; d < DIRECTIONS; d++) {
            int64_t at;

            memcpy(&at, (char *)&place + directions[d].offset, sizeof at);
            for (size_t k = 0; k < counts[d]; k++)
                if (kinds[d][k].at == at)
                    buf_printf(&name, "%s%s", name.length ? ", " : "", kinds[d][k].name);
        }
        classes[i] = (struct rank_class){ buf_string(&name), mesh_rank(p, place) };
    }
    if (p->has_rank)
        classes[0] = (struct rank_class){ "", p->rank };
    *ret_count = count;
    return classes;
}

/* ------------------------------------------------------------------ the worst */

/* struct outcome - what is compared of a class */
struct outcome {
    struct plm_rank rank;
    plm_bytes live[CATEGORY_COUNT]; /* at the peak */
    uint64_t retries;
};

static const char *copy(struct arena *arena, const char *text)
{
    return text ? arena_copy(arena, text, strlen(text)) : "";
}

static void note(struct simulation *sim,
                 const struct rank_class *class,
                 struct arena *arena,
                 struct outcome *ret)
{
    struct plm_result result;

    estimate_result(sim, NULL, 0, &result);
    *ret = (struct outcome){
        .rank = { .name = class->name,
                  .about = copy(arena, train_about(sim->run)),
                  .rank = class->rank,
                  .peak = result.peak,
                  .phase = copy(arena, result.at.phase),
                  .step = result.at.step,
                  .out_of_memory = result.out_of_memory },
        .retries = result.retries,
    };
    for (int c = 0; c < CATEGORY_COUNT; c++)
        for (size_t i = 0; i < result.live_by_category_count; i++)
            if (strcmp(result.live_by_category[i].name, category_name((enum category)c)) == 0)
                ret->live[c] = result.live_by_category[i].bytes;
}

/* is_worse() - does not finish; had to free its cache; reserves more; allocates more */
static bool is_worse(const struct outcome *a, const struct outcome *b)
{
    if (a->rank.out_of_memory != b->rank.out_of_memory)
        return a->rank.out_of_memory;
    if ((a->retries > 0) != (b->retries > 0))
        return a->retries > 0;
    if (a->rank.peak.reserved != b->rank.peak.reserved)
        return a->rank.peak.reserved > b->rank.peak.reserved;
    return a->rank.peak.allocated > b->rank.peak.allocated;
}

/* reason() - what the worst has more of than the next; NULL when nothing stands out */
static const char *reason(const struct outcome *worst,
                          const struct outcome *next,
                          struct arena *arena)
{
    struct buf text = { .arena = arena };
    char bytes[UNITS_TEXT];
    plm_bytes most = 0;
    int category = 0;

    for (int c = 0; c < CATEGORY_COUNT; c++)
        if (worst->live[c] > next->live[c] && worst->live[c] - next->live[c] > most) {
            most = worst->live[c] - next->live[c];
            category = c;
        }
    if (most == 0)
        return NULL;
    buf_printf(&text, "%s more of %s than %s", units_format_bytes(most, bytes),
               category_name((enum category)category), next->rank.name);
    return buf_string(&text);
}

static bool is_same(const struct plm_rank *a, const struct plm_rank *b)
{
    return memcmp(&a->peak, &b->peak, sizeof a->peak) == 0 && strcmp(a->about, b->about) == 0 &&
           strcmp(a->phase, b->phase) == 0 && a->out_of_memory == b->out_of_memory;
}

/* keep_ranks() - the table in the simulation's arena; classes that came out the same are one */
static void keep_ranks(struct simulation *sim,
                       const struct outcome *outcomes,
                       size_t count,
                       size_t worst)
{
    struct arena *arena = &sim->arena;
    struct plm_rank *ranks = arena_array(arena, struct plm_rank, count);
    const struct outcome *next = NULL;

    for (size_t i = 0; i < count; i++) {
        struct plm_rank rank = outcomes[i].rank;

        if (i != worst && !is_same(&rank, &outcomes[worst].rank) &&
            (!next || is_worse(&outcomes[i], next)))
            next = &outcomes[i];
        if (sim->rank_count > 0 && is_same(&rank, &ranks[sim->rank_count - 1])) {
            ranks[sim->rank_count - 1].worst |= i == worst;
            continue;
        }
        rank.name = copy(arena, rank.name);
        rank.about = copy(arena, rank.about);
        rank.phase = copy(arena, rank.phase);
        rank.worst = i == worst;
        ranks[sim->rank_count++] = rank;
    }
    sim->ranks = ranks;
    sim->rank_reason = next ? reason(&outcomes[worst], next, arena) : NULL;
}

static enum plm_status simulate_one(const struct subject *subject,
                                    const struct plm_strategy *strategy,
                                    int64_t rank,
                                    plm_bytes capacity_cut,
                                    struct simulation *ret,
                                    struct plm_error *reterr)
{
    struct plm_strategy s = *strategy;

    s.parallel.rank = rank;
    return simulate_rank(subject, &s, capacity_cut, ret, reterr);
}

enum plm_status simulate(const struct subject *subject,
                         const struct plm_strategy *strategy,
                         plm_bytes capacity_cut,
                         struct simulation *ret,
                         struct plm_error *reterr)
{
    struct arena scratch = { 0 };
    struct plm_strategy whole = *strategy;
    size_t count, worst = 0;
    enum plm_status status = ranks_complete(&whole, reterr);

    if (status != PLM_OK)
        return status;
    strategy = &whole;
    const struct rank_class *classes = ranks_classes(strategy, &scratch, &count);
    struct outcome *outcomes = arena_array(&scratch, struct outcome, count);

    for (size_t i = 0; status == PLM_OK && i < count; i++) {
        status = simulate_one(subject, strategy, classes[i].rank, capacity_cut, ret, reterr);
        if (status != PLM_OK || count == 1)
            break;
        note(ret, &classes[i], &scratch, &outcomes[i]);
        if (is_worse(&outcomes[i], &outcomes[worst]))
            worst = i;
        if (i + 1 < count || worst != i)
            simulation_finish(ret);
    }
    if (status == PLM_OK && count > 1) {
        if (worst + 1 != count)
            status =
                simulate_one(subject, strategy, classes[worst].rank, capacity_cut, ret, reterr);
        if (status == PLM_OK)
            keep_ranks(ret, outcomes, count, worst);
    }
    arena_finish(&scratch);
    return status;
}
