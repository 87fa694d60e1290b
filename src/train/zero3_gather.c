/*
 * train/zero3_gather.c - ZeRO stage 3: the memory of gathered parameters
 *
 * Mirrors deepspeed/runtime/zero/partition_parameters.py (0.19.8): a parameter that is gathered alone is a view of what arrives;
 * several arrive in one buffer, rank by rank, and are copied out of it, each to its own memory, when the first of them is
 * needed. The buffer stays until the last of them is.
 */
#include <stdlib.h>

#include "ghost/kernels.h"
#include "train/zero3.h"

static struct ghost *ghost_of(const struct zero3 *zero3)
{
    return &zero3->ds->run->ghost;
}

/* set_place() - what is allocated next is @p's */
static void set_place(struct zero3 *zero3, const struct zero3_param *p, enum category category)
{
    struct ghost *g = ghost_of(zero3);

    g->category = category;
    g->path = p->module;
    g->op = OP_COUNT;
}

static int by_number(const void *a, const void *b)
{
    const size_t *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

static void handle_drop(struct zero3 *zero3, struct zero3_handle *handle)
{
    struct pool *pool = &ghost_of(zero3)->pool;

    if (--handle->refs > 0)
        return;
    tensor_drop(handle->buffer);
    pool_free(pool, handle->params, handle->count * sizeof *handle->params);
    pool_free(pool, handle, sizeof *handle);
}

/* to_device() - the part that this rank gives, from the host when it is there; NULL when it needs no memory */
static struct tensor *to_device(struct zero3 *zero3, struct zero3_param *p)
{
    if (!zero3->ds->settings.offload_params || p->persists || !p->shard)
        return NULL;
    return tensor_new_sizes(ghost_of(zero3), p->shard->dtype, p->partition);
}

/* gather_alone() - _all_gather_sequential() of one */
static void gather_alone(struct zero3 *zero3, struct zero3_param *p)
{
    set_place(zero3, p, CATEGORY_PARAMETER);
    struct tensor *buffer =
        tensor_new_sizes(ghost_of(zero3), p->param->tensor->dtype, p->partition * zero3->ds->world);

    set_place(zero3, p, CATEGORY_COMMUNICATION);
    tensor_drop(to_device(zero3, p));
    tensor_set_data(p->param->tensor, buffer);
    tensor_drop(buffer);
}

/* gather_together() - _all_gather_dtype() */
static void gather_together(struct zero3 *zero3, struct zero3_handle *handle)
{
    struct list parts = { 0 };
    int64_t numel = 0;

    for (size_t i = 0; i < handle->count; i++)
        numel += zero3->params[handle->params[i]].partition;
    set_place(zero3, &zero3->params[handle->params[0]], CATEGORY_COMMUNICATION);
    handle->buffer = tensor_new_sizes(ghost_of(zero3), zero3->ds->dtype, numel * zero3->ds->world);
    for (size_t i = 0; i < handle->count; i++)
        list_push(zero3->ds->run, &parts, to_device(zero3, &zero3->params[handle->params[i]]));
    list_drop(zero3->ds->run, &parts);
}

void zero3_gather(struct zero3 *zero3, const size_t *params, size_t count)
{
    struct ghost *g = ghost_of(zero3);
    struct zero3_handle *handle = pool_alloc(&g->pool, sizeof *handle);
    enum category category = g->category;
    uint16_t stream = g->stream;
    name_id path = g->path;

    *handle = (struct zero3_handle){
        .refs = (uint32_t)count,
        .params = pool_alloc(&g->pool, count * sizeof *params),
        .count = count,
    };
    for (size_t i = 0; i < count; i++)
        handle->params[i] = params[i];
    qsort(handle->params, count, sizeof *handle->params, by_number);
    for (size_t i = 0; i < count; i++) {
        struct zero3_param *p = &zero3->params[handle->params[i]];

        zero3->available += p->numel;
        p->status = ZERO3_INFLIGHT;
        p->handle = handle;
    }
    g->stream = zero3->ds->settings.overlap_comm ? DEEPSPEED_STREAM_GATHER : 0;
    if (zero3->ds->world > 1 && count == 1)
        gather_alone(zero3, &zero3->params[handle->params[0]]);
    else if (zero3->ds->world > 1)
        gather_together(zero3, handle);
    g->stream = stream;
    g->category = category;
    g->path = path;
}

/* copy_out() - AllGatherCoalescedHandle.wait(): torch.cat() of each parameter's parts */
static void copy_out(struct zero3 *zero3, struct zero3_handle *handle)
{
    struct ghost *g = ghost_of(zero3);
    enum category category = g->category;
    uint16_t stream = g->stream;
    name_id path = g->path;

    g->stream = zero3->ds->settings.overlap_comm ? DEEPSPEED_STREAM_GATHER : 0;
    for (size_t i = 0; i < handle->count; i++) {
        struct zero3_param *p = &zero3->params[handle->params[i]];

        p->status = ZERO3_AVAILABLE;
        if (zero3->ds->world == 1) { /* NoGatherHandle: the part is the whole */
            TENSOR_AUTO *copy = to_device(zero3, p);

            tensor_set_data(p->param->tensor, copy ? copy : p->shard);
            continue;
        }
        if (!handle->buffer)
            continue;
        set_place(zero3, p, CATEGORY_PARAMETER);
        TENSOR_AUTO *whole = tensor_new_sizes(g, zero3->ds->dtype, p->numel);

        tensor_set_data(p->param->tensor, whole);
    }
    handle->complete = true;
    g->stream = stream;
    g->category = category;
    g->path = path;
}

void zero3_wait(struct zero3 *zero3, struct zero3_param *p)
{
    struct zero3_handle *handle = p->handle;

    if (!handle)
        return;
    p->handle = NULL;
    if (!handle->complete)
        copy_out(zero3, handle);
    handle_drop(zero3, handle);
}

void zero3_gather_now(struct zero3 *zero3, const size_t *params, size_t count)
{
    struct list parts = { 0 };

    for (size_t i = 0; i < count; i++) {
        struct zero3_param *p = &zero3->params[params[i]];

        p->status = ZERO3_AVAILABLE;
        if (zero3->ds->world == 1) {
            tensor_set_data(p->param->tensor, p->shard);
            continue;
        }
        set_place(zero3, p, CATEGORY_PARAMETER);
        TENSOR_AUTO *whole = tensor_new_sizes(ghost_of(zero3), p->param->tensor->dtype,
                                              p->partition * zero3->ds->world);

        list_push(zero3->ds->run, &parts, to_device(zero3, p));
        tensor_set_data(p->param->tensor, whole);
    }
    list_drop(zero3->ds->run, &parts);
}

void zero3_free(struct zero3 *zero3, struct zero3_param *p)
{
    struct ghost *g = ghost_of(zero3);
    struct tensor *leaf = p->param->tensor;
    TENSOR_AUTO *none = tensor_new_sizes(g, leaf->dtype, 0);

    if (g->schedule && leaf->storage->allocation && zero3->ds->settings.overlap_comm)
        schedule_use(g->schedule, leaf->storage->allocation, g->stream);
    tensor_set_data(leaf, none);
    p->status = ZERO3_NOT_AVAILABLE;
}
