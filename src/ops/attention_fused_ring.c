/*
 * ops/attention_fused_ring.c - Transformer Engine's fused attention under context parallelism: keys and values go around a ring
 *
 * Mirrors AttnFuncWithCPAndKVP2P of transformer_engine/pytorch/attention/dot_product_attention/context_parallel.py and what
 * fused_attn_fwd and fused_attn_bwd of csrc/extensions/attention.cpp make (2.11), for causal attention of [seq, batch, heads, size]
 * in half precision, with the functions that are compiled (jit_fuser) as one kernel each. A rank holds the r-th chunk from the
 * front and the r-th from the back. Rank r of N attends in step i with
 *
 *     i = 0        its own chunks (diagonal)
 *     0 < i <= r   all queries, the first half of the keys (lower triangle)
 *     i > r        the second half of the queries, all keys (upper triangle)
 *
 * The backward goes around the other way, with the diagonal last. Odd steps of the forward run on a stream of their own. What
 * was received last is kept for the backward, not the rank's own keys and values.
 */
#include <string.h>

#include "ghost/kernels.h"
#include "ops/attention.h"
#include "ops/views.h"

enum { SEQ, BATCH, HEADS, SIZE, DIMS };

/* cp_stream of megatron/core/extensions/transformer_engine.py: the first of the pool */
enum { SIDE_STREAM = 1 };

enum { SAVED_QUERY, SAVED_KEYS_AND_VALUES, SAVED_OUT, SAVED_LSE, SAVED_RANDOM };
enum { RING_SIZE, RING_RANK, KEY_HEADS, NUMBER_COUNT };

/* struct ring - one call */
struct ring {
    struct ghost *g;
    int64_t size, rank;
    struct tensor *query; /* borrowed */
    int64_t key_heads;
};

/* struct partial - what the steps of the forward make, until it returns; [ring size] each, owned */
struct partial {
    struct tensor **out, **lse, **random;
    struct tensor **received; /* keys and values: the rank's own, and what came in each step */
};

/* keys() - @parts tensors like a rank's keys in one */
static struct tensor *keys(const struct ring *r, int64_t parts)
{
    const int64_t *sizes = r->query->sizes;
    enum category outer = r->g->category;

    r->g->category = CATEGORY_COMMUNICATION;
    struct tensor *x = tensor_new_sizes(r->g, r->query->dtype, parts, sizes[SEQ], sizes[BATCH],
                                        r->key_heads, sizes[SIZE]);

    r->g->category = outer;
    return x;
}

/* rows_like() - of @rows and @heads, otherwise like the query */
static struct tensor *rows_like(const struct ring *r, int64_t rows, int64_t heads)
{
    const int64_t *sizes = r->query->sizes;

    return tensor_new_sizes(r->g, r->query->dtype, rows, sizes[BATCH], heads, sizes[SIZE]);
}

static struct tensor *lse_of(const struct ring *r, int64_t rows)
{
    const int64_t *sizes = r->query->sizes;

    return tensor_new_sizes(r->g, DTYPE_FLOAT32, sizes[BATCH], sizes[HEADS], rows);
}

static void drop_from_last(struct tensor **items, int64_t count)
{
    while (count-- > 0)
        tensor_drop(items[count]);
}

/* ------------------------------------------------------------------ forward */

/* attend() - cp_p2p_fwd_fused_attn(): halves are contiguous as they are */
static void attend(const struct ring *r, int64_t i, struct partial *p)
{
    enum category outer = r->g->category;
    int64_t rows = r->query->sizes[SEQ] / (i > r->rank ? 2 : 1);

    r->g->category = CATEGORY_TEMPORARY;
    p->out[i] = rows_like(r, rows, r->query->sizes[HEADS]);
    p->random[i] = tensor_new_sizes(r->g, DTYPE_INT64, 2);
    p->lse[i] = lse_of(r, rows);
    r->g->category = outer;
}

/* forward() - ret: the output and its log-sum-exp; what is received and random states are left in @p */
static void forward(struct ring *r,
                    struct partial *p,
                    struct tensor **ret_out,
                    struct tensor **ret_lse)
{
    struct ghost *g = r->g;
    uint16_t outer = g->stream;
    struct tensor *lse = NULL;

    p->received[0] = keys(r, 2);
    for (int64_t i = 0; i < r->size && !g->halt; i++) {
        g->stream = i % 2 ? SIDE_STREAM : outer;
        if (i + 1 < r->size)
            p->received[i + 1] = keys(r, 2);
        attend(r, i, p);
        g->stream = outer;
        if (i == 1) /* clone() of the first, into which the others are merged */
            lse = lse_of(r, r->query->sizes[SEQ]);
    }
    if (!g->halt) {
        *ret_lse = lse;
        *ret_out = rows_like(r, r->query->sizes[SEQ], r->query->sizes[HEADS]);
        return;
    }
    tensor_drop(lse);
}

/* ------------------------------------------------------------------ backward */

/* grads_of_step() - fused_attn_bwd() */
static void grads_of_step(const struct ring *r, int64_t i, struct tensor *ret[3])
{
    int64_t rows = r->query->sizes[SEQ], queries = rows, pairs = rows;

    if (i < r->size - r->rank - 1)
        queries = rows / 2;
    else if (i < r->size - 1)
        pairs = rows / 2;
    ret[0] = rows_like(r, queries, r->query->sizes[HEADS]);
    ret[1] = rows_like(r, pairs, r->key_heads);
    ret[2] = rows_like(r, pairs, r->key_heads);
}

/* key_grad() - a view of what came around last, [2, keys and values] of the one and of their gradients */
static struct tensor *key_grad(const struct ring *r, struct tensor *buffer)
{
    int64_t sizes[DIMS], strides[DIMS];

    memcpy(sizes, r->query->sizes, sizeof sizes);
    sizes[HEADS] = r->key_heads;
    tensor_contiguous_strides(DIMS, sizes, strides);
    return buffer ? tensor_view(buffer, DIMS, sizes, strides) : NULL;
}

static void backward(struct ring *r, struct tensor *grad, struct tensor *ret[3])
{
    struct tensor *step[3] = { NULL };
    TENSOR_AUTO *second = NULL;
    TENSOR_AUTO *first = NULL;
    TENSOR_AUTO *half_lse = NULL;
    TENSOR_AUTO *dout = grad ? kernel_contiguous(grad) : NULL;

    if (r->rank < r->size - 1)
        half_lse = lse_of(r, r->query->sizes[SEQ] / 2);
    ret[0] = tensor_like(r->g, r->query, r->query->dtype);
    first = keys(r, 4);
    second = keys(r, 4);
    for (int64_t i = 0; i < r->size && !r->g->halt; i++) {
        drop_from_last(step, 3);
        grads_of_step(r, i, step);
    }
    struct tensor *last = r->size % 2 ? second : first;

    ret[1] = key_grad(r, last);
    ret[2] = key_grad(r, last);
    drop_from_last(step, 3);
}

static void apply(struct ghost *g, struct node *n, struct tensor *const *grads, struct tensor **ret)
{
    TENSOR_AUTO *query = node_saved(n, SAVED_QUERY);
    struct ring r = { g, n->numbers[RING_SIZE], n->numbers[RING_RANK], query,
                      n->numbers[KEY_HEADS] };
    struct tensor *made[3] = { NULL };

    if (!query || g->halt)
        return;
    backward(&r, grads[0], made);
    for (uint32_t i = 0; i < 3; i++)
        if (node_needs(n, i))
            ret[i] = made[i];
        else
            tensor_drop(made[i]);
}

static const struct backward ring_backward = { "AttnFuncWithCPAndKVP2PBackward", apply };

/* ------------------------------------------------------------------ recorded */

/* leave() - save_for_backward(), and the function returns: its lists go */
static void leave(struct node *n, const struct ring *r, struct partial *p)
{
    node_save_output(n, SAVED_KEYS_AND_VALUES, p->received[r->size - 1]);
    for (int64_t i = 0; i < r->size; i++)
        node_save_output(n, SAVED_RANDOM + (uint32_t)i, p->random[i]);
    drop_from_last(p->out, r->size);
    drop_from_last(p->lse, r->size);
    drop_from_last(p->random, r->size);
    drop_from_last(p->received, r->size);
}

struct tensor *attention_fused_ring(const struct context_ring *place, struct tensor *const in[3])
{
    struct ghost *g = in[0]->ghost;
    struct ring r = { g, place->size, place->rank, in[0], in[1]->sizes[HEADS] };
    size_t bytes = (size_t)r.size * sizeof(struct tensor *) * 4;
    struct tensor **items = pool_alloc(&g->pool, bytes);
    struct partial p = { items, items + r.size, items + 2 * r.size, items + 3 * r.size };
    struct node *n =
        node_new(g, &ring_backward, in, 3, SAVED_RANDOM + (uint32_t)r.size, NUMBER_COUNT);
    struct tensor *lse = NULL, *out = NULL;

    memset(items, 0, bytes);
    node_save(n, SAVED_QUERY, in[0]);
    if (n) {
        const int64_t numbers[NUMBER_COUNT] = { r.size, r.rank, r.key_heads };

        memcpy(n->numbers, numbers, sizeof numbers);
    }
    forward(&r, &p, &out, &lse);
    node_save_output(n, SAVED_OUT, out);
    node_save_output(n, SAVED_LSE, lse);
    leave(n, &r, &p);
    tensor_drop(lse);
    pool_free(&g->pool, items, bytes);
    TENSOR_AUTO *attached = node_attach(n, out);

    return attached ? view_reshape(attached, 3,
                                   (int64_t[]){ attached->sizes[SEQ], attached->sizes[BATCH], -1 })
                    : NULL;
}
