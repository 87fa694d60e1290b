/*
 * ops/attention.c - scaled_dot_product_attention: which kernel runs, and what happens to the mask before
 *
 * Mirrors aten/src/ATen/native/transformers/attention.cpp and cuda/sdp_utils.cpp (2.15). The first kernel of the
 * order whose conditions hold is taken: cuDNN first on compute capability 9.0, 10.0 and 10.3 where the
 * version says so, then flash, memory-efficient, math.
 */
#include <string.h>

#include "ghost/kernels.h"
#include "ops/attention.h"
#include "ops/ops.h"
#include "ops/views.h"

struct tensor *attention_heads(struct tensor *x)
{
    struct tensor *y = x ? tensor_view(x, x->dims, x->sizes, x->strides) : NULL;

    if (y) {
        y->sizes[1] = x->sizes[2];
        y->sizes[2] = x->sizes[1];
        y->strides[1] = x->strides[2];
        y->strides[2] = x->strides[1];
        y->view = false; /* to autograd, which is not told what happens in a kernel */
    }
    return y;
}

static bool records(const struct attention *a)
{
    return a->g->grad_enabled &&
           (a->query->requires_grad || a->key->requires_grad || a->value->requires_grad);
}

/* ------------------------------------------------------------------ conditions */

static bool is_16_bit(const struct attention *a)
{
    return tensor_itemsize(a->query) == 2;
}

/* check_batch_size_and_num_heads_dense(): without enable_gqa all heads must agree */
static bool heads_agree(const struct attention *a)
{
    const struct tensor *q = a->query, *k = a->key, *v = a->value;

    if (q->sizes[0] != k->sizes[0] || q->sizes[0] != v->sizes[0])
        return false;
    return a->gqa || (q->sizes[1] == k->sizes[1] && q->sizes[1] == v->sizes[1]);
}

/* check_last_dim_stride_equals_1_dense(), ignoring dimensions of size 1 */
static bool rows_are_dense(const struct attention *a)
{
    const struct tensor *x[] = { a->query, a->key, a->value };

    for (int i = 0; i < 3; i++)
        if (x[i]->strides[3] != 1 && x[i]->sizes[3] != 1)
            return false;
    return true;
}

static bool common(const struct attention *a)
{
    return a->query->dims == 4 && a->key->dims == 4 && a->value->dims == 4 && heads_agree(a) &&
           rows_are_dense(a) && a->query->sizes[2] > 0 && a->key->sizes[2] > 0;
}

static bool flash_runs(const struct attention *a)
{
    int cc = a->g->around.cc;
    int64_t size = a->query->sizes[3];
    bool small_chip = cc == 86 || cc == 89 || cc == 120 || cc == 121;
    bool large_heads = (size > 192 && size <= 224) || (size > 224 && a->dropout > 0);

    return common(a) && !a->mask && cc >= 80 && is_16_bit(a) && size <= 256 &&
           size == a->key->sizes[3] && size == a->value->sizes[3] &&
           (!a->causal || a->query->sizes[2] == a->key->sizes[2]) &&
           !(small_chip && large_heads && a->records);
}

/* minimum_gemm_alignment() */
static int64_t alignment(const struct attention *a)
{
    if (is_16_bit(a))
        return a->g->around.cc >= 70 ? 8 : 1;
    return a->g->around.cc >= 80 ? 4 : 1;
}

static bool efficient_runs(const struct attention *a)
{
    int64_t unit = alignment(a);

    return common(a) && a->query->dtype != DTYPE_FLOAT64 &&
           (a->query->sizes[1] == a->key->sizes[1] || a->g->around.framework->efficient_gqa) &&
           (a->query->dtype != DTYPE_BFLOAT16 || a->g->around.cc >= 80) &&
           a->query->sizes[3] % unit == 0 && a->value->sizes[3] % unit == 0;
}

static bool cudnn_runs(const struct attention *a)
{
    int64_t size = a->query->sizes[3];

    return common(a) && is_16_bit(a) && a->dropout == 0 && size % 8 == 0 &&
           a->value->sizes[3] % 8 == 0 &&
           (size <= 128 || size == 256 || (size == 192 && a->value->sizes[3] == 128)) &&
           a->query->sizes[2] > 1 && a->key->sizes[2] > 1 && !tensor_requires_grad(a->mask);
}

enum attention_kind attention_choose(const struct attention *a)
{
    int cc = a->g->around.cc;
    bool cudnn_first = a->g->around.framework->cudnn_first && (cc == 90 || cc == 100 || cc == 103);

    if (cudnn_first && cudnn_runs(a))
        return ATTENTION_CUDNN;
    if (flash_runs(a))
        return ATTENTION_FLASH;
    if (efficient_runs(a))
        return ATTENTION_EFFICIENT;
    return ATTENTION_MATH;
}

/* ------------------------------------------------------------------ the operator */

/* convert_boolean_attn_mask(): where(mask, 0, -inf), with two scalars on the device */
static struct tensor *float_mask(struct ghost *g, struct tensor *mask, enum dtype dtype)
{
    enum category outer = g->category;

    g->category = CATEGORY_TEMPORARY;
    TENSOR_AUTO *zero = tensor_new_scalar(g, dtype);
    TENSOR_AUTO *minus_infinity = tensor_new_scalar(g, dtype);

    g->category = outer;
    return tensor_like(g, mask, dtype);
}

/* preprocess_mask(): rows that do not start at a multiple of 8 elements are padded, then seen as [B, H, Sq, Sk] */
static struct tensor *aligned_mask(const struct attention *a)
{
    struct tensor *mask = a->mask;
    int64_t sizes[4] = { a->query->sizes[0], a->query->sizes[1], a->query->sizes[2],
                         a->key->sizes[2] };
    bool aligned = mask->dims > 0;

    for (unsigned i = 0; i + 1 < mask->dims; i++)
        aligned = aligned && mask->strides[i] % 8 == 0;
    aligned = aligned && mask->strides[mask->dims - 1] == 1;
    if (aligned)
        return view_expand(mask, 4, sizes);
    if (mask->dims == 0)
        return ghost_fail(a->g, PLM_E_MODEL, "a mask of at least one dimension was expected");
    int64_t last = mask->sizes[mask->dims - 1];
    TENSOR_AUTO *wide = view_pad(mask, (int64_t[]){ 0, 8 - last % 8 }, 2);
    TENSOR_AUTO *cut = view_slice(wide, -1, 0, last, 1);

    return view_expand(cut, 4, sizes);
}

static bool check(struct ghost *g, const struct attention *a)
{
    const struct tensor *q = a->query, *k = a->key, *v = a->value;
    char qt[TENSOR_TEXT], kt[TENSOR_TEXT], vt[TENSOR_TEXT];

    if (!q || !k || !v)
        return false;
    if (q->dims < 2 || k->dims != q->dims || v->dims != q->dims) {
        ghost_fail(
            g, PLM_E_MODEL,
            "query %s, key %s and value %s must have the same number of dimensions, at least 2",
            tensor_text(q, qt), tensor_text(k, kt), tensor_text(v, vt));
        return false;
    }
    unsigned last = q->dims - 1;

    if (q->sizes[last] != k->sizes[last] || k->sizes[last - 1] != v->sizes[last - 1]) {
        ghost_fail(
            g, PLM_E_MODEL,
            "query %s and key %s must agree in the last size, key and value %s in the last but one",
            tensor_text(q, qt), tensor_text(k, kt), tensor_text(v, vt));
        return false;
    }
    if (a->gqa && q->dims == 4 &&
        (k->sizes[1] == 0 || q->sizes[1] % k->sizes[1] != 0 || v->sizes[1] != k->sizes[1])) {
        ghost_fail(g, PLM_E_MODEL,
                   "%lld query heads are not a multiple of %lld key and %lld value heads",
                   (long long)q->sizes[1], (long long)k->sizes[1], (long long)v->sizes[1]);
        return false;
    }
    if (q->dtype != k->dtype || q->dtype != v->dtype) {
        ghost_fail(g, PLM_E_MODEL,
                   "query, key and value must have the same type; they are %s, %s, %s",
                   dtype_defs[q->dtype].name, dtype_defs[k->dtype].name, dtype_defs[v->dtype].name);
        return false;
    }
    return true;
}

static struct tensor *run(enum attention_kind kind, const struct attention *a)
{
    if (a->ring.size > 1)
        return attention_ring(kind, a);
    return kind == ATTENTION_MATH ? attention_math(a)
                                  : attention_recorded(attention_fused(kind), a);
}

struct tensor *attention_run(enum attention_kind kind, const struct attention *a)
{
    return kind == ATTENTION_FLASH ? attention_padded(a, run) : run(kind, a);
}

void op_scaled_dot_product_attention(struct ghost *g,
                                     const struct op_args *args,
                                     struct tensor **ret)
{
    struct tensor *mask = args->in_count > 3 ? args->in[3] : NULL;
    struct attention a = {
        .g = g,
        .query = args->in[0],
        .key = args->in[1],
        .value = args->in[2],
        .mask = mask,
        .dropout = g->training ? op_real(args, KEY_P) : 0,
        .causal = op_int(args, KEY_IS_CAUSAL),
        .gqa = op_int(args, KEY_ENABLE_GQA),
        .ring = args->ring,
    };

    if (!check(g, &a))
        return;
    a.records = records(&a);
    if (mask && a.causal) {
        ghost_fail(g, PLM_E_MODEL, "a mask and is_causal exclude each other");
        return;
    }
    enum attention_kind kind = attention_choose(&a);
    TENSOR_AUTO *converted =
        mask && mask->dtype == DTYPE_BOOL ? float_mask(g, mask, a.query->dtype) : tensor_ref(mask);

    a.mask = converted;
    if (a.mask && kind == ATTENTION_EFFICIENT) { /* takes its place */
        struct tensor *aligned = aligned_mask(&a);

        tensor_drop(converted);
        converted = aligned;
        a.mask = aligned;
    }
    if (!g->halt)
        ret[0] = attention_run(kind, &a);
}
