/*
 * train/checkpoint.c - runs regions as checkpoints, of both kinds
 *
 * Mirrors torch/utils/checkpoint.py (2.15). Non-reentrant: the region runs once with its saved tensors as holders
 * (ghost/checkpoint.h), and again when the backward asks for one. Reentrant, CheckpointFunction: it runs under
 * no_grad; the backward detaches the inputs, runs it with gradients and calls backward() on the outputs, nested.
 * Either way whatever the region was given is held until its backward is over; what a reentrant one was given by keyword is in
 * the function that it closes over (GradientCheckpointingLayer of transformers' modeling_layers.py: a partial), is not detached,
 * and is held until the loss is let go of.
 */
#include "ghost/checkpoint.h"
#include "ghost/autocast.h"
#include "train/internal.h"

/* struct call - a region with the values that it was given */
struct call {
    struct run *run;
    const struct region *region;
    struct value *in; /* [region->in_count], owned */
};

static struct call *call_create(struct run *run, const struct region *region, struct value *frame)
{
    struct pool *pool = &run->ghost.pool;
    struct call *call = pool_alloc(pool, sizeof *call);

    *call = (struct call){ run, region, NULL };
    if (region->in_count > 0)
        call->in = pool_alloc(pool, region->in_count * sizeof *call->in);
    for (uint32_t i = 0; i < region->in_count; i++)
        call->in[i] = value_ref(frame[region->in[i]]);
    return call;
}

static void call_destroy(void *context)
{
    struct call *call = context;
    struct ghost *g = &call->run->ghost;

    for (uint32_t i = call->region->in_count; i-- > 0;)
        value_drop(g, call->in[i]);
    if (call->in)
        pool_free(&g->pool, call->in, call->region->in_count * sizeof *call->in);
    pool_free(&g->pool, call, sizeof *call);
}

/* run_apart() - the region in a frame of its own; ret[region->out_count], owned, or NULL to let go of the results */
static void run_apart(const struct call *call, struct value *ret)
{
    const struct region *region = call->region;
    struct ghost *g = &call->run->ghost;
    struct value *frame = pool_alloc(&g->pool, region->slot_count * sizeof *frame);

    for (uint32_t i = 0; i < region->in_count; i++)
        frame[region->in[i]] = value_ref(call->in[i]);
    execute_region(call->run, region, frame);
    for (uint32_t i = 0; ret && i < region->out_count; i++)
        ret[i] = value_ref(frame[region->out[i]]);
    for (uint32_t i = 0; i < region->slot_count; i++)
        value_drop(g, frame[i]);
    pool_free(&g->pool, frame, region->slot_count * sizeof *frame);
}

/* ------------------------------------------------------------------ non-reentrant */

static void recompute(void *context)
{
    const struct call *call = context;
    struct source at = call->run->ghost.at;

    run_apart(call, NULL);
    call->run->ghost.at = at;
}

static void run_holding(struct run *run, struct call *call, struct value *ret)
{
    struct frame *frame = checkpoint_begin(&run->ghost, recompute, call_destroy, call);

    frame->selective.active = run->strategy->checkpoint_selective;
    run_apart(call, ret);
    checkpoint_end(frame);
    frame_drop(frame);
}

/* ------------------------------------------------------------------ reentrant */

/* struct held - a reentrant checkpoint's call, until the step ends: ctx and the function that it closes over */
struct held {
    struct held *next;
    struct call *call;
};

/* numbers of a checkpoint's node; the first is a pointer to its struct call */
enum { NUMBER_CALL, NUMBER_AUTOCAST, NUMBER_DTYPE, NUMBER_COUNT };

static void reentrant_apply(struct ghost *g,
                            struct node *n,
                            struct tensor *const *grads,
                            struct tensor **ret);

static const struct backward reentrant_backward = { "CheckpointFunctionBackward", reentrant_apply };

/* is_argument() - a tensor that CheckpointFunction.apply() gets as such, and not within its function */
static bool is_argument(const struct call *call, uint32_t i)
{
    return call->in[i].kind == VALUE_TENSOR && !call->region->keyword[i];
}

static uint32_t count_arguments(const struct call *call)
{
    uint32_t tensors = 0;

    for (uint32_t i = 0; i < call->region->in_count; i++)
        tensors += is_argument(call, i);
    return tensors;
}

/* rerun() - with detached inputs, under the autocast of the forward; ret[out_count] */
static void rerun(struct ghost *g, struct node *n, const struct call *call, struct value *ret)
{
    enum category category = g->category;

    g->grad_enabled = true;
    g->category = CATEGORY_ACTIVATION;
    if (n->numbers[NUMBER_AUTOCAST])
        autocast_enter(g, (enum dtype)n->numbers[NUMBER_DTYPE]);
    run_apart(call, ret);
    if (n->numbers[NUMBER_AUTOCAST])
        autocast_leave(g);
    g->grad_enabled = false;
    g->category = category;
    g->op = n->op;
    g->path = n->path;
}

/* backward_of() - torch.autograd.backward(outputs that require a gradient, theirs) */
static void backward_of(struct ghost *g,
                        const struct value *outputs,
                        uint32_t count,
                        struct tensor *const *grads)
{
    struct tensor *root = NULL, *grad = NULL;

    for (uint32_t i = 0, k = 0; i < count; i++) {
        if (outputs[i].kind != VALUE_TENSOR)
            continue;
        if (tensor_requires_grad(outputs[i].as.tensor)) {
            if (root)
                ghost_fail(g, PLM_E_USAGE,
                           "a reentrant checkpoint with several outputs is not modelled");
            root = outputs[i].as.tensor;
            grad = grads[k];
        }
        k++;
    }
    if (root && grad)
        autograd_backward(g, root, grad);
}

static void reentrant_apply(struct ghost *g,
                            struct node *n,
                            struct tensor *const *grads,
                            struct tensor **ret)
{
    const struct call *saved = (const struct call *)(intptr_t)n->numbers[NUMBER_CALL];
    const struct region *region = saved->region;
    struct call call = { saved->run, region,
                         pool_alloc(&g->pool, (region->in_count + 1) * sizeof(struct value)) };
    struct value *outputs = pool_alloc(&g->pool, (region->out_count + 1) * sizeof *outputs);

    for (uint32_t i = 0, k = 0; i < region->in_count; i++) {
        if (!is_argument(saved, i)) {
            call.in[i] = value_ref(saved->in[i]);
            continue;
        }
        TENSOR_AUTO *x = node_saved(n, k);
        struct tensor *detached = tensor_detach(x);

        if (detached && node_needs(n, k))
            autograd_leaf(detached);
        call.in[i] = value_tensor(detached);
        k++;
    }
    rerun(g, n, &call, outputs);
    backward_of(g, outputs, region->out_count, grads);
    for (uint32_t i = 0, k = 0; i < region->in_count; i++) {
        if (!is_argument(&call, i))
            continue;
        if (call.in[i].as.tensor && node_needs(n, k))
            ret[k] = tensor_ref(call.in[i].as.tensor->grad);
        k++;
    }
    for (uint32_t i = 0; i < region->out_count; i++)
        value_drop(g, outputs[i]);
    for (uint32_t i = 0; i < region->in_count; i++)
        value_drop(g, call.in[i]);
    pool_free(&g->pool, outputs, (region->out_count + 1) * sizeof *outputs);
    pool_free(&g->pool, call.in, (region->in_count + 1) * sizeof(struct value));
}

static void attach_outputs(struct node *n, const struct value *ret, uint32_t count)
{
    for (uint32_t i = 0, k = 0; i < count; i++) {
        if (ret[i].kind != VALUE_TENSOR)
            continue;
        if (tensor_is_floating(ret[i].as.tensor))
            node_attach_output(n, k, ret[i].as.tensor);
        k++;
    }
}

static void run_reentrant(struct run *run, struct call *call, struct value *ret)
{
    struct ghost *g = &run->ghost;
    const struct region *region = call->region;
    uint32_t count = count_arguments(call);
    size_t size = (count + 1) * sizeof(struct tensor *);
    struct tensor **tensors = pool_alloc(&g->pool, size);
    struct held *held = pool_alloc(&g->pool, sizeof *held);

    for (uint32_t i = 0, k = 0; i < region->in_count; i++)
        if (is_argument(call, i))
            tensors[k++] = call->in[i].as.tensor;
    struct node *n = node_new_outputs(g, &reentrant_backward, tensors, count, count, NUMBER_COUNT,
                                      region->out_count ? region->out_count : 1);

    g->grad_enabled = false;
    run_apart(call, ret);
    g->grad_enabled = true;
    if (n) {
        n->numbers[NUMBER_CALL] = (int64_t)(intptr_t)call;
        n->numbers[NUMBER_AUTOCAST] = g->autocast.enabled;
        n->numbers[NUMBER_DTYPE] = g->autocast.dtype;
    }
    for (uint32_t i = 0, k = 0; i < region->in_count; i++) {
        if (!is_argument(call, i))
            continue;
        node_save(n, k++, call->in[i].as.tensor);
        tensor_drop(call->in[i].as.tensor); /* from here on only the node holds it */
        call->in[i].as.tensor = NULL;
    }
    attach_outputs(n, ret, region->out_count);
    node_drop(n);
    pool_free(&g->pool, tensors, size);
    *held = (struct held){ run->held, call };
    run->held = held;
}

/* ------------------------------------------------------------------ both */

void region_run(struct run *run, const struct region *region, struct value *frame)
{
    struct ghost *g = &run->ghost;
    struct call *call = call_create(run, region, frame);
    size_t size = (region->out_count + 1) * sizeof(struct value);
    struct value *ret = pool_alloc(&g->pool, size);

    if (run->strategy->checkpoint_reentrant ||
        run->strategy->parallel.recompute != PLM_RECOMPUTE_NONE)
        run_reentrant(run, call, ret);
    else
        run_holding(run, call, ret);
    for (uint32_t i = 0; i < region->out_count; i++)
        value_set(g, &frame[region->out[i]], ret[i]);
    pool_free(&g->pool, ret, size);
}

void region_release(struct run *run)
{
    while (run->held) {
        struct held *held = run->held;

        run->held = held->next;
        call_destroy(held->call);
        pool_free(&run->ghost.pool, held, sizeof *held);
    }
}
