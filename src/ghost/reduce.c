/*
 * ghost/reduce.c - reductions, and the global memory that their kernels take
 *
 * Mirrors aten/src/ATen/native/cuda/Reduce.cuh, setReduceConfig(): when there are few outputs and many inputs, several
 * blocks work on one output, and they meet in a buffer of one value (or, reducing along a slow dimension, one value for each
 * thread of a block's row) for each block, guarded by semaphores. The order is: output, buffer, semaphores.
 */
#include "base/num.h"
#include "ghost/kernels.h"

enum {
    MAX_THREADS = 512, /* max_reduce_threads() */
    WARP = 32,
    VALUES_LEAST = 16, /* min_values_per_thread */
    VALUES_MOST = 256, /* max_values_per_thread */
    VECTOR = 4,        /* input_vec_size, and the largest output_vec_size */
    VECTOR_FROM = 128, /* shorter reductions are not vectorised */
    SPLITS_MOST = 8,
};

/* struct extent - the iterator's dimensions after merging: reduced ones first, each kind fastest first */
struct extent {
    int64_t sizes[TENSOR_DIMS], strides[TENSOR_DIMS];
    unsigned count, reduced;
};

static void add_dim(struct extent *e, unsigned from, int64_t size, int64_t stride)
{
    if (size == 1)
        return;
    if (e->count > from && stride == e->sizes[e->count - 1] * e->strides[e->count - 1]) {
        e->sizes[e->count - 1] *= size;
        return;
    }
    e->sizes[e->count] = size;
    e->strides[e->count++] = stride;
}

/* add_kind() - the reduced or the kept dimensions, in ascending order of strides */
static void add_kind(struct extent *e, const struct tensor *x, uint32_t dims)
{
    unsigned from = e->count;
    uint32_t left = dims;

    while (left) {
        unsigned best = TENSOR_DIMS;

        for (unsigned i = x->dims; i-- > 0;)
            if (left & (1U << i) && (best == TENSOR_DIMS || x->strides[i] < x->strides[best]))
                best = i;
        left &= ~(1U << best);
        add_dim(e, from, x->sizes[best], x->strides[best]);
    }
}

static bool fits_32_bits(const struct extent *e, unsigned itemsize)
{
    int64_t numel = 1, offset = 1;

    for (unsigned i = 0; i < e->count; i++) {
        numel *= e->sizes[i];
        offset += (e->sizes[i] - 1) * e->strides[i] * itemsize;
    }
    return numel <= INT32_MAX && offset <= INT32_MAX;
}

/* output_vector() - get_output_vec_size(): how many neighbouring outputs one thread makes */
static uint64_t output_vector(const struct extent *e)
{
    uint64_t size = VECTOR;

    while (e->sizes[e->reduced] % (int64_t)size != 0)
        size /= 2;
    for (unsigned i = 0; i < e->count; i++)
        if (i != e->reduced)
            while (e->strides[i] % (int64_t)size != 0)
                size /= 2;
    return size;
}

static uint64_t block_limit(uint64_t n, uint64_t most)
{
    return n < most ? num_floor_power2(n) : most;
}

static void scratch_of_kernel(struct ghost *g, const struct extent *e, unsigned accumulator)
{
    uint64_t inputs = 1, outputs = 1, vector = 1;

    for (unsigned i = 0; i < e->count; i++)
        *(i < e->reduced ? &inputs : &outputs) *= (uint64_t)e->sizes[i];
    bool fast =
        e->reduced == e->count || (e->reduced > 0 && e->strides[0] < e->strides[e->reduced]);
    uint64_t dim0 = fast ? inputs : outputs, dim1 = fast ? outputs : inputs;
    bool unit_stride = e->count == 0 || e->strides[fast ? 0 : e->reduced] == 1;

    if (unit_stride && fast && dim0 > VECTOR_FROM && e->reduced == 1) {
        dim0 /= VECTOR;
    } else if (unit_stride && !fast) {
        vector = output_vector(e);
        dim0 /= vector;
    }
    uint64_t threads = MAX_THREADS / vector;
    uint64_t width = num_min(block_limit(dim0, threads), WARP);
    uint64_t height = num_min(block_limit(dim1, threads), threads / width);

    width = num_min(block_limit(dim0, threads), threads / height);
    uint64_t step_input = fast ? width : 1, step_output = fast ? 1 : width;
    uint64_t values = num_ceil_div(inputs, step_input);
    bool rows_reduce = values >= height * VALUES_LEAST || values >= VALUES_MOST;

    if (rows_reduce)
        step_input *= height;
    else
        step_output *= height;
    values = num_ceil_div(inputs, step_input);
    uint64_t grid = num_ceil_div(outputs / vector, step_output);
    uint64_t target =
        (uint64_t)g->around.sm_count * ((uint64_t)g->around.threads_per_sm / (width * height));

    if (!rows_reduce || values < VALUES_MOST || grid > target || grid == 0)
        return;
    uint64_t blocks =
        num_max(num_min(num_ceil_div(target, grid), num_ceil_div(values, VALUES_LEAST)),
                num_ceil_div(values, VALUES_MOST));

    if (blocks <= 1)
        return;
    enum category outer = g->category;

    g->category = CATEGORY_TEMPORARY;
    uint32_t buffer = ghost_alloc(g, accumulator * outputs * blocks * (fast ? 1 : width * vector));

    ghost_scratch(g, 4 * grid);
    ghost_free(g, buffer);
    g->category = outer;
}

/*
 * scratch_of_parts() - TensorIterator::with_32bit_indexing(): halve the longest dimension until offsets fit 32 bits
 *
 * Past 2^SPLITS_MOST parts only the first of two halves is written: the other takes the same again.
 */
static void scratch_of_parts(struct ghost *g,
                             const struct extent *e,
                             unsigned itemsize,
                             unsigned accumulator,
                             unsigned splits)
{
    if (fits_32_bits(e, itemsize)) {
        scratch_of_kernel(g, e, accumulator);
        return;
    }
    unsigned longest = e->count - 1;

    for (unsigned i = e->count - 1; i-- > 0;)
        if ((e->sizes[i] - 1) * e->strides[i] > (e->sizes[longest] - 1) * e->strides[longest])
            longest = i;
    struct extent half = *e;

    half.sizes[longest] = e->sizes[longest] / 2;
    scratch_of_parts(g, &half, itemsize, accumulator, splits + 1);
    if (splits >= SPLITS_MOST)
        return;
    half.sizes[longest] = e->sizes[longest] - e->sizes[longest] / 2;
    scratch_of_parts(g, &half, itemsize, accumulator, splits + 1);
}

void kernel_reduce_scratch(struct ghost *g,
                           const struct tensor *x,
                           uint32_t dims,
                           unsigned accumulator)
{
    struct extent e = { .count = 0 };
    uint32_t all = (1U << x->dims) - 1;

    if (g->halt || !g->schedule || tensor_numel(x) == 0)
        return;
    add_kind(&e, x, dims & all);
    e.reduced = e.count;
    add_kind(&e, x, all & ~dims);
    scratch_of_parts(g, &e, tensor_itemsize(x), accumulator, 0);
}

struct tensor *kernel_reduce(struct tensor *x, uint32_t dims, bool keepdim, enum dtype dtype)
{
    int64_t sizes[TENSOR_DIMS];
    unsigned count = 0;

    if (!x)
        return NULL;
    for (unsigned i = 0; i < x->dims; i++) {
        bool reduced = dims & (1U << i);

        if (!reduced || keepdim)
            sizes[count++] = reduced ? 1 : x->sizes[i];
    }
    struct tensor *y = tensor_new(x->ghost, dtype, count, sizes);

    if (y)
        kernel_reduce_scratch(x->ghost, x, dims, 4);
    return y;
}
