/*
 * ghost/selective.c - selective checkpointing by operator
 *
 * Mirrors create_selective_checkpoint_contexts() of torch/utils/checkpoint.py (2.15; _CachingTorchDispatchMode,
 * _CachedTorchDispatchMode) with torchtitan's policy (torchtitan/parallelisms/parallelize_llama.py of February 2025,
 * selective_ac_option "op"): kept are the results of the flash and the memory-efficient attention kernel and of every
 * matrix product (aten.mm) but each second one of a region. What is kept waits in a queue of its operator until the
 * second run comes to the same call, or until nothing refers to the region any more.
 */
#include <string.h>

#include "ghost/checkpoint.h"

/* is_kept() - the policy, which counts the products of each run; never asked twice about a call */
static bool is_kept(struct selective *s, enum selected kind)
{
    switch (kind) {
    case SELECTED_PRODUCT:
        return s->products++ % 2 == 0;
    case SELECTED_ATTENTION:
    case SELECTED_COUNT:
        break;
    }
    return true;
}

bool selective_take(struct ghost *g, enum selected kind, struct tensor **ret, unsigned count)
{
    struct frame *frame = g->frame;

    if (!frame || !frame->selective.active || !frame->recomputing || g->halt)
        return false;
    struct selected_queue *q = &frame->selective.queues[kind];

    if (!is_kept(&frame->selective, kind) || q->count - q->next < count)
        return false;
    for (unsigned i = 0; i < count; i++) {
        ret[i] = q->items[q->next];
        q->items[q->next++] = NULL;
    }
    return true;
}

static void push(struct pool *pool, struct selected_queue *q, struct tensor *x)
{
    if (q->count == q->capacity) {
        size_t capacity = q->capacity ? q->capacity * 2 : 8;
        struct tensor **items = pool_alloc(pool, capacity * sizeof *items);

        if (q->items) {
            memcpy(items, q->items, q->count * sizeof *items);
            pool_free(pool, q->items, q->capacity * sizeof *items);
        }
        q->items = items;
        q->capacity = capacity;
    }
    q->items[q->count++] = x;
}

void selective_keep(struct ghost *g, enum selected kind, struct tensor *const *made, unsigned count)
{
    struct frame *frame = g->frame;

    if (!frame || !frame->selective.active || frame->recomputing || g->halt)
        return;
    if (!is_kept(&frame->selective, kind))
        return;
    for (unsigned i = 0; i < count; i++)
        push(&g->pool, &frame->selective.queues[kind], made[i] ? tensor_detach(made[i]) : NULL);
}

void selective_finish(struct ghost *g, struct selective *s)
{
    for (int kind = 0; kind < SELECTED_COUNT; kind++) {
        struct selected_queue *q = &s->queues[kind];

        while (q->next < q->count)
            tensor_drop(q->items[q->next++]);
        if (q->items)
            pool_free(&g->pool, q->items, q->capacity * sizeof *q->items);
    }
}
