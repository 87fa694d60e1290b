/*
 * train/megatron_order.c - Megatron's 1F1B and interleaved 1F1B: the order of forwards and backwards
 *
 * A rank's k-th forward is of group k / (group * local) of the micro-batches; the last group may be smaller. In a group all
 * micro-batches go through the rank's first stage, then through its second, …; backwards begin with its last stage.
 */
#include "train/megatron_order.h"

static int32_t group_of(const struct pipeline_shape *shape)
{
    return shape->group > 0 ? shape->group : shape->ranks;
}

enum plm_status megatron_order_check(const struct pipeline_shape *shape, struct plm_error *reterr)
{
    int32_t group = group_of(shape), rest = shape->micros % group;

    if (shape->local == 1)
        return PLM_OK;
    if (group < shape->ranks || group > shape->micros)
        return plm_fail(reterr, PLM_E_USAGE,
                        "microbatches: Megatron's interleaved schedule takes them through a stage "
                        "in groups of %d, from the %d stages of --pp to all %d of them",
                        group, shape->ranks, shape->micros);
    if (rest > 0 && rest < shape->ranks)
        return plm_fail(reterr, PLM_E_USAGE,
                        "microbatches: %d in groups of %d leave %d for the last, which would be "
                        "fewer than the %d stages of --pp",
                        shape->micros, group, rest, shape->ranks);
    return PLM_OK;
}

int32_t megatron_warm_up(const struct pipeline_shape *shape, int32_t rank)
{
    int32_t after = shape->ranks - rank - 1, total = shape->micros * shape->local;
    int32_t warm = shape->local == 1 ? after : 2 * after + (shape->local - 1) * group_of(shape);

    return warm < total ? warm : total;
}

struct turn megatron_forward_turn(const struct pipeline_shape *shape, int32_t k)
{
    int32_t group = shape->local == 1 ? shape->micros : group_of(shape);
    int32_t first = k / (group * shape->local) * group;
    int32_t size = shape->micros - first < group ? shape->micros - first : group;
    int32_t within = k - first * shape->local;

    return (struct turn){ within / size, first + within % size };
}

struct turn megatron_backward_turn(const struct pipeline_shape *shape, int32_t k)
{
    struct turn turn = megatron_forward_turn(shape, k);

    turn.local = shape->local - 1 - turn.local;
    return turn;
}

void megatron_computes(const struct pipeline_shape *shape,
                       int32_t rank,
                       struct arena *arena,
                       struct action_list *ret)
{
    int32_t total = shape->micros * shape->local, warm = megatron_warm_up(shape, rank);

    for (int32_t k = 0; k < total + warm; k++) {
        const struct {
            bool there;
            enum action_kind kind;
            struct turn turn;
        } steps[] = {
            { k < total, ACTION_FORWARD, megatron_forward_turn(shape, k < total ? k : 0) },
            { k >= warm, ACTION_BACKWARD, megatron_backward_turn(shape, k >= warm ? k - warm : 0) },
        };

        for (int i = 0; i < 2; i++) {
            struct action action = { steps[i].kind, steps[i].turn.local * shape->ranks + rank,
                                     steps[i].turn.micro };

            if (steps[i].there)
                arena_push(arena, ret->actions, ret->count, ret->capacity, action);
        }
    }
}
