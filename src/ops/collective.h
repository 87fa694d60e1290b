/* ops/collective.h - collectives between the ranks of tensor parallelism, as autograd functions */
#ifndef PLM_OPS_COLLECTIVE_H
#define PLM_OPS_COLLECTIVE_H

#include "ghost/autograd.h"

/* collective_enter() - a replicated input: the tensor itself; its gradient, partial on each rank, is all-reduced */
struct tensor *collective_enter(struct tensor *x);

/* collective_reduce() - a partial result, all-reduced out of place; its gradient passes */
struct tensor *collective_reduce(struct tensor *x);

#endif
