/*
 * ops/layout.h - memory formats, and memory that a kernel needs only while it runs; no autograd here
 *
 * A format is a bool: channels last (of 4 or 5 dimensions) or contiguous.
 */
#ifndef PLM_OPS_LAYOUT_H
#define PLM_OPS_LAYOUT_H

#include "ghost/tensor.h"

/* layout_new() - empty(sizes, memory_format) */
struct tensor *layout_new(
    struct ghost *g, enum dtype dtype, unsigned dims, const int64_t *sizes, bool channels_last);

/* layout_contiguous() - x.contiguous(memory_format): a new reference when it is so, else a copy */
struct tensor *layout_contiguous(struct tensor *x, bool channels_last);

/* layout_merges() - can the dimensions from @first on be viewed as one */
bool layout_merges(const struct tensor *x, unsigned first);

/* scratch_new(), scratch_copy() - tensor_new() and layout_contiguous(), counted as a kernel's own memory */
struct tensor *scratch_new(struct ghost *g, enum dtype dtype, unsigned dims, const int64_t *sizes);
struct tensor *scratch_copy(struct tensor *x, bool channels_last);
#define scratch_sizes(g, dtype, ...)                                                               \
    scratch_new(g, dtype, sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t),                    \
                (int64_t[]){ __VA_ARGS__ })

/* layout_accumulate() - the type in which a kernel sums: float32, or float64 for float64 */
static inline enum dtype layout_accumulate(enum dtype dtype)
{
    return dtype == DTYPE_FLOAT64 ? dtype : DTYPE_FLOAT32;
}

#endif
