/*
 * train/fsdp1_handle.c - a flat parameter of FSDP1: flattened, sharded, gathered, seen through views, reduced
 *
 * Mirrors torch/distributed/fsdp/_flat_param.py and _runtime_utils.py (2.15). The views that modules compute with are made
 * where the gather runs, so that their backward (the concatenation of gradients) takes its memory on that stream too. Memory
 * that another stream uses is freed after record_stream().
 */
#include "base/num.h"
#include "ghost/kernels.h"
#include "train/fsdp1.h"

/* used_on() - tensor.record_stream(stream) */
static void used_on(struct tensor *x, enum fsdp1_stream stream)
{
    if (x && x->ghost->schedule && x->storage->allocation)
        schedule_use(x->ghost->schedule, x->storage->allocation, (uint16_t)stream);
}

static enum dtype compute_dtype(const struct fsdp1_handle *h)
{
    return h->fsdp->param_dtype != DTYPE_COUNT ? h->fsdp->param_dtype : h->dtype;
}

static enum dtype reduce_dtype(const struct fsdp1_handle *h)
{
    const struct fsdp1 *fsdp = h->fsdp;

    if (fsdp->reduce_dtype != DTYPE_COUNT)
        return fsdp->reduce_dtype;
    return compute_dtype(h);
}

/* is_low() - _uses_param_mixed_precision */
static bool is_low(const struct fsdp1_handle *h)
{
    return compute_dtype(h) != h->dtype;
}

void fsdp1_flatten(struct fsdp1_handle *h)
{
    struct ghost *g = &h->fsdp->run->ghost;
    int64_t parts = h->fsdp->shards;

    if (h->param_count == 0)
        return;
    g->path = h->path;
    struct tensor *whole = tensor_new_sizes(g, h->dtype, h->numel);

    h->shard_numel = (int64_t)num_ceil_div((uint64_t)h->numel, (uint64_t)parts);
    h->flat.tensor = tensor_new_sizes(g, h->dtype, h->shard_numel);
    tensor_drop(whole);
    for (size_t i = 0; i < h->param_count; i++) {
        tensor_drop(h->params[i]->tensor);
        h->params[i]->tensor = NULL;
    }
    if (!h->flat.tensor)
        return;
    if (h->fsdp->offload)
        tensor_release_storage(h->flat.tensor);
    if (!h->frozen)
        autograd_leaf(h->flat.tensor);
    h->flat.dtype = h->dtype;
    h->flat.dims = 1;
    h->flat.sizes[0] = h->shard_numel;
    h->leaf = (struct leaf){ .param = &h->flat, .module = h->path };
    h->sharded = true;
}

/* emptied() - torch.empty(), whose memory is let go at once */
static struct tensor *emptied(struct fsdp1_handle *h, enum dtype dtype, int64_t numel)
{
    struct tensor *x = tensor_new_sizes(&h->fsdp->run->ghost, dtype, numel);

    tensor_release_storage(x);
    return x;
}

void fsdp1_init_attributes(struct fsdp1_handle *h)
{
    struct ghost *g = &h->fsdp->run->ghost;
    int64_t padded = h->shard_numel * h->fsdp->shards;

    if (h->param_count == 0)
        return;
    g->category = CATEGORY_PARAMETER;
    g->path = h->path;
    if (is_low(h))
        h->low = emptied(h, compute_dtype(h), h->shard_numel);
    h->full = emptied(h, compute_dtype(h), padded);
    if (is_low(h)) /* _full_prec_full_param_padded, which training never fills */
        tensor_drop(emptied(h, h->dtype, padded));
    h->unsharded = tensor_view(h->full, 1, &h->numel, &(int64_t){ 1 });
    if (!h->unsharded)
        return;
    h->unsharded->view = false;
    if (!h->frozen)
        autograd_leaf(h->unsharded);
}

/* ------------------------------------------------------------------ views */

static void split_apply(struct ghost *g,
                        struct node *n,
                        struct tensor *const *grads,
                        struct tensor **ret)
{
    struct list zeros = { 0 };
    struct run *run = (struct run *)(intptr_t)n->numbers[0];
    int64_t numel = 0;

    for (uint32_t i = 0; i < n->output_count; i++) {
        numel += n->outputs[i].sizes[0];
        if (!grads[i])
            list_push(run, &zeros, tensor_new(g, n->outputs[i].dtype, 1, n->outputs[i].sizes));
    }
    if (node_needs(n, 0))
        ret[0] = tensor_new_sizes(g, n->outputs[0].dtype, numel);
    list_drop(run, &zeros);
}

static const struct backward split_backward = { "SplitWithSizesBackward0", split_apply };

static void view_apply(struct ghost *g,
                       struct node *n,
                       struct tensor *const *grads,
                       struct tensor **ret)
{
    (void)g;
    if (!node_needs(n, 0) || !grads[0])
        return;
    TENSOR_AUTO *dense = kernel_contiguous(grads[0]);

    if (dense)
        ret[0] = tensor_view(dense, 1, &(int64_t){ tensor_numel(dense) }, &(int64_t){ 1 });
}

static const struct backward view_backward = { "ViewBackward0", view_apply };

/* use_views() - _use_unsharded_views(): each parameter of the module is a part of the flat one, and autograd knows it */
static void use_views(struct fsdp1_handle *h)
{
    struct ghost *g = &h->fsdp->run->ghost;
    bool grad_enabled = g->grad_enabled;
    uint32_t count = (uint32_t)h->param_count;

    g->grad_enabled = true;
    struct node *split = node_new_outputs(g, &split_backward, &h->unsharded, 1, 0, 1, count);

    if (split)
        split->numbers[0] = (int64_t)(intptr_t)h->fsdp->run;
    for (uint32_t i = 0; i < count; i++) {
        struct param *p = h->params[i];
        int64_t numel = 1, strides[TENSOR_DIMS];

        for (unsigned d = 0; d < p->dims; d++)
            numel *= p->sizes[d];
        TENSOR_AUTO *part = tensor_view(h->full, 1, &numel, &(int64_t){ 1 });

        node_attach_output(split, i, part);
        struct node *view = part ? node_new(g, &view_backward, &part, 1, 0, 0) : NULL;

        tensor_contiguous_strides(p->dims, p->sizes, strides);
        struct tensor *used =
            node_attach(view, part ? tensor_view(part, p->dims, p->sizes, strides) : NULL);

        tensor_drop(p->used);
        p->used = used;
    }
    node_drop(split);
    g->grad_enabled = grad_enabled;
}

/* ------------------------------------------------------------------ unshard, reshard */

/* pre_unshard() - what is gathered, on the device and in its type: owned, or NULL where the shard itself is gathered */
static struct tensor *pre_unshard(struct fsdp1_handle *h, bool needed)
{
    struct ghost *g = &h->fsdp->run->ghost;
    bool offload = h->fsdp->offload;
    struct tensor *copy = NULL;

    if (!needed && !offload)
        return NULL;
    g->stream = FSDP1_STREAM_PRE_UNSHARD;
    if (is_low(h))
        tensor_restore_storage(h->low);
    if (offload)
        copy = tensor_like(g, h->flat.tensor, h->dtype);
    if (is_low(h)) {
        tensor_drop(copy);
        copy = tensor_ref(h->low);
    }
    g->stream = FSDP1_STREAM_DEFAULT;
    return copy;
}

void fsdp1_unshard(struct fsdp1_handle *h)
{
    struct ghost *g = &h->fsdp->run->ghost;
    enum category category = g->category;
    name_id path = g->path;
    uint16_t stream = g->stream;
    bool needed = h->full && h->full->storage->allocation == 0;

    g->category = CATEGORY_COMMUNICATION;
    g->path = h->path;
    struct tensor *source = pre_unshard(h, needed);

    g->stream = FSDP1_STREAM_UNSHARD;
    g->category = CATEGORY_PARAMETER;
    tensor_restore_storage(h->full);
    if (needed && h->fsdp->offload)
        used_on(source, FSDP1_STREAM_UNSHARD);
    if (h->training == FSDP1_FORWARD)
        use_views(h);
    if (h->low && h->low->storage->allocation) {
        used_on(h->low, FSDP1_STREAM_UNSHARD);
        tensor_release_storage(h->low);
    }
    tensor_drop(source);
    h->sharded = false;
    g->stream = stream;
    g->category = category;
    g->path = path;
}

void fsdp1_reshard(struct fsdp1_handle *h, bool frees)
{
    h->sharded = true;
    h->prefetched = false;
    if (!frees)
        return;
    used_on(h->full, FSDP1_STREAM_DEFAULT);
    tensor_release_storage(h->full);
}

/* ------------------------------------------------------------------ gradients */

void fsdp1_reduce(struct fsdp1_handle *h)
{
    struct ghost *g = &h->fsdp->run->ghost;
    enum category category = g->category;
    uint16_t stream = g->stream;
    int64_t padded_numel = h->shard_numel * h->fsdp->shards;
    struct tensor *computed = h->unsharded->grad;

    g->stream = FSDP1_STREAM_POST_BACKWARD;
    g->category = CATEGORY_COMMUNICATION;
    g->path = h->path;
    h->unsharded->grad = NULL;
    struct tensor *grad = kernel_cast(computed, reduce_dtype(h));
    struct tensor *padded = NULL;

    if (grad && padded_numel != h->numel)
        padded = tensor_new_sizes(g, grad->dtype, padded_numel);
    g->category = CATEGORY_GRADIENT;
    struct tensor *part = tensor_new_sizes(g, reduce_dtype(h), h->shard_numel);
    struct tensor *kept = part ? kernel_cast(part, h->dtype) : NULL;

    tensor_drop(part);
    if (h->reduced)
        tensor_drop(kept); /* _saved_grad_shard += sharded_grad */
    else
        h->reduced = kept;
    tensor_drop(padded);
    tensor_drop(grad);
    used_on(computed, FSDP1_STREAM_POST_BACKWARD);
    tensor_drop(computed);
    g->stream = stream;
    g->category = category;
}
