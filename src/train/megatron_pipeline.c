/*
 * train/megatron_pipeline.c - Megatron's 1F1B: one rank of a pipeline, with the references that its Python names hold
 *
 * Mirrors forward_backward_pipelining_without_interleaving() and its helpers of core/pipeline_parallel/schedules.py and
 * p2p_communication.py (megatron-core 0.16.1). One tensor goes from stage to stage. An output that was sent keeps its place in the
 * graph, but its memory becomes one element (deallocate_pipeline_outputs, training's default). The stage's module keeps the
 * input that it was given until it is given the next (set_input_tensor).
 */
#include "ops/pointwise.h"
#include "train/megatron.h"
#include "train/pipeline.h"

/* struct flight - a micro-batch between its forward and its backward */
struct flight {
    struct tensor *input, *output; /* owned */
    struct held *held;             /* of recomputed layers */
};

/* struct schedule_names - the function's variables */
struct schedule_names {
    struct run *run;
    struct megatron *m;
    struct pipeline *p;
    struct stage *stage;
    struct flight *flights; /* [micros], first in first out */
    int32_t begun, ended;
    struct flight now; /* input_tensor, output_tensor */
    struct tensor *output_grad, *input_grad;
};

static bool is_first(const struct schedule_names *s)
{
    return s->stage->index == 0;
}

static bool is_last(const struct schedule_names *s)
{
    return s->stage->index + 1 == (int32_t)s->p->stage_count;
}

/* bind() - a name that is bound again lets go of what it had */
static void bind(struct tensor **name, struct tensor *x)
{
    struct tensor *old = *name;

    *name = x;
    tensor_drop(old);
}

/* receive() - a buffer for what comes over a cut; NULL where nothing does */
static struct tensor *receive(struct schedule_names *s, const struct ports *ports)
{
    struct ghost *g = &s->run->ghost;

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
static void give_args(struct schedule_names *s)
{
    struct run *run = s->run;
    struct value *frame = s->stage->frame;
    uint32_t received = (uint32_t)s->stage->in->count;

    bind(&s->m->stage_input, tensor_ref(s->now.input));
    if (is_first(s) || is_last(s))
        batch_make(run);
    if (received > 0)
        frame[0] = value_tensor(tensor_ref(s->now.input));
    for (uint32_t i = received; i < s->stage->call.in_count; i++) {
        frame[i] = run->batch[i - received];
        run->batch[i - received] = (struct value){ 0 };
    }
}

/* take_output() - what is sent; of the last stage the loss, with the number of tokens and the report */
static struct tensor *take_output(struct schedule_names *s)
{
    struct ghost *g = &s->run->ghost;
    struct stage *stage = s->stage;
    struct value *outputs = stage->frame + stage->call.in_count;
    struct tensor *output = NULL;

    if (is_last(s)) {
        struct value *results = outputs + stage->call.out_count;

        /* the script's names for the rest of the batch were gone when the model returned */
        for (uint32_t i = 0; i + stage->in->count < stage->call.in_count; i++)
            if (stage->loss.in[stage->call.out_count + i] == GRAPH_NO_SLOT)
                value_set(g, &stage->frame[stage->in->count + i], (struct value){ 0 });
        execute_call(s->run, &stage->loss, stage->frame);
        megatron_bind_outputs(s->run, s->m, results);
        for (uint32_t i = 0; i < stage->loss.out_count; i++)
            results[i] = (struct value){ 0 };
        if (s->m->loss.kind == VALUE_TENSOR)
            output = tensor_ref(s->m->loss.as.tensor);
        value_set(g, &s->m->loss, (struct value){ 0 });
    } else if (outputs[0].kind == VALUE_TENSOR) {
        output = tensor_ref(outputs[0].as.tensor);
    }
    for (uint32_t i = 0; i < stage->call.in_count + stage->call.out_count; i++)
        value_set(g, &stage->frame[i], (struct value){ 0 });
    return output;
}

static void forward(struct schedule_names *s, uint32_t micro)
{
    struct run *run = s->run;
    struct ghost *g = &run->ghost;

    if (g->halt)
        return;
    run->model_call = &s->stage->call;
    run->micro = micro;
    give_args(s);
    g->category = CATEGORY_ACTIVATION;
    g->grad_enabled = true;
    execute_call(run, &s->stage->call, s->stage->frame);
    struct tensor *output = take_output(s);

    g->op = OP_COUNT;
    g->path = 0;
    bind(&s->now.output, output);
    s->now.held = run->held;
    run->held = NULL;
    run_mark(run, "fwd", micro);
}

/* ------------------------------------------------------------------ what is in flight */

/* deallocate() - output.data = torch.empty((1,)): its history stays */
static void deallocate(struct tensor **output)
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
    bind(output, one);
}

/* push() - append input and output to their lists, whose memory the output gives back */
static void push(struct schedule_names *s)
{
    struct flight *flight = &s->flights[s->begun++];

    deallocate(&s->now.output);
    *flight = (struct flight){ tensor_ref(s->now.input), tensor_ref(s->now.output), s->now.held };
    s->now.held = NULL;
}

static void pop(struct schedule_names *s)
{
    struct flight flight = s->flights[s->ended++];

    bind(&s->now.input, flight.input);
    bind(&s->now.output, flight.output);
    s->now.held = flight.held;
}

/* ------------------------------------------------------------------ backward */

static void backward(struct schedule_names *s, uint32_t micro)
{
    struct run *run = s->run;
    struct ghost *g = &run->ghost;
    struct tensor *grad = tensor_ref(s->output_grad);

    if (g->halt || !s->now.output) {
        tensor_drop(grad);
        return;
    }
    run->micro = micro;
    if (is_last(s)) {
        bind(&s->now.output, pointwise_mul(s->m->scale, s->now.output)); /* scale_loss() */
        g->category = CATEGORY_ACTIVATION_GRADIENT;
        grad = s->now.output ? tensor_like(g, s->now.output, s->now.output->dtype) : NULL;
        g->category = CATEGORY_ACTIVATION;
    }
    struct edge root = autograd_edge(s->now.output);

    if (root.node && grad)
        autograd_run(g, &(struct autograd_call){ .roots = &root, .grads = &grad, .root_count = 1 });
    node_drop(root.node);
    tensor_drop(grad);
    run->held = s->now.held;
    s->now.held = NULL;
    region_release(run);
    bind(&s->input_grad, s->now.input ? tensor_ref(s->now.input->grad) : NULL);
    run_mark(run, "bwd", micro);
}

/* ------------------------------------------------------------------ the schedule */

static void warm_up(struct schedule_names *s, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        bind(&s->now.input, receive(s, s->stage->in));
        forward(s, (uint32_t)i);
        push(s);
    }
}

static void steady(struct schedule_names *s, int32_t warm, int32_t count)
{
    if (count > 0)
        bind(&s->now.input, receive(s, s->stage->in));
    for (int32_t i = 0; i < count; i++) {
        forward(s, (uint32_t)(i + warm));
        bind(&s->output_grad, receive(s, s->stage->out));
        push(s);
        pop(s);
        backward(s, (uint32_t)i);
        bind(&s->now.input, i + 1 < count ? receive(s, s->stage->in) : NULL);
    }
}

static void cool_down(struct schedule_names *s, int32_t warm, int32_t micros)
{
    for (int32_t i = 0; i < warm; i++) {
        pop(s);
        bind(&s->output_grad, receive(s, s->stage->out));
        backward(s, (uint32_t)(micros - warm + i));
    }
}

static void drop_names(struct schedule_names *s)
{
    while (s->ended < s->begun) /* after a failure */
        pop(s);
    s->run->held = s->now.held;
    region_release(s->run);
    bind(&s->now.input, NULL);
    bind(&s->now.output, NULL);
    value_set(&s->run->ghost, &s->m->count, (struct value){ 0 });
    bind(&s->output_grad, NULL);
    bind(&s->input_grad, NULL);
}

void megatron_pipeline(struct run *run, struct megatron *m)
{
    struct pipeline *p = run->pipeline;
    struct ghost *g = &run->ghost;
    int32_t micros = p->shape.micros, warm = p->shape.ranks - p->rank - 1;
    size_t size = (size_t)micros * sizeof(struct flight);
    struct schedule_names s = { .run = run, .m = m, .p = p, .stage = p->stages };
    TENSOR_AUTO *total = tensor_new_scalar(g, DTYPE_INT32); /* tokens of all micro-batches */

    warm = warm < micros ? warm : micros;
    s.flights = pool_alloc(&g->pool, size);
    warm_up(&s, warm);
    steady(&s, warm, micros - warm);
    cool_down(&s, warm, micros);
    if (!g->halt)
        megatron_finish_gradients(run, m);
    tensor_drop(tensor_take(&total));
    drop_names(&s);
    pool_free(&g->pool, s.flights, size);
}
