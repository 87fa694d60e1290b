/*
 * ghost/autograd.c - nodes of the backward graph and what they save
 *
 * A node is one piece of memory: the struct, then its edges, saved tensors, numbers and outputs. It is owned by
 * the tensors that it made and by the nodes that lead to it. A graph can be a chain of many thousands, so
 * nodes are torn down from a list and not by recursion.
 */
#include <string.h>

#include "ghost/checkpoint.h"

static struct node *make(struct ghost *g,
                         const struct backward *backward,
                         uint32_t edge_count,
                         uint32_t saved_count,
                         uint32_t number_count,
                         uint32_t output_count)
{
    size_t edges = sizeof(struct node);
    size_t saved = edges + edge_count * sizeof(struct edge);
    size_t numbers = saved + saved_count * sizeof(struct saved);
    size_t outputs = numbers + number_count * sizeof(int64_t);
    size_t size = outputs + output_count * sizeof(struct output);
    char *memory = pool_alloc(&g->pool, size);
    struct node *n = (void *)memory;

    n->backward = backward;
    n->ghost = g;
    n->refs = 1;
    n->edge_count = edge_count;
    n->saved_count = saved_count;
    n->number_count = number_count;
    n->output_count = output_count;
    n->edges = (void *)(memory + edges);
    n->saved = (void *)(memory + saved);
    n->numbers = (void *)(memory + numbers);
    n->outputs = (void *)(memory + outputs);
    n->size = size;
    n->op = g->op;
    n->path = g->path;
    n->stream = g->stream;
    return n;
}

static void accumulate(struct ghost *g,
                       struct node *n,
                       struct tensor *const *grads,
                       struct tensor **ret);

static const struct backward accumulate_grad = { "AccumulateGrad", accumulate };

/* accumulator_of() - a leaf's AccumulateGrad: it keeps the leaf alive, and lives as long as a graph leads to it */
static struct node *accumulator_of(struct tensor *leaf)
{
    if (leaf->accumulator)
        return node_ref(leaf->accumulator);
    struct node *n = make(leaf->ghost, &accumulate_grad, 0, 0, 0, 1);

    n->sequence = UINT64_MAX;
    n->leaf = tensor_ref(leaf);
    n->outputs[0].dtype = leaf->grad_dtype_set ? leaf->grad_dtype : leaf->dtype;
    n->outputs[0].dims = leaf->dims;
    memcpy(n->outputs[0].sizes, leaf->sizes, sizeof leaf->sizes);
    leaf->accumulator = n;
    return n;
}

struct edge autograd_edge(struct tensor *x)
{
    if (!x || !x->requires_grad)
        return (struct edge){ 0 };
    if (x->grad_fn)
        return (struct edge){ .node = node_ref(x->grad_fn), .input_nr = x->output_nr };
    return (struct edge){ .node = accumulator_of(x) };
}

struct node *node_new_outputs(struct ghost *g,
                              const struct backward *backward,
                              struct tensor *const *inputs,
                              uint32_t input_count,
                              uint32_t saved_count,
                              uint32_t number_count,
                              uint32_t output_count)
{
    bool needed = false;

    for (uint32_t i = 0; i < input_count; i++)
        needed = needed || tensor_requires_grad(inputs[i]);
    if (!needed || !g->grad_enabled || g->halt)
        return NULL;
    struct node *n = make(g, backward, input_count, saved_count, number_count, output_count);

    n->sequence = g->sequence++;
    for (uint32_t i = 0; i < input_count; i++)
        n->edges[i] = autograd_edge(inputs[i]);
    return n;
}

struct node *node_new(struct ghost *g,
                      const struct backward *backward,
                      struct tensor *const *inputs,
                      uint32_t input_count,
                      uint32_t saved_count,
                      uint32_t number_count)
{
    return node_new_outputs(g, backward, inputs, input_count, saved_count, number_count, 1);
}

void node_save(struct node *n, uint32_t i, struct tensor *x)
{
    if (!n || !x)
        return;
    if (n->ghost->frame)
        checkpoint_pack(n->ghost->frame, &n->saved[i], x);
    else
        n->saved[i].tensor = tensor_ref(x);
}

void node_save_output(struct node *n, uint32_t i, struct tensor *x)
{
    if (!n || !x)
        return;
    /* its own tensor over the same memory: a reference to the output itself would be a cycle */
    TENSOR_AUTO *own = tensor_detach(x);

    node_save(n, i, own);
}

struct tensor *node_saved(struct node *n, uint32_t i)
{
    return n->saved[i].frame ? checkpoint_unpack(&n->saved[i]) : tensor_ref(n->saved[i].tensor);
}

const struct output *node_input(const struct node *n, uint32_t i)
{
    const struct edge *edge = &n->edges[i];

    return edge->node ? &edge->node->outputs[edge->input_nr] : NULL;
}

struct tensor *node_attach_output(struct node *n, uint32_t i, struct tensor *y)
{
    if (!n || !y)
        return y;
    struct output *output = &n->outputs[i];

    output->dtype = y->dtype;
    output->dims = y->dims;
    memcpy(output->sizes, y->sizes, sizeof output->sizes);
    node_drop(y->grad_fn);
    y->grad_fn = node_ref(n);
    y->output_nr = i;
    y->requires_grad = true;
    return y;
}

struct tensor *node_attach(struct node *n, struct tensor *y)
{
    node_attach_output(n, 0, y);
    node_drop(n);
    return y;
}

struct tensor *node_attach_inplace(struct node *n, struct tensor *x)
{
    return node_attach(n, x);
}

struct node *node_ref(struct node *n)
{
    if (n)
        n->refs++;
    return n;
}

void autograd_hook(struct tensor *x,
                   void (*call)(void *context, struct tensor *grad),
                   void *context)
{
    if (!x || !x->grad_fn)
        return;
    struct hook *hook = pool_alloc(&x->ghost->pool, sizeof *hook), **last = &x->grad_fn->hooks;

    *hook = (struct hook){ .call = call, .context = context, .output_nr = x->output_nr };
    while (*last)
        last = &(*last)->next;
    *last = hook;
}

static void bury(struct node *n)
{
    struct ghost *g = n->ghost;

    while (n->hooks) {
        struct hook *hook = n->hooks;

        n->hooks = hook->next;
        pool_free(&g->pool, hook, sizeof *hook);
    }

    for (uint32_t i = 0; i < n->saved_count; i++)
        checkpoint_forget(&n->saved[i]);
    for (uint32_t i = 0; i < n->output_count; i++)
        tensor_drop(n->outputs[i].gradient);
    for (uint32_t i = 0; i < n->edge_count; i++)
        node_drop(n->edges[i].node);
    tensor_drop(n->leaf);
    pool_free(&g->pool, n, n->size);
}

void node_drop(struct node *n)
{
    if (!n || --n->refs > 0)
        return;
    struct ghost *g = n->ghost;

    if (n->leaf)
        n->leaf->accumulator = NULL;
    n->next_dead = g->dead;
    g->dead = n;
    if (g->burying)
        return; /* whoever is burying takes it from the list */
    g->burying = true;
    while (g->dead) {
        struct node *next = g->dead;

        g->dead = next->next_dead;
        bury(next);
    }
    g->burying = false;
}

void autograd_leaf(struct tensor *x)
{
    x->requires_grad = true;
}

void autograd_grad_dtype(struct tensor *x, enum dtype dtype)
{
    x->grad_dtype_set = dtype != x->dtype;
    x->grad_dtype = dtype;
    if (x->accumulator)
        x->accumulator->outputs[0].dtype = dtype;
}

/* torch/csrc/autograd/utils/grad_layout_contract.h, obeys_layout_contract */
static bool obeys_layout(const struct tensor *grad, const struct tensor *leaf)
{
    if (!tensor_is_dense(leaf))
        return tensor_is_contiguous(grad);
    for (unsigned i = 0; i < grad->dims; i++)
        /* in a dimension of size 1 only a stride of 0 counts: it betrays an expanded tensor */
        if (grad->sizes[i] != 1 ? grad->strides[i] != leaf->strides[i] : grad->strides[i] == 0)
            return false;
    return true;
}

/* recategorize() - a gradient that becomes .grad is one, whatever it was made as */
static void recategorize(struct tensor *grad)
{
    if (grad->storage->allocation)
        grad->ghost->records[grad->storage->allocation].category = CATEGORY_GRADIENT;
}

static void announce(struct ghost *g, struct tensor *leaf)
{
    if (g->accumulated && !g->halt)
        g->accumulated(g->accumulated_context, leaf);
}

/* torch/csrc/autograd/functions/accumulate_grad.h: steal the gradient, or clone it, or add to what is there */
static void accumulate(struct ghost *g,
                       struct node *n,
                       struct tensor *const *grads,
                       struct tensor **ret)
{
    struct tensor *leaf = n->leaf, *grad = grads[0];

    (void)ret; /* a leaf has no edges */
    if (!grad)
        return;
    if (leaf->grad) { /* param.grad += grad works in place */
        announce(g, leaf);
        return;
    }
    if (grad->refs <= 1 && obeys_layout(grad, leaf))
        leaf->grad = tensor_detach(grad);
    else if (tensor_is_dense(leaf))
        leaf->grad = tensor_new_strided(g, grad->dtype, leaf->dims, leaf->sizes, leaf->strides);
    else
        leaf->grad = tensor_new(g, grad->dtype, leaf->dims, leaf->sizes);
    if (leaf->grad)
        recategorize(leaf->grad);
    announce(g, leaf);
}
