/*
 * train/zero3_reduce.c - ZeRO stage 3: gradients go through a bucket, and each rank keeps its part of each
 *
 * Mirrors __add_grad_to_ipg_bucket(), __avg_scatter_grads() and partition_grads() of deepspeed/runtime/zero/stage3.py, and
 * deepspeed/runtime/comm/coalesced_collectives.py (0.19.8). With overlap_comm, the default here, it is on a stream of its own.
 */
#include <stdlib.h>

#include "base/num.h"
#include "ghost/kernels.h"
#include "train/zero3.h"

static struct tensor *grad_of(const struct zero3 *zero3, size_t param)
{
    return zero3->params[param].param->tensor->grad;
}

static int by_number(const void *a, const void *b)
{
    const size_t *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

/* cast_gradients() - to the type of communication, when it is not the gradients' own */
static void cast_gradients(struct zero3 *zero3, struct list *casts)
{
    enum dtype dtype = zero3->ds->settings.communication_dtype;

    for (size_t i = 0; dtype != zero3->ds->dtype && i < zero3->bucket_count; i++)
        list_push(zero3->ds->run, casts,
                  kernel_cast(grad_of(zero3, zero3->bucket_params[i]), dtype));
}

/* cut_short() - elements that the part of @rank lacks */
static int64_t cut_short(const struct zero3_param *p, int64_t rank)
{
    int64_t left = p->numel - rank * p->partition;

    return left < 0 ? p->partition : left < p->partition ? p->partition - left : 0;
}

/* struct padding - what fills the parts that are cut short */
struct padding {
    struct tensor **items;
    size_t count, size; /* bytes of the array */
};

static struct padding make_padding(struct zero3 *zero3, enum dtype dtype)
{
    struct ghost *g = &zero3->ds->run->ghost;
    struct padding padding = { 0 };
    size_t count = 0;

    for (size_t i = 0; i < zero3->bucket_count; i++)
        for (int64_t rank = 0; rank < zero3->ds->world; rank++)
            count += cut_short(&zero3->params[zero3->bucket_params[i]], rank) > 0;
    if (count == 0)
        return padding;
    padding.size = count * sizeof *padding.items;
    padding.items = pool_alloc(&g->pool, padding.size);
    for (int64_t rank = 0; rank < zero3->ds->world; rank++)
        for (size_t i = 0; i < zero3->bucket_count; i++) {
            int64_t lacks = cut_short(&zero3->params[zero3->bucket_params[i]], rank);

            if (lacks > 0)
                padding.items[padding.count++] = tensor_new_sizes(g, dtype, lacks);
        }
    return padding;
}

static void drop_padding(struct zero3 *zero3, struct padding *padding)
{
    while (padding->count > 0)
        tensor_drop(padding->items[--padding->count]);
    if (padding->items)
        pool_free(&zero3->ds->run->ghost.pool, padding->items, padding->size);
}

/* interleave() - reduce_scatter_coalesced(): the ranks' parts side by side; NULL when a gradient is that already */
static struct tensor *interleave(struct zero3 *zero3)
{
    enum dtype dtype = zero3->ds->settings.communication_dtype;
    int64_t numel = 0;

    for (size_t i = 0; i < zero3->bucket_count; i++)
        numel += zero3->params[zero3->bucket_params[i]].partition * zero3->ds->world;
    if (zero3->bucket_count == 1 && zero3->params[zero3->bucket_params[0]].numel == numel)
        return NULL;
    struct padding padding = make_padding(zero3, dtype);
    struct tensor *flat = tensor_new_sizes(&zero3->ds->run->ghost, dtype, numel);

    drop_padding(zero3, &padding);
    return flat;
}

/* cast_parts() - this rank's parts, back from the type of communication */
static void cast_parts(struct zero3 *zero3, struct list *parts)
{
    if (zero3->ds->settings.communication_dtype == zero3->ds->dtype)
        return;
    for (size_t i = 0; i < zero3->bucket_count; i++)
        list_push(zero3->ds->run, parts,
                  tensor_new_sizes(&zero3->ds->run->ghost, zero3->ds->dtype,
                                   zero3->params[zero3->bucket_params[i]].partition));
}

/* scatter() - __avg_scatter_grads(); the buffer that the parts are in, owned, or NULL */
static struct tensor *scatter(struct zero3 *zero3, struct list *parts)
{
    struct list casts = { 0 };

    qsort(zero3->bucket_params, zero3->bucket_count, sizeof *zero3->bucket_params, by_number);
    cast_gradients(zero3, &casts);
    struct tensor *flat = interleave(zero3);

    cast_parts(zero3, parts);
    list_drop(zero3->ds->run, &casts);
    return flat;
}

/* scatter_bucket() - __avg_scatter_contiguous_grads(), without reduce_scatter: the whole bucket, multiplied by 1 */
static struct tensor *scatter_bucket(struct zero3 *zero3, struct list *parts)
{
    struct ghost *g = &zero3->ds->run->ghost;
    enum dtype dtype = zero3->ds->settings.communication_dtype;
    struct tensor *reduced = NULL;

    if (zero3->ds->world > 1)
        reduced = tensor_new_sizes(g, dtype, zero3->bucket_elements);
    if (dtype != zero3->ds->dtype) {
        struct tensor *cast = tensor_new_sizes(g, zero3->ds->dtype, zero3->bucket_elements);

        tensor_drop(reduced);
        reduced = cast;
    }
    for (size_t i = 0; i < zero3->bucket_count; i++) {
        const struct zero3_param *p = &zero3->params[zero3->bucket_params[i]];

        if (cut_short(p, zero3->ds->rank) > 0)
            list_push(zero3->ds->run, parts, tensor_new_sizes(g, zero3->ds->dtype, p->partition));
    }
    return reduced;
}

/* offload_norm() - _constant_buffered_norm2(): (x.to(float64).norm(2) ** 2) ** 0.5; owned */
static struct tensor *offload_norm(struct zero3 *zero3, struct tensor *part)
{
    struct ghost *g = &zero3->ds->run->ghost;
    struct tensor *wide = part ? kernel_cast(part, DTYPE_FLOAT64) : NULL;
    struct tensor *norm = tensor_new_scalar(g, DTYPE_FLOAT64);

    if (wide)
        kernel_reduce_scratch(g, wide, 1, 8);
    tensor_drop(wide);
    struct tensor *square = tensor_new_scalar(g, DTYPE_FLOAT64);

    tensor_drop(norm);
    struct tensor *root = tensor_new_scalar(g, DTYPE_FLOAT64);

    tensor_drop(square);
    return root;
}

/*
 * offload_part() - the part that is added up on the host is on the device for a moment
 *
 * @last: the one before, which the first micro-batch lets go of at once, and later ones when the next is there.
 */
static void offload_part(struct zero3 *zero3,
                         struct zero3_param *p,
                         bool boundary,
                         struct tensor **last)
{
    struct tensor *before = *last;

    if (zero3->ds->run->micro == 0) {
        tensor_drop(before);
        before = NULL;
    }
    *last = tensor_new_sizes(&zero3->ds->run->ghost, zero3->ds->dtype, p->partition);
    tensor_drop(before);
    if (!boundary)
        return;
    tensor_drop(p->norm);
    p->norm = offload_norm(zero3, *last);
    if (*last && (*last)->dtype != DTYPE_FLOAT32)
        tensor_drop(kernel_cast(*last, DTYPE_FLOAT32));
}

/* keep_parts() - partition_grads(): into this rank's buffer of all gradients, which become none */
static void keep_parts(struct zero3 *zero3, bool boundary)
{
    struct tensor *last = NULL;

    for (size_t i = 0; i < zero3->bucket_count; i++) {
        struct zero3_param *p = &zero3->params[zero3->bucket_params[i]];
        struct tensor *leaf = p->param->tensor;

        if (zero3->ds->settings.offload_optimizer && cut_short(p, zero3->ds->rank) < p->partition)
            offload_part(zero3, p, boundary, &last);
        tensor_drop(leaf->grad);
        leaf->grad = NULL;
    }
    tensor_drop(last);
}

/* reduce_bucket() - __reduce_and_partition_ipg_grads() */
static void reduce_bucket(struct zero3 *zero3, bool boundary)
{
    const struct deepspeed_settings *s = &zero3->ds->settings;
    struct ghost *g = &zero3->ds->run->ghost;
    uint16_t stream = g->stream;
    struct list parts = { 0 };

    if (zero3->bucket_count == 0)
        return;
    g->category = CATEGORY_COMMUNICATION;
    g->stream = s->overlap_comm ? DEEPSPEED_STREAM_REDUCE : DEEPSPEED_STREAM_DEFAULT;
    bool whole = s->contiguous_gradients && !s->reduce_scatter &&
                 zero3->bucket_elements <= s->reduce_bucket_size;
    struct tensor *flat = whole ? scatter_bucket(zero3, &parts) : scatter(zero3, &parts);

    if (parts.count == zero3->bucket_count) { /* nothing is left in the buffer */
        tensor_drop(flat);
        flat = NULL;
    }
    keep_parts(zero3, boundary);
    list_drop(zero3->ds->run, &parts);
    tensor_drop(flat);
    zero3->bucket_count = 0;
    zero3->bucket_elements = 0;
    g->stream = stream;
}

void zero3_ready(struct deepspeed *ds, struct tensor *leaf, bool boundary)
{
    struct zero3 *zero3 = ds->zero3;
    struct ghost *g = &ds->run->ghost;
    size_t number = zero3_number(zero3, leaf);
    enum category category = g->category;
    name_id path = g->path;

    if (number == SIZE_MAX || !leaf->grad)
        return;
    int64_t numel = tensor_numel(leaf->grad);

    g->path = zero3->params[number].module;
    if (zero3->bucket_elements > 0 &&
        zero3->bucket_elements + numel > ds->settings.reduce_bucket_size)
        reduce_bucket(zero3, boundary);
    if (zero3->bucket && zero3->bucket_elements + numel <= ds->settings.reduce_bucket_size) {
        struct tensor *view =
            tensor_view(zero3->bucket, leaf->grad->dims, leaf->grad->sizes, leaf->grad->strides);

        if (g->schedule && ds->settings.overlap_comm && leaf->grad->storage->allocation)
            schedule_use(g->schedule, leaf->grad->storage->allocation, DEEPSPEED_STREAM_REDUCE);
        tensor_drop(leaf->grad);
        leaf->grad = view;
    }
    zero3->bucket_params[zero3->bucket_count++] = number;
    zero3->bucket_elements += numel;
    g->path = path;
    g->category = category;
}

void zero3_reduced(struct deepspeed *ds, bool boundary)
{
    reduce_bucket(ds->zero3, boundary);
    zero3_release_leftovers(ds->zero3);
    ds->run->ghost.category = CATEGORY_ACTIVATION;
}
