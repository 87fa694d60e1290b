/*
 * ops/attention_ring.c - ring attention: a rank's queries against the keys and values of every rank in turn
 *
 * Mirrors torch/distributed/tensor/experimental/_context_parallel/_attention.py (2.15): _templated_ring_attention and its backward, with
 * causal load balancing and results merged in float32. A rank holds two chunks of the sequence, the r-th from the front and the
 * r-th from the back. Of an earlier rank's keys only the first chunk is seen, by all queries; of a later rank's keys both, by
 * the second chunk of the queries. So for rank r of N, step i has
 *
 *     i = 0        its own chunks, causal
 *     0 < i <= r   all queries, half of the keys
 *     i > r        half of the queries, all keys: merged into the second half
 *
 * Variables have the names of the Python code and live as long: a local of Python's dies in the order in which it was made, so
 * that locals are declared here in reverse.
 */
#include <string.h>

#include "ghost/kernels.h"
#include "ops/attention.h"
#include "ops/views.h"

enum {
    SEQ = 2,       /* the dimension that is shared out */
    LSE_ROWS = 32, /* of memory-efficient attention (kAlignLSE) */
};

/* set() - bind a name anew: @x, which is taken over, replaces what it held */
static void set(struct tensor **name, struct tensor *x)
{
    struct tensor *old = *name;

    *name = x;
    tensor_drop(old);
}

static struct tensor *half(struct tensor *x, int64_t which)
{
    int64_t length = x ? x->sizes[SEQ] / 2 : 0;

    return view_slice(x, SEQ, which * length, (which + 1) * length, 1);
}

/* ------------------------------------------------------------------ rotation */

/* struct rotater - passes a buffer on from rank to rank */
struct rotater {
    struct context_ring ring;
    bool all_to_all;
    struct tensor *buffer;  /* what comes, or with a gather all that will ever come; owned */
    struct tensor *stashed; /* what is sent, kept by the collective until it is waited for; owned */
};

static void exchange(struct rotater *r, struct tensor *current)
{
    struct ghost *g = current ? current->ghost : NULL;

    if (!current || (r->buffer && !r->all_to_all))
        return;
    enum category outer = g->category;

    g->category = CATEGORY_COMMUNICATION;
    set(&r->buffer, tensor_new_sizes(g, current->dtype,
                                     current->sizes[0] * (r->all_to_all ? 1 : r->ring.size)));
    g->category = outer;
    r->stashed = tensor_ref(current);
}

/* next() - wait; what another rank has sent, owned */
static struct tensor *next(struct rotater *r)
{
    set(&r->stashed, NULL);
    if (r->all_to_all)
        return tensor_ref(r->buffer);
    int64_t part = r->buffer ? r->buffer->sizes[0] / r->ring.size : 0;

    return view_slice(r->buffer, 0, 0, part, 1);
}

static void rotater_drop(struct rotater *r)
{
    tensor_drop(r->buffer);
    tensor_drop(r->stashed);
}
#define ROTATER_AUTO __attribute__((cleanup(rotater_drop))) struct rotater

static struct tensor *flat(struct tensor *x)
{
    return x ? view_reshape(x, 1, (int64_t[]){ -1 }) : NULL;
}

/* packed() - torch.cat([a.flatten(), b.flatten()]) */
static struct tensor *packed(struct tensor *a, struct tensor *b)
{
    TENSOR_AUTO *second = NULL;
    TENSOR_AUTO *first = flat(a);
    enum category outer;

    second = flat(b);
    if (!first || !second)
        return NULL;
    outer = a->ghost->category;
    a->ghost->category = CATEGORY_COMMUNICATION;
    struct tensor *both = view_cat(a->ghost, (struct tensor *[]){ first, second }, 2, 0);

    a->ghost->category = outer;
    return both;
}

/* unpack() - bind @a and @b to their parts of what was packed; sizes stay */
static void unpack(struct tensor *both, struct tensor **a, struct tensor **b)
{
    struct tensor **names[] = { a, b };
    int64_t start = 0;

    for (int i = 0; i < 2 && both; i++) {
        struct tensor *old = *names[i];
        int64_t end = start + tensor_numel(old);
        TENSOR_AUTO *part = view_slice(both, 0, start, end, 1);

        set(names[i], view_reshape(part, old->dims, old->sizes));
        start = end;
    }
}

/* ------------------------------------------------------------------ merging */

/* partial_update() - a half of @original replaced by @part (added in place when @part is NULL), in a new tensor */
static struct tensor *partial_update(struct tensor *original, struct tensor *part, int64_t which)
{
    TENSOR_AUTO *first = half(original, 0);
    TENSOR_AUTO *second = half(original, 1);

    if (part)
        set(which ? &second : &first, tensor_ref(part));
    if (!first || !second)
        return NULL;
    return view_cat(original->ghost, (struct tensor *[]){ first, second }, 2, SEQ);
}

/* struct merger - _SDPAMerger: what has been merged so far */
struct merger {
    struct ghost *g;
    struct tensor *lse, *out; /* owned; lse is [batch, heads, length, 1], and out in float32 */
};

static struct tensor *combined(struct tensor *a, struct tensor *b)
{
    return a && b ? kernel_pointwise(a->ghost, DTYPE_FLOAT32, (struct tensor *[]){ a, b }, 2)
                  : NULL;
}

static struct tensor *changed(struct tensor *x)
{
    return x ? kernel_pointwise(x->ghost, x->dtype, &x, 1) : NULL;
}

/* merge_out() - out - sigmoid(block_lse - lse) * (out - block_out); merge_lse() lse - logsigmoid(lse - block_lse) */
static struct tensor *merge_out(struct tensor *out,
                                struct tensor *lse,
                                struct tensor *block_out,
                                struct tensor *block_lse)
{
    TENSOR_AUTO *difference = combined(block_lse, lse);
    TENSOR_AUTO *share = changed(difference);

    set(&difference, NULL);
    TENSOR_AUTO *apart = combined(out, block_out);
    TENSOR_AUTO *step = combined(share, apart);

    set(&share, NULL);
    set(&apart, NULL);
    return combined(out, step);
}

static struct tensor *merge_lse(struct tensor *lse, struct tensor *block_lse)
{
    TENSOR_AUTO *difference = combined(lse, block_lse);
    TENSOR_AUTO *share = changed(difference);

    set(&difference, NULL);
    return combined(lse, share);
}

static void merge_one(struct merger *m,
                      struct tensor *block_out,
                      struct tensor *block_lse,
                      bool partial)
{
    if (!m->lse) {
        m->lse = tensor_ref(block_lse);
        m->out = tensor_ref(block_out);
        return;
    }
    TENSOR_AUTO *out = partial ? half(m->out, 1) : tensor_ref(m->out);
    TENSOR_AUTO *lse = partial ? half(m->lse, 1) : tensor_ref(m->lse);

    enum category outer = m->g->category;

    m->g->category = CATEGORY_TEMPORARY;
    set(&out, merge_out(out, lse, block_out, block_lse));
    m->g->category = outer;
    set(&lse, merge_lse(lse, block_lse));
    set(&m->lse, partial ? partial_update(m->lse, lse, 1) : tensor_ref(lse));
    m->g->category = CATEGORY_TEMPORARY;
    set(&m->out, partial ? partial_update(m->out, out, 1) : tensor_ref(out));
    m->g->category = outer;
}

static void merge(struct merger *m, const struct attention_result *r, bool partial)
{
    TENSOR_AUTO *wide = view_unsqueeze(r->lse, -1);
    enum category outer = m->g->category;

    m->g->category = CATEGORY_TEMPORARY;
    TENSOR_AUTO *out = r->out ? kernel_cast(r->out, DTYPE_FLOAT32) : NULL;

    m->g->category = outer;
    merge_one(m, out, wide, partial);
}

static void merger_drop(struct merger *m)
{
    tensor_drop(m->out);
    tensor_drop(m->lse);
}

/* ------------------------------------------------------------------ forward */

static void result_drop(struct attention_result *r)
{
    tensor_drop(r->out);
    tensor_drop(r->lse);
    tensor_drop(r->rest[1]);
    tensor_drop(r->rest[0]);
}
#define RESULT_AUTO __attribute__((cleanup(result_drop))) struct attention_result

/* forward() - ret: the merged output and log-sum-exp, and the first call's random state */
static void forward(const struct attention_kernel *kernel,
                    const struct attention *a,
                    struct attention_result *ret)
{
    struct attention call = *a;
    RESULT_AUTO r = { 0 };
    TENSOR_AUTO *v = NULL;
    TENSOR_AUTO *k = NULL;
    TENSOR_AUTO *q = NULL;
    ROTATER_AUTO rotater = { .ring = a->ring, .all_to_all = a->ring.all_to_all };
    __attribute__((cleanup(merger_drop))) struct merger merger = { .g = a->g };
    TENSOR_AUTO *next_kv = NULL;
    TENSOR_AUTO *value = NULL;
    TENSOR_AUTO *key = kernel_contiguous(a->key);

    value = kernel_contiguous(a->value);
    for (int64_t i = 0; i < a->ring.size && !a->g->halt; i++) {
        bool partial = i > a->ring.rank;

        if (i > 0) {
            set(&next_kv, next(&rotater));
            unpack(next_kv, &key, &value);
        }
        if (i < a->ring.size - 1) {
            set(&next_kv, packed(key, value));
            exchange(&rotater, next_kv);
            set(&next_kv, NULL);
        }
        set(&q, partial ? half(a->query, 1) : tensor_ref(a->query));
        set(&k, i > 0 && !partial ? half(key, 0) : tensor_ref(key));
        set(&v, i > 0 && !partial ? half(value, 0) : tensor_ref(value));
        struct attention_result made = { 0 };

        call.query = q;
        call.key = k;
        call.value = v;
        call.causal = i == 0;
        if (q && k && v)
            kernel->forward(&call, &made);
        result_drop(&r);
        r = made;
        if (i == 0) {
            ret->rest[0] = tensor_ref(r.rest[0]);
            ret->rest[1] = tensor_ref(r.rest[1]);
        }
        merge(&merger, &r, partial);
    }
    if (!merger.out || a->g->halt)
        return;
    ret->out = kernel_cast(merger.out, a->query->dtype);
    ret->lse = view_squeeze(merger.lse, -1);
}

/* ------------------------------------------------------------------ backward */

static struct tensor *zeros_like(struct tensor *x)
{
    return tensor_like(x->ghost, x, DTYPE_FLOAT32);
}

/* backward() - ret: gradients of query, key and value */
static void backward(const struct attention_kernel *kernel,
                     const struct attention *a,
                     const struct attention_result *result,
                     struct tensor *grad_out,
                     struct tensor *ret[3])
{
    const struct context_ring *ring = &a->ring;
    struct attention call = *a;
    TENSOR_AUTO *lse = NULL;
    TENSOR_AUTO *dout = NULL;
    TENSOR_AUTO *out = NULL;
    TENSOR_AUTO *v = NULL;
    TENSOR_AUTO *k = NULL;
    TENSOR_AUTO *q = NULL;
    TENSOR_AUTO *buffer = NULL;
    ROTATER_AUTO dkv_rotater = { .ring = *ring, .all_to_all = true };
    ROTATER_AUTO kv_rotater = { .ring = *ring, .all_to_all = ring->all_to_all };
    TENSOR_AUTO *grad_value = NULL;
    TENSOR_AUTO *grad_key = NULL;
    TENSOR_AUTO *grad_query = zeros_like(a->query);
    struct tensor *grads[4] = { NULL }; /* grad_query_, grad_key_, grad_value_ */
    TENSOR_AUTO *next_grad_kv = NULL;
    TENSOR_AUTO *next_kv = NULL;
    TENSOR_AUTO *value = NULL;
    TENSOR_AUTO *key = NULL;

    grad_key = zeros_like(a->key);
    grad_value = zeros_like(a->value);
    key = kernel_contiguous(a->key);
    value = kernel_contiguous(a->value);
    for (int64_t i = 0; i < ring->size && !a->g->halt; i++) {
        bool partial = i > ring->rank, fewer = i > 0 && !partial;

        if (i > 0) {
            set(&buffer, next(&kv_rotater));
            unpack(buffer, &key, &value);
        }
        if (i < ring->size - 1) {
            set(&next_kv, packed(key, value));
            exchange(&kv_rotater, next_kv);
        }
        TENSOR_AUTO *half_lse = partial ? half(result->lse, 1) : tensor_ref(result->lse);
        struct tensor *whole_lse = half_lse ? kernel_contiguous(half_lse) : NULL;

        set(&q, partial ? half(a->query, 1) : tensor_ref(a->query));
        set(&k, fewer ? half(key, 0) : tensor_ref(key));
        set(&v, fewer ? half(value, 0) : tensor_ref(value));
        set(&out, partial ? half(result->out, 1) : tensor_ref(result->out));
        set(&dout, partial ? half(grad_out, 1) : tensor_ref(grad_out));
        set(&lse, whole_lse);
        if (!q || !k || !v || !out || !dout || !lse)
            break;
        struct tensor *made[4] = { NULL };

        call.query = q;
        call.key = k;
        call.value = v;
        call.causal = i == 0;
        kernel->backward(
            &call, &(struct attention_result){ out, lse, { result->rest[0], result->rest[1] } },
            dout, false, made);
        for (int n = 0; n < 3; n++)
            set(&grads[n], made[n]);
        if (i > 0) {
            set(&next_grad_kv, next(&dkv_rotater));
            unpack(next_grad_kv, &grad_key, &grad_value);
            if (!partial) {
                set(&grad_key, partial_update(grad_key, NULL, 0));
                set(&grad_value, partial_update(grad_value, NULL, 0));
            }
        }
        set(&next_grad_kv, packed(grad_key, grad_value));
        exchange(&dkv_rotater, next_grad_kv);
        if (partial)
            set(&grad_query, partial_update(grad_query, NULL, 1));
    }
    if (!a->g->halt) {
        a->g->category = CATEGORY_ACTIVATION_GRADIENT;
        set(&grad_query, kernel_cast(grad_query, a->query->dtype));
        struct tensor *last = next(&dkv_rotater);

        set(&next_grad_kv, last ? kernel_cast(last, a->key->dtype) : NULL);
        tensor_drop(last);
        unpack(next_grad_kv, &grad_key, &grad_value);
        ret[0] = tensor_take(&grad_query);
        ret[1] = tensor_take(&grad_key);
        ret[2] = tensor_take(&grad_value);
    }
    for (int n = 0; n < 3; n++)
        tensor_drop(grads[n]);
}

/* ------------------------------------------------------------------ recorded */

enum {
    SAVED_QUERY,
    SAVED_KEY,
    SAVED_VALUE,
    SAVED_OUT,
    SAVED_LSE,
    SAVED_REST,
    SAVED_COUNT = SAVED_REST + 2
};

enum { KIND, RING_SIZE, RING_RANK, RING_ALL_TO_ALL, NUMBER_COUNT };

static void ring_apply(struct ghost *g,
                       struct node *n,
                       struct tensor *const *grads,
                       struct tensor **ret)
{
    TENSOR_AUTO *query = node_saved(n, SAVED_QUERY);
    TENSOR_AUTO *key = node_saved(n, SAVED_KEY);
    TENSOR_AUTO *value = node_saved(n, SAVED_VALUE);
    TENSOR_AUTO *out = node_saved(n, SAVED_OUT);
    TENSOR_AUTO *lse = node_saved(n, SAVED_LSE);
    TENSOR_AUTO *first = node_saved(n, SAVED_REST);
    TENSOR_AUTO *second = node_saved(n, SAVED_REST + 1);
    const struct attention a = {
        .g = g,
        .query = query,
        .key = key,
        .value = value,
        .records = true,
        .ring = { n->numbers[RING_SIZE], n->numbers[RING_RANK], n->numbers[RING_ALL_TO_ALL] },
    };
    struct tensor *made[3] = { NULL };

    if (g->halt)
        return;
    backward(attention_fused((enum attention_kind)n->numbers[KIND]), &a,
             &(struct attention_result){ out, lse, { first, second } }, grads[0], made);
    for (uint32_t i = 0; i < 3; i++)
        if (node_needs(n, i))
            ret[i] = made[i];
        else
            tensor_drop(made[i]);
}

static const struct backward ring_backward = { "RingAttentionBackward", ring_apply };

/* check() - what the framework refuses */
static bool check(enum attention_kind kind, const struct attention *a)
{
    if (!attention_fused(kind))
        ghost_fail(a->g, PLM_E_USAGE,
                   "cp: ring attention needs flash, memory-efficient or cuDNN attention; this call "
                   "has none of them");
    else if (!a->causal || a->mask)
        ghost_fail(a->g, PLM_E_USAGE,
                   "cp: load balancing needs causal attention without a mask, as PyTorch says");
    else if (a->query->sizes[SEQ] % 2 != 0 || a->key->sizes[SEQ] != a->query->sizes[SEQ])
        ghost_fail(a->g, PLM_E_USAGE,
                   "cp: queries and keys must be of one length, with two chunks on each rank");
    else if (kind == ATTENTION_EFFICIENT && a->query->sizes[SEQ] / 2 % LSE_ROWS != 0)
        ghost_fail(a->g, PLM_E_USAGE,
                   "cp: memory-efficient attention pads its log-sum-exp to a multiple of %d rows, "
                   "which PyTorch cannot merge: a rank's part must be a multiple of %d",
                   LSE_ROWS, 2 * LSE_ROWS);
    return !a->g->halt;
}

struct tensor *attention_ring(enum attention_kind kind, const struct attention *a)
{
    struct ghost *g = a->g;
    bool grad_enabled = g->grad_enabled;
    struct attention inner = *a;
    struct attention_result r = { 0 };

    if (!check(kind, a))
        return NULL;
    struct node *n = node_new(g, &ring_backward, (struct tensor *[]){ a->query, a->key, a->value },
                              3, SAVED_COUNT, NUMBER_COUNT);

    node_save(n, SAVED_QUERY, a->query);
    node_save(n, SAVED_KEY, a->key);
    node_save(n, SAVED_VALUE, a->value);
    if (n) {
        const int64_t numbers[NUMBER_COUNT] = { (int64_t)kind, a->ring.size, a->ring.rank,
                                                a->ring.all_to_all };

        memcpy(n->numbers, numbers, sizeof numbers);
    }
    g->grad_enabled = false;
    inner.records = true; /* the log-sum-exp is merged, whether or not there is a backward */
    forward(attention_fused(kind), &inner, &r);
    g->grad_enabled = grad_enabled;
    node_save_output(n, SAVED_OUT, r.out);
    node_save_output(n, SAVED_LSE, r.lse);
    node_save_output(n, SAVED_REST, r.rest[0]);
    node_save_output(n, SAVED_REST + 1, r.rest[1]);
    struct tensor *out = node_attach(n, r.out);

    tensor_drop(r.rest[1]);
    tensor_drop(r.rest[0]);
    tensor_drop(r.lse);
    return out;
}
