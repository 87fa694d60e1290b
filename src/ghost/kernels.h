/*
 * ghost/kernels.h - the few kernels that autograd itself runs, and that operators share; no autograd here
 */
#ifndef PLM_GHOST_KERNELS_H
#define PLM_GHOST_KERNELS_H

#include "ghost/tensor.h"

/* kernel_cast() - x.to(dtype); a new reference to @x when it has that type */
struct tensor *kernel_cast(struct tensor *x, enum dtype dtype);

/* kernel_clone() - a copy with the same layout when dense, else contiguous */
struct tensor *kernel_clone(struct tensor *x);

/* kernel_contiguous() - @x itself when contiguous, else a contiguous copy */
struct tensor *kernel_contiguous(struct tensor *x);

/*
 * kernel_pointwise() - the output of an element-wise kernel over 1 to 4 operands: broadcast sizes, TensorIterator's
 * layout, @dtype. Scalars (0-dim tensors on the CPU) are not operands.
 */
struct tensor *kernel_pointwise(struct ghost *g,
                                enum dtype dtype,
                                struct tensor *const *operands,
                                size_t operand_count);

/* kernel_promote() - the type of mixing two tensors; 0-dim tensors give way to others of their kind */
enum dtype kernel_promote(const struct tensor *a, const struct tensor *b);

/* kernel_reduce() - reduce the dimensions in the bit mask @dims, keeping them as 1 or not; with the kernel's scratch */
struct tensor *kernel_reduce(struct tensor *x, uint32_t dims, bool keepdim, enum dtype dtype);

/* kernel_sum_to() - sum a gradient down to the sizes of what was broadcast; a new reference when they are equal */
struct tensor *kernel_sum_to(struct tensor *x, unsigned dims, const int64_t *sizes);

/*
 * kernel_reduce_scratch() - the global memory that a reduction of @x takes and gives back (Reduce.cuh)
 *
 * Nothing when one block per output is enough. @accumulator is the size of an accumulated element: 4 for
 * sums and means of any 16- and 32-bit type, 16 for Welford's variance.
 */
void kernel_reduce_scratch(struct ghost *g,
                           const struct tensor *x,
                           uint32_t dims,
                           unsigned accumulator);

#endif
