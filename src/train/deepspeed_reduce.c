/*
 * train/deepspeed_reduce.c - ZeRO stages 1 and 2: gradients go through a bucket, and each rank keeps what it updates
 *
 * Mirrors deepspeed/runtime/zero/stage_1_and_2.py (0.19.8). The bucket (two with overlap_comm, on whose stream it is reduced)
 * is there from a backward's first gradient until gradients are averaged; gradients are copied into it and are views of
 * it from then on. When it is full, or the backward over, its ranks' slices are put together, reduced and copied back,
 * and the gradients of which this rank has a part are copied, whole, to memory of their own.
 */
#include "ghost/kernels.h"
#include "train/deepspeed.h"

/* ------------------------------------------------------------------ the collectives' memory */

/* struct slices - what is flattened for one collective */
struct slices {
    size_t count;
    int64_t numel;
};

/* reduce_slices() - allreduce_bucket(): flatten, cast to the type of communication, reduce, copy back */
static void reduce_slices(struct deepspeed *ds, struct slices *slices)
{
    struct ghost *g = &ds->run->ghost;

    if (slices->count == 0)
        return;
    /* one tensor is flattened by a view */
    struct tensor *flat = slices->count > 1 ? tensor_new_sizes(g, ds->dtype, slices->numel) : NULL;
    struct tensor *cast = ds->settings.communication_dtype != ds->dtype
                              ? tensor_new_sizes(g, ds->settings.communication_dtype, slices->numel)
                              : NULL;

    tensor_drop(flat);
    tensor_drop(cast);
    *slices = (struct slices){ 0 };
}

static void add_slice(struct deepspeed *ds, struct slices *slices, int64_t numel)
{
    slices->count++;
    slices->numel += numel;
    if (slices->numel > ds->settings.reduce_bucket_size)
        reduce_slices(ds, slices);
}

/* struct slice - neighbours in the bucket that one rank keeps */
struct slice {
    int64_t rank, numel;
};

/* slice_up() - the bucket's gradients by the ranks that keep them, neighbours of the same rank together; returns how many */
static size_t slice_up(struct deepspeed *ds, struct slice **ret)
{
    const struct deepspeed_flat *flat = ds->flat;
    const struct ipg_bucket *bucket = &flat->bucket;
    size_t count = 0, capacity = bucket->member_count + (size_t)ds->world;
    struct slice *slices = pool_alloc(&ds->run->ghost.pool, (capacity + 1) * sizeof *slices);

    for (size_t i = 0; i < bucket->member_count; i++) {
        const struct flat_param *p = &flat->params[bucket->members[i]];
        int64_t at = p->offset, end = p->offset + p->numel;

        while (at < end) {
            int64_t rank = at / flat->partition;
            int64_t border = (rank + 1) * flat->partition;
            int64_t numel = (border < end ? border : end) - at;

            if (count > 0 && slices[count - 1].rank == rank)
                slices[count - 1].numel += numel;
            else
                slices[count++] = (struct slice){ rank, numel };
            at += numel;
        }
    }
    *ret = slices;
    return count;
}

/* reduce_by_rank() - use_multi_rank_bucket_allreduce off: a collective for each rank */
static void reduce_by_rank(struct deepspeed *ds, struct slice *slices, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct slices together = { 0 };
        int64_t rank = slices[i].rank;

        for (size_t k = i; rank >= 0 && k < count; k++) {
            if (slices[k].rank != rank)
                continue;
            slices[k].rank = -1;
            add_slice(ds, &together, slices[k].numel);
        }
        reduce_slices(ds, &together);
    }
}

/* average_tensor() - of a bucket with contiguous gradients */
static void average_tensor(struct deepspeed *ds)
{
    const struct ipg_bucket *bucket = &ds->flat->bucket;
    struct slices together = { 0 };
    struct slice *slices;

    if (!ds->settings.reduce_scatter) { /* gradient_reduction_w_predivide() */
        together = (struct slices){ 1, bucket->elements };
        if (bucket->elements > 0)
            reduce_slices(ds, &together);
        return;
    }
    size_t count = slice_up(ds, &slices);

    if (ds->settings.multi_rank_allreduce) {
        for (size_t i = 0; i < count; i++)
            add_slice(ds, &together, slices[i].numel);
        reduce_slices(ds, &together);
    } else {
        reduce_by_rank(ds, slices, count);
    }
    pool_free(&ds->run->ghost.pool, slices,
              (bucket->member_count + (size_t)ds->world + 1) * sizeof *slices);
}

/* ------------------------------------------------------------------ gradients that are kept */

static void drop_grad(struct flat_param *p)
{
    tensor_drop(p->param->tensor->grad);
    p->param->tensor->grad = NULL;
}

/* point_grad_into() - grad.data = buffer.narrow(…).view_as(grad) */
static void point_grad_into(struct flat_param *p, struct tensor *buffer)
{
    struct tensor *leaf = p->param->tensor;

    if (!leaf->grad || !buffer)
        return;
    struct tensor *view =
        tensor_view(buffer, leaf->grad->dims, leaf->grad->sizes, leaf->grad->strides);

    tensor_drop(leaf->grad);
    leaf->grad = view;
}

/* mine() - the elements of a gradient that this rank updates, as a view; owned */
static struct tensor *mine(struct deepspeed *ds, const struct flat_param *p)
{
    int64_t partition = ds->flat->partition, from = ds->rank * partition, to = from + partition;
    struct tensor *grad = p->param->tensor->grad;

    from = from > p->offset ? from : p->offset;
    to = to < p->offset + p->numel ? to : p->offset + p->numel;
    return grad ? tensor_view(grad, 1, &(int64_t){ to - from }, &(int64_t){ 1 }) : NULL;
}

/* offload_grad() - what is updated on the host goes there in fp32 with the step's last backward; its norm stays here */
static void offload_grad(struct deepspeed *ds, struct flat_param *p, bool boundary)
{
    TENSOR_AUTO *part = boundary ? mine(ds, p) : NULL;

    if (!part)
        return;
    p->norm = deepspeed_one_norm(ds, part);
    deepspeed_has_overflow(ds, p->param->tensor->grad);
    TENSOR_AUTO *cast = part->dtype != DTYPE_FLOAT32 ? kernel_cast(part, DTYPE_FLOAT32) : NULL;

    drop_grad(p);
}

/* keep_grad() - copy_grads_in_partition(): whole, also when this rank updates a part of it only */
static void keep_grad(struct deepspeed *ds, struct flat_param *p)
{
    struct deepspeed_flat *flat = ds->flat;
    struct ghost *g = &ds->run->ghost;

    if (!flat->grads_in_partition) {
        g->category = CATEGORY_GRADIENT;
        flat->grads_in_partition = tensor_new_sizes(g, ds->dtype, flat->mine_numel);
        g->category = CATEGORY_COMMUNICATION;
    }
    point_grad_into(p, flat->grads_in_partition);
}

/* reduce_bucket() - reduce_ipg_grads() */
static void reduce_bucket(struct deepspeed *ds, bool boundary)
{
    struct deepspeed_flat *flat = ds->flat;
    struct ipg_bucket *bucket = &flat->bucket;
    struct ghost *g = &ds->run->ghost;
    bool contiguous = ds->settings.contiguous_gradients;
    uint16_t outer = g->stream;

    g->stream = ds->settings.overlap_comm ? DEEPSPEED_STREAM_REDUCE : DEEPSPEED_STREAM_DEFAULT;
    if (contiguous) {
        average_tensor(ds);
    } else { /* buffered_reduce_fallback() */
        struct slices together = { bucket->member_count, bucket->elements };

        reduce_slices(ds, &together);
    }
    for (size_t i = 0; i < bucket->member_count; i++) {
        struct flat_param *p = &flat->params[bucket->members[i]];

        p->reduced = true;
        if (p->mine && ds->settings.offload_optimizer)
            offload_grad(ds, p, boundary);
        else if (p->mine && contiguous)
            keep_grad(ds, p);
        else if (!p->mine && ds->settings.stage == 2)
            drop_grad(p);
    }
    g->stream = outer;
    bucket->elements = 0;
    bucket->member_count = 0;
}

/* ------------------------------------------------------------------ a gradient is ready */

/* set_up_buckets() - setup_buckets(): with a backward's first gradient */
static void set_up_buckets(struct deepspeed *ds)
{
    struct deepspeed_flat *flat = ds->flat;
    struct ghost *g = &ds->run->ghost;

    if (flat->ready)
        return;
    flat->ready = true;
    for (unsigned i = 0; i < (ds->settings.overlap_comm ? 2u : 1u); i++)
        if (ds->settings.contiguous_gradients)
            flat->bucket.buffers[i] =
                tensor_new_sizes(g, ds->dtype, ds->settings.reduce_bucket_size);
    flat->bucket.index = 0;
}

/* clone_grad() - one that is larger than a bucket, so that nothing else shares its memory */
static void clone_grad(struct flat_param *p)
{
    struct tensor *leaf = p->param->tensor;
    struct tensor *clone = leaf->grad ? kernel_clone(leaf->grad) : NULL;

    tensor_drop(leaf->grad);
    leaf->grad = clone;
}

/* add_to_bucket() - reduce_independent_p_g_buckets_and_remove_grads() */
static void add_to_bucket(struct deepspeed *ds, uint32_t number, bool boundary)
{
    struct deepspeed_flat *flat = ds->flat;
    struct flat_param *p = &flat->params[number];
    struct ipg_bucket *bucket = &flat->bucket;
    bool contiguous = ds->settings.contiguous_gradients;

    if (p->numel == 0)
        return;
    if (bucket->elements + p->numel > ds->settings.reduce_bucket_size) {
        reduce_bucket(ds, boundary);
        if (contiguous && ds->settings.overlap_comm)
            bucket->index = 1 - bucket->index;
    }
    if (p->reduced) {
        ghost_fail(&ds->run->ghost, PLM_E_USAGE,
                   "zero: '%s' gets a second gradient in one backward, as when a reentrant "
                   "checkpoint shares it; DeepSpeed refuses that",
                   names_text(ds->run->ghost.names, p->param->name));
        return;
    }
    if (contiguous && p->numel <= ds->settings.reduce_bucket_size)
        point_grad_into(p, bucket->buffers[bucket->index]);
    else if (contiguous && ds->settings.offload_optimizer)
        clone_grad(p);
    bucket->elements += p->numel;
    bucket->members[bucket->member_count++] = number;
}

void deepspeed_flat_ready(struct deepspeed *ds, struct tensor *leaf, bool boundary)
{
    struct ghost *g = &ds->run->ghost;
    size_t number = deepspeed_flat_number(ds->flat, leaf);
    enum category category = g->category;
    name_id path = g->path;

    if (number == SIZE_MAX)
        return;
    g->category = CATEGORY_COMMUNICATION;
    g->path = ds->flat->params[number].module;
    set_up_buckets(ds);
    if (ds->settings.stage == 2 || (ds->settings.overlap_comm && boundary))
        add_to_bucket(ds, (uint32_t)number, boundary);
    g->path = path;
    g->category = category;
}

/* ------------------------------------------------------------------ the end of a backward */

/* grad_or_zeros() - an element of get_all_grad_tensors() */
static struct tensor *grad_or_zeros(struct deepspeed *ds, const struct flat_param *p)
{
    struct tensor *leaf = p->param->tensor;

    return leaf->grad ? tensor_ref(leaf->grad) : tensor_like(&ds->run->ghost, leaf, ds->dtype);
}

/* sum_gradients() - all_grad_tensors: those of the first backward, to which later ones are added */
static void sum_gradients(struct deepspeed *ds, struct list *added)
{
    struct deepspeed_flat *flat = ds->flat;
    size_t count = 0;

    for (size_t i = 0; i < flat->param_count; i++) {
        const struct flat_param *p = &flat->params[flat->placed[i]];

        if (!p->mine)
            continue;
        struct tensor *grad = grad_or_zeros(ds, p);

        if (flat->has_sum)
            list_push(ds->run, added, grad);
        else
            flat->summed[count++] = grad;
    }
    flat->has_sum = true;
}

/* average_gradients() - get_flat_partition(): views of what this rank updates, and zeros to fill the partition */
static void average_gradients(struct deepspeed *ds)
{
    struct deepspeed_flat *flat = ds->flat;
    int64_t filled = 0;
    size_t count = 0;

    for (size_t i = 0; i < flat->param_count; i++) {
        const struct flat_param *p = &flat->params[flat->placed[i]];
        struct tensor *grad = p->mine ? flat->summed[count] : NULL;
        int64_t from = ds->rank * flat->partition - p->offset;
        int64_t numel = p->numel - (from > 0 ? from : 0);

        if (!p->mine)
            continue;
        numel = numel > flat->partition - filled ? flat->partition - filled : numel;
        filled += numel;
        flat->averaged[count++] = numel < p->numel && grad
                                      ? tensor_view(grad, 1, &numel, &(int64_t){ 1 })
                                      : tensor_ref(grad);
    }
    flat->averaged_count = count;
    if (filled < flat->partition)
        flat->averaged[flat->averaged_count++] =
            tensor_new_sizes(&ds->run->ghost, ds->dtype, flat->partition - filled);
    for (size_t i = 0; i < count; i++)
        tensor_drop(flat->summed[i]);
    flat->has_sum = false;
}

static void release_buckets(struct deepspeed_flat *flat)
{
    for (unsigned i = 0; i < 2; i++) {
        tensor_drop(flat->bucket.buffers[i]);
        flat->bucket.buffers[i] = NULL;
    }
    tensor_drop(flat->grads_in_partition);
    flat->grads_in_partition = NULL;
    flat->ready = false;
}

/* finish() - independent_gradient_partition_epilogue() */
static void finish(struct deepspeed *ds, bool boundary)
{
    struct deepspeed_flat *flat = ds->flat;
    struct list added = { 0 };

    reduce_bucket(ds, boundary);
    for (size_t i = 0; i < flat->param_count; i++)
        flat->params[i].reduced = false;
    ds->run->ghost.category = CATEGORY_GRADIENT;
    if (!ds->settings.offload_optimizer)
        sum_gradients(ds, &added);
    if (!ds->settings.offload_optimizer && boundary)
        average_gradients(ds);
    release_buckets(flat);
    for (size_t i = 0; i < flat->param_count; i++)
        drop_grad(&flat->params[i]);
    list_drop(ds->run, &added);
}

void deepspeed_flat_reduced(struct deepspeed *ds, bool boundary)
{
    struct deepspeed_flat *flat = ds->flat;
    struct ghost *g = &ds->run->ghost;

    if (ds->settings.stage == 1 && !boundary)
        return;
    g->category = CATEGORY_COMMUNICATION;
    if (ds->settings.stage == 1 && !ds->settings.overlap_comm) /* reduce_gradients() */
        for (uint32_t i = 0; i < flat->param_count; i++)
            if (flat->params[i].param->tensor->grad)
                add_to_bucket(ds, i, boundary);
    finish(ds, boundary);
    g->category = CATEGORY_ACTIVATION;
}
