/*
 * ops/embedding.c - rows of a table, by index; and their gradient, which is a sort
 *
 * Mirrors aten/src/ATen/native/Embedding.cpp, cuda/Embedding.cu and cuda/EmbeddingBackwardKernel.cu (PyTorch 2.15; 2.11
 * where the framework says so). Up to 3072 indices the gradient is scattered at once. Above that, indices are sorted,
 * cut into segments of equal indices and those into partial segments of 10, which are summed in float32:
 * partial segments <= n / 10 + min(n, rows).
 */
#include "ops/embedding.h"
#include "base/num.h"
#include "ghost/kernels.h"
#include "ops/layout.h"
#include "ops/ops.h"
#include "ops/sort.h"

enum {
    SCATTERED_MOST = 3072, /* indices that are not sorted */
    SEGMENT = 10,          /* NROWS_PER_THREAD */
    ALIGNMENT = 256,       /* of arrays in cub's temporary storage */
};

/* sort_bytes() - cub's radix sort of n pairs; measured on the ghost GPU, see sort.c for int64 */
static plm_bytes sort_bytes(const struct ghost *g, uint64_t n, enum dtype index, uint64_t rows)
{
    enum { SINGLE_TILE = 4864, TILE = 6528, TILE_TURING = 11776, DIGIT_BITS = 8, DIGITS = 256 };
    bool few_bits = g->around.framework->embedding_sorts_bits;

    if (index == DTYPE_INT64)
        return sort_scratch(g, n, few_bits ? rows : INT64_MAX);
    if (n <= SINGLE_TILE)
        return 1;
    uint64_t tile = g->around.cc >= 80 ? TILE : TILE_TURING;
    uint64_t passes = num_ceil_div(few_bits ? num_log2(rows) + 1 : 32, DIGIT_BITS);

    return ALIGNMENT - 1 + passes * DIGITS * sizeof(uint64_t) +
           num_ceil_div(n, tile) * DIGITS * sizeof(uint32_t) + ALIGNMENT +
           (passes > 1 ? 2 * num_round_up(n * sizeof(int32_t), ALIGNMENT) : 0);
}

/* unique_bytes() - cub's unique-by-key over n keys; tiles found by bisection on six GPUs, the same way */
static plm_bytes unique_bytes(const struct ghost *g, uint64_t n, enum dtype index)
{
    enum { PADDING = 32, TILE_STATE = 16, NARROW_STATE = 8 };
    bool newer = g->around.framework->embedding_sorts_bits, wide = index == DTYPE_INT64;
    uint64_t tile = wide ? 320 : 704;

    if (g->around.cc >= 90)
        tile = !wide ? 7168 : newer ? 4864 : 4480;
    else if (g->around.cc == 80)
        tile = !wide ? 2816 : newer ? 1344 : 1792;
    uint64_t tiles = num_ceil_div(n, tile);
    uint64_t state =
        g->around.framework->scan_narrow ? NARROW_STATE * tiles : TILE_STATE * (tiles + PADDING);

    return ALIGNMENT - 1 + ALIGNMENT + num_round_up(state, ALIGNMENT);
}

/* embedding_backward_cuda_kernel() */
static void sum_segments(
    struct ghost *g, int64_t n, int64_t rows, int64_t width, enum dtype index, enum dtype dtype)
{
    int64_t segments = n < rows ? n : rows, partial = n / SEGMENT + segments;
    const struct framework *framework = g->around.framework;
    bool few_rows = framework->embedding_few_rows && rows < 4 * (int64_t)g->around.sm_count &&
                    n / SEGMENT > 3 * rows;
    enum dtype wide = layout_accumulate(dtype);
    TENSOR_AUTO *offsets = scratch_sizes(g, index, n);
    TENSOR_AUTO *count = scratch_sizes(g, DTYPE_INT64, 1);
    TENSOR_AUTO *dummy = scratch_sizes(g, index, n);

    ghost_scratch(g, unique_bytes(g, (uint64_t)n, index));
    tensor_drop(tensor_take(&dummy));
    TENSOR_AUTO *partials = scratch_sizes(g, index, segments);
    TENSOR_AUTO *partial_starts = scratch_sizes(g, index, segments);

    ghost_scratch(g, scan_scratch(g, (uint64_t)segments, index));
    TENSOR_AUTO *partial_count = scratch_sizes(g, DTYPE_INT64, 1);
    TENSOR_AUTO *partial_offsets = scratch_sizes(g, index, partial);
    TENSOR_AUTO *sums = NULL, *wide_rows = NULL;

    if (!few_rows) {
        sums = scratch_sizes(g, wide, partial, width);
        return;
    }
    sums = scratch_sizes(g, index, partial);
    if (wide != dtype)
        wide_rows = scratch_sizes(g, wide, rows, width);
}

/* embedding_dense_backward_cuda() */
static void embedding_apply(struct ghost *g,
                            struct node *n,
                            struct tensor *const *grads,
                            struct tensor **ret)
{
    TENSOR_AUTO *indices = node_saved(n, 0);

    if (g->halt)
        return;
    const struct output *weight = node_input(n, 0);
    int64_t rows = weight->sizes[0], width = weight->sizes[1], count = tensor_numel(indices);
    enum dtype dtype = grads[0]->dtype, index = indices->dtype;
    TENSOR_AUTO *grad = scratch_copy(grads[0], false);
    TENSOR_AUTO *dense = scratch_copy(indices, false);
    TENSOR_AUTO *sorted = NULL, *original = NULL;

    if (count > SCATTERED_MOST) {
        sorted = scratch_sizes(g, index, count);
        original = scratch_sizes(g, index, count);
        TENSOR_AUTO *range = scratch_sizes(g, index, count);

        ghost_scratch(g, sort_bytes(g, (uint64_t)count, index, (uint64_t)rows));
    }
    ret[0] = tensor_new_sizes(g, dtype, rows, width);
    if (count > SCATTERED_MOST)
        sum_segments(g, count, rows, width, index, dtype);
}

static const struct backward embedding_backward = { "EmbeddingBackward0", embedding_apply };

struct tensor *embedding_rows(struct tensor *weight, struct tensor *indices)
{
    struct ghost *g = weight->ghost;
    struct node *n = node_new(g, &embedding_backward, &weight, 1, 1, 0);
    int64_t sizes[TENSOR_DIMS];

    node_save(n, 0, indices);
    /* index_select(0, indices.reshape(-1)).view(…) */
    TENSOR_AUTO *flat = indices->dims == 1 || layout_merges(indices, 0)
                            ? tensor_ref(indices)
                            : scratch_copy(indices, false);

    for (unsigned i = 0; i < indices->dims; i++)
        sizes[i] = indices->sizes[i];
    sizes[indices->dims] = weight->sizes[1];
    return node_attach(n, tensor_new(g, weight->dtype, indices->dims + 1, sizes));
}

void op_embedding(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    struct tensor *indices = args->in[0];
    int64_t table[] = { op_int(args, KEY_NUM), op_int(args, KEY_FEATURES) };

    if (!indices || g->halt)
        return;
    if (indices->dtype != DTYPE_INT64 && indices->dtype != DTYPE_INT32) {
        ghost_fail(g, PLM_E_MODEL, "the indices are %s; int64 or int32 was expected",
                   dtype_defs[indices->dtype].name);
        return;
    }
    if (table[0] < 1 || table[1] < 1) {
        ghost_fail(g, PLM_E_MODEL, "'num' is %lld and 'features' %lld; at least 1 was expected",
                   (long long)table[0], (long long)table[1]);
        return;
    }
    if (indices->dims == TENSOR_DIMS) {
        ghost_fail(g, PLM_E_MODEL, "the indices have %u dimensions; at most %d are supported",
                   indices->dims, TENSOR_DIMS - 1);
        return;
    }
    struct tensor *weight = op_own_parameter(args, 0, "weight", 2, table);

    if (!weight || g->halt)
        return;
    ret[0] = embedding_rows(weight, indices);
}
