/*
 * train/megatron_pipeline.c - Megatron's 1F1B: one rank of a pipeline, with the references that its Python names hold
 *
 * Mirrors forward_backward_pipelining_without_interleaving() of core/pipeline_parallel/schedules.py (megatron-core 0.16.1).
 */
#include "train/megatron_order.h"
#include "train/megatron_stage.h"

/* struct schedule_names - the function's variables */
struct schedule_names {
    struct run *run;
    struct stage *stage;
    struct flight *flights; /* [micros], first in first out */
    int32_t begun, ended;
    struct flight now; /* input_tensor, output_tensor */
    struct tensor *output_grad, *input_grad;
};

/* push() - append input and output to their lists, whose memory the output gives back */
static void push(struct schedule_names *s)
{
    struct flight *flight = &s->flights[s->begun++];

    megatron_deallocate(&s->now.output);
    *flight = (struct flight){ tensor_ref(s->now.input), tensor_ref(s->now.output), s->now.held };
    s->now.held = NULL;
}

static void pop(struct schedule_names *s)
{
    struct flight flight = s->flights[s->ended++];

    megatron_bind(&s->now.input, flight.input);
    megatron_bind(&s->now.output, flight.output);
    s->now.held = flight.held;
}

static void backward(struct schedule_names *s, int32_t micro)
{
    struct tensor *grad = megatron_backward(s->run, s->stage, &s->now, s->output_grad, micro);

    megatron_bind(&s->input_grad, grad);
}

static void warm_up(struct schedule_names *s, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        megatron_bind(&s->now.input, megatron_receive(s->run, s->stage->in));
        megatron_forward(s->run, s->stage, &s->now, i);
        push(s);
    }
}

static void steady(struct schedule_names *s, int32_t warm, int32_t count)
{
    if (count > 0)
        megatron_bind(&s->now.input, megatron_receive(s->run, s->stage->in));
    for (int32_t i = 0; i < count; i++) {
        megatron_forward(s->run, s->stage, &s->now, i + warm);
        megatron_bind(&s->output_grad, megatron_receive(s->run, s->stage->out));
        push(s);
        pop(s);
        backward(s, i);
        megatron_bind(&s->now.input, i + 1 < count ? megatron_receive(s->run, s->stage->in) : NULL);
    }
}

static void cool_down(struct schedule_names *s, int32_t warm, int32_t micros)
{
    for (int32_t i = 0; i < warm; i++) {
        pop(s);
        megatron_bind(&s->output_grad, megatron_receive(s->run, s->stage->out));
        backward(s, micros - warm + i);
    }
}

static void drop_names(struct schedule_names *s)
{
    struct megatron *m = s->run->wrapper_state;

    while (s->ended < s->begun) /* after a failure */
        pop(s);
    flight_drop(s->run, &s->now);
    value_set(&s->run->ghost, &m->count, (struct value){ 0 });
    megatron_bind(&s->output_grad, NULL);
    megatron_bind(&s->input_grad, NULL);
}

void megatron_pipeline(struct run *run, struct megatron *m)
{
    const struct pipeline_shape *shape = &run->pipeline->shape;
    struct ghost *g = &run->ghost;
    int32_t warm = megatron_warm_up(shape, run->pipeline->rank);
    size_t size = (size_t)shape->micros * sizeof(struct flight);
    struct schedule_names s = { .run = run, .stage = run->pipeline->stages };
    TENSOR_AUTO *total = tensor_new_scalar(g, DTYPE_INT32); /* tokens of all micro-batches */

    s.flights = pool_alloc(&g->pool, size);
    warm_up(&s, warm);
    steady(&s, warm, shape->micros - warm);
    cool_down(&s, warm, shape->micros);
    if (!g->halt)
        megatron_finish_gradients(run, m);
    tensor_drop(tensor_take(&total));
    drop_names(&s);
    pool_free(&g->pool, s.flights, size);
}
