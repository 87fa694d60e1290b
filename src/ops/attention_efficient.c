/*
 * ops/attention_efficient.c - memory-efficient attention (CUTLASS) and cuDNN's
 *
 * Mirrors aten/src/ATen/native/transformers/cuda/attention.cu, attention_backward.cu and ATen/native/cudnn/MHA.cpp (2.15).
 */
#include <string.h>

#include "base/num.h"
#include "ghost/kernels.h"
#include "ops/attention.h"
#include "ops/views.h"

static int64_t round_up(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* heads_new() - empty [batch, length, heads, size], seen as [batch, heads, length, size] */
static struct tensor *heads_new(
    struct ghost *g, enum dtype dtype, int64_t batch, int64_t heads, int64_t length, int64_t size)
{
    TENSOR_AUTO *made = tensor_new_sizes(g, dtype, batch, length, heads, size);

    return attention_heads(made);
}

static struct tensor *heads_like(struct ghost *g, const struct tensor *x)
{
    return heads_new(g, x->dtype, x->sizes[0], x->sizes[1], x->sizes[2], x->sizes[3]);
}

/* ------------------------------------------------------------------ memory-efficient */

/* struct tile - the kernel's block of queries by head size, and whether keys' gradients pass through memory */
struct tile {
    int64_t rows, columns;
    bool keys;
};

/*
 * backward_tile() - which kernel cutlassB takes: by type, head size and compute capability
 *
 * Found by comparing the workspace for 7 head sizes, 3 types and 7 GPUs with recorded runs; all 140 agree.
 */
static struct tile backward_tile(int cc, bool bits_16, int64_t size)
{
    bool large_shared_memory = cc == 80 || cc == 90 || cc == 100 || cc == 103;

    if (size <= 64)
        return (struct tile){ 64, 64, false };
    if (!bits_16)
        return (struct tile){ large_shared_memory ? 128 : 64, 64, false };
    if (size > 128)
        return (struct tile){ 128, 64, true };
    if (large_shared_memory)
        return (struct tile){ 128, 128, false };
    if (cc == 75)
        return (struct tile){ 128, 64, false };
    if ((cc == 86 || cc == 89) && size <= 96)
        return (struct tile){ 128, 64, false };
    return (struct tile){ 64, 64, true };
}

static plm_bytes backward_workspace(const struct ghost *g,
                                    const struct tensor *query,
                                    const struct tensor *key)
{
    int64_t size = query->sizes[3];
    struct tile tile = backward_tile(g->around.cc, tensor_itemsize(query) == 2, size);
    int64_t blocks = (int64_t)num_ceil_div((uint64_t)query->sizes[2], (uint64_t)tile.rows) *
                     (int64_t)num_ceil_div((uint64_t)size, (uint64_t)tile.columns);
    int64_t for_queries = blocks * (16 + 4 * tile.rows * tile.columns);
    int64_t for_keys = tile.keys ? 2 * 4 * key->sizes[2] * round_up(size, 128) : 0;

    return (plm_bytes)(query->sizes[0] * query->sizes[1] * (for_queries + for_keys));
}

static struct tensor *contiguous_heads(struct tensor *x)
{
    TENSOR_AUTO *inner = attention_heads(x);

    return kernel_contiguous(inner);
}

/* delta = sum(grad * out) over the head size: inside the kernel for 16 bits, before it for 32 */
static struct tensor *efficient_delta(struct ghost *g, const struct tensor *query)
{
    int64_t batch = query->sizes[0], heads = query->sizes[1], rows = query->sizes[2];

    if (tensor_itemsize(query) == 2)
        return tensor_new_sizes(g, DTYPE_FLOAT32, batch, heads, rows);
    TENSOR_AUTO *product = tensor_new_sizes(g, DTYPE_FLOAT32, batch, rows, heads, query->sizes[3]);
    TENSOR_AUTO *sum = kernel_reduce(product, 1U << 3, false, DTYPE_FLOAT32);

    if (rows == 1 || heads == 1) /* turned into [batch, heads, rows] it is contiguous already */
        return tensor_take(&sum);
    return tensor_new_sizes(g, DTYPE_FLOAT32, batch, heads, rows);
}

/* mask_gradient() - rows of a multiple of 16, of which the mask's part is seen */
static struct tensor *mask_gradient(struct ghost *g, enum dtype dtype, const struct tensor *mask)
{
    int64_t sizes[TENSOR_DIMS];
    unsigned last = mask->dims - 1;

    memcpy(sizes, mask->sizes, sizeof sizes);
    sizes[last] = round_up(sizes[last], 16);
    TENSOR_AUTO *whole = tensor_new(g, dtype, mask->dims, sizes);
    struct tensor *part =
        whole ? tensor_view(whole, mask->dims, mask->sizes, whole->strides) : NULL;

    if (part)
        part->view = false; /* to autograd, which is not told what happens in a kernel */
    return part;
}

static void efficient_back(const struct attention *a,
                           const struct attention_result *result,
                           struct tensor *grad,
                           bool wants_mask,
                           struct tensor *ret[4])
{
    struct ghost *g = a->g;
    struct tensor *query = a->query, *key = a->key, *value = a->value;
    TENSOR_AUTO *inner_grad = contiguous_heads(grad);
    bool shared = query->sizes[1] != key->sizes[1];

    ret[0] = heads_like(g, query);
    ret[1] = heads_like(g, key);
    ret[2] = heads_like(g, value);
    ret[3] = wants_mask ? mask_gradient(g, query->dtype, a->mask) : NULL;
    g->category = CATEGORY_TEMPORARY;
    TENSOR_AUTO *wide_key = shared ? heads_new(g, key->dtype, key->sizes[0], query->sizes[1],
                                               key->sizes[2], key->sizes[3])
                                   : NULL;
    TENSOR_AUTO *wide_value = shared ? heads_new(g, value->dtype, value->sizes[0], query->sizes[1],
                                                 value->sizes[2], value->sizes[3])
                                     : NULL;
    TENSOR_AUTO *delta = efficient_delta(g, query);
    TENSOR_AUTO *workspace = tensor_new_bytes(g, backward_workspace(g, query, key));

    g->category = CATEGORY_ACTIVATION_GRADIENT;
}

static void efficient(const struct attention *a, struct attention_result *ret)
{
    struct ghost *g = a->g;
    struct tensor *q = a->query;
    bool seeds = g->around.framework->efficient_seeds && a->dropout == 0;

    ret->rest[0] = seeds ? tensor_new_bytes(g, 8) : NULL;
    ret->rest[1] = seeds ? tensor_new_bytes(g, 8) : NULL;
    ret->out = heads_new(g, q->dtype, q->sizes[0], q->sizes[1], q->sizes[2], a->value->sizes[3]);
    ret->lse = tensor_new_sizes(g, DTYPE_FLOAT32, q->sizes[0], q->sizes[1],
                                a->records ? round_up(q->sizes[2], 32) : 0);
}

static void efficient_apply(struct ghost *g,
                            struct node *n,
                            struct tensor *const *grads,
                            struct tensor **ret)
{
    attention_apply(&attention_efficient, n, grads, ret);
}

static const struct backward efficient_recorded = { "ScaledDotProductEfficientAttentionBackward0",
                                                    efficient_apply };

const struct attention_kernel attention_efficient = { efficient, efficient_back,
                                                      &efficient_recorded };

/* ------------------------------------------------------------------ cuDNN */

/*
 * formula() - what cuDNN's plan takes, where nobody can be asked
 *
 * On compute capability 9.0, as cuDNN 9.26 plans it (750 calls, all exact): 256 bytes forward; backward an fp32 copy of
 * the query's gradient, a sum for each row, and with shared heads the wide gradients of key and value. On 10.0 the same but for
 * the 256 bytes (606 calls, all exact), as long as neither sequence is short and heads are not wide: there it takes more. Elsewhere
 * nobody but cuDNN knows.
 */
static plm_bytes formula(const struct attention *a, bool backward)
{
    const struct tensor *query = a->query, *key = a->key;
    struct ghost *g = a->g;
    uint64_t rows = (uint64_t)(query->sizes[0] * query->sizes[1] * query->sizes[2]);
    uint64_t size = (uint64_t)query->sizes[3], value_size = (uint64_t)a->value->sizes[3];
    uint64_t wide = (uint64_t)(query->sizes[0] * query->sizes[1] * key->sizes[2]);
    bool shared = query->sizes[1] != key->sizes[1];
    bool hopper = g->around.cc == 90;
    bool known =
        hopper || (g->around.cc == 100 &&
                   (!backward || (query->sizes[2] >= 128 && key->sizes[2] > 128 && size <= 128)));

    if (!known) {
        ghost_unknown_workspace(g, 4 * rows * size); /* the query's gradient in float32 */
        return 0;
    }
    if (!backward)
        return hopper ? 256 : 0;
    return 4 * rows * size + 4 * rows + (hopper ? 256 : 0) +
           (shared ? 2 * wide * (size + value_size) + (hopper ? 0 : 128) : 0);
}

/* call_of() - the question to cuDNN */
static struct library_call call_of(const struct attention *a, enum library_op op)
{
    struct library_call call = {
        .op = op,
        .dtype = a->query->dtype,
        .mask = a->mask     ? LIBRARY_MASKED
                : a->causal ? LIBRARY_CAUSAL
                            : LIBRARY_OPEN,
        .spatial = 2,
        .weight = { a->key->sizes[1], a->key->sizes[2], a->value->sizes[3] },
    };

    memcpy(call.input, a->query->sizes, 4 * sizeof *call.input);
    return call;
}

/* cudnn_workspace() - of one call of cuDNN's */
static void cudnn_workspace(const struct attention *a, enum library_op op)
{
    struct ghost *g = a->g;
    struct library_call call = call_of(a, op);

    switch (g->around.workspace_mode) {
    case WORKSPACE_AUTO:
        if (!ghost_library_asked(g, &call))
            ghost_workspace(g, formula(a, op == LIBRARY_ATTENTION_BACKWARD));
        break;
    case WORKSPACE_NONE:
        break;
    case WORKSPACE_BYTES:
        ghost_workspace(g, g->around.workspace_bytes);
        break;
    }
}

static void cudnn_back(const struct attention *a,
                       const struct attention_result *result,
                       struct tensor *grad,
                       bool wants_mask,
                       struct tensor *ret[4])
{
    struct ghost *g = a->g;

    ret[0] = tensor_like(g, a->query, a->query->dtype);
    ret[1] = tensor_like(g, a->key, a->key->dtype);
    ret[2] = tensor_like(g, a->value, a->value->dtype);
    cudnn_workspace(a, LIBRARY_ATTENTION_BACKWARD);
}

static void cudnn(const struct attention *a, struct attention_result *ret)
{
    struct ghost *g = a->g;
    struct tensor *q = a->query;

    ret->rest[0] = tensor_new_bytes(g, 8);
    ret->rest[1] = tensor_new_bytes(g, 8);
    ret->out = tensor_like(g, q, q->dtype);
    ret->lse =
        tensor_new_sizes(g, DTYPE_FLOAT32, q->sizes[0], q->sizes[1], a->records ? q->sizes[2] : 0);
    cudnn_workspace(a, a->records ? LIBRARY_ATTENTION : LIBRARY_ATTENTION_INFERENCE);
}

static void cudnn_apply(struct ghost *g,
                        struct node *n,
                        struct tensor *const *grads,
                        struct tensor **ret)
{
    attention_apply(&attention_cudnn, n, grads, ret);
}

static const struct backward cudnn_recorded = { "ScaledDotProductCudnnAttentionBackward0",
                                                cudnn_apply };

const struct attention_kernel attention_cudnn = { cudnn, cudnn_back, &cudnn_recorded };
