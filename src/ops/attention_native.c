/*
 * ops/attention_native.c - torch._native_multi_head_attention but for its last projection: nn.MultiheadAttention's fast path
 *
 * Mirrors native_multi_head_attention_cuda() of aten/src/ATen/native/transformers/cuda/attention.cu (2.15); nothing is recorded.
 * Where a fused kernel runs, it is F.linear and scaled_dot_product_attention. Where none does, query, key and value are turned
 * and scaled into one tensor, the softmax is in place, and the result of the last product takes the query's place. Either way
 * what held query, key and value, the second result here, lives until the projection is done.
 */
#include "ops/attention.h"
#include "ops/blas.h"
#include "ops/dense.h"
#include "ops/views.h"

/* struct heads - the sizes of a call */
struct heads {
    int64_t batch, length, count, size;
};

/* part() - query, key or value out of the packed projection, as [batch, heads, length, size] */
static struct tensor *part(struct tensor *packed, const struct heads *h, int64_t i)
{
    int64_t width = h->count * h->size;
    TENSOR_AUTO *chunk = view_slice(packed, -1, i * width, (i + 1) * width, 1);
    TENSOR_AUTO *split = view_view(chunk, 4, (int64_t[]){ h->batch, h->length, h->count, h->size });

    return view_transpose(split, 1, 2);
}

static void run_fused(struct attention *a,
                      enum attention_kind kind,
                      const struct heads *h,
                      struct tensor *packed,
                      struct tensor **ret)
{
    TENSOR_AUTO *query = part(packed, h, 0);
    TENSOR_AUTO *key = part(packed, h, 1);
    TENSOR_AUTO *value = part(packed, h, 2);

    if (!value)
        return;
    a->query = query;
    a->key = key;
    a->value = value;
    TENSOR_AUTO *out = attention_run(kind, a);
    TENSOR_AUTO *turned = view_transpose(out, 1, 2);

    ret[0] = view_reshape(turned, 3, (int64_t[]){ h->batch, h->length, h->count * h->size });
    ret[1] = tensor_ref(packed);
}

/* run_products() - transform_bias_rescale_qkv(), bmm_nt(), masked_softmax(), bmm_nn() into the query, transform_0213() */
static void run_products(struct ghost *g,
                         const struct heads *h,
                         struct tensor *x,
                         struct tensor *weight,
                         struct tensor **ret)
{
    TENSOR_AUTO *packed = dense_linear(x, weight, NULL);
    int64_t rows = h->batch * h->count;
    TENSOR_AUTO *turned = tensor_new_sizes(g, x->dtype, 3, rows, h->length, h->size);

    tensor_drop(tensor_take(&packed));
    TENSOR_AUTO *query = view_select(turned, 0, 0);
    TENSOR_AUTO *key = view_select(turned, 0, 1);
    TENSOR_AUTO *key_t = view_transpose(key, 1, 2);
    TENSOR_AUTO *scores = dense_bmm(query, key_t);

    if (!scores)
        return;
    blas_workspace(g);
    tensor_drop(tensor_take(&scores));
    ret[0] = tensor_new_sizes(g, x->dtype, h->batch, h->length, h->count * h->size);
    ret[1] = tensor_ref(turned);
}

void op_native_attention(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *x = args->in[0], *weight = args->in[1], *bias = args->in[2];
    int64_t count = op_int(args, KEY_NUM_HEADS);
    char xt[TENSOR_TEXT], wt[TENSOR_TEXT];

    if (!x || !weight || !bias)
        return;
    if (x->dims != 3 || weight->dims != 2 || weight->sizes[1] != x->sizes[2] ||
        weight->sizes[0] != 3 * x->sizes[2] || count < 1 || x->sizes[2] % count != 0) {
        ghost_fail(
            g, PLM_E_MODEL,
            "[batch, length, width], a weight [3*width, width] and heads that divide the width "
            "were expected, not %s, %s and %lld",
            tensor_text(x, xt), tensor_text(weight, wt), (long long)count);
        return;
    }
    const struct heads h = { x->sizes[0], x->sizes[1], count, x->sizes[2] / count };
    TENSOR_AUTO *split = view_view(x, 4, (int64_t[]){ h.batch, h.length, h.count, h.size });
    TENSOR_AUTO *seen = view_transpose(split, 1, 2); /* the sizes of what the kernel would get */
    struct attention a = { .g = g, .query = seen, .key = seen, .value = seen };
    bool sized = h.size % 8 == 0 || g->around.framework->native_attention_any;
    enum attention_kind kind = sized && seen ? attention_choose(&a) : ATTENTION_MATH;

    if (kind == ATTENTION_MATH) {
        run_products(g, &h, x, weight, ret);
        return;
    }
    TENSOR_AUTO *packed = dense_linear(x, weight, bias);

    run_fused(&a, kind, &h, packed, ret);
}
