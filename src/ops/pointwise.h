/* ops/pointwise.h - element-wise arithmetic, as functions that other operators call; recorded */
#ifndef PLM_OPS_POINTWISE_H
#define PLM_OPS_POINTWISE_H

#include "ops/ops.h"

/* Two tensors, with broadcasting and type promotion; @b NULL: with a Python number. */
struct tensor *pointwise_add(struct tensor *a, struct tensor *b);
struct tensor *pointwise_mul(struct tensor *a, struct tensor *b);
struct tensor *pointwise_div(struct tensor *a, struct tensor *b);
/* pointwise_add_inplace() - a.add_(b) */
struct tensor *pointwise_add_inplace(struct tensor *a, struct tensor *b);
/* pointwise_mul_inplace() - a.mul_(b) */
struct tensor *pointwise_mul_inplace(struct tensor *a, struct tensor *b);
/*
 * pointwise_may_overwrite() - may @x be overwritten, with @n as its new history? false after a failure
 *
 * A leaf that wants a gradient may not. A view may when nobody else can read the tensor below it.
 */
bool pointwise_may_overwrite(const struct tensor *x, const struct node *n);
/* pointwise_overwrite() - @x, which may be, was overwritten: takes @n over as its history, returns a reference to @x */
struct tensor *pointwise_overwrite(struct tensor *x, struct node *n);
/* pointwise_second() - a row's second input, NULL when `value` is given instead; false after a failure */
bool pointwise_second(struct ghost *g, const struct op_args *args, struct tensor **ret);
/*
 * pointwise_with_number() - the output of an element-wise kernel over a tensor and a Python number
 *
 * The number takes no memory, but as an operand of other sizes it keeps TensorIterator from its fast paths; that shows in the
 * strides of dimensions of size 1.
 */
struct tensor *pointwise_with_number(struct tensor *x, enum dtype dtype);
/* pointwise_number_dtype() - the type of mixing a tensor with a Python number, which is an integer when it has no fraction */
enum dtype pointwise_number_dtype(const struct tensor *x, double number);
/* pointwise_clamp() - between two tensors, of which one may be NULL (recorded) */
struct tensor *pointwise_clamp(struct tensor *x, struct tensor *least, struct tensor *most);
/* pointwise_dropout() - F.dropout in training with probability @p: a reference to @x when p is 0 or not training */
struct tensor *pointwise_dropout(struct tensor *x, double p);
/* pointwise_softmax() - softmax along @dim (recorded); @dtype DTYPE_COUNT: the input's */
struct tensor *pointwise_softmax(struct tensor *x, int64_t dim, enum dtype dtype);
struct tensor *pointwise_log_softmax(struct tensor *x, int64_t dim, enum dtype dtype);

#endif
