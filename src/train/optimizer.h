/*
 * train/optimizer.h - what the rows of optimizers.def are made of
 */
#ifndef PLM_TRAIN_OPTIMIZER_H
#define PLM_TRAIN_OPTIMIZER_H

#include "train/internal.h"

typedef void optimizer_function(struct run *run);

optimizer_function sgd_momentum_step, adam_step, adam_loop_step, adam_fused_step, adam_8bit_step,
    adafactor_step, rmsprop_step, adagrad_create, adagrad_step, lion_step;

/* optimizer_grad() - the gradient of the @i-th trained parameter, or NULL; what is allocated next counts for it */
struct tensor *optimizer_grad(struct run *run, size_t i);

/* optimizer_state() - set a state that is not there yet to zeros_like(x, dtype) */
void optimizer_state(struct run *run, struct tensor **state, struct tensor *like, enum dtype dtype);

/* foreach_like() - the result of a torch._foreach_* over state @which of every parameter with a gradient */
void foreach_like_state(struct run *run, struct list *list, unsigned which);

#endif
