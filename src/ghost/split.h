/*
 * ghost/split.h - a backward in two halves: the gradients of a stage's inputs now, those of its weights later
 *
 * Mirrors torch/distributed/pipelining/_backward.py (2.15). Where the way from the outputs to the inputs meets the way to
 * a weight there is a node; its gradients are kept in the first half, and the second starts from them. The graph between, with all
 * that it saved, lives until the second half is over.
 */
#ifndef PLM_GHOST_SPLIT_H
#define PLM_GHOST_SPLIT_H

#include "ghost/autograd.h"

struct split; /* what the second half needs */

/*
 * split_input() - stage_backward_input(): the gradients of @inputs; ret[input_count], owned, NULL where there is none
 *
 * @call has roots and grads. An input's .grad is set too, as the framework does. @weights are leaves, in the order of the
 * module's parameters. split_weight() must follow.
 */
struct split *split_input(struct ghost *g,
                          const struct autograd_call *call,
                          struct tensor *const *inputs,
                          uint32_t input_count,
                          struct tensor *const *weights,
                          size_t weight_count,
                          struct tensor **ret);

/* split_weight() - stage_backward_weight(): the weights' gradients are added to their .grad; the split is gone afterwards */
void split_weight(struct split *split);

#endif
