/*
 * ops/blas.h - what cuBLAS and cuBLASLt are asked for: products without autograd, and their workspaces
 */
#ifndef PLM_OPS_BLAS_H
#define PLM_OPS_BLAS_H

#include "ghost/tensor.h"

/* blas_workspace() - of a cuBLAS call: taken at each call, or once for each thread where the version caches it */
void blas_workspace(struct ghost *g);
/* blas_calls() - @count calls one after another; more than a million are refused */
void blas_calls(struct ghost *g, int64_t count);
/* blas_lt_workspace() - the same for cuBLASLt */
void blas_lt_workspace(struct ghost *g);

/*
 * blas_product() - [.., m, k] times [.., k, n], whose sizes are right; @lt: through cuBLASLt
 *
 * Takes, in order: the output, a copy of each operand whose strides cuBLAS cannot read, the workspace; gives the last two back.
 */
struct tensor *blas_product(struct tensor *a, struct tensor *b, bool lt);

/* blas_turned() - the last two dimensions exchanged, as a view; autograd is not told */
struct tensor *blas_turned(struct tensor *x);

#endif
