/*
 * ghost/engine.c - the autograd engine: runs a graph from its root, youngest node first
 *
 * Mirrors torch/csrc/autograd/engine.cpp and input_buffer.cpp (2.15). A node runs when a gradient has come from each node
 * that leads to it; among those that are ready, the one made last in the forward goes first, and AccumulateGrad before
 * all. While a node runs, the gradients that it was given, its saved tensors and everything that it makes are alive.
 */
#include <string.h>

#include "ghost/checkpoint.h"
#include "ghost/kernels.h"

enum { APPLY_EDGES = 16 }; /* more edges than this are rare: cat and stack of many */

/* struct task - one call of backward(); nested calls have one each */
struct task {
    struct ghost *ghost;
    const struct autograd_call *call;
    uint32_t visit, selects;
    struct node **heap; /* [heap_count] ready nodes, a max-heap by sequence */
    size_t heap_count, heap_capacity;
    struct node **stack; /* scratch of the search */
    size_t stack_count, stack_capacity;
    struct suspended *suspended; /* nodes that an outer task has partly fed */
};

struct suspended {
    struct suspended *next;
    struct node *node;
    uint32_t visit, dependencies;
    struct tensor *gradient;
};

static void heap_push(struct task *task, struct node *n)
{
    arena_push(task->ghost->arena, task->heap, task->heap_count, task->heap_capacity, n);
    size_t i = task->heap_count - 1;

    while (i > 0 && task->heap[(i - 1) / 2]->sequence < n->sequence) {
        task->heap[i] = task->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    task->heap[i] = n;
}

static struct node *heap_pop(struct task *task)
{
    struct node *top = task->heap[0];
    struct node *last = task->heap[--task->heap_count];
    size_t i = 0;

    for (;;) {
        size_t child = 2 * i + 1;

        if (child >= task->heap_count)
            break;
        if (child + 1 < task->heap_count &&
            task->heap[child + 1]->sequence > task->heap[child]->sequence)
            child++;
        if (task->heap[child]->sequence <= last->sequence)
            break;
        task->heap[i] = task->heap[child];
        i = child;
    }
    task->heap[i] = last;
    return top;
}

/* discover() - first sight of a node in this pass */
static void discover(struct task *task, struct node *n)
{
    if (n->dependencies > 0 || n->outputs[0].gradient) {
        /* an outer backward is waiting to run it too (a parameter used inside and outside of a checkpoint) */
        struct suspended *s = arena_new(task->ghost->arena, struct suspended);

        *s = (struct suspended){ task->suspended, n, n->visit, n->dependencies,
                                 n->outputs[0].gradient };
        n->outputs[0].gradient = NULL;
        task->suspended = s;
    }
    n->visit = task->visit;
    n->dependencies = 0;
    arena_push(task->ghost->arena, task->stack, task->stack_count, task->stack_capacity, n);
}

/* may_run() - in this pass: all, or those that lead to an input */
static bool may_run(const struct task *task, const struct node *n)
{
    return n && (!task->selects || n->selected == task->selects);
}

static void count_dependencies(struct task *task, struct node *root)
{
    if (!may_run(task, root))
        return;
    if (root->visit != task->visit)
        discover(task, root);
    root->dependencies++;
    while (task->stack_count > 0) {
        struct node *n = task->stack[--task->stack_count];

        for (uint32_t i = 0; i < n->edge_count; i++) {
            struct node *next = n->edges[i].node;

            if (!may_run(task, next))
                continue;
            if (next->visit != task->visit)
                discover(task, next);
            next->dependencies++;
        }
    }
}

/*
 * add_to_buffer() - take *@grad over, or add it to what is there (input_buffer.cpp, accumulate)
 *
 * In place only when nobody else can see the stored gradient. What was added stays the caller's: all gradients
 * that a node made live until the last of them has been handed on.
 */
static void add_to_buffer(struct output *buffer, struct tensor **grad)
{
    struct tensor *old = buffer->gradient;

    if (!old) {
        buffer->gradient = tensor_take(grad);
        return;
    }
    bool exclusive =
        old->refs == 1 && old->storage->refs == 1 && !old->view && tensor_is_dense(old);

    if (exclusive)
        return;
    buffer->gradient = kernel_pointwise(old->ghost, kernel_promote(old, *grad),
                                        (struct tensor *[]){ old, *grad }, 2);
    tensor_drop(old);
}

/* validate_outputs(): sum what was broadcast, cast to the type of the forward's input */
static struct tensor *validated(struct tensor *grad, const struct output *wanted)
{
    struct tensor *summed = kernel_sum_to(grad, wanted->dims, wanted->sizes);

    tensor_drop(grad);
    if (!summed || summed->dtype == wanted->dtype)
        return summed;
    struct tensor *cast = kernel_cast(summed, wanted->dtype);

    tensor_drop(summed);
    return cast;
}

static void release_saved(struct node *n)
{
    for (uint32_t i = 0; i < n->saved_count; i++)
        checkpoint_forget(&n->saved[i]);
}

/* hand_out() - what has arrived at an input of autograd.grad(); true when the node was only that */
static bool hand_out(const struct task *task, struct node *n)
{
    const struct autograd_call *call = task->call;
    bool is_input = false;

    for (uint32_t i = 0; i < call->input_count; i++) {
        if (call->inputs[i].node != n)
            continue;
        call->ret[i] = tensor_ref(n->outputs[call->inputs[i].input_nr].gradient);
        is_input = true;
    }
    for (uint32_t i = 0; is_input && i < n->edge_count; i++)
        if (node_needs(n, i))
            return false;
    for (uint32_t i = 0; is_input && i < n->output_count; i++) {
        tensor_drop(n->outputs[i].gradient);
        n->outputs[i].gradient = NULL;
    }
    return is_input;
}

/* evaluate_function() */
static void run_node(struct task *task, struct node *n)
{
    struct ghost *g = task->ghost;

    if (hand_out(task, n))
        return;
    struct tensor *few_in[4], *few_out[APPLY_EDGES];
    struct tensor **grads = few_in, **ret = few_out;

    if (n->output_count > 4)
        grads = pool_alloc(&g->pool, n->output_count * sizeof *grads);
    if (n->edge_count > APPLY_EDGES)
        ret = pool_alloc(&g->pool, n->edge_count * sizeof *ret);
    if (n->edge_count > 0)
        memset(ret, 0, n->edge_count * sizeof *ret);
    bool any = false;

    for (uint32_t i = 0; i < n->output_count; i++) {
        grads[i] = n->outputs[i].gradient;
        n->outputs[i].gradient = NULL;
        any = any || grads[i];
    }
    uint16_t stream = g->stream;

    g->op = n->op;
    g->path = n->path;
    g->stream = n->stream;
    for (uint32_t i = 0; n->capture && i < n->output_count; i++)
        n->capture[i] = tensor_ref(grads[i]);
    n->capture = NULL;
    for (const struct hook *hook = n->hooks; hook; hook = hook->next)
        hook->call(hook->context, grads[hook->output_nr]);
    if (any)
        n->backward->apply(g, n, grads, ret);
    for (uint32_t i = 0; n->python && i < n->output_count; i++) {
        tensor_drop(grads[i]);
        grads[i] = NULL;
    }
    for (uint32_t i = 0; i < n->edge_count; i++)
        if (ret[i])
            ret[i] = validated(ret[i], node_input(n, i));
    for (uint32_t i = 0; i < n->output_count; i++)
        tensor_drop(grads[i]);
    if (!task->call->keep_graph)
        release_saved(n);
    for (uint32_t i = 0; i < n->edge_count; i++) {
        struct node *next = n->edges[i].node;

        if (!may_run(task, next))
            continue;
        g->stream = next->stream;
        if (ret[i])
            add_to_buffer(&next->outputs[n->edges[i].input_nr], &ret[i]);
        if (--next->dependencies == 0)
            heap_push(task, next);
    }
    g->stream = stream;
    for (uint32_t i = 0; i < n->edge_count; i++)
        tensor_drop(ret[i]);
    if (n->output_count > 4)
        pool_free(&g->pool, grads, n->output_count * sizeof *grads);
    if (n->edge_count > APPLY_EDGES)
        pool_free(&g->pool, ret, n->edge_count * sizeof *ret);
}

static void resume(struct task *task)
{
    for (struct suspended *s = task->suspended; s; s = s->next) {
        s->node->visit = s->visit;
        s->node->dependencies = s->dependencies;
        s->node->outputs[0].gradient = s->gradient;
    }
}

/* struct callback - what waits for the end of a backward */
struct callback {
    struct callback *next;
    void (*call)(void *context);
    void *context;
};

void autograd_queue_callback(struct ghost *g, void (*call)(void *context), void *context)
{
    struct callback *callback = pool_alloc(&g->pool, sizeof *callback), **last = &g->callbacks;

    *callback = (struct callback){ .call = call, .context = context };
    while (*last)
        last = &(*last)->next;
    *last = callback;
}

static void run_callbacks(struct ghost *g)
{
    while (g->callbacks) {
        struct callback *callback = g->callbacks;

        g->callbacks = callback->next;
        if (!g->halt)
            callback->call(callback->context);
        pool_free(&g->pool, callback, sizeof *callback);
    }
}

/* drain() - after a failure: let go of what has not run */
static void drain(struct task *task)
{
    while (task->heap_count > 0) {
        struct node *n = heap_pop(task);

        for (uint32_t i = 0; i < n->output_count; i++) {
            tensor_drop(n->outputs[i].gradient);
            n->outputs[i].gradient = NULL;
        }
    }
}

/* push_unseen() - a node of a search, once */
static void push_unseen(struct task *task, struct node *n)
{
    if (n && n->visit != task->visit) {
        n->visit = task->visit;
        arena_push(task->ghost->arena, task->stack, task->stack_count, task->stack_capacity, n);
    }
}

uint32_t autograd_select(struct ghost *g,
                         const struct edge *roots,
                         uint32_t root_count,
                         const struct edge *inputs,
                         uint32_t input_count)
{
    struct task task = { .ghost = g, .visit = ++g->visit };

    for (uint32_t i = 0; i < input_count; i++)
        if (inputs[i].node)
            inputs[i].node->selected = task.visit;
    for (uint32_t i = 0; i < root_count; i++)
        push_unseen(&task, roots[i].node);
    for (size_t i = 0; i < task.stack_count; i++)
        for (uint32_t k = 0; k < task.stack[i]->edge_count; k++)
            push_unseen(&task, task.stack[i]->edges[k].node);
    for (bool changes = true; changes;) {
        changes = false;
        for (size_t i = task.stack_count; i-- > 0;) {
            struct node *n = task.stack[i];

            for (uint32_t k = 0; k < n->edge_count && n->selected != task.visit; k++)
                if (n->edges[k].node && n->edges[k].node->selected == task.visit) {
                    n->selected = task.visit;
                    changes = true;
                }
        }
    }
    return task.visit;
}

/* feed() - what GraphRoot does: a gradient for each root */
static void feed(struct task *task, const struct autograd_call *call)
{
    for (uint32_t i = 0; i < call->root_count; i++) {
        struct node *root = call->roots[i].node;
        struct tensor *grad;

        if (!may_run(task, root))
            continue;
        grad = tensor_ref(call->grads[i]);
        add_to_buffer(&root->outputs[call->roots[i].input_nr], &grad);
        tensor_drop(grad);
        if (--root->dependencies == 0)
            heap_push(task, root);
    }
}

void autograd_run(struct ghost *g, const struct autograd_call *call)
{
    struct ghost outer = *g; /* what this call changes and must put back */
    struct task task = { .ghost = g, .call = call };

    if (g->halt || call->root_count == 0)
        return;
    if (call->input_count > 0)
        task.selects =
            autograd_select(g, call->roots, call->root_count, call->inputs, call->input_count);
    task.visit = ++g->visit;
    g->selects = task.selects;
    g->category = CATEGORY_ACTIVATION_GRADIENT;
    g->grad_enabled = false;
    g->backward = true;
    g->thread = 1;
    g->frame = NULL;
    g->autocast.enabled = false;
    g->callbacks = NULL;
    for (uint32_t i = 0; i < call->root_count; i++)
        node_ref(call->roots[i].node);
    for (uint32_t i = 0; i < call->root_count; i++)
        count_dependencies(&task, call->roots[i].node);
    feed(&task, call);
    while (task.heap_count > 0 && !g->halt)
        run_node(&task, heap_pop(&task));
    drain(&task);
    run_callbacks(g);
    for (uint32_t i = 0; i < call->root_count; i++)
        node_drop(call->roots[i].node);
    resume(&task);
    g->selects = outer.selects;
    g->category = outer.category;
    g->grad_enabled = outer.grad_enabled;
    g->backward = outer.backward;
    g->thread = outer.thread;
    g->frame = outer.frame;
    g->callbacks = outer.callbacks;
    g->autocast.enabled = outer.autocast.enabled;
    g->op = outer.op;
    g->path = outer.path;
}

void autograd_backward(struct ghost *g, struct tensor *root, struct tensor *grad)
{
    if (!root || g->halt)
        return;
    if (!root->requires_grad) {
        ghost_fail(g, PLM_E_MODEL,
                   "the loss does not depend on a parameter that requires a gradient");
        return;
    }
    struct edge edge = autograd_edge(root);
    enum category category = g->category;

    g->category = CATEGORY_ACTIVATION_GRADIENT;
    TENSOR_AUTO *ones = grad ? tensor_ref(grad) : tensor_like(g, root, root->dtype);

    g->category = category;
    if (!g->halt)
        autograd_run(g, &(struct autograd_call){ .roots = &edge, .grads = &ones, .root_count = 1 });
    node_drop(edge.node);
}
