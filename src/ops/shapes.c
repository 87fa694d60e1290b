/* ops/shapes.c - sizes as attributes, in messages, and broadcast */
#include <inttypes.h>
#include <string.h>

#include "base/num.h"
#include "ops/shapes.h"

const char *shape_text(unsigned dims, const int64_t *sizes, char text[TENSOR_TEXT])
{
    struct tensor shape = { .dims = dims < TENSOR_DIMS ? dims : TENSOR_DIMS };

    if (dims > 0)
        memcpy(shape.sizes, sizes, shape.dims * sizeof *sizes);
    return tensor_text(&shape, text);
}

bool shape_attr(struct ghost *g,
                const struct op_args *args,
                enum attr_key key,
                unsigned *ret_dims,
                int64_t *ret_sizes)
{
    const struct attr *attr = op_attr(args, key);

    if (!attr || attr->count > TENSOR_DIMS) {
        ghost_fail(g, PLM_E_MODEL, "'%s' must be a list of at most %d numbers", key_names[key],
                   TENSOR_DIMS);
        return false;
    }
    if (attr->count > 0)
        memcpy(ret_sizes, attr->value.items, attr->count * sizeof *ret_sizes);
    *ret_dims = attr->count;
    return true;
}

uint32_t shape_dims(struct ghost *g, const struct op_args *args, const struct tensor *x)
{
    const struct attr *attr = op_attr(args, KEY_DIM);
    uint32_t dims = 0;

    if (!x)
        return 0;
    if (!attr || attr->count == 0)
        return (1U << x->dims) - 1;
    for (uint32_t i = 0; i < attr->count && !g->halt; i++) {
        uint32_t bit = 1U << tensor_dim(g, x, attr->value.items[i]);

        if (dims & bit && !g->halt)
            ghost_fail(g, PLM_E_MODEL, "dimension %" PRId64 " is named twice in 'dim'",
                       attr->value.items[i]);
        dims |= bit;
    }
    return dims;
}

bool shape_broadcast(struct ghost *g,
                     const struct tensor *a,
                     const struct tensor *b,
                     unsigned *ret_dims,
                     int64_t *ret_sizes)
{
    if (!a || !b)
        return false;
    unsigned dims = a->dims > b->dims ? a->dims : b->dims;

    for (unsigned i = 0; i < dims; i++) {
        int64_t x = i + a->dims < dims ? 1 : a->sizes[i + a->dims - dims];
        int64_t y = i + b->dims < dims ? 1 : b->sizes[i + b->dims - dims];

        if (x != y && x != 1 && y != 1) {
            char left[TENSOR_TEXT], right[TENSOR_TEXT];

            ghost_fail(g, PLM_E_MODEL,
                       "sizes %s and %s do not go together; they must be equal or 1 in each "
                       "dimension, counted from the last",
                       tensor_text(a, left), tensor_text(b, right));
            return false;
        }
        ret_sizes[i] = x == 1 ? y : x;
    }
    *ret_dims = dims;
    return true;
}

bool shape_numel(unsigned dims, const int64_t *sizes, int64_t *ret_numel)
{
    int64_t numel = 1;
    bool empty = false;

    for (unsigned i = 0; i < dims; i++) {
        if (sizes[i] < 0)
            return false;
        empty = empty || sizes[i] == 0;
    }
    for (unsigned i = 0; i < dims && !empty; i++)
        if (!num_mul(numel, sizes[i], &numel))
            return false;
    *ret_numel = empty ? 0 : numel;
    return true;
}
