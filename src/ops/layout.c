/* ops/layout.c - memory formats, and memory that a kernel needs only while it runs */
#include "ops/layout.h"

struct tensor *layout_new(
    struct ghost *g, enum dtype dtype, unsigned dims, const int64_t *sizes, bool channels_last)
{
    int64_t strides[TENSOR_DIMS];

    if (!channels_last || (dims != 4 && dims != 5))
        return tensor_new(g, dtype, dims, sizes);
    tensor_channels_last_strides(dims, sizes, strides);
    return tensor_new_strided(g, dtype, dims, sizes, strides);
}

struct tensor *layout_contiguous(struct tensor *x, bool channels_last)
{
    if (!x || (channels_last ? tensor_is_channels_last(x) : tensor_is_contiguous(x)))
        return tensor_ref(x);
    return layout_new(x->ghost, x->dtype, x->dims, x->sizes, channels_last);
}

bool layout_merges(const struct tensor *x, unsigned first)
{
    unsigned last = x->dims; /* the previous dimension that is not 1 */

    for (unsigned i = x->dims; i-- > first;) {
        if (x->sizes[i] == 0)
            return true;
        if (x->sizes[i] == 1)
            continue;
        if (last < x->dims && x->strides[i] != x->strides[last] * x->sizes[last])
            return false;
        last = i;
    }
    return true;
}

struct tensor *scratch_new(struct ghost *g, enum dtype dtype, unsigned dims, const int64_t *sizes)
{
    enum category outer = g->category;

    g->category = CATEGORY_TEMPORARY;
    struct tensor *x = tensor_new(g, dtype, dims, sizes);

    g->category = outer;
    return x;
}

struct tensor *scratch_copy(struct tensor *x, bool channels_last)
{
    if (!x)
        return NULL;
    enum category outer = x->ghost->category;

    x->ghost->category = CATEGORY_TEMPORARY;
    struct tensor *y = layout_contiguous(x, channels_last);

    x->ghost->category = outer;
    return y;
}
