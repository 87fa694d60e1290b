/*
 * train/ddp_sink.c - the outputs of DistributedDataParallel when it looks for unused parameters
 *
 * Mirrors torch/nn/parallel/distributed.py (2.15), _DDPSink: one autograd function clones every tensor of the output, also
 * those that have no history; the clones of these are dropped again.
 */
#include "train/ddp_sink.h"
#include "ghost/kernels.h"

/* struct leaves - the tensors of an output, in order; each in its slot */
struct leaves {
    struct arena scratch;
    struct value **slots;
    struct tensor **tensors, **clones; /* [count]: borrowed; owned */
    size_t count, capacity;
};

/* unfold() - collect the tensors of *@v, which becomes a copy of what it was, so that the model's own stays as it is */
static void unfold(struct run *run, struct leaves *leaves, struct value *v)
{
    struct pool *pool = &run->ghost.pool;

    switch (v->kind) {
    case VALUE_NONE:
        return;
    case VALUE_TENSOR:
        arena_push(&leaves->scratch, leaves->slots, leaves->count, leaves->capacity, v);
        return;
    case VALUE_LIST: /* of the zoo's models: a DynamicCache, which tree_flatten() takes for one leaf */
        *v = value_ref(*v);
        return;
    case VALUE_RECORD:
        break;
    }
    const struct object *old = v->as.object;
    struct object *o = pool_alloc(pool, sizeof *o);

    *o = (struct object){
        .refs = 1, .count = old->count, .capacity = old->count, .names = old->names
    };
    if (o->count > 0)
        o->items = pool_alloc(pool, o->count * sizeof *o->items);
    v->as.object = o;
    for (uint32_t i = 0; i < o->count; i++) {
        o->items[i] = old->items[i];
        unfold(run, leaves, &o->items[i]);
    }
}

static void sink_backward(struct ghost *g,
                          struct node *n,
                          struct tensor *const *grads,
                          struct tensor **ret)
{
    for (uint32_t i = 0; i < n->output_count; i++)
        if (node_needs(n, i))
            ret[i] = tensor_ref(grads[i]);
}

static const struct backward sink = { "_DDPSinkBackward", sink_backward };

static void clone_all(struct run *run, struct leaves *leaves)
{
    uint32_t count = (uint32_t)leaves->count;

    leaves->tensors = arena_array(&leaves->scratch, struct tensor *, count);
    leaves->clones = arena_array(&leaves->scratch, struct tensor *, count);
    for (uint32_t i = 0; i < count; i++)
        leaves->tensors[i] = leaves->slots[i]->as.tensor;
    struct node *n =
        node_new_outputs(&run->ghost, &sink, leaves->tensors, count, 0, 0, count ? count : 1);

    for (uint32_t i = 0; i < count; i++) {
        leaves->clones[i] = kernel_clone(leaves->tensors[i]);
        if (leaves->tensors[i]->grad_fn)
            node_attach_output(n, i, leaves->clones[i]);
    }
    node_drop(n);
}

void ddp_sink(struct run *run, struct wrapped_call *call)
{
    struct ghost *g = &run->ghost;
    struct leaves leaves = { 0 };
    uint32_t count = call->step->body->out_count;
    size_t size = (count + 1) * sizeof(struct value);
    struct value *old = pool_alloc(&g->pool, size);

    for (uint32_t i = 0; i < count; i++) {
        old[i] = call->ret[i];
        unfold(run, &leaves, &call->ret[i]);
    }
    clone_all(run, &leaves);
    for (size_t i = 0; i < leaves.count; i++) {
        bool has_history = leaves.tensors[i]->grad_fn;

        *leaves.slots[i] =
            value_tensor(has_history ? leaves.clones[i] : tensor_ref(leaves.tensors[i]));
        if (!has_history)
            tensor_drop(leaves.clones[i]);
    }
    for (uint32_t i = 0; i < count; i++)
        value_drop(g, old[i]);
    pool_free(&g->pool, old, size);
    arena_finish(&leaves.scratch);
}
