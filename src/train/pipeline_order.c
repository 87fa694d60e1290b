/*
 * train/pipeline_order.c - the schedules: GPipe, 1F1B, interleaved 1F1B, zero-bubble
 *
 * Mirrors torch/distributed/pipelining/schedules.py (2.15): ScheduleGPipe, Schedule1F1B, ScheduleInterleaved1F1B,
 * ScheduleInterleavedZeroBubble (ZB1P), and their lowering: _add_unshard_reshard, _add_reduce_grad, _add_send_recv, _add_wait_send.
 */
#include <string.h>

#include "train/pipeline_order.h"

enum { ACTIVE_STAGES_MOST = 3 }; /* max_active_stages, the default */

const char *const action_marks[ACTION_COUNT] = {
    [ACTION_FORWARD] = "F",
    [ACTION_BACKWARD] = "B",
    [ACTION_BACKWARD_INPUT] = "I",
    [ACTION_BACKWARD_WEIGHT] = "W",
    [ACTION_RECEIVE_FORWARD] = "RECV_F",
    [ACTION_SEND_FORWARD] = "SEND_F",
    [ACTION_WAIT_SEND_FORWARD] = "WAIT_SEND_F",
    [ACTION_RECEIVE_BACKWARD] = "RECV_B",
    [ACTION_SEND_BACKWARD] = "SEND_B",
    [ACTION_WAIT_SEND_BACKWARD] = "WAIT_SEND_B",
    [ACTION_UNSHARD] = "UNSHARD",
    [ACTION_RESHARD] = "RESHARD",
    [ACTION_REDUCE_GRADIENTS] = "REDUCE_GRAD",
    [ACTION_WAIT_REDUCE_GRADIENTS] = "WAIT_REDUCE_GRAD",
};

static void push(struct arena *arena,
                 struct action_list *list,
                 enum action_kind kind,
                 int32_t stage,
                 int32_t micro)
{
    struct action action = { kind, stage, micro };

    arena_push(arena, list->actions, list->count, list->capacity, action);
}

/* rounds() - micro-batches go through the stages of a rank in rounds of about as many as there are ranks */
static int32_t rounds(const struct pipeline_shape *shape)
{
    int32_t count = shape->micros / shape->ranks;

    return count > 1 ? count : 1;
}

enum plm_status pipeline_check(const struct pipeline_shape *shape, struct plm_error *reterr)
{
    switch (shape->schedule) {
    case PLM_SCHEDULE_GPIPE:
        return PLM_OK;
    case PLM_SCHEDULE_1F1B:
        if (shape->micros < shape->ranks)
            return plm_fail(reterr, PLM_E_USAGE,
                            "microbatches: 1f1b needs at least as many as there are stages, %d",
                            shape->ranks);
        return PLM_OK;
    case PLM_SCHEDULE_INTERLEAVED:
    case PLM_SCHEDULE_ZERO_BUBBLE:
        break;
    }
    if (shape->micros % rounds(shape) != 0)
        return plm_fail(
            reterr, PLM_E_USAGE,
            "microbatches: %d go through %d ranks in %d rounds, so their number must be a "
            "multiple of %d",
            shape->micros, shape->ranks, rounds(shape), rounds(shape));
    return PLM_OK;
}

/* ------------------------------------------------------------------ what is computed */

static void compute_gpipe(const struct pipeline_shape *shape,
                          int32_t rank,
                          struct arena *arena,
                          struct action_list *ret)
{
    for (int32_t i = 0; i < shape->micros; i++)
        push(arena, ret, ACTION_FORWARD, rank, i);
    for (int32_t i = 0; i < shape->micros; i++)
        push(arena, ret, ACTION_BACKWARD, rank, i);
}

/* compute_1f1b() - the last stage has one warm-up, the one before it two, … */
static void compute_1f1b(const struct pipeline_shape *shape,
                         int32_t rank,
                         struct arena *arena,
                         struct action_list *ret)
{
    int32_t warmup = shape->ranks - rank < shape->micros ? shape->ranks - rank : shape->micros;

    for (int32_t i = 0; i < warmup; i++)
        push(arena, ret, ACTION_FORWARD, rank, i);
    for (int32_t i = 0; i < shape->micros; i++) {
        push(arena, ret, ACTION_BACKWARD, rank, i);
        if (warmup + i < shape->micros)
            push(arena, ret, ACTION_FORWARD, rank, warmup + i);
    }
}

/* struct looped - _get_1f1b_rank_ops() on its way */
struct looped {
    const struct pipeline_shape *shape;
    struct arena *arena;
    struct action_list *list;
    int32_t rank, warmup, per_round;
    int32_t *forwards, *backwards,
        *weights; /* [shape->local]: the next micro-batch of each local stage */
};

static int32_t forward_stage(const struct looped *l, int32_t op)
{
    return op / l->per_round % l->shape->local;
}

static int32_t backward_stage(const struct looped *l, int32_t op)
{
    return l->shape->local - 1 - (op - l->warmup) / l->per_round % l->shape->local;
}

static void looped_push(struct looped *l, enum action_kind kind, int32_t local, int32_t *next)
{
    push(l->arena, l->list, kind, local * l->shape->ranks + l->rank, next[local]++);
}

static void compute_looped(const struct pipeline_shape *shape,
                           int32_t rank,
                           struct arena *arena,
                           struct action_list *ret)
{
    bool splits = shape->schedule == PLM_SCHEDULE_ZERO_BUBBLE;
    int32_t all = shape->local * shape->micros;
    struct looped l = {
        .shape = shape,
        .arena = arena,
        .list = ret,
        .rank = rank,
        .per_round = shape->micros / rounds(shape),
        .forwards = arena_array(arena, int32_t, (size_t)shape->local),
        .backwards = arena_array(arena, int32_t, (size_t)shape->local),
        .weights = arena_array(arena, int32_t, (size_t)shape->local),
    };
    int32_t done = 0, backwards = 0; /* weights, of as many backwards */

    l.warmup = (shape->local - 1) * l.per_round + (splits ? 1 : 2) * (shape->ranks - 1 - rank);
    if (l.warmup > all)
        l.warmup = all;
    for (int32_t op = 0; op < all + l.warmup; op++) {
        if (op < all)
            looped_push(&l, ACTION_FORWARD, forward_stage(&l, op), l.forwards);
        if (op < l.warmup)
            continue;
        looped_push(&l, splits ? ACTION_BACKWARD_INPUT : ACTION_BACKWARD, backward_stage(&l, op),
                    l.backwards);
        backwards++;
        /* the weights' backward comes as many micro-batches later as the rank's number is */
        if (splits && op - l.warmup >= rank)
            looped_push(&l, ACTION_BACKWARD_WEIGHT, backward_stage(&l, l.warmup + done++),
                        l.weights);
    }
    while (splits && done < backwards)
        looped_push(&l, ACTION_BACKWARD_WEIGHT, backward_stage(&l, l.warmup + done++), l.weights);
}

void pipeline_computes(const struct pipeline_shape *shape,
                       int32_t rank,
                       struct arena *arena,
                       struct action_list *ret)
{
    switch (shape->schedule) {
    case PLM_SCHEDULE_GPIPE:
        compute_gpipe(shape, rank, arena, ret);
        break;
    case PLM_SCHEDULE_1F1B:
        compute_1f1b(shape, rank, arena, ret);
        break;
    case PLM_SCHEDULE_INTERLEAVED:
    case PLM_SCHEDULE_ZERO_BUBBLE:
        compute_looped(shape, rank, arena, ret);
        break;
    }
}

/* ------------------------------------------------------------------ the lowering */

/* upcoming() - the next stages, at most ACTIVE_STAGES_MOST, that compute from @first on */
static size_t upcoming(const struct action_list *list, size_t first, int32_t *ret)
{
    size_t count = 0;

    for (size_t i = first; i < list->count && count < ACTIVE_STAGES_MOST; i++) {
        size_t k = 0;

        while (k < count && ret[k] != list->actions[i].stage)
            k++;
        if (k == count)
            ret[count++] = list->actions[i].stage;
    }
    return count;
}

static bool contains(const int32_t *stages, size_t count, int32_t stage)
{
    for (size_t i = 0; i < count; i++)
        if (stages[i] == stage)
            return true;
    return false;
}

/* add_unshards() - _add_unshard_reshard() and _add_reduce_grad() */
static void add_unshards(const struct pipeline_shape *shape,
                         const struct action_list *from,
                         struct arena *arena,
                         struct action_list *ret)
{
    int32_t active[ACTIVE_STAGES_MOST + 1], next[ACTIVE_STAGES_MOST];
    int32_t *done = arena_array(arena, int32_t, (size_t)(shape->ranks * shape->local));
    size_t active_count = 0;

    for (size_t i = 0; i < from->count; i++) {
        const struct action *a = &from->actions[i];
        size_t next_count = upcoming(from, i, next), kept = 0;

        for (size_t k = 0; k < active_count; k++)
            if (contains(next, next_count, active[k]))
                active[kept++] = active[k];
            else
                push(arena, ret, ACTION_RESHARD, active[k], -1);
        active_count = kept;
        for (size_t k = 0; k < next_count; k++)
            if (!contains(active, active_count, next[k])) {
                active[active_count++] = next[k];
                push(arena, ret, ACTION_UNSHARD, next[k], -1);
            }
        push(arena, ret, a->kind, a->stage, a->micro);
        if ((a->kind == ACTION_BACKWARD || a->kind == ACTION_BACKWARD_WEIGHT) &&
            ++done[a->stage] == shape->micros) {
            push(arena, ret, ACTION_REDUCE_GRADIENTS, a->stage, -1);
            push(arena, ret, ACTION_WAIT_REDUCE_GRADIENTS, a->stage, -1);
        }
    }
    for (size_t k = 0; k < active_count; k++)
        push(arena, ret, ACTION_RESHARD, active[k], -1);
}

/* struct lowering - _add_send_recv(): rank by rank, one action each a round, when what it needs is there */
struct lowering {
    const struct pipeline_shape *shape;
    struct arena *arena;
    struct action_list *from, *to; /* [shape->ranks] */
    size_t *next;                  /* [shape->ranks] */
    bool *arrived[2];              /* of forward and of backward: [stage * micros + micro] */
};

static bool is_backward(enum action_kind kind)
{
    return kind == ACTION_BACKWARD || kind == ACTION_BACKWARD_INPUT;
}

static bool is_ready(const struct lowering *l, const struct action *a)
{
    int32_t last = l->shape->ranks * l->shape->local - 1;
    int32_t at = a->stage * l->shape->micros + a->micro;

    if (a->kind == ACTION_FORWARD)
        return a->stage == 0 || l->arrived[0][at];
    if (is_backward(a->kind))
        return a->stage == last || l->arrived[1][at];
    return true;
}

/* emit() - @a with its send, and the receive on the other side */
static void emit(struct lowering *l, int32_t rank, const struct action *a)
{
    int32_t last = l->shape->ranks * l->shape->local - 1;
    bool forward = a->kind == ACTION_FORWARD && a->stage != last;
    bool backward = is_backward(a->kind) && a->stage != 0;
    int32_t other = forward ? a->stage + 1 : a->stage - 1;

    push(l->arena, &l->to[rank], a->kind, a->stage, a->micro);
    if (!forward && !backward)
        return;
    l->arrived[backward][other * l->shape->micros + a->micro] = true;
    if (other % l->shape->ranks == rank)
        return;
    push(l->arena, &l->to[rank], forward ? ACTION_SEND_FORWARD : ACTION_SEND_BACKWARD, a->stage,
         a->micro);
    push(l->arena, &l->to[other % l->shape->ranks],
         forward ? ACTION_RECEIVE_FORWARD : ACTION_RECEIVE_BACKWARD, other, a->micro);
}

static void add_communication(struct lowering *l)
{
    for (bool goes_on = true; goes_on;) {
        goes_on = false;
        for (int32_t rank = 0; rank < l->shape->ranks; rank++) {
            const struct action_list *from = &l->from[rank];

            if (l->next[rank] == from->count || !is_ready(l, &from->actions[l->next[rank]]))
                continue;
            emit(l, rank, &from->actions[l->next[rank]++]);
            goes_on = true;
        }
    }
}

/* add_waits() - _add_wait_send(): a forward's after its own backward, a backward's at the end, in the order of the sends */
static void add_waits(const struct pipeline_shape *shape,
                      const struct action_list *from,
                      struct arena *arena,
                      struct action_list *ret)
{
    bool *sent = arena_array(arena, bool, (size_t)(shape->ranks * shape->local * shape->micros));

    for (size_t i = 0; i < from->count; i++) {
        const struct action *a = &from->actions[i];
        int32_t at = a->stage * shape->micros + a->micro;

        push(arena, ret, a->kind, a->stage, a->micro);
        if (a->kind == ACTION_SEND_FORWARD)
            sent[at] = true;
        if (is_backward(a->kind) && sent[at])
            push(arena, ret, ACTION_WAIT_SEND_FORWARD, a->stage, a->micro);
    }
    for (size_t i = 0; i < from->count; i++)
        if (from->actions[i].kind == ACTION_SEND_BACKWARD)
            push(arena, ret, ACTION_WAIT_SEND_BACKWARD, from->actions[i].stage,
                 from->actions[i].micro);
}

void pipeline_lower(const struct pipeline_shape *shape,
                    int32_t rank,
                    struct arena *arena,
                    struct action_list *ret)
{
    size_t ranks = (size_t)shape->ranks;
    size_t cells = ranks * (size_t)shape->local * (size_t)shape->micros;
    struct lowering l = {
        .shape = shape,
        .arena = arena,
        .from = arena_array(arena, struct action_list, ranks),
        .to = arena_array(arena, struct action_list, ranks),
        .next = arena_array(arena, size_t, ranks),
        .arrived = { arena_array(arena, bool, cells), arena_array(arena, bool, cells) },
    };

    for (int32_t r = 0; r < shape->ranks; r++) {
        struct action_list computes = { 0 };

        pipeline_computes(shape, r, arena, &computes);
        add_unshards(shape, &computes, arena, &l.from[r]);
    }
    add_communication(&l);
    add_waits(shape, &l.to[rank], arena, ret);
}

int32_t pipeline_in_flight(const struct action_list *list)
{
    int32_t now = 0, most = 0;

    for (size_t i = 0; i < list->count; i++) {
        enum action_kind kind = list->actions[i].kind;

        now += kind == ACTION_FORWARD;
        now -= kind == ACTION_BACKWARD || kind == ACTION_BACKWARD_WEIGHT;
        most = now > most ? now : most;
    }
    return most;
}
