/*
 * train/megatron_interleaved.c - Megatron's interleaved 1F1B: one rank with several stages, with the references that its Python names hold
 *
 * Mirrors forward_backward_pipelining_with_interleaving() of core/pipeline_parallel/schedules.py (megatron-core 0.16.1) with
 * overlap_p2p_comm, as the training script has it, and without overlap_p2p_comm_warmup_flush. Warm-up and cool-down wait for
 * what they receive. In between receives and sends are waited for a turn later: until then, and after the last turn until
 * the function returns, the handle of a send or receive (ProcessGroupNCCL's Work) holds its tensor.
 */
#include "train/megatron_order.h"
#include "train/megatron_stage.h"

/* struct lane - what a rank holds for one of its stages: lists in the order of micro-batches */
struct lane {
    struct flight *flights;           /* [micros] input_tensors and output_tensors */
    struct tensor **grads;            /* [micros] output_tensor_grads; owned */
    int32_t received, grads_received; /* how many were appended */
};

/* struct ring - fwd_recv_buffer or bwd_recv_buffer: what was received last; NULL entries are None */
struct ring {
    struct tensor **items; /* [count], owned */
    int32_t count;
};

/* struct interleaved_lists - made for the first step, and empty between steps */
struct interleaved_lists {
    struct lane *lanes; /* [shape->local] */
    struct ring forward, backward;
};

/* struct interleaved_names - the function's variables */
struct interleaved_names {
    struct run *run;
    const struct pipeline_shape *shape;
    struct interleaved_lists *lists;
    int32_t rank, total, warm;
    struct tensor *input, *output, *input_grad, *output_grad;
    int32_t output_lane, output_micro; /* where @output is, too */
    struct tensor *sent;               /* send_prev_wait_handle's */
    struct tensor *awaited;            /* of the last receive that cool-down waited for */
    int32_t waits;                     /* entries of recv_next_wait_handles */
};

static struct stage *stage_of(const struct interleaved_names *n, int32_t local)
{
    return &n->run->pipeline->stages[local];
}

/*
 * next_lane() - recv_tensor_from_previous_stage(): for which stage something comes after the @k-th turn; -1: nothing does
 *
 * The leading rank is as many turns ahead of the one that sends to it as there are others.
 */
static int32_t next_lane(const struct interleaved_names *n, int32_t k, bool forward)
{
    int32_t leader = forward ? 0 : n->shape->ranks - 1, behind = n->shape->ranks - 1;
    int32_t last = forward ? n->shape->local - 1 : 0;
    struct turn (*turn_of)(const struct pipeline_shape *, int32_t) =
        forward ? megatron_forward_turn : megatron_backward_turn;

    if (n->rank != leader)
        return turn_of(n->shape, (k + 1) % n->total).local;
    if (k < behind)
        return -1;
    int32_t sender = turn_of(n->shape, k - behind).local;

    return sender == last ? -1 : sender + (forward ? 1 : -1);
}

/* receive_forward() - a buffer for the input of stage @local, appended to its list; NULL: nothing is received */
static struct tensor *receive_forward(struct interleaved_names *n, int32_t local)
{
    struct tensor *x = local < 0 ? NULL : megatron_receive(n->run, stage_of(n, local)->in);

    if (local >= 0)
        n->lists->lanes[local].flights[n->lists->lanes[local].received++].input = tensor_ref(x);
    return x;
}

static struct tensor *receive_backward(struct interleaved_names *n, int32_t local)
{
    struct tensor *x = local < 0 ? NULL : megatron_receive(n->run, stage_of(n, local)->out);

    if (local >= 0)
        n->lists->lanes[local].grads[n->lists->lanes[local].grads_received++] = tensor_ref(x);
    return x;
}

/* ring_put() - of turn @k; the next entry is None when something was received */
static void ring_put(struct ring *ring, int32_t k, struct tensor *x)
{
    megatron_bind(&ring->items[k % ring->count], x);
    if (x)
        megatron_bind(&ring->items[(k + 1) % ring->count], NULL);
}

/* ------------------------------------------------------------------ turns */

/* forward() - forward_step_helper(): the @k-th; its output, owned, or NULL where there is none to send */
static struct tensor *forward(struct interleaved_names *n, int32_t k)
{
    struct turn turn = megatron_forward_turn(n->shape, k);
    struct stage *stage = stage_of(n, turn.local);
    struct megatron *m = n->run->wrapper_state;
    struct flight *flight = &n->lists->lanes[turn.local].flights[turn.micro];

    megatron_forward(n->run, stage, flight, turn.micro);
    value_set(&n->run->ghost, &m->count, (struct value){ 0 });
    n->output_lane = turn.local;
    n->output_micro = turn.micro;
    return megatron_is_last(n->run, stage) ? NULL : tensor_ref(flight->output);
}

/* deallocate() - the output that was sent last, in the name and in the list */
static void deallocate(struct interleaved_names *n)
{
    struct tensor **listed = &n->lists->lanes[n->output_lane].flights[n->output_micro].output;

    if (!n->output)
        return;
    megatron_bind(listed, NULL);
    megatron_deallocate(&n->output);
    *listed = tensor_ref(n->output);
}

/* backward() - backward_step_helper(): the @k-th; the gradient that is sent, owned, or NULL where there is none */
static struct tensor *backward(struct interleaved_names *n, int32_t k)
{
    struct turn turn = megatron_backward_turn(n->shape, k);
    struct lane *lane = &n->lists->lanes[turn.local];
    struct flight flight = lane->flights[turn.micro];
    struct tensor *grad = lane->grads[turn.micro];

    lane->flights[turn.micro] = (struct flight){ 0 };
    lane->grads[turn.micro] = NULL;
    struct tensor *output =
        tensor_ref(flight.output); /* a name that scaling the loss does not bind again */
    struct tensor *input_grad =
        megatron_backward(n->run, stage_of(n, turn.local), &flight, grad, turn.micro);

    flight_drop(n->run, &flight);
    tensor_drop(output);
    tensor_drop(grad);
    return input_grad;
}

/* ------------------------------------------------------------------ the schedule */

static void warm_up(struct interleaved_names *n)
{
    bool follows = n->warm < n->total;

    if (stage_of(n, 0)->in->count > 0)
        tensor_drop(receive_forward(n, 0));
    for (int32_t k = 0; k < n->warm; k++) {
        int32_t next = k + 1 < n->total ? next_lane(n, k, true) : -1;

        megatron_bind(&n->output, forward(n, k));
        megatron_bind(&n->input, receive_forward(n, next));
        deallocate(n);
    }
    if (n->warm > 0 && follows && n->rank + 1 < n->shape->ranks) {
        struct ring *ring = &n->lists->backward;

        megatron_bind(&ring->items[ring->count - 1], receive_backward(n, n->shape->local - 1));
        n->waits++;
    }
}

/* await() - before the @k-th backward: for its gradient, unless that has been waited for already. It is the one that was received */
static struct tensor *await(struct interleaved_names *n, int32_t k)
{
    struct turn turn = megatron_backward_turn(n->shape, k);

    if (n->waits == 0 || megatron_is_last(n->run, stage_of(n, turn.local)))
        return NULL;
    n->waits--;
    return n->lists->lanes[turn.local].grads[turn.micro];
}

/* exchange_backward() - pp_post_backward(): the gradient is sent, and the next received */
static void exchange_backward(struct interleaved_names *n, int32_t k, struct tensor *grad)
{
    struct tensor *received = receive_backward(n, next_lane(n, k, false));

    n->waits += received != NULL;
    ring_put(&n->lists->backward, k, received);
    megatron_bind(&n->sent, tensor_ref(grad));
}

static void steady(struct interleaved_names *n)
{
    for (int32_t k = 0; k + n->warm < n->total; k++) {
        int32_t at = k + n->warm;
        int32_t next = at + 1 < n->total ? next_lane(n, at, true) : -1;

        deallocate(n);
        struct tensor *output = forward(n, at);

        ring_put(&n->lists->forward, at, receive_forward(n, next));
        await(n, k);
        struct tensor *grad = backward(n, k);

        exchange_backward(n, k, grad);
        megatron_bind(&n->output, output);
        megatron_bind(&n->input_grad, grad);
    }
    deallocate(n);
}

static void cool_down(struct interleaved_names *n)
{
    if (n->warm == n->total && n->rank + 1 < n->shape->ranks)
        tensor_drop(receive_backward(n, n->shape->local - 1));
    for (int32_t k = n->total - n->warm; k < n->total; k++) {
        int32_t next = k + 1 < n->total ? next_lane(n, k, false) : -1;

        struct tensor *waited = await(n, k);

        if (waited)
            megatron_bind(&n->awaited, tensor_ref(waited));
        megatron_bind(&n->input_grad, backward(n, k));
        megatron_bind(&n->output_grad, receive_backward(n, next));
    }
}

/* ------------------------------------------------------------------ the function's frame */

static struct interleaved_lists *lists_make(const struct run *run)
{
    const struct pipeline_shape *shape = &run->pipeline->shape;
    struct interleaved_lists *lists = arena_new(run->arena, struct interleaved_lists);
    int32_t more = shape->group > 0 ? shape->group - shape->ranks : 0;
    bool first = run->pipeline->rank == 0, last = run->pipeline->rank + 1 == shape->ranks;
    size_t micros = (size_t)shape->micros;

    lists->lanes = arena_array(run->arena, struct lane, (size_t)shape->local);
    for (int32_t i = 0; i < shape->local; i++) {
        lists->lanes[i].flights = arena_array(run->arena, struct flight, micros);
        lists->lanes[i].grads = arena_array(run->arena, struct tensor *, micros);
    }
    lists->forward.count = first ? more + 1 : 1;
    lists->backward.count = last ? more + 1 : 1;
    lists->forward.items = arena_array(run->arena, struct tensor *, (size_t)lists->forward.count);
    lists->backward.items = arena_array(run->arena, struct tensor *, (size_t)lists->backward.count);
    return lists;
}

static void ring_drop(struct ring *ring)
{
    for (int32_t i = 0; i < ring->count; i++)
        megatron_bind(&ring->items[i], NULL);
}

static void drop_names(struct interleaved_names *n)
{
    for (int32_t i = 0; i < n->shape->local; i++) {
        struct lane *lane = &n->lists->lanes[i];

        for (int32_t k = 0; k < n->shape->micros; k++) { /* after a failure */
            flight_drop(n->run, &lane->flights[k]);
            megatron_bind(&lane->grads[k], NULL);
        }
        lane->received = lane->grads_received = 0;
    }
    megatron_bind(&n->input, NULL);
    megatron_bind(&n->output, NULL);
    megatron_bind(&n->input_grad, NULL);
    megatron_bind(&n->output_grad, NULL);
    ring_drop(&n->lists->forward);
    ring_drop(&n->lists->backward);
    megatron_bind(&n->sent, NULL);
    megatron_bind(&n->awaited, NULL);
}

void megatron_interleaved(struct run *run, struct megatron *m)
{
    const struct pipeline_shape *shape = &run->pipeline->shape;
    struct ghost *g = &run->ghost;

    if (!m->lists)
        m->lists = lists_make(run);
    struct interleaved_names n = {
        .run = run,
        .shape = shape,
        .lists = m->lists,
        .rank = run->pipeline->rank,
        .total = shape->micros * shape->local,
        .warm = megatron_warm_up(shape, run->pipeline->rank),
    };
    TENSOR_AUTO *total = tensor_new_scalar(g, DTYPE_INT32); /* tokens of all micro-batches */

    warm_up(&n);
    steady(&n);
    cool_down(&n);
    if (!g->halt)
        megatron_finish_gradients(run, m);
    tensor_drop(tensor_take(&total));
    drop_names(&n);
}
