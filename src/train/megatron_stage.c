/*
 * train/megatron_stage.c - what Megatron's schedules do with a stage: receive, forward, deallocate, backward
 *
 * One tensor goes from stage to stage. An output that was sent keeps its place in the graph, but its memory becomes one element
 * (deallocate_pipeline_outputs, training's default). A stage's module keeps the input that it was given until it is given the
 * next (set_input_tensor). The first stage and the last have a batch, which is moved to the device for each micro-batch.
 */
#include "train/megatron_stage.h"
#include "ops/pointwise.h"

void megatron_bind(struct tensor **name, struct tensor *x)
{
    struct tensor *old = *name;

    *name = x;
    tensor_drop(old);
}

bool megatron_is_last(const struct run *run, const struct stage *stage)
{
    return stage->index + 1 == (int32_t)run->pipeline->stage_count;
}

struct tensor *megatron_receive(struct run *run, const struct ports *ports)
{
    struct ghost *g = &run->ghost;

    if (ports->count == 0 || g->halt)
        return NULL;
    const struct port *port = &ports->ports[0];

    g->op = OP_COUNT;
    g->path = 0;
    g->category = CATEGORY_COMMUNICATION;
    struct tensor *x = tensor_new(g, port->dtype, port->dims, port->sizes);

    g->category = CATEGORY_ACTIVATION;
    if (x)
        autograd_leaf(x);
    return x;
}

/* ------------------------------------------------------------------ forward */

/* give_args() - what was received, and on the first and the last stage a batch, which no other name keeps */
static void give_args(struct run *run, struct stage *stage, struct tensor *input)
{
    struct megatron *m = run->wrapper_state;
    uint32_t received = (uint32_t)stage->in->count;

    megatron_bind(&m->stage_inputs[stage - run->pipeline->stages], tensor_ref(input));
    if (stage->index == 0 || megatron_is_last(run, stage))
        batch_make(run);
    if (received > 0)
        stage->frame[0] = value_tensor(tensor_ref(input));
    for (uint32_t i = received; i < stage->call.in_count; i++) {
        stage->frame[i] = run->batch[i - received];
        run->batch[i - received] = (struct value){ 0 };
    }
}

/* compute_loss() - of the last stage: the loss, owned; the number of tokens and the report are bound to their names */
static struct tensor *compute_loss(struct run *run, struct stage *stage)
{
    struct megatron *m = run->wrapper_state;
    struct ghost *g = &run->ghost;
    struct value *results = stage->frame + stage->call.in_count + stage->call.out_count;

    /* the script's names for the rest of the batch were gone when the model returned */
    for (uint32_t i = 0; i + stage->in->count < stage->call.in_count; i++)
        if (stage->loss.in[stage->call.out_count + i] == GRAPH_NO_SLOT)
            value_set(g, &stage->frame[stage->in->count + i], (struct value){ 0 });
    execute_call(run, &stage->loss, stage->frame);
    megatron_bind_outputs(run, m, results);
    for (uint32_t i = 0; i < stage->loss.out_count; i++)
        results[i] = (struct value){ 0 };
    struct tensor *loss = m->loss.kind == VALUE_TENSOR ? tensor_ref(m->loss.as.tensor) : NULL;

    value_set(g, &m->loss, (struct value){ 0 });
    return loss;
}

/* drop_frame() - what the model was given and returned; and, @all, what the loss function keeps of the batch */
static void drop_frame(struct run *run, struct stage *stage, bool all)
{
    uint32_t received = (uint32_t)stage->in->count, in_count = stage->call.in_count;

    for (uint32_t i = 0; i < in_count + stage->call.out_count; i++)
        if (all || i < received || i >= in_count || megatron_is_given(run, i - received))
            value_set(&run->ghost, &stage->frame[i], (struct value){ 0 });
}

/* take_output() - what is sent; of the last stage the loss */
static struct tensor *take_output(struct run *run, struct stage *stage)
{
    struct value *outputs = stage->frame + stage->call.in_count;
    struct tensor *output = NULL;

    if (megatron_is_last(run, stage))
        output = compute_loss(run, stage);
    else if (outputs[0].kind == VALUE_TENSOR)
        output = tensor_ref(outputs[0].as.tensor);
    drop_frame(run, stage, false);
    if (!megatron_is_last(run, stage)) /* otherwise with the loss */
        megatron_scale_losses(run, run->wrapper_state);
    drop_frame(run, stage, true);
    return output;
}

void megatron_forward(struct run *run, struct stage *stage, struct flight *now, int32_t micro)
{
    struct ghost *g = &run->ghost;

    if (g->halt)
        return;
    run->model_call = &stage->call;
    run->micro = (uint32_t)micro;
    give_args(run, stage, now->input);
    g->category = CATEGORY_ACTIVATION;
    g->grad_enabled = true;
    execute_call(run, &stage->call, stage->frame);
    struct tensor *output = take_output(run, stage);

    g->op = OP_COUNT;
    g->path = 0;
    megatron_bind(&now->output, output);
    now->held = run->held;
    run->held = NULL;
    run_mark(run, "fwd", (uint32_t)micro);
}

void megatron_deallocate(struct tensor **output)
{
    struct tensor *old = *output;

    if (!old || old->ghost->halt)
        return;
    struct tensor *one = tensor_new_sizes(old->ghost, old->dtype, 1);

    if (!one)
        return;
    one->grad_fn = node_ref(old->grad_fn);
    one->output_nr = old->output_nr;
    one->requires_grad = old->requires_grad;
    megatron_bind(output, one);
}

/* ------------------------------------------------------------------ backward */

/* scale_loss() - config.grad_scale_func() of the last stage's output, in its place; the gradient of 1 where backward begins, owned */
static struct tensor *scale_loss(struct run *run, struct flight *now)
{
    struct megatron *m = run->wrapper_state;
    struct ghost *g = &run->ghost;

    megatron_bind(&now->output, pointwise_mul(m->optimizers[0].scale, now->output));
    g->category = CATEGORY_ACTIVATION_GRADIENT;
    struct tensor *one = now->output ? tensor_like(g, now->output, now->output->dtype) : NULL;

    g->category = CATEGORY_ACTIVATION;
    return one;
}

struct tensor *megatron_backward(
    struct run *run, struct stage *stage, struct flight *now, struct tensor *grad, int32_t micro)
{
    struct ghost *g = &run->ghost;

    if (g->halt || !now->output)
        return NULL;
    run->micro = (uint32_t)micro;
    grad = megatron_is_last(run, stage) ? scale_loss(run, now) : tensor_ref(grad);
    struct edge root = now->output ? autograd_edge(now->output) : (struct edge){ 0 };

    if (root.node && grad)
        autograd_run(g, &(struct autograd_call){ .roots = &root, .grads = &grad, .root_count = 1 });
    node_drop(root.node);
    tensor_drop(grad);
    run->held = now->held;
    now->held = NULL;
    region_release(run);
    struct tensor *input_grad = now->input ? tensor_ref(now->input->grad) : NULL;

    run_mark(run, "bwd", (uint32_t)micro);
    return input_grad;
}

void flight_drop(struct run *run, struct flight *flight)
{
    run->held = flight->held;
    flight->held = NULL;
    region_release(run);
    megatron_bind(&flight->input, NULL);
    megatron_bind(&flight->output, NULL);
}
