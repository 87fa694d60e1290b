/*
 * ghost/kernels.c - the few kernels that autograd itself runs, and that operators share
 *
 * Layouts follow aten/src/ATen/TensorIterator.cpp: the output of an element-wise kernel has its dimensions in the
 * order of its operands' strides.
 */
#include <string.h>

#include "base/num.h"
#include "ghost/kernels.h"

struct tensor *kernel_cast(struct tensor *x, enum dtype dtype)
{
    if (!x || x->dtype == dtype)
        return tensor_ref(x);
    return tensor_like(x->ghost, x, dtype);
}

struct tensor *kernel_clone(struct tensor *x)
{
    return x ? tensor_like(x->ghost, x, x->dtype) : NULL;
}

struct tensor *kernel_contiguous(struct tensor *x)
{
    if (!x || tensor_is_contiguous(x))
        return tensor_ref(x);
    return tensor_new(x->ghost, x->dtype, x->dims, x->sizes);
}

enum dtype kernel_promote(const struct tensor *a, const struct tensor *b)
{
    if (!a || !b)
        return a ? a->dtype : b ? b->dtype : DTYPE_FLOAT32;
    enum dtype x = a->dtype, y = b->dtype;

    if ((a->dims == 0) != (b->dims == 0)) {
        enum dtype scalar = a->dims == 0 ? x : y, other = a->dims == 0 ? y : x;

        if (dtype_defs[scalar].floating <= dtype_defs[other].floating && other != DTYPE_BOOL)
            return other;
    }
    if (x != y && dtype_defs[x].rank == dtype_defs[y].rank)
        return DTYPE_FLOAT32; /* float16 with bfloat16 */
    return dtype_defs[x].rank >= dtype_defs[y].rank ? x : y;
}

/* broadcast() - the common sizes of the operands; false after a failure */
static bool broadcast(struct ghost *g,
                      struct tensor *const *operands,
                      size_t operand_count,
                      unsigned *ret_dims,
                      int64_t *ret_sizes)
{
    unsigned dims = 0;

    for (size_t k = 0; k < operand_count; k++)
        if (operands[k] && operands[k]->dims > dims)
            dims = operands[k]->dims;
    for (unsigned i = 0; i < dims; i++) {
        int64_t size = 1;

        for (size_t k = 0; k < operand_count; k++) {
            const struct tensor *x = operands[k];

            if (!x || i + x->dims < dims)
                continue;
            int64_t own = x->sizes[i + x->dims - dims];

            if (own == 1 || own == size)
                continue;
            if (size != 1) {
                char a[TENSOR_TEXT], b[TENSOR_TEXT];

                ghost_fail(g, PLM_E_MODEL,
                           "sizes %s and %s do not go together; they must be equal or 1 in each "
                           "dimension, counted from the last",
                           tensor_text(operands[0], a), tensor_text(x, b));
                return false;
            }
            size = own;
        }
        ret_sizes[i] = size;
    }
    *ret_dims = dims;
    return true;
}

/* operand_stride() - of the operand in a dimension of the output; 0 where it is broadcast */
static int64_t operand_stride(const struct tensor *x, unsigned dims, unsigned i, int64_t size)
{
    if (!x || i + x->dims < dims)
        return 0;
    unsigned own = i + x->dims - dims;

    return x->sizes[own] == 1 && size != 1 ? 0 : x->strides[own];
}

/* reorder_dimensions(): insertion sort of the dimensions by the operands' strides, fastest first */
static void order_dims(struct tensor *const *operands,
                       size_t operand_count,
                       unsigned dims,
                       const int64_t *sizes,
                       unsigned *perm)
{
    for (unsigned i = 0; i < dims; i++)
        perm[i] = dims - 1 - i;
    for (unsigned i = 1; i < dims; i++) {
        unsigned at = i;

        for (unsigned j = i; j-- > 0;) {
            int comparison = 0;
            unsigned before = perm[j], after = perm[at];

            for (size_t k = 0; k < operand_count && comparison == 0; k++) {
                int64_t s0 = operand_stride(operands[k], dims, before, sizes[before]);
                int64_t s1 = operand_stride(operands[k], dims, after, sizes[after]);

                if (s0 == 0 || s1 == 0)
                    continue;
                if (s0 != s1)
                    comparison = s0 < s1 ? -1 : 1;
                else if (sizes[before] > sizes[after])
                    comparison = 1;
            }
            if (comparison < 0)
                break;
            if (comparison > 0) {
                perm[j] = after;
                perm[at] = before;
                at = j;
            }
        }
    }
}

struct tensor *kernel_pointwise(struct ghost *g,
                                enum dtype dtype,
                                struct tensor *const *operands,
                                size_t operand_count)
{
    const struct tensor *first = operands[0];
    bool same_sizes = true, contiguous = true, channels_last = true, same_strides = true;

    if (g->halt || !first)
        return NULL;
    for (size_t k = 0; k < operand_count; k++) {
        const struct tensor *x = operands[k];

        if (!x || x == first)
            continue;
        same_sizes = same_sizes && tensor_same_sizes(x, first);
        same_strides = same_strides && tensor_same_strides(x, first);
    }
    if (same_sizes && same_strides && tensor_is_contiguous(first))
        return tensor_new(g, dtype, first->dims, first->sizes);
    for (size_t k = 0; k < operand_count; k++) {
        const struct tensor *x = operands[k];

        if (!x)
            continue;
        contiguous = contiguous && tensor_is_contiguous(x);
        channels_last = channels_last && x->dims == 4 && tensor_is_channels_last(x);
    }
    if (same_sizes && contiguous)
        return tensor_new(g, dtype, first->dims, first->sizes);
    int64_t sizes[TENSOR_DIMS], strides[TENSOR_DIMS];

    if (same_sizes && channels_last) {
        tensor_channels_last_strides(first->dims, first->sizes, strides);
        return tensor_new_strided(g, dtype, first->dims, first->sizes, strides);
    }
    if (same_sizes && same_strides && tensor_is_dense(first))
        return tensor_new_strided(g, dtype, first->dims, first->sizes, first->strides);
    unsigned dims, perm[TENSOR_DIMS];
    int64_t stride = 1;

    if (!broadcast(g, operands, operand_count, &dims, sizes))
        return NULL;
    order_dims(operands, operand_count, dims, sizes, perm);
    for (unsigned i = 0; i < dims; i++) {
        strides[perm[i]] = stride;
        if (!num_mul(stride, sizes[perm[i]] > 1 ? sizes[perm[i]] : 1, &stride))
            break; /* tensor_new_strided() refuses it */
    }
    return tensor_new_strided(g, dtype, dims, sizes, strides);
}

struct tensor *kernel_sum_to(struct tensor *x, unsigned dims, const int64_t *sizes)
{
    uint32_t reduced = 0;

    if (!x)
        return NULL;
    if (dims > x->dims) /* a gradient of fewer dimensions is a fault of an operator */
        return ghost_fail(x->ghost, PLM_E_MODEL, "a gradient has fewer dimensions than its tensor");
    unsigned leading = x->dims - dims;

    for (unsigned i = 0; i < x->dims; i++)
        if (i < leading || (sizes[i - leading] == 1 && x->sizes[i] != 1))
            reduced |= 1U << i;
    if (reduced == 0)
        return tensor_ref(x);
    if (dims == 0)
        return kernel_reduce(x, reduced, false, x->dtype);
    TENSOR_AUTO *summed = kernel_reduce(x, reduced, true, x->dtype);

    if (leading == 0 || !summed)
        return tensor_take(&summed);
    return tensor_view(summed, dims, summed->sizes + leading, summed->strides + leading);
}
