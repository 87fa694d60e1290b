/* ops/embedding.h - rows of a table, as a function that other operators call; recorded */
#ifndef PLM_OPS_EMBEDDING_H
#define PLM_OPS_EMBEDDING_H

#include "ghost/autograd.h"

/* embedding_rows() - F.embedding(indices, weight); @indices have at most TENSOR_DIMS - 1 dimensions */
struct tensor *embedding_rows(struct tensor *weight, struct tensor *indices);

#endif
