/*
 * train/zero3_fetch.c - ZeRO stage 3: which parameters are gathered and let go of, and when
 *
 * Mirrors deepspeed/runtime/zero/partitioned_param_coordinator.py (0.19.8). A step here is a module whose forward or backward
 * begins. With a recorded order, every step gathers ahead what comes next, up to stage3_prefetch_bucket_size elements and as
 * long as fewer than stage3_max_live_parameters are there; and what is used again within stage3_max_reuse_distance stays.
 */
#include "train/zero3.h"

static bool is_complete(const struct zero3 *zero3)
{
    return zero3->trace == ZERO3_COMPLETE;
}

/* release_param() - __release_param(): when it is there and no module is using it */
static void release_param(struct zero3 *zero3, struct zero3_param *p)
{
    if (p->status != ZERO3_AVAILABLE || p->active_count > 0)
        return;
    zero3_free(zero3, p);
    zero3->available -= p->numel;
}

static void add_active(struct zero3 *zero3, struct zero3_param *p, uint32_t module)
{
    for (size_t i = 0; i < p->active_count; i++)
        if (p->active[i] == module)
            return;
    arena_push(zero3->ds->run->arena, p->active, p->active_count, p->active_capacity, module);
}

static void remove_number(uint32_t *numbers, size_t *count, uint32_t number)
{
    for (size_t i = 0; i < *count; i++) {
        if (numbers[i] != number)
            continue;
        for (size_t k = i + 1; k < *count; k++)
            numbers[k - 1] = numbers[k];
        (*count)--;
        return;
    }
}

/* ------------------------------------------------------------------ the trace */

/* record_uses() - the parameters of each module in the order */
static void record_uses(struct zero3 *zero3)
{
    zero3->use_count = 0;
    for (size_t i = 0; i < zero3->order_count; i++) {
        const struct zero3_module *m = &zero3->modules[zero3->order[i]];

        for (size_t k = 0; k < m->param_count; k++)
            arena_push(zero3->ds->run->arena, zero3->uses, zero3->use_count, zero3->use_capacity,
                       ((struct zero3_use){ m->params[k], (int64_t)i }));
    }
}

/* invalidate() - the modules came in another order than recorded: all begins anew */
static void invalidate(struct zero3 *zero3)
{
    zero3->trace = ZERO3_INVALID;
    zero3->order_count = zero3->use_count = zero3->next_use = 0;
    for (size_t i = 0; i < zero3->param_count; i++) {
        zero3->params[i].recent = INT64_MIN;
        if (zero3->params[i].handle) {
            zero3_wait(zero3, &zero3->params[i]);
            release_param(zero3, &zero3->params[i]);
        }
    }
}

/* follow() - trace_prologue() and record_module() */
static void follow(struct zero3 *zero3, uint32_t module)
{
    if (is_complete(zero3) &&
        ((size_t)zero3->step >= zero3->order_count || zero3->order[zero3->step] != module))
        invalidate(zero3);
    if (zero3->trace == ZERO3_RECORD)
        arena_push(zero3->ds->run->arena, zero3->order, zero3->order_count, zero3->order_capacity,
                   module);
}

void zero3_reset_step(struct zero3 *zero3)
{
    for (size_t i = 0; i < zero3->param_count; i++) {
        struct zero3_param *p = &zero3->params[i];

        if (p->handle) {
            zero3_wait(zero3, p);
            release_param(zero3, p);
        }
        p->recent = INT64_MIN;
    }
    if (zero3->trace == ZERO3_RECORD) {
        record_uses(zero3);
        zero3->trace = ZERO3_COMPLETE;
    } else if (zero3->trace == ZERO3_INVALID) {
        zero3->trace = ZERO3_RECORD;
    }
    zero3->next_use = 0;
    zero3->step = 0;
    zero3->available = 0;
}

/* ------------------------------------------------------------------ fetching */

/* gather_missing() - what of the module's own is not there yet */
static void gather_missing(struct zero3 *zero3, const struct zero3_module *module)
{
    struct pool *pool = &zero3->ds->run->ghost.pool;
    size_t size = (module->param_count + 1) * sizeof(size_t), count = 0;
    size_t *missing = pool_alloc(pool, size);

    for (size_t i = 0; i < module->param_count; i++)
        if (zero3->params[module->params[i]].status == ZERO3_NOT_AVAILABLE)
            missing[count++] = module->params[i];
    if (count > 0)
        zero3_gather(zero3, missing, count);
    pool_free(pool, missing, size);
}

/* skip_fetched() - take the module's parameters off the queue, if no prefetch has */
static void skip_fetched(struct zero3 *zero3, const struct zero3_module *module)
{
    size_t wanted = 0;

    for (size_t i = 0; i < module->param_count; i++)
        wanted += zero3->params[module->params[i]].recent < zero3->step;
    while (wanted > 0 && zero3->next_use < zero3->use_count) {
        const struct zero3_use *use = &zero3->uses[zero3->next_use++];

        zero3->params[use->param].recent = use->step;
        wanted--;
    }
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* prefetch() - gather the next parameters of the queue */
static void prefetch(struct zero3 *zero3)
{
    const struct deepspeed_settings *s = &zero3->ds->settings;
    struct pool *pool = &zero3->ds->run->ghost.pool;
    int64_t most = least(s->max_live_parameters - zero3->available, s->prefetch_bucket_size);
    size_t size = (zero3->param_count + 1) * sizeof(size_t), count = 0;
    size_t *ahead = pool_alloc(pool, size);
    int64_t numel = 0;

    while (zero3->next_use < zero3->use_count && numel < most) {
        const struct zero3_use *use = &zero3->uses[zero3->next_use++];
        struct zero3_param *p = &zero3->params[use->param];
        bool takes = p->status == ZERO3_NOT_AVAILABLE;

        for (size_t i = 0; takes && i < count; i++)
            takes = ahead[i] != use->param;
        p->recent = use->step > p->recent ? use->step : p->recent;
        if (!takes)
            continue;
        ahead[count++] = use->param;
        numel += p->numel;
    }
    if (count > 0)
        zero3_gather(zero3, ahead, count);
    pool_free(pool, ahead, size);
}

void zero3_fetch(struct zero3_module *module, bool forward)
{
    struct zero3 *zero3 = module->zero3;

    follow(zero3, module->number);
    if (!forward && !module->active) {
        module->active = true;
        arena_push(zero3->ds->run->arena, zero3->backward, zero3->backward_count,
                   zero3->backward_capacity, module->number);
    }
    gather_missing(zero3, module);
    for (size_t i = 0; i < module->param_count; i++) {
        struct zero3_param *p = &zero3->params[module->params[i]];

        add_active(zero3, p, module->number);
        zero3_wait(zero3, p);
    }
    if (is_complete(zero3)) {
        skip_fetched(zero3, module);
        if (zero3->ds->settings.prefetch_bucket_size > 0)
            prefetch(zero3);
    }
    zero3->step++;
}

/* ------------------------------------------------------------------ releasing */

/* is_needed_soon() - does a module within stage3_max_reuse_distance elements use it again? */
static bool is_needed_soon(const struct zero3 *zero3, size_t param)
{
    int64_t passed = 0;

    for (size_t i = (size_t)zero3->step; i < zero3->order_count; i++) {
        const struct zero3_module *m = &zero3->modules[zero3->order[i]];

        if (passed >= zero3->ds->settings.max_reuse_distance)
            return false;
        for (size_t k = 0; k < m->param_count; k++) {
            if (m->params[k] == param)
                return true;
            passed += zero3->params[m->params[k]].numel;
        }
    }
    return false;
}

/* may_go() - __params_to_release() */
static bool may_go(const struct zero3 *zero3, size_t param)
{
    const struct zero3_param *p = &zero3->params[param];

    if (!is_complete(zero3))
        return true;
    return !p->persists && p->recent <= zero3->step && !is_needed_soon(zero3, param);
}

void zero3_release(struct zero3_module *module, bool forward)
{
    struct zero3 *zero3 = module->zero3;

    if (!forward) {
        module->active = false;
        remove_number(zero3->backward, &zero3->backward_count, module->number);
    }
    for (size_t i = 0; i < module->param_count; i++) {
        struct zero3_param *p = &zero3->params[module->params[i]];
        bool goes = may_go(zero3, module->params[i]);

        remove_number(p->active, &p->active_count, module->number);
        if (goes)
            release_param(zero3, p);
    }
}

void zero3_release_leftovers(struct zero3 *zero3)
{
    while (zero3->backward_count > 0) {
        struct zero3_module *m = &zero3->modules[zero3->backward[--zero3->backward_count]];

        m->active = false;
        for (size_t i = 0; i < m->param_count; i++) {
            struct zero3_param *p = &zero3->params[m->params[i]];

            remove_number(p->active, &p->active_count, m->number);
            if (!p->persists)
                release_param(zero3, p);
        }
    }
}

void zero3_release_all(struct zero3 *zero3)
{
    for (size_t i = 0; i < zero3->param_count; i++) {
        struct zero3_param *p = &zero3->params[i];

        zero3_wait(zero3, p);
        p->active_count = 0;
        release_param(zero3, p);
    }
}
