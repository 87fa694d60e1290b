/* ops/attention_recorded.c - one call of a fused attention kernel with autograd around it (derivatives.yaml) */
#include "ghost/selective.h"
#include "ops/attention.h"

enum {
    SAVED_QUERY,
    SAVED_KEY,
    SAVED_VALUE,
    SAVED_MASK,
    SAVED_OUT,
    SAVED_LSE,
    SAVED_REST,
    SAVED_COUNT = SAVED_REST + 2
};
enum { NUMBER_CAUSAL, NUMBER_COUNT };

const struct attention_kernel *attention_fused(enum attention_kind kind)
{
    switch (kind) {
    case ATTENTION_FLASH:
        return &attention_flash;
    case ATTENTION_EFFICIENT:
        return &attention_efficient;
    case ATTENTION_CUDNN:
        return &attention_cudnn;
    case ATTENTION_MATH:
        break;
    }
    return NULL;
}

void attention_apply(const struct attention_kernel *kernel,
                     struct node *n,
                     struct tensor *const *grads,
                     struct tensor **ret)
{
    TENSOR_AUTO *query = node_saved(n, SAVED_QUERY);
    TENSOR_AUTO *key = node_saved(n, SAVED_KEY);
    TENSOR_AUTO *value = node_saved(n, SAVED_VALUE);
    TENSOR_AUTO *mask = node_saved(n, SAVED_MASK);
    TENSOR_AUTO *out = node_saved(n, SAVED_OUT);
    TENSOR_AUTO *lse = node_saved(n, SAVED_LSE);
    TENSOR_AUTO *first = node_saved(n, SAVED_REST);
    TENSOR_AUTO *second = node_saved(n, SAVED_REST + 1);
    const struct attention a = {
        .g = n->ghost,
        .query = query,
        .key = key,
        .value = value,
        .mask = mask,
        .causal = n->numbers[NUMBER_CAUSAL],
        .records = true,
    };
    struct tensor *made[4] = { NULL };

    if (n->ghost->halt)
        return;
    kernel->backward(&a, &(struct attention_result){ out, lse, { first, second } }, grads[0],
                     node_needs(n, 3), made);
    for (uint32_t i = 0; i < 4; i++)
        if (node_needs(n, i))
            ret[i] = made[i];
        else
            tensor_drop(made[i]);
}

/* forward() - the kernel's, or what a checkpoint has kept of it; torchtitan does not list cuDNN's kernel */
static void forward(const struct attention_kernel *kernel,
                    const struct attention *a,
                    struct attention_result *ret)
{
    bool listed = kernel != &attention_cudnn;
    struct tensor *made[4] = { NULL };

    if (listed && selective_take(a->g, SELECTED_ATTENTION, made, 4)) {
        *ret = (struct attention_result){ made[0], made[1], { made[2], made[3] } };
        return;
    }
    kernel->forward(a, ret);
    if (listed)
        selective_keep(a->g, SELECTED_ATTENTION,
                       (struct tensor *[]){ ret->out, ret->lse, ret->rest[0], ret->rest[1] }, 4);
}

struct tensor *attention_recorded(const struct attention_kernel *kernel, const struct attention *a)
{
    struct node *n =
        node_new(a->g, kernel->recorded, (struct tensor *[]){ a->query, a->key, a->value, a->mask },
                 4, SAVED_COUNT, NUMBER_COUNT);
    struct attention_result r = { 0 };

    if (n)
        n->numbers[NUMBER_CAUSAL] = a->causal;
    node_save(n, SAVED_QUERY, a->query);
    node_save(n, SAVED_KEY, a->key);
    node_save(n, SAVED_VALUE, a->value);
    node_save(n, SAVED_MASK, a->mask);
    forward(kernel, a, &r);
    node_save_output(n, SAVED_OUT, r.out);
    node_save_output(n, SAVED_LSE, r.lse);
    node_save_output(n, SAVED_REST, r.rest[0]);
    node_save_output(n, SAVED_REST + 1, r.rest[1]);
    struct tensor *out = node_attach(n, r.out);

    /* in the order in which the tuple's elements die: the last first */
    tensor_drop(r.rest[1]);
    tensor_drop(r.rest[0]);
    tensor_drop(r.lse);
    return out;
}
