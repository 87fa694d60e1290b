/*
 * train/optimizer_simple.c - optimizers with one state for each parameter: SGD with momentum, RMSprop, Adagrad, Lion
 *
 * Mirrors torch/optim/sgd.py, rmsprop.py, adagrad.py (2.15), foreach, and lion-pytorch 0.2. SGD without momentum
 * updates in place and needs nothing.
 */
#include "ghost/kernels.h"
#include "train/optimizer.h"

enum { STATE };

/* init_group() - zeros_like(p) for each, before any is updated */
static void init_group(struct run *run)
{
    for (size_t i = 0; i < run->trained_count; i++) {
        struct tensor *p = run->trained[i]->param->tensor;

        if (optimizer_grad(run, i))
            optimizer_state(run, &run->trained[i]->state[STATE], p, p->dtype);
    }
}

/* the momentum buffer begins as a clone of the gradient */
void sgd_momentum_step(struct run *run)
{
    for (size_t i = 0; i < run->trained_count; i++) {
        struct tensor **state = &run->trained[i]->state[STATE];
        struct tensor *grad = optimizer_grad(run, i);

        if (grad)
            optimizer_state(run, state, grad, grad->dtype);
    }
}

/* avg = torch._foreach_sqrt(square_avgs) */
void rmsprop_step(struct run *run)
{
    struct list avg = { 0 };

    init_group(run);
    foreach_like_state(run, &avg, STATE);
    list_drop(run, &avg);
}

/* the constructor makes the sums, of parameters without gradients too */
void adagrad_create(struct run *run)
{
    for (size_t i = 0; i < run->param_count; i++) {
        struct leaf *leaf = &run->leaves[i];

        if (leaf->param->buffer)
            continue;
        run->ghost.path = leaf->module;
        optimizer_state(run, &leaf->state[STATE], leaf->param->tensor, leaf->param->dtype);
    }
    for (size_t i = 0; i < run->trained_count;
         i++) { /* flat parameters, which are not the model's */
        struct leaf *leaf = run->trained[i];

        run->ghost.path = leaf->module;
        optimizer_state(run, &leaf->state[STATE], leaf->param->tensor, leaf->param->dtype);
    }
}

/* std = torch._foreach_sqrt(state_sums); numerator = torch._foreach_mul(grads, minus_clr) */
void adagrad_step(struct run *run)
{
    struct list std = { 0 }, numerator = { 0 };

    foreach_like_state(run, &std, STATE);
    for (size_t i = 0; i < run->trained_count; i++) {
        struct tensor *grad = optimizer_grad(run, i);

        if (grad)
            list_push(run, &numerator, tensor_like(&run->ghost, grad, grad->dtype));
    }
    list_drop(run, &numerator);
    list_drop(run, &std);
}

/* update = exp_avg.clone().mul_(beta1).add(grad, …).sign_(), parameter after parameter; states on the way */
void lion_step(struct run *run)
{
    for (size_t i = 0; i < run->trained_count; i++) {
        struct tensor **state = &run->trained[i]->state[STATE];
        struct tensor *p = run->trained[i]->param->tensor;

        if (!optimizer_grad(run, i))
            continue;
        optimizer_state(run, state, p, p->dtype);
        if (!*state)
            continue;
        struct tensor *clone = kernel_clone(*state);
        struct tensor *update = tensor_like(&run->ghost, *state, (*state)->dtype);

        tensor_drop(clone);
        tensor_drop(update);
    }
}
