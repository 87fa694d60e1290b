/*
 * ops/attention_flash.c - FlashAttention-2 as PyTorch carries it
 *
 * Mirrors aten/src/ATen/native/transformers/cuda/attention.cu, attention_backward.cu and flash_attn/flash_api.cpp. Head
 * sizes are padded to a multiple of 8, and the padded copies are what is saved.
 */
#include "base/num.h"
#include "ghost/kernels.h"
#include "ops/attention.h"
#include "ops/views.h"

static int64_t round_up(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* size_rounded() - the head size as the kernels' float32 sums have it */
static int64_t size_rounded(const struct ghost *g, int64_t size)
{
    return round_up(size, size > 128 && g->around.framework->flash_rounds_64 ? 64 : 32);
}

static bool split_changes(int64_t blocks, int64_t splits)
{
    return splits == 1 || (blocks + splits - 1) / splits != (blocks + splits - 2) / (splits - 1);
}

static float wave_efficiency(int64_t rows, int64_t splits, int64_t sm_count)
{
    float waves = (float)(rows * splits) / (float)sm_count;
    float whole = (float)(int64_t)waves;

    if (whole < waves)
        whole += 1;
    return waves / whole;
}

/* num_splits_heuristic(): enough splits of the keys to fill the chip to 85 % of the best */
static int64_t split_count(int64_t rows, int64_t sm_count, int64_t blocks)
{
    float best = 0;
    int64_t most = blocks < 128 ? blocks : 128;

    if ((float)rows >= 0.8f * (float)sm_count)
        return 1;
    if (most > sm_count)
        most = sm_count;
    for (int64_t s = 1; s <= most; s++) {
        float efficiency = split_changes(blocks, s) ? wave_efficiency(rows, s, sm_count) : 0;

        if (efficiency > best)
            best = efficiency;
    }
    for (int64_t s = 1; s <= most; s++)
        if (split_changes(blocks, s) && wave_efficiency(rows, s, sm_count) >= 0.85f * best)
            return s;
    return 1;
}

static int64_t splits_of(const struct attention *a)
{
    const struct tensor *q = a->query;
    int64_t size = q->sizes[3];
    int64_t keys_per_block = size <= 64 ? 256 : size <= 128 ? 128 : 64;
    int64_t sm_count = a->g->around.sm_count;

    if (a->dropout > 0)
        return 1;
    /* set_params_splitkv(): a block has 128 threads, so that two of them make an SM busy */
    return split_count(q->sizes[0] * q->sizes[1] * ((q->sizes[2] + 63) / 64), 2 * sm_count,
                       (a->key->sizes[2] + keys_per_block - 1) / keys_per_block);
}

/* like_heads() - empty_like() of [batch, length, heads, size], seen as [batch, heads, length, size] */
static struct tensor *like_heads(struct ghost *g, struct tensor *x)
{
    TENSOR_AUTO *inner = attention_heads(x);
    TENSOR_AUTO *made = tensor_like(g, inner, x->dtype);

    return attention_heads(made);
}

static struct tensor *contiguous_heads(struct tensor *x)
{
    TENSOR_AUTO *inner = attention_heads(x);

    return kernel_contiguous(inner);
}

static void backward(const struct attention *a,
                     const struct attention_result *result,
                     struct tensor *grad,
                     bool wants_mask,
                     struct tensor *ret[4])
{
    struct ghost *g = a->g;
    struct tensor *query = a->query, *key = a->key, *value = a->value;
    int64_t batch = query->sizes[0], heads = query->sizes[1], size = query->sizes[3];
    int64_t rows = round_up(query->sizes[2], 128);
    TENSOR_AUTO *inner_grad = contiguous_heads(grad);
    TENSOR_AUTO *inner_out = contiguous_heads(result->out);

    ret[0] = like_heads(g, query);
    ret[1] = like_heads(g, key);
    ret[2] = like_heads(g, value);
    g->category = CATEGORY_TEMPORARY;
    TENSOR_AUTO *softmax_sum = tensor_new_sizes(g, DTYPE_FLOAT32, batch, heads, rows);
    TENSOR_AUTO *query_sum =
        tensor_new_sizes(g, DTYPE_FLOAT32, batch, rows, heads, size_rounded(g, size));

    if (heads != key->sizes[1]) { /* gradients of the shared heads, before they are summed */
        TENSOR_AUTO *wide_key = tensor_new_sizes(g, key->dtype, batch, key->sizes[2], heads, size);
        TENSOR_AUTO *wide_value =
            tensor_new_sizes(g, key->dtype, batch, key->sizes[2], heads, size);
    }
    g->category = CATEGORY_ACTIVATION_GRADIENT;
}

static void forward(const struct attention *a, struct attention_result *ret)
{
    struct ghost *g = a->g;
    struct tensor *q = a->query;
    int64_t batch = q->sizes[0], heads = q->sizes[1], rows = q->sizes[2];
    int64_t splits = splits_of(a);
    bool random = a->dropout > 0 || g->around.framework->flash_rng_always;
    TENSOR_AUTO *out_parts = NULL;
    TENSOR_AUTO *lse_parts = NULL;

    ret->out = like_heads(g, q);
    ret->lse = tensor_new_sizes(g, DTYPE_FLOAT32, batch, heads, rows);
    if (splits > 1) {
        enum category outer = g->category;

        g->category = CATEGORY_TEMPORARY;
        lse_parts = tensor_new_sizes(g, DTYPE_FLOAT32, splits, batch, heads, rows);
        out_parts = tensor_new_sizes(g, DTYPE_FLOAT32, splits, batch, heads, rows,
                                     size_rounded(g, q->sizes[3]));
        g->category = outer;
        if (!g->around.framework->flash_rng_always) { /* 2.6 keeps only their addresses */
            tensor_drop(tensor_take(&lse_parts));
            tensor_drop(tensor_take(&out_parts));
        }
    }
    if (!random)
        return;
    ret->rest[0] = tensor_new_bytes(g, 16);
    ret->rest[1] = tensor_new_bytes(g, 8);
    if (a->dropout > 0) { /* the state that dropout draws takes the place of the empty one */
        struct tensor *drawn = tensor_new_bytes(g, 16);

        tensor_drop(ret->rest[0]);
        ret->rest[0] = drawn;
    }
}

static void apply(struct ghost *g, struct node *n, struct tensor *const *grads, struct tensor **ret)
{
    attention_apply(&attention_flash, n, grads, ret);
}

static const struct backward recorded = { "ScaledDotProductFlashAttentionBackward0", apply };

const struct attention_kernel attention_flash = { forward, backward, &recorded };

/* pad_last_dim<8>() */
static struct tensor *padded(struct tensor *x)
{
    int64_t over = x->sizes[3] % 8;

    return over == 0 ? tensor_ref(x) : view_pad(x, (int64_t[]){ 0, 8 - over }, 2);
}

struct tensor *attention_padded(const struct attention *a,
                                struct tensor *(*call)(enum attention_kind kind,
                                                       const struct attention *a))
{
    struct attention inner = *a;
    int64_t size = a->query->sizes[3];
    TENSOR_AUTO *query = padded(a->query);
    TENSOR_AUTO *key = padded(a->key);
    TENSOR_AUTO *value = padded(a->value);

    if (!query || !key || !value)
        return NULL;
    inner.query = query;
    inner.key = key;
    inner.value = value;
    TENSOR_AUTO *out = call(ATTENTION_FLASH, &inner);

    return size % 8 == 0 ? tensor_take(&out) : view_slice(out, -1, 0, size, 1);
}
