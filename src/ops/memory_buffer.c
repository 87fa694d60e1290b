/*
 * ops/memory_buffer.c - Megatron's global memory buffer: memory that is made once and lent again and again
 *
 * Mirrors GlobalMemoryBuffer.get_tensor() of megatron/core/utils.py (megatron-core 0.16.1): one flat tensor of each type, made
 * anew when more is asked for than it has; the old one goes when the new one is there, and nobody uses it.
 */
#include "ops/memory_buffer.h"
#include "ops/ops.h"
#include "ops/shapes.h"

static struct tensor *lend(
    struct ghost *g, struct tensor **buffer, enum dtype dtype, unsigned dims, const int64_t *sizes)
{
    int64_t numel, strides[TENSOR_DIMS];

    if (g->halt)
        return NULL;
    if (!shape_numel(dims, sizes, &numel))
        return ghost_fail(g, PLM_E_RANGE, "a buffer is too large");
    if (!*buffer || tensor_numel(*buffer) < numel) {
        enum category outer = g->category;

        g->category = CATEGORY_COMMUNICATION;
        struct tensor *larger = tensor_new_sizes(g, dtype, numel);

        g->category = outer;
        tensor_drop(*buffer);
        *buffer = larger;
    }
    tensor_contiguous_strides(dims, sizes, strides);
    return *buffer ? tensor_view(*buffer, dims, sizes, strides) : NULL;
}

struct tensor *memory_buffer(struct ghost *g, enum dtype dtype, unsigned dims, const int64_t *sizes)
{
    return lend(g, &g->memory_buffer[0][dtype], dtype, dims, sizes);
}

void op_memory_buffer(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    int64_t sizes[TENSOR_DIMS];
    unsigned dims;

    if (!args->in[0] || !shape_attr(g, args, KEY_SHAPE, &dims, sizes))
        return;
    int64_t number = op_int(args, KEY_NUM);
    enum dtype dtype = op_dtype(g, args);

    if (number < 1 || number > GHOST_BUFFERS) {
        ghost_fail(g, PLM_E_MODEL, "'num' is %lld; 1 to %d were expected", (long long)number,
                   GHOST_BUFFERS);
        return;
    }
    if (dtype == DTYPE_COUNT)
        dtype = args->in[0]->dtype;
    ret[0] = lend(g, &g->memory_buffer[number - 1][dtype], dtype, dims, sizes);
}
