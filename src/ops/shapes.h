/* ops/shapes.h - sizes as attributes, in messages, and broadcast; no tensor is made here */
#ifndef PLM_OPS_SHAPES_H
#define PLM_OPS_SHAPES_H

#include "ops/ops.h"

/* shape_text() - tensor_text() for sizes that are not a tensor's yet */
const char *shape_text(unsigned dims, const int64_t *sizes, char text[TENSOR_TEXT]);

/* shape_attr() - a list of at most TENSOR_DIMS numbers; false after a failure */
bool shape_attr(struct ghost *g,
                const struct op_args *args,
                enum attr_key key,
                unsigned *ret_dims,
                int64_t *ret_sizes);

/*
 * shape_dims() - dimensions as the attribute names them, as a bit mask
 *
 * All of them when the attribute is absent or empty. Halts the run when one is out of range or named twice.
 */
uint32_t shape_dims(struct ghost *g, const struct op_args *args, const struct tensor *x);

/* shape_broadcast() - the common sizes of two tensors; false after a failure */
bool shape_broadcast(struct ghost *g,
                     const struct tensor *a,
                     const struct tensor *b,
                     unsigned *ret_dims,
                     int64_t *ret_sizes);

/* shape_numel() - the product of sizes; false when one is negative or it does not fit in 63 bits */
bool shape_numel(unsigned dims, const int64_t *sizes, int64_t *ret_numel);

#endif
