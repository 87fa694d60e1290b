/*
 * train/pipeline_step.c - the schedules' loops: who holds a buffer, and until when
 *
 * Mirrors torch/distributed/pipelining/schedules.py (2.15): ScheduleGPipe._step_microbatches, Schedule1F1B._step_microbatches
 * and _PipelineScheduleRuntime._step_microbatches. The variables of those functions hold lists of operations, whose tensors live
 * as long as the variable: here each is a struct sent of the same name.
 */
#include "train/pipeline.h"
#include "train/wrapper.h"

/* update_losses() - the first @count losses (_internal_losses) go when all backwards are over */
static void update_losses(struct pipeline *p, int32_t count)
{
    for (int32_t i = 0; i < p->shape.local; i++)
        for (int32_t m = 0; m < count; m++) {
            struct tensor **loss = &p->stages[i].chunks[m].loss;

            tensor_drop(*loss);
            *loss = NULL;
        }
}

/* hooks_of() - of the wrapper, NULL: it has none, or the run has failed */
static const struct stage_hooks *hooks_of(const struct run *run)
{
    return run->wrapper && !run->ghost.halt ? run->wrapper->stage : NULL;
}

/* reduce_gradients() - perform_reduce_grad(), while the function that calls it still has its variables */
static void reduce_gradients(struct pipeline *p)
{
    update_losses(p, p->shape.micros - 1); /* one variable still has the last */
    const struct stage_hooks *hooks = hooks_of(p->run);

    if (!hooks)
        return;
    hooks->reduce(p->run);
    hooks->await_reduction(p->run);
}

static void gpipe(struct pipeline *p, struct stage *s)
{
    struct ghost *g = &p->run->ghost;
    struct sent ops = { 0 }, work = { 0 };
    int32_t micros = p->shape.micros;

    for (int32_t i = 0; i < micros; i++) {
        stage_receive_forward(p, s, i, &ops);
        if (s->in->count > 0)
            sent_move(g, &work, &ops);
        stage_forward(p, s, i);
        stage_send_forward(p, s, i, &s->chunks[i].forward_send);
    }
    for (int32_t i = 0; i < micros; i++) {
        sent_drop(g, &s->chunks[i].forward_send);
        stage_release(p, s, i);
    }
    for (int32_t i = 0; i < micros; i++) {
        stage_receive_backward(p, s, i, &ops);
        if (s->out->count > 0)
            sent_move(g, &work, &ops);
        stage_backward(p, s, i);
        /* the works that wait for the end hold the gradients */
        stage_send_backward(p, s, i, &s->chunks[i].backward_send);
    }
    reduce_gradients(p);
    for (int32_t i = 0; i < micros; i++)
        sent_drop(g, &s->chunks[i].backward_send);
    sent_drop(g, &ops);
    sent_drop(g, &work);
}

/* struct lists - the variables of Schedule1F1B._step_microbatches */
struct lists {
    struct sent fwd_recvs, fwd_sends, bwd_recvs, bwd_sends;
};

/* cool_down() - the backwards that are left */
static void cool_down(struct pipeline *p, struct stage *s, struct lists *l, int32_t bwd)
{
    for (; bwd < p->shape.micros; bwd++) {
        stage_receive_backward(p, s, bwd, &l->bwd_recvs);
        stage_backward(p, s, bwd);
        stage_send_backward(p, s, bwd, &l->bwd_sends);
    }
}

static void one_forward_one_backward(struct pipeline *p, struct stage *s)
{
    struct ghost *g = &p->run->ghost;
    struct lists l = { 0 };
    int32_t micros = p->shape.micros, fwd = 0, bwd = 0;
    int32_t warmup = p->shape.ranks - p->rank < micros ? p->shape.ranks - p->rank : micros;

    for (; fwd < warmup; fwd++) {
        stage_receive_forward(p, s, fwd, &l.fwd_recvs);
        stage_forward(p, s, fwd);
        sent_drop(g, &l.fwd_sends);
        if (fwd > 0)
            stage_release(p, s, fwd - 1);
        stage_send_forward(p, s, fwd, &l.fwd_sends);
    }
    for (;;) {
        stage_receive_backward(p, s, bwd, &l.bwd_recvs);
        sent_drop(g, &l.fwd_sends);
        stage_release(p, s, fwd - 1);
        sent_drop(g, &l.bwd_recvs);
        stage_backward(p, s, bwd);
        stage_send_backward(p, s, bwd, &l.bwd_sends);
        bwd++;
        if (fwd == micros)
            break;
        stage_receive_forward(p, s, fwd, &l.fwd_recvs);
        stage_forward(p, s, fwd);
        stage_send_forward(p, s, fwd, &l.fwd_sends);
        fwd++;
    }
    cool_down(p, s, &l, bwd);
    reduce_gradients(p);
    sent_drop(g, &l.fwd_recvs);
    sent_drop(g, &l.bwd_recvs);
    sent_drop(g, &l.bwd_sends);
}

/* perform_wrapped() - what only a wrapped stage does */
static void perform_wrapped(struct run *run, enum action_kind kind)
{
    const struct stage_hooks *hooks = hooks_of(run);

    if (!hooks)
        return;
    switch (kind) {
    case ACTION_UNSHARD:
        hooks->unshard(run);
        break;
    case ACTION_RESHARD:
        hooks->reshard(run);
        break;
    case ACTION_REDUCE_GRADIENTS:
        hooks->reduce(run);
        break;
    case ACTION_WAIT_REDUCE_GRADIENTS:
        hooks->await_reduction(run);
        break;
    case ACTION_FORWARD:
    case ACTION_BACKWARD:
    case ACTION_BACKWARD_INPUT:
    case ACTION_BACKWARD_WEIGHT:
        hooks->await_unshard(run);
        break;
    case ACTION_RECEIVE_FORWARD:
    case ACTION_SEND_FORWARD:
    case ACTION_WAIT_SEND_FORWARD:
    case ACTION_RECEIVE_BACKWARD:
    case ACTION_SEND_BACKWARD:
    case ACTION_WAIT_SEND_BACKWARD:
    case ACTION_COUNT:
        break;
    }
}

/* perform() - an action of a lowered schedule */
static void perform(struct pipeline *p, const struct action *a)
{
    struct ghost *g = &p->run->ghost;
    struct stage *s = &p->stages[a->stage / p->shape.ranks];
    struct chunk *c = a->micro < 0 ? NULL : &s->chunks[a->micro];
    struct sent ops = { 0 };

    p->run->stage = (uint32_t)(s - p->stages);
    perform_wrapped(p->run, a->kind);
    switch (a->kind) {
    case ACTION_RECEIVE_FORWARD: /* what waits for the forward holds the buffers too */
        stage_receive_forward(p, s, a->micro, &ops);
        break;
    case ACTION_FORWARD:
        stage_forward(p, s, a->micro);
        break;
    case ACTION_SEND_FORWARD:
        stage_send_forward(p, s, a->micro, &c->forward_send);
        break;
    case ACTION_WAIT_SEND_FORWARD: /* its backward has been, which took the outputs */
        sent_drop(g, &c->forward_send);
        break;
    case ACTION_RECEIVE_BACKWARD:
        stage_receive_backward(p, s, a->micro, &ops);
        break;
    case ACTION_BACKWARD:
        stage_backward(p, s, a->micro);
        break;
    case ACTION_BACKWARD_INPUT:
        stage_backward_input(p, s, a->micro);
        break;
    case ACTION_BACKWARD_WEIGHT:
        stage_backward_weight(p, s, a->micro);
        break;
    case ACTION_SEND_BACKWARD:
        stage_send_backward(p, s, a->micro, &c->backward_send);
        break;
    case ACTION_WAIT_SEND_BACKWARD:
        sent_drop(g, &c->backward_send);
        break;
    case ACTION_UNSHARD:
    case ACTION_RESHARD:
    case ACTION_REDUCE_GRADIENTS:
    case ACTION_WAIT_REDUCE_GRADIENTS:
    case ACTION_COUNT:
        break;
    }
    sent_drop(g, &ops);
}

void pipeline_micro_steps(struct pipeline *p)
{
    switch (p->shape.schedule) {
    case PLM_SCHEDULE_GPIPE:
        gpipe(p, p->stages);
        break;
    case PLM_SCHEDULE_1F1B:
        one_forward_one_backward(p, p->stages);
        break;
    case PLM_SCHEDULE_INTERLEAVED:
    case PLM_SCHEDULE_ZERO_BUBBLE:
        for (size_t i = 0; i < p->actions.count && !p->run->ghost.halt; i++)
            perform(p, &p->actions.actions[i]);
        break;
    }
    p->run->stage = 0;
    update_losses(p, p->shape.micros);
    for (int32_t i = 0; i < p->shape.local; i++)
        stage_clear(p, &p->stages[i]); /* after a failure: what was in flight */
}
