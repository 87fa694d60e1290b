/*
 * ghost/checkpoint.c - saved tensors that are made again instead of kept
 *
 * Mirrors torch/utils/checkpoint.py (2.15), _CheckpointFrame, _checkpoint_hook and _recomputation_hook. In the
 * region's forward, each save_for_backward() puts down a numbered holder. The first of these that is fetched runs the
 * region again; the tensors saved in that second run go, by number, where the first run's holders look for them,
 * each until its node has fetched it. Once the last holder has its tensor the second run stops, inside the
 * operator that saved it.
 */
#include <string.h>

#include "ghost/autocast.h"
#include "ghost/checkpoint.h"

struct frame *checkpoint_begin(struct ghost *g,
                               void (*recompute)(void *context),
                               void (*release)(void *context),
                               void *context)
{
    struct frame *frame = pool_alloc(&g->pool, sizeof *frame);

    *frame = (struct frame){
        .ghost = g,
        .refs = 1,
        .recompute = recompute,
        .release = release,
        .context = context,
        .outer = g->frame,
        .autocast = g->autocast,
    };
    g->frame = frame;
    return frame;
}

void checkpoint_end(struct frame *frame)
{
    frame->ghost->frame = frame->outer;
}

struct frame *frame_ref(struct frame *frame)
{
    frame->refs++;
    return frame;
}

void frame_drop(struct frame *frame)
{
    if (!frame || --frame->refs > 0)
        return;
    struct ghost *g = frame->ghost;

    selective_finish(g, &frame->selective);
    frame->release(frame->context);
    if (frame->holders)
        pool_free(&g->pool, frame->holders, frame->holder_capacity * sizeof *frame->holders);
    pool_free(&g->pool, frame, sizeof *frame);
}

static void grow_holders(struct frame *frame)
{
    struct pool *pool = &frame->ghost->pool;
    size_t capacity = frame->holder_capacity ? frame->holder_capacity * 2 : 32;
    struct holder *holders = pool_alloc(pool, capacity * sizeof *holders);

    if (frame->holders) {
        memcpy(holders, frame->holders, frame->holder_count * sizeof *holders);
        pool_free(pool, frame->holders, frame->holder_capacity * sizeof *holders);
    }
    frame->holders = holders;
    frame->holder_capacity = capacity;
}

static void pack_again(struct frame *frame, struct saved *saved, struct tensor *x)
{
    struct ghost *g = frame->ghost;
    uint32_t number = frame->counter++;
    struct tensor *own = tensor_detach(x);

    saved->tensor = own;
    if (g->halt || number >= frame->holder_count)
        return;
    if (frame->holders[number].alive)
        frame->holders[number].tensor = tensor_ref(own);
    if (frame->counter == frame->holder_count)
        g->halt = HALT_STOP;
}

void checkpoint_pack(struct frame *frame, struct saved *saved, struct tensor *x)
{
    if (frame->recomputing) {
        pack_again(frame, saved, x);
        return;
    }
    if (frame->holder_count == frame->holder_capacity)
        grow_holders(frame);
    saved->frame = frame_ref(frame);
    saved->holder = frame->holder_count++;
    frame->holders[saved->holder] = (struct holder){ .alive = true };
}

static void recompute(struct frame *frame)
{
    struct ghost *g = frame->ghost;
    struct ghost outer = *g; /* what the second run changes and must put back */

    frame->recomputing = true;
    frame->counter = 0;
    frame->selective.products = 0;
    g->frame = frame;
    g->grad_enabled = true;
    g->category = CATEGORY_ACTIVATION;
    if (frame->autocast.enabled)
        autocast_enter(g, frame->autocast.dtype);
    frame->recompute(frame->context);
    if (frame->autocast.enabled)
        autocast_leave(g);
    if (g->halt == HALT_STOP)
        g->halt = HALT_NO;
    g->frame = outer.frame;
    g->grad_enabled = outer.grad_enabled;
    g->category = outer.category;
    g->autocast.enabled = outer.autocast.enabled;
    g->op = outer.op;
    g->path = outer.path;
    frame->recomputing = false;
    frame->recomputed = true;
}

struct tensor *checkpoint_unpack(struct saved *saved)
{
    struct frame *frame = saved->frame;

    if (!frame->recomputed)
        recompute(frame);
    struct tensor *x = frame->holders[saved->holder].tensor;

    frame->holders[saved->holder].tensor = NULL;
    return x;
}

void checkpoint_forget(struct saved *saved)
{
    tensor_drop(saved->tensor);
    saved->tensor = NULL;
    if (!saved->frame)
        return;
    struct holder *holder = &saved->frame->holders[saved->holder];

    holder->alive = false;
    tensor_drop(holder->tensor);
    holder->tensor = NULL;
    frame_drop(saved->frame);
    saved->frame = NULL;
}
