/*
 * train/optimizer.c - the optimizer of a run: its row of the table, and zero_grad
 *
 * A parameter without a gradient (frozen, or not reached) has no state and takes no part in a step. All gradients have
 * one type, that of the parameters, so that a foreach function sees one group.
 */
#include "train/optimizer.h"

struct optimizer {
    optimizer_function *create, *step;
    bool takes_scale, unverified;
};

static const struct optimizer optimizers[] = {
#define OPTIMIZER(ID, create, step, takes_scale, unverified)                                       \
    [PLM_OPTIMIZER_##ID] = { create, step, takes_scale, unverified },
#include "train/optimizers.def"
#undef OPTIMIZER
};

static const struct optimizer *optimizer_of(const struct run *run)
{
    return &optimizers[run->strategy->optimizer];
}

bool optimizer_exists(const struct run *run)
{
    return run->strategy->optimizer != PLM_OPTIMIZER_NONE && !run->strategy->eval;
}

bool optimizer_takes_scale(const struct run *run)
{
    return optimizer_of(run)->takes_scale;
}

/* call() - @fn, counted as the optimizer's */
static void call(struct run *run, optimizer_function *fn)
{
    struct ghost *g = &run->ghost;
    size_t first = g->record_count;
    struct leaf **trained = run->trained;
    size_t trained_count = run->trained_count;

    if (!fn)
        return;
    if (run->updated) {
        run->trained = run->updated;
        run->trained_count = run->updated_count;
    }
    g->category = CATEGORY_TEMPORARY;
    g->op = OP_COUNT;
    g->grad_enabled = false;
    for (size_t first_of = 0, all = run->trained_count; first_of < all;) {
        /* each group of parameters is one call: a foreach list holds tensors of one kind */
        size_t end = first_of < run->group_end ? run->group_end : all;

        run->trained += first_of;
        run->trained_count = end - first_of;
        fn(run);
        run->trained -= first_of;
        first_of = end;
    }
    run->trained = trained;
    run->trained_count = trained_count;
    g->grad_enabled = true;
    g->category = CATEGORY_ACTIVATION;
    g->path = 0;
    for (size_t i = first; i < g->record_count; i++)
        g->records[i].unverified = g->records[i].unverified || optimizer_of(run)->unverified;
}

void optimizer_create(struct run *run)
{
    struct schedule *schedule = run->ghost.schedule;

    if (run->strategy->parallel.cpu_offload)
        run->ghost.schedule = NULL; /* its parameters are on the host */
    if (optimizer_exists(run))
        call(run, optimizer_of(run)->create);
    run->ghost.schedule = schedule;
}

void optimizer_step(struct run *run)
{
    call(run, optimizer_of(run)->step);
}

void optimizer_zero_grad(struct run *run)
{
    /* zero_grad(set_to_none=False) writes zeros in place */
    if (!optimizer_exists(run) || run->strategy->zero_grad == PLM_ZERO_GRAD_ZERO)
        return;
    for (size_t i = 0; i < run->trained_count; i++) {
        struct tensor *leaf = run->trained[i]->param->tensor;

        tensor_drop(leaf->grad);
        leaf->grad = NULL;
    }
}

struct tensor *optimizer_grad(struct run *run, size_t i)
{
    run->ghost.path = run->trained[i]->module;
    return run->trained[i]->param->tensor->grad;
}

void optimizer_state(struct run *run, struct tensor **state, struct tensor *like, enum dtype dtype)
{
    struct ghost *g = &run->ghost;

    if (*state || !like)
        return;
    g->category = CATEGORY_STATE;
    *state = tensor_like(g, like, dtype);
    g->category = CATEGORY_TEMPORARY;
}

void foreach_like_state(struct run *run, struct list *list, unsigned which)
{
    for (size_t i = 0; i < run->trained_count; i++) {
        if (!optimizer_grad(run, i))
            continue;
        struct tensor *state = run->trained[i]->state[which];

        list_push(run, list, state ? tensor_like(&run->ghost, state, state->dtype) : NULL);
    }
}
