/* ops/dense.h - matrix products, as functions that other operators call; recorded */
#ifndef PLM_OPS_DENSE_H
#define PLM_OPS_DENSE_H

#include "ghost/autograd.h"

struct tensor *dense_mm(struct tensor *a, struct tensor *b); /* matrices */
struct tensor *dense_addmm(struct tensor *bias,
                           struct tensor *a,
                           struct tensor *b);                 /* bias + a b */
struct tensor *dense_bmm(struct tensor *a, struct tensor *b); /* batches of matrices */
struct tensor *dense_matmul(struct tensor *a,
                            struct tensor *b); /* any, as torch.matmul folds them */
struct tensor *dense_linear(struct tensor *x,
                            struct tensor *weight,
                            struct tensor *bias); /* bias may be NULL */

/* dense_linear_zero3() - DeepSpeed's in its place, which keeps the weight itself and no view of its memory */
struct tensor *dense_linear_zero3(struct tensor *x, struct tensor *weight, struct tensor *bias);

struct tensor *dense_mv(struct tensor *a, struct tensor *v);  /* a matrix and a vector */
struct tensor *dense_dot(struct tensor *a, struct tensor *b); /* two vectors */

#endif
