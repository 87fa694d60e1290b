/* ops/attention.h - scaled_dot_product_attention: its kernels, shared between attention*.c */
#ifndef PLM_OPS_ATTENTION_H
#define PLM_OPS_ATTENTION_H

#include "ghost/autograd.h"

/* struct attention - one call; query, key and value are [batch, heads, length, head size] */
struct attention {
    struct ghost *g;
    struct tensor *query, *key, *value;
    struct tensor *mask; /* float mask, after conversion; NULL: none */
    double dropout;
    bool causal, gqa;
};

/* The kernels. Each returns the output, recorded. */
struct tensor *attention_flash(const struct attention *a);
struct tensor *attention_efficient(const struct attention *a);
struct tensor *attention_cudnn(const struct attention *a);
struct tensor *attention_math(const struct attention *a);

/* attention_heads() - [batch, heads, length, size] as [batch, length, heads, size], the same memory; and back */
struct tensor *attention_heads(struct tensor *x);

/* attention_records() - will there be a backward: any of query, key, value wants a gradient */
bool attention_records(const struct attention *a);

#endif
