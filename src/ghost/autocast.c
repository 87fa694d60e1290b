/*
 * ghost/autocast.c - torch.autocast
 *
 * Mirrors aten/src/ATen/autocast_mode.cpp (2.15): a float32 leaf that wants a gradient is cast once for each outermost context;
 * its copy stays in the cache until that context ends. Everything else is cast at each use.
 */
#include "ghost/autocast.h"
#include "ghost/autograd.h"
#include "ghost/kernels.h"

static void to_copy_apply(struct ghost *g,
                          struct node *n,
                          struct tensor *const *grads,
                          struct tensor **ret)
{
    if (node_needs(n, 0))
        ret[0] = kernel_cast(grads[0], (enum dtype)n->numbers[0]);
}

static const struct backward to_copy_backward = { "ToCopyBackward0", to_copy_apply };

struct tensor *autocast_to(struct tensor *x, enum dtype dtype)
{
    if (!x || x->dtype == dtype)
        return tensor_ref(x);
    struct node *n =
        dtype_defs[dtype].floating ? node_new(x->ghost, &to_copy_backward, &x, 1, 0, 1) : NULL;

    if (n)
        n->numbers[0] = (int64_t)x->dtype;
    return node_attach(n, kernel_cast(x, dtype));
}

bool autocast_eligible(const struct tensor *x)
{
    return tensor_is_floating(x) && x->dtype != DTYPE_FLOAT64;
}

static struct tensor *cached_cast(struct ghost *g, struct tensor *x, enum dtype dtype)
{
    struct autocast *a = &g->autocast;

    if (!autocast_eligible(x) || x->dtype == dtype)
        return tensor_ref(x);
    bool cacheable = dtype == a->dtype && x->dtype == DTYPE_FLOAT32 && x->requires_grad &&
                     !x->grad_fn && !x->view;

    for (size_t i = 0; cacheable && i < a->cache_count; i += 2)
        if (a->cache[i] == x)
            return tensor_ref(a->cache[i + 1]);
    bool grad_enabled = g->grad_enabled;

    /* a copy made under no_grad must serve whoever finds it in the cache later */
    if (cacheable && g->around.framework->autocast_cache_records)
        g->grad_enabled = true;
    struct tensor *copy = autocast_to(x, dtype);

    g->grad_enabled = grad_enabled;
    if (cacheable && copy) {
        arena_push(g->arena, a->cache, a->cache_count, a->cache_capacity, tensor_ref(x));
        arena_push(g->arena, a->cache, a->cache_count, a->cache_capacity, tensor_ref(copy));
    }
    return copy;
}

void autocast_enter(struct ghost *g, enum dtype dtype)
{
    g->autocast.dtype = dtype;
    g->autocast.enabled = true;
    g->autocast.depth++;
}

void autocast_leave(struct ghost *g)
{
    struct autocast *a = &g->autocast;

    if (--a->depth > 0)
        return;
    a->enabled = false;
    while (a->cache_count > 0)
        tensor_drop(a->cache[--a->cache_count]);
}

bool autocast_cast(struct ghost *g, enum cast_policy policy, struct tensor **tensors, size_t count)
{
    bool was_active = g->autocast.enabled;
    enum dtype dtype = policy == CAST_LOWER ? g->autocast.dtype : DTYPE_FLOAT32;
    bool casts = was_active && policy != CAST_KEEP && policy != CAST_SET;

    if (casts && policy == CAST_WIDEST) {
        dtype = g->autocast.dtype;
        for (size_t i = 0; i < count; i++)
            if (autocast_eligible(tensors[i]) && tensors[i]->dtype != dtype)
                dtype = DTYPE_FLOAT32;
    }
    for (size_t i = count; i-- > 0;)
        tensors[i] = casts ? cached_cast(g, tensors[i], dtype) : tensor_ref(tensors[i]);
    g->autocast.enabled = was_active && policy == CAST_KEEP;
    return was_active;
}

void autocast_restore(struct ghost *g, bool was_active, struct tensor **tensors, size_t count)
{
    g->autocast.enabled = was_active;
    for (size_t i = 0; i < count; i++) {
        tensor_drop(tensors[i]);
        tensors[i] = NULL;
    }
}
