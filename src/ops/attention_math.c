/*
 * ops/attention_math.c - attention written out as matrix products and a softmax
 *
 * Mirrors _scaled_dot_product_attention_math (attention.cpp, 2.15): where no fused kernel can run. 16-bit inputs are
 * computed in float32.
 */
#include <string.h>

#include "ghost/autocast.h"
#include "ghost/kernels.h"
#include "ops/attention.h"
#include "ops/dense.h"
#include "ops/pointwise.h"
#include "ops/views.h"

/* ones().tril(), then where(mask, 0, -inf) with its two scalars */
static struct tensor *causal_mask(struct ghost *g, int64_t rows, int64_t columns)
{
    TENSOR_AUTO *ones = tensor_new_sizes(g, DTYPE_BOOL, rows, columns);
    TENSOR_AUTO *lower = tensor_new_sizes(g, DTYPE_BOOL, rows, columns);

    tensor_drop(tensor_take(&ones));
    TENSOR_AUTO *zero = tensor_new_scalar(g, DTYPE_FLOAT32);
    TENSOR_AUTO *minus_infinity = tensor_new_scalar(g, DTYPE_FLOAT32);

    return tensor_new_sizes(g, DTYPE_FLOAT32, rows, columns);
}

static void softmax_apply(struct ghost *g,
                          struct node *n,
                          struct tensor *const *grads,
                          struct tensor **ret)
{
    TENSOR_AUTO *result = node_saved(n, 0);

    if (!result || !node_needs(n, 0))
        return;
    TENSOR_AUTO *grad = kernel_contiguous(grads[0]);

    ret[0] = tensor_like(g, result, result->dtype);
    TENSOR_AUTO *product = tensor_like(g, result, result->dtype); /* grad * result */
}

static const struct backward safe_softmax_backward = { "SafeSoftmaxBackward0", softmax_apply };

/* _safe_softmax(): rows that are all -inf become 0 */
static struct tensor *safe_softmax(struct tensor *scores)
{
    struct ghost *g = scores->ghost;
    struct node *n = node_new(g, &safe_softmax_backward, &scores, 1, 1, 0);
    struct tensor *out = tensor_new(g, scores->dtype, scores->dims, scores->sizes);
    enum category outer = g->category;

    g->category = CATEGORY_TEMPORARY;
    TENSOR_AUTO *masked = tensor_new(g, DTYPE_BOOL, scores->dims, scores->sizes);
    TENSOR_AUTO *masked_rows =
        masked ? kernel_reduce(masked, 1U << (masked->dims - 1), true, DTYPE_BOOL) : NULL;

    ghost_scratch(g, 4); /* the zero that is filled in */
    g->category = outer;
    node_save_output(n, 0, out);
    return node_attach(n, out);
}

/* repeat_interleave(): each head as often as queries share it */
static struct tensor *repeat_heads(struct tensor *x, int64_t times)
{
    int64_t sizes[5];

    if (times <= 1 || !x)
        return tensor_ref(x);
    TENSOR_AUTO *column = view_unsqueeze(x, 2);
    memcpy(sizes, (int64_t[]){ x->sizes[0], x->sizes[1], times, x->sizes[2], x->sizes[3] },
           sizeof sizes);
    TENSOR_AUTO *wide = view_expand(column, 5, sizes);
    TENSOR_AUTO *copy = view_clone(wide);

    return view_reshape(copy, 4, (int64_t[]){ sizes[0], sizes[1] * times, sizes[3], sizes[4] });
}

/* scores() - query key^T, plus the mask in place */
static struct tensor *scores(struct tensor *query, struct tensor *key, struct tensor *mask)
{
    TENSOR_AUTO *key_t = view_transpose(key, -2, -1);
    TENSOR_AUTO *scaled = pointwise_mul(key_t, NULL);
    TENSOR_AUTO *product = dense_matmul(query, scaled);

    return mask ? pointwise_add_inplace(product, mask) : tensor_take(&product);
}

struct tensor *attention_math(const struct attention *a)
{
    struct ghost *g = a->g;
    enum dtype dtype = a->query->dtype;
    enum dtype inner = tensor_itemsize(a->query) == 2 ? DTYPE_FLOAT32 : dtype;
    unsigned dims = a->query->dims;
    int64_t shared = dims == 4 && a->gqa ? a->query->sizes[1] / a->key->sizes[1] : 1;
    TENSOR_AUTO *query_32 = autocast_to(a->query, inner);
    TENSOR_AUTO *key_32 = autocast_to(a->key, inner);
    TENSOR_AUTO *value_32 = autocast_to(a->value, inner);
    TENSOR_AUTO *query = pointwise_mul(query_32, NULL);
    TENSOR_AUTO *mask = a->causal
                            ? causal_mask(g, a->query->sizes[dims - 2], a->key->sizes[dims - 2])
                            : tensor_ref(a->mask);
    TENSOR_AUTO *key = repeat_heads(key_32, shared);
    TENSOR_AUTO *value = repeat_heads(value_32, shared);

    if (g->halt)
        return NULL;
    TENSOR_AUTO *raw = scores(query, key, mask);

    if (!raw)
        return NULL;
    struct tensor *weights = safe_softmax(raw);

    tensor_drop(tensor_take(&raw));
    if (a->dropout > 0) {
        struct tensor *dropped = pointwise_dropout(weights, a->dropout);

        tensor_drop(weights);
        weights = dropped;
    }
    TENSOR_AUTO *kept = weights;
    TENSOR_AUTO *weights_16 = autocast_to(kept, dtype); /* the second result, which nobody wants */
    TENSOR_AUTO *out = dense_matmul(kept, value);

    return autocast_to(out, dtype);
}
