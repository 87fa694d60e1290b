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

/* dense_blas_workspace() - what a cuBLAS call takes: at each call, or once for each thread where the version caches it */
void dense_blas_workspace(struct ghost *g);
void dense_lt_workspace(struct ghost *g);

#endif
