/*
 * train/pipeline_stage.c - what a stage does for a schedule: receive, forward, send, backward
 *
 * Mirrors torch/distributed/pipelining/stage.py and _backward.py (2.15): forward_one_chunk(), backward_one_chunk(),
 * backward_weight_one_chunk(), get_fwd_recv_ops() and their like.
 */
#include <string.h>

#include "train/pipeline.h"
#include "train/wrapper.h"

static bool is_last(const struct pipeline *p, const struct stage *s)
{
    return s->index + 1 == (int32_t)p->stage_count;
}

void stage_prepare(struct pipeline *p, struct stage *s)
{
    struct arena *arena = p->run->arena;

    s->frame = arena_array(arena, struct value,
                           s->call.in_count + s->call.out_count + 1 + s->loss.out_count);
    s->chunks = arena_array(arena, struct chunk, (size_t)p->shape.micros);
    for (int32_t i = 0; i < p->shape.micros; i++) {
        struct chunk *c = &s->chunks[i];

        c->args = arena_array(arena, struct value, s->call.in_count);
        c->outputs = arena_array(arena, struct value, s->call.out_count);
        c->edges = arena_array(arena, struct edge, s->call.out_count + 1);
        c->received = arena_array(arena, struct tensor *, s->in->count);
        c->input_gradients = arena_array(arena, struct tensor *, s->in->count);
        c->gradients = arena_array(arena, struct tensor *, s->out->count);
    }
}

/* ------------------------------------------------------------------ operations */

void sent_drop(struct ghost *g, struct sent *ops)
{
    for (uint32_t i = 0; i < ops->count; i++)
        tensor_drop(ops->items[i]);
    if (ops->items)
        pool_free(&g->pool, ops->items, ops->count * sizeof(struct tensor *));
    *ops = (struct sent){ 0 };
}

void sent_move(struct ghost *g, struct sent *to, struct sent *from)
{
    sent_drop(g, to);
    *to = *from;
    *from = (struct sent){ 0 };
}

/* hold() - a reference to each of @tensors, in place of what @ops held */
static void hold(struct ghost *g, struct sent *ops, struct tensor *const *tensors, size_t count)
{
    struct sent now = { .count = (uint32_t)count };

    if (count > 0)
        now.items = pool_alloc(&g->pool, count * sizeof(struct tensor *));
    for (size_t i = 0; i < count; i++)
        now.items[i] = tensor_ref(tensors[i]);
    sent_drop(g, ops);
    *ops = now;
}

static struct tensor *buffer_new(struct ghost *g, const struct port *port)
{
    g->category = CATEGORY_COMMUNICATION;
    g->op = OP_COUNT;
    g->path = 0;
    struct tensor *x = tensor_new_strided(g, port->dtype, port->dims, port->sizes, port->strides);

    g->category = CATEGORY_ACTIVATION;
    return x;
}

void stage_receive_forward(struct pipeline *p, struct stage *s, int32_t micro, struct sent *ops)
{
    struct chunk *c = &s->chunks[micro];

    for (size_t i = 0; i < s->in->count; i++)
        c->received[i] = buffer_new(&p->run->ghost, &s->in->ports[i]);
    hold(&p->run->ghost, ops, c->received, s->in->count);
}

void stage_receive_backward(struct pipeline *p, struct stage *s, int32_t micro, struct sent *ops)
{
    struct chunk *c = &s->chunks[micro];

    for (size_t i = 0; i < s->out->count; i++)
        if (s->out->ports[i].grad)
            c->gradients[i] = buffer_new(&p->run->ghost, &s->out->ports[i]);
    hold(&p->run->ghost, ops, c->gradients, s->out->count);
}

void stage_send_forward(struct pipeline *p, struct stage *s, int32_t micro, struct sent *ops)
{
    struct ghost *g = &p->run->ghost;
    struct chunk *c = &s->chunks[micro];
    size_t size = (s->out->count + 1) * sizeof(struct tensor *);
    struct tensor **detached = pool_alloc(&g->pool, size);

    for (size_t i = 0; i < s->out->count; i++)
        detached[i] = tensor_detach(c->outputs[i].as.tensor);
    hold(g, ops, detached, s->out->count);
    for (size_t i = 0; i < s->out->count; i++)
        tensor_drop(detached[i]);
    pool_free(&g->pool, detached, size);
}

void stage_release(struct pipeline *p, struct stage *s, int32_t micro)
{
    if (is_last(p, s) || (p->run->wrapper && p->run->wrapper->keeps_outputs))
        return;
    for (uint32_t i = 0; i < s->call.out_count; i++)
        value_set(&p->run->ghost, &s->chunks[micro].outputs[i], (struct value){ 0 });
}

void stage_send_backward(struct pipeline *p, struct stage *s, int32_t micro, struct sent *ops)
{
    struct ghost *g = &p->run->ghost;
    struct chunk *c = &s->chunks[micro];

    for (size_t i = 0; i < s->in->count; i++)
        if (s->in->ports[i].grad && !c->input_gradients[i])
            c->input_gradients[i] = buffer_new(g, &s->in->ports[i]); /* zeros */
    hold(g, ops, c->input_gradients, s->in->count);
    for (size_t i = 0; i < s->in->count; i++) {
        tensor_drop(c->input_gradients[i]);
        c->input_gradients[i] = NULL;
    }
}

/* ------------------------------------------------------------------ forward */

static void give_args(struct pipeline *p, struct stage *s, struct chunk *c)
{
    size_t received = s->in->count;

    for (size_t i = 0; i < received; i++) {
        if (s->in->ports[i].grad && c->received[i])
            autograd_leaf(c->received[i]);
        s->frame[i] = value_tensor(c->received[i]);
        c->received[i] = NULL;
    }
    for (size_t i = received; i < s->call.in_count; i++)
        s->frame[i] = script_part(p, (uint32_t)(i - received));
    for (size_t i = 0; i < s->call.in_count; i++)
        c->args[i] = value_ref(s->frame[i]);
}

/* compute_loss() - main's steps after the model; the loss lives until the end of the step (_internal_losses) */
static void compute_loss(struct pipeline *p, struct stage *s, struct chunk *c)
{
    struct ghost *g = &p->run->ghost;
    struct value *slot = &s->frame[s->call.in_count + s->call.out_count], loss;

    execute_call(p->run, &s->loss, s->frame);
    g->op = OP_COUNT;
    g->path = 0;
    loss = *slot;
    if (g->halt)
        return;
    if (loss.kind != VALUE_TENSOR || tensor_numel(loss.as.tensor) != 1)
        ghost_fail(g, PLM_E_MODEL, "the first output of main must be the loss, one number");
    else
        c->loss = tensor_ref(loss.as.tensor);
    value_set(g, slot, (struct value){ 0 });
}

void stage_forward(struct pipeline *p, struct stage *s, int32_t micro)
{
    struct run *run = p->run;
    struct ghost *g = &run->ghost;
    struct chunk *c = &s->chunks[micro];
    uint32_t in_count = s->call.in_count;

    if (g->halt)
        return;
    run->model_call = &s->call;
    run->micro = (uint32_t)micro;
    g->category = CATEGORY_ACTIVATION;
    g->grad_enabled = true;
    give_args(p, s, c);
    execute_call(run, &s->call, s->frame);
    g->op = OP_COUNT;
    g->path = 0;
    if (is_last(p, s) && !g->halt)
        compute_loss(p, s, c);
    c->held = run->held;
    run->held = NULL;
    for (uint32_t i = 0; i < s->call.out_count; i++) {
        c->outputs[i] = s->frame[in_count + i];
        s->frame[in_count + i] = (struct value){ 0 };
        if (!is_last(p, s) && c->outputs[i].kind == VALUE_TENSOR)
            c->edges[i] = autograd_edge(c->outputs[i].as.tensor);
    }
    for (uint32_t i = 0; i < in_count; i++)
        value_set(g, &s->frame[i], (struct value){ 0 });
    run_mark(run, "fwd", (uint32_t)micro);
}

/* ------------------------------------------------------------------ backward */

/* struct roots - where a backward begins; of the last stage the loss, with ones_like(loss) */
struct roots {
    struct edge *edges;
    struct tensor **grads, *ones;
    uint32_t count;
};

static struct roots roots_of(struct pipeline *p, struct stage *s, struct chunk *c)
{
    struct ghost *g = &p->run->ghost;
    uint32_t most = s->call.out_count + 1;
    struct roots roots = { .edges = pool_alloc(&g->pool, most * sizeof(struct edge)),
                           .grads = pool_alloc(&g->pool, most * sizeof(struct tensor *)) };

    if (is_last(p, s)) {
        g->category = CATEGORY_ACTIVATION_GRADIENT;
        roots.ones = c->loss ? tensor_like(g, c->loss, c->loss->dtype) : NULL;
        g->category = CATEGORY_ACTIVATION;
        c->edges[s->call.out_count] = autograd_edge(c->loss);
    }
    for (uint32_t i = 0; i < most; i++)
        if (c->edges[i].node) {
            roots.edges[roots.count] = c->edges[i];
            roots.grads[roots.count++] = roots.ones ? roots.ones : c->gradients[i];
        }
    if (roots.count == 0)
        ghost_fail(g, PLM_E_MODEL, "nothing in this stage of the pipeline requires a gradient");
    return roots;
}

static void roots_free(struct pipeline *p, struct stage *s, struct roots *roots)
{
    struct pool *pool = &p->run->ghost.pool;
    uint32_t most = s->call.out_count + 1;

    tensor_drop(roots->ones);
    pool_free(pool, roots->grads, most * sizeof(struct tensor *));
    pool_free(pool, roots->edges, most * sizeof(struct edge));
}

static void drop_edges(struct stage *s, struct chunk *c)
{
    for (uint32_t i = 0; i <= s->call.out_count; i++) {
        node_drop(c->edges[i].node);
        c->edges[i] = (struct edge){ 0 };
    }
}

/* finish_chunk() - the backward's locals go: outputs, gradients, inputs */
static void finish_chunk(struct pipeline *p, struct stage *s, struct chunk *c)
{
    struct ghost *g = &p->run->ghost;

    drop_edges(s, c);
    for (uint32_t i = 0; i < s->call.out_count; i++)
        value_set(g, &c->outputs[i], (struct value){ 0 });
    for (size_t i = 0; i < s->out->count; i++) {
        tensor_drop(c->gradients[i]);
        c->gradients[i] = NULL;
    }
    for (uint32_t i = 0; i < s->call.in_count; i++)
        value_set(g, &c->args[i], (struct value){ 0 });
}

static void release_held(struct run *run, struct chunk *c)
{
    run->held = c->held;
    c->held = NULL;
    region_release(run);
}

static void run_backward(struct pipeline *p, struct stage *s, struct chunk *c, uint32_t micro)
{
    struct run *run = p->run;
    struct roots roots = roots_of(p, s, c);

    run->micro = micro;
    if (run->wrapper && run->wrapper->before_backward)
        run->wrapper->before_backward(run, micro);
    if (!run->ghost.halt)
        autograd_run(&run->ghost, &(struct autograd_call){ .roots = roots.edges,
                                                           .grads = roots.grads,
                                                           .root_count = roots.count });
    release_held(run, c);
    if (run->wrapper && run->wrapper->after_backward)
        run->wrapper->after_backward(run, micro);
    for (size_t i = 0; i < s->in->count; i++)
        if (c->args[i].kind == VALUE_TENSOR)
            c->input_gradients[i] = tensor_take(&c->args[i].as.tensor->grad);
    roots_free(p, s, &roots);
    finish_chunk(p, s, c);
}

void stage_backward(struct pipeline *p, struct stage *s, int32_t micro)
{
    if (p->run->ghost.halt)
        return;
    run_backward(p, s, &s->chunks[micro], (uint32_t)micro);
    run_mark(p->run, "bwd", (uint32_t)micro);
}

/* detach_inplace() - loss.detach_() */
static void detach_inplace(struct tensor *x)
{
    if (!x)
        return;
    node_drop(x->grad_fn);
    x->grad_fn = NULL;
    x->requires_grad = false;
}

/* split() - the first half of the backward of @c from @roots */
static void split(struct pipeline *p, struct stage *s, struct chunk *c, const struct roots *roots)
{
    struct ghost *g = &p->run->ghost;
    size_t input_size = (s->in->count + 1) * sizeof(struct tensor *);
    size_t weight_size = (s->weight_count + 1) * sizeof(struct tensor *);
    struct tensor **inputs = pool_alloc(&g->pool, input_size);
    struct tensor **weights = pool_alloc(&g->pool, weight_size);

    for (size_t i = 0; i < s->in->count; i++)
        inputs[i] = c->args[i].as.tensor;
    for (size_t i = 0; i < s->weight_count; i++)
        weights[i] = s->weights[i]->used ? s->weights[i]->used : s->weights[i]->tensor;
    c->split =
        split_input(g,
                    &(struct autograd_call){
                        .roots = roots->edges, .grads = roots->grads, .root_count = roots->count },
                    inputs, (uint32_t)s->in->count, weights, s->weight_count, c->input_gradients);
    pool_free(&g->pool, weights, weight_size);
    pool_free(&g->pool, inputs, input_size);
}

/*
 * stage_backward_input() - the first stage has no inputs that need gradients, and leaves all to the second half
 */
void stage_backward_input(struct pipeline *p, struct stage *s, int32_t micro)
{
    struct ghost *g = &p->run->ghost;
    struct chunk *c = &s->chunks[micro];

    if (g->halt || s->index == 0) {
        run_mark(p->run, "bwd_input", (uint32_t)micro);
        return;
    }
    struct roots roots = roots_of(p, s, c);

    if (p->run->wrapper && p->run->wrapper->before_backward)
        p->run->wrapper->before_backward(p->run, (uint32_t)micro);
    if (!g->halt)
        split(p, s, c, &roots);
    for (uint32_t i = 0; i < s->call.out_count; i++)
        if (is_last(p, s)) /* of it only the loss is kept for the second half */
            value_set(g, &c->outputs[i], (struct value){ 0 });
        else if (c->outputs[i].kind == VALUE_TENSOR)
            detach_inplace(c->outputs[i].as.tensor);
    detach_inplace(c->loss);
    drop_edges(s, c);
    roots_free(p, s, &roots);
    run_mark(p->run, "bwd_input", (uint32_t)micro);
}

void stage_backward_weight(struct pipeline *p, struct stage *s, int32_t micro)
{
    struct chunk *c = &s->chunks[micro];

    if (p->run->ghost.halt)
        return;
    if (s->index == 0) {
        run_backward(p, s, c, (uint32_t)micro);
    } else {
        if (c->split)
            split_weight(c->split);
        c->split = NULL;
        finish_chunk(p, s, c);
        for (size_t i = 0; i < s->in->count; i++) {
            tensor_drop(c->input_gradients[i]);
            c->input_gradients[i] = NULL;
        }
    }
    run_mark(p->run, "bwd_weight", (uint32_t)micro);
}

void stage_clear(struct pipeline *p, struct stage *s)
{
    struct ghost *g = &p->run->ghost;

    for (int32_t m = 0; m < p->shape.micros; m++) {
        struct chunk *c = &s->chunks[m];

        if (c->split)
            split_weight(c->split);
        c->split = NULL;
        finish_chunk(p, s, c);
        for (size_t i = 0; i < s->in->count; i++) {
            tensor_drop(c->received[i]);
            tensor_drop(c->input_gradients[i]);
            c->received[i] = c->input_gradients[i] = NULL;
        }
        release_held(p->run, c);
        tensor_drop(c->loss);
        c->loss = NULL;
        sent_drop(g, &c->forward_send);
        sent_drop(g, &c->backward_send);
    }
}
