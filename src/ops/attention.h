/* ops/attention.h - scaled_dot_product_attention: its kernels, shared between attention*.c */
#ifndef PLM_OPS_ATTENTION_H
#define PLM_OPS_ATTENTION_H

#include "ops/ops.h"

/* struct attention - one call; query, key and value are [batch, heads, length, head size] */
struct attention {
    struct ghost *g;
    struct tensor *query, *key, *value;
    struct tensor *mask; /* float mask, after conversion; NULL: none */
    double dropout;
    bool causal, gqa;
    bool records;             /* there will be a backward */
    struct context_ring ring; /* context parallelism: keys and values come from other ranks too */
};

/* struct attention_result - what a fused kernel returns and its backward is given; owned */
struct attention_result {
    struct tensor *out, *lse;
    struct tensor *rest[2]; /* the state of its random numbers */
};

/*
 * struct attention_kernel - a fused kernel, without autograd
 *
 * backward() gives an owned gradient of query, key, value, and with @wants_mask of the mask.
 */
struct attention_kernel {
    void (*forward)(const struct attention *a, struct attention_result *ret);
    void (*backward)(const struct attention *a,
                     const struct attention_result *result,
                     struct tensor *grad,
                     bool wants_mask,
                     struct tensor *ret[4]);
    const struct backward *recorded;
};

enum attention_kind {
    ATTENTION_FLASH,
    ATTENTION_EFFICIENT,
    ATTENTION_CUDNN,
    ATTENTION_MATH, /* made of other operators */
};

extern const struct attention_kernel attention_flash, attention_efficient, attention_cudnn;

/* attention_choose() - the first kind whose conditions hold; attention_run() - a call of that kind, recorded */
enum attention_kind attention_choose(const struct attention *a);
struct tensor *attention_run(enum attention_kind kind, const struct attention *a);

/* attention_fused() - the kernel of a kind; NULL for ATTENTION_MATH */
const struct attention_kernel *attention_fused(enum attention_kind kind);

/* attention_math() - softmax(query keyᵀ) value, as operators of their own, recorded */
struct tensor *attention_math(const struct attention *a);

/* attention_recorded() - one call of a fused kernel, recorded; attention_apply() its backward */
struct tensor *attention_recorded(const struct attention_kernel *kernel, const struct attention *a);
void attention_apply(const struct attention_kernel *kernel,
                     struct node *n,
                     struct tensor *const *grads,
                     struct tensor **ret);

/* attention_ring() - ring attention by calls of a fused kernel, recorded */
struct tensor *attention_ring(enum attention_kind kind, const struct attention *a);

/*
 * attention_fused_ring() - Transformer Engine's attention of query, key and value, contiguous [seq, batch, heads, size], of which
 * other ranks have other parts; gives [seq, batch, heads * size]
 */
struct tensor *attention_fused_ring(const struct context_ring *place, struct tensor *const in[3]);

/* attention_padded() - @call with head sizes padded to a multiple of 8, its output cut to the size again */
struct tensor *attention_padded(const struct attention *a,
                                struct tensor *(*call)(enum attention_kind kind,
                                                       const struct attention *a));

/* attention_heads() - [batch, heads, length, size] as [batch, length, heads, size], the same memory; and back */
struct tensor *attention_heads(struct tensor *x);

#endif
