/*
 * ghost/autograd.h - nodes of the backward graph, what they save, and the engine that runs them
 *
 * An operator's forward, in PyTorch's order: make the node, save inputs, compute, save outputs, attach the result:
 *
 *     struct node *n = node_new(g, &silu_backward, (struct tensor *[]){ x }, 1, 1, 0);
 *     node_save(n, 0, x);
 *     struct tensor *y = tensor_like(g, x, x->dtype);
 *     return node_attach(n, y);
 *
 * With no gradient to record, node_new() returns NULL, and every node_* function takes NULL.
 */
#ifndef PLM_GHOST_AUTOGRAD_H
#define PLM_GHOST_AUTOGRAD_H

#include "ghost/tensor.h"

/*
 * struct backward - what kind of node this is
 *
 * apply() is given the gradient of each output (borrowed; NULL where none arrived) and writes one owned gradient for
 * each edge that node_needs(). Saved tensors are fetched by node_saved() before anything is computed. Gradients are made in
 * the order of PyTorch's formula: alphabetical by argument (derivatives.yaml), or the kernel's own.
 */
struct backward {
    const char *name; /* "MulBackward0" */
    void (*apply)(struct ghost *g,
                  struct node *n,
                  struct tensor *const *grads,
                  struct tensor **ret);
};

struct edge {
    struct node *node; /* owned; NULL: this input needs no gradient */
    uint32_t input_nr; /* which output of @node's forward the gradient belongs to */
};

/* struct saved - a tensor kept for the backward, or a place in a checkpoint that will be recomputed */
struct saved {
    struct tensor *tensor; /* owned */
    struct frame *frame;   /* owned; NULL: kept as it is */
    uint32_t holder;
};

/*
 * struct hook - called when the gradients of a node have arrived, before it runs (Tensor.register_hook on an output)
 *
 * It lives as long as its node.
 */
struct hook {
    struct hook *next;
    void (*call)(void *context, struct tensor *grad);
    void *context;
    uint32_t output_nr;
};

/* struct output - what the engine checks a gradient against */
struct output {
    enum dtype dtype;
    unsigned dims;
    int64_t sizes[TENSOR_DIMS];
    struct tensor *gradient; /* the engine's input buffer; owned */
};

struct node {
    const struct backward *backward;
    struct ghost *ghost;
    uint32_t refs;
    uint32_t edge_count, saved_count, number_count, output_count;
    uint32_t visit, dependencies; /* of the engine's pass */
    uint32_t selected;            /* the pass that may run it, when only some nodes are run */
    uint64_t sequence;            /* UINT64_MAX for AccumulateGrad */
    uint16_t stream;              /* on which it was made, and on which it will run */
    bool
        python; /* a torch.autograd.Function: its gradients go when it returns, before what it made is cast */
    struct node *next_dead;
    struct tensor *leaf; /* AccumulateGrad: the parameter, which a graph so keeps alive; owned */
    struct hook *hooks;  /* first registered first */
    struct tensor **
        capture; /* [output_count]: where the next pass leaves the gradients that it is given; or NULL */
    const struct backward *sliced; /* CopySlices: of the operator that overwrote a view */
    enum op_kind op;
    name_id path;
    struct edge *edges;     /* [edge_count] */
    struct saved *saved;    /* [saved_count] */
    int64_t *numbers;       /* [number_count], whatever apply() wants to know */
    struct output *outputs; /* [output_count] */
    size_t size;            /* of this node with its arrays */
};

/*
 * node_new() - a node with an edge to each of @inputs; NULL when nothing is recorded
 *
 * @number_count numbers are zeroed, for the operator to fill in through n->numbers. node_new_outputs() for several outputs.
 */
struct node *node_new(struct ghost *g,
                      const struct backward *backward,
                      struct tensor *const *inputs,
                      uint32_t input_count,
                      uint32_t saved_count,
                      uint32_t number_count);
struct node *node_new_outputs(struct ghost *g,
                              const struct backward *backward,
                              struct tensor *const *inputs,
                              uint32_t input_count,
                              uint32_t saved_count,
                              uint32_t number_count,
                              uint32_t output_count);

/* node_save() - keep an input for the backward; node_save_output() an output (its own memory, not its history) */
void node_save(struct node *n, uint32_t i, struct tensor *x);
void node_save_output(struct node *n, uint32_t i, struct tensor *x);

/* node_attach() - make @y an output of @n and hand the node over to it; returns @y. Takes NULL for either */
struct tensor *node_attach(struct node *n, struct tensor *y);
/* node_attach_output() - the same for output @i of several; the caller keeps its reference: node_drop() at the end */
struct tensor *node_attach_output(struct node *n, uint32_t i, struct tensor *y);
/* node_attach_inplace() - @x was overwritten: @n becomes its history */
struct tensor *node_attach_inplace(struct node *n, struct tensor *x);

/* node_needs() - must apply() make the gradient of input @i? */
static inline bool node_needs(const struct node *n, uint32_t i)
{
    const struct node *next = n ? n->edges[i].node : NULL;

    return next && (!n->ghost->selects || next->selected == n->ghost->selects);
}

/*
 * node_saved() - a saved tensor, inside apply(); the caller owns it and drops it at the end of apply()
 *
 * The first call on a checkpointed node recomputes its region.
 */
struct tensor *node_saved(struct node *n, uint32_t i);

/* node_input_sizes() - sizes that the gradient of input @i must have in the end (of the forward's input) */
const struct output *node_input(const struct node *n, uint32_t i);

struct node *node_ref(struct node *n);
void node_drop(struct node *n);

/* autograd_edge() - where the gradient of @x goes; the node is the caller's */
struct edge autograd_edge(struct tensor *x);

/* autograd_leaf() - make @x a leaf that wants a gradient (requires_grad_()) */
void autograd_leaf(struct tensor *x);

/* autograd_grad_dtype() - param.grad_dtype = dtype: gradients of the leaf @x are cast to it when they arrive */
void autograd_grad_dtype(struct tensor *x, enum dtype dtype);

/*
 * autograd_backward() - torch.autograd.backward([root], [grad]): run the graph, accumulate into the leaves' .grad
 *
 * @grad may be NULL: ones_like(root), held until the end. Nested calls (reentrant checkpointing) are allowed.
 */
void autograd_backward(struct ghost *g, struct tensor *root, struct tensor *grad);

/*
 * struct autograd_call - torch.autograd.backward(roots, grads); with inputs torch.autograd.grad(roots, inputs, grads)
 *
 * With @inputs only nodes that lead to them run, and what arrives at them is handed out in @ret instead of being accumulated.
 */
struct autograd_call {
    const struct edge *roots;    /* [root_count], borrowed */
    struct tensor *const *grads; /* [root_count], borrowed */
    uint32_t root_count, input_count;
    const struct edge *inputs; /* [input_count], borrowed */
    struct tensor **ret;       /* [input_count]: owned, NULL where nothing arrived */
    bool keep_graph;           /* retain_graph: saved tensors are not released */
};
void autograd_run(struct ghost *g, const struct autograd_call *call);

/* autograd_select() - of the nodes between the roots and @inputs, stamp those that lead to an input; returns the stamp */
uint32_t autograd_select(struct ghost *g,
                         const struct edge *roots,
                         uint32_t root_count,
                         const struct edge *inputs,
                         uint32_t input_count);

/* autograd_hook() - have @call called with the gradient of @x, which a node made, before that node runs */
void autograd_hook(struct tensor *x,
                   void (*call)(void *context, struct tensor *grad),
                   void *context);

/* autograd_queue_callback() - have @call called when the backward that runs now is over (Engine::queue_callback) */
void autograd_queue_callback(struct ghost *g, void (*call)(void *context), void *context);

#endif
