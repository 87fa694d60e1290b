/*
 * ghost/tensor.c - ghosts of tensors
 *
 * Invariants: a storage lives exactly as long as a tensor refers to it, and its bytes are allocated exactly as long;
 * a size is never negative; the number of elements times 8 fits in 63 bits.
 */
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "ghost/autograd.h"

static struct tensor *make(struct ghost *g, enum dtype dtype, unsigned dims, const int64_t *sizes)
{
    struct tensor *x = pool_alloc(&g->pool, sizeof *x);

    x->ghost = g;
    x->refs = 1;
    x->dtype = dtype;
    x->dims = dims;
    if (dims > 0)
        memcpy(x->sizes, sizes, dims * sizeof *sizes);
    return x;
}

/* checked_bytes() - the size of a dense tensor, or a failure that names it */
static bool checked_bytes(
    struct ghost *g, enum dtype dtype, unsigned dims, const int64_t *sizes, plm_bytes *ret)
{
    int64_t numel = 1, limit;
    bool fits = true, negative = false, empty = false;

    for (unsigned i = 0; i < dims; i++) {
        negative = negative || sizes[i] < 0;
        empty = empty || sizes[i] == 0;
        fits = fits && num_mul(numel, sizes[i], &numel);
    }
    if (negative) {
        ghost_fail(g, PLM_E_MODEL, "a size is negative");
        return false;
    }
    if (!empty && (!fits || !num_mul(numel, 8, &limit))) {
        ghost_fail(g, PLM_E_RANGE, "a tensor has more than 2^60 elements");
        return false;
    }
    *ret = empty ? 0 : (plm_bytes)numel * dtype_defs[dtype].bytes;
    return true;
}

struct tensor *tensor_new_strided(
    struct ghost *g, enum dtype dtype, unsigned dims, const int64_t *sizes, const int64_t *strides)
{
    plm_bytes bytes;

    if (g->halt)
        return NULL;
    if (dims > TENSOR_DIMS)
        return ghost_fail(g, PLM_E_MODEL, "%u dimensions; %d are supported", dims, TENSOR_DIMS);
    if (!checked_bytes(g, dtype, dims, sizes, &bytes))
        return NULL;
    struct tensor *x = make(g, dtype, dims, sizes);

    if (dims > 0)
        memcpy(x->strides, strides, dims * sizeof *strides);
    x->storage = pool_alloc(&g->pool, sizeof *x->storage);
    *x->storage =
        (struct storage){ .bytes = bytes, .refs = 1, .allocation = ghost_alloc(g, bytes) };
    return x;
}

void tensor_contiguous_strides(unsigned dims, const int64_t *sizes, int64_t *ret_strides)
{
    int64_t stride = 1;

    for (unsigned i = dims; i-- > 0;) {
        ret_strides[i] = stride;
        /* an overflowing stride belongs to a tensor that tensor_new() refuses */
        if (!num_mul(stride, sizes[i] > 1 ? sizes[i] : 1, &stride))
            stride = 1;
    }
}

void tensor_channels_last_strides(unsigned dims, const int64_t *sizes, int64_t *ret_strides)
{
    int64_t stride = sizes[1] > 1 ? sizes[1] : 1;

    ret_strides[1] = 1;
    for (unsigned i = dims; i-- > 2;) {
        ret_strides[i] = stride;
        if (!num_mul(stride, sizes[i] > 1 ? sizes[i] : 1, &stride))
            stride = 1;
    }
    ret_strides[0] = stride;
}

struct tensor *tensor_new(struct ghost *g, enum dtype dtype, unsigned dims, const int64_t *sizes)
{
    int64_t strides[TENSOR_DIMS] = { 0 };

    if (dims <= TENSOR_DIMS)
        tensor_contiguous_strides(dims, sizes, strides);
    return tensor_new_strided(g, dtype, dims, sizes, strides);
}

struct tensor *tensor_new_scalar(struct ghost *g, enum dtype dtype)
{
    return tensor_new(g, dtype, 0, NULL);
}

struct tensor *tensor_new_bytes(struct ghost *g, plm_bytes bytes)
{
    return tensor_new(g, DTYPE_UINT8, 1, &(int64_t){ (int64_t)bytes });
}

/* goes_after() - must dimension @a lie outside of @b in memory? 0: either way */
static int goes_after(const struct tensor *x, unsigned a, unsigned b)
{
    if (x->strides[a] == 0 || x->strides[b] == 0)
        return 0;
    if (x->strides[a] != x->strides[b])
        return x->strides[a] < x->strides[b] ? -1 : 1;
    return x->sizes[a] > x->sizes[b] ? 1 : 0;
}

/* dense_strides() - the same order of dimensions without gaps (aten/src/ATen/ExpandUtils.cpp, infer_dense_strides) */
static void dense_strides(const struct tensor *x, int64_t *ret)
{
    unsigned order[TENSOR_DIMS]; /* from the innermost */
    int64_t stride = 1;

    for (unsigned i = 0; i < x->dims; i++)
        order[i] = x->dims - 1 - i;
    for (unsigned i = 1; i < x->dims; i++) {
        unsigned at = i;

        for (unsigned k = i; k-- > 0;) {
            int comparison = goes_after(x, order[k], order[at]);

            if (comparison < 0)
                break;
            if (comparison == 0)
                continue;
            unsigned moved = order[k];

            order[k] = order[at];
            order[at] = moved;
            at = k;
        }
    }
    for (unsigned i = 0; i < x->dims; i++) {
        ret[order[i]] = stride;
        stride *= x->sizes[order[i]] > 1 ? x->sizes[order[i]] : 1;
    }
}

struct tensor *tensor_like(struct ghost *g, const struct tensor *x, enum dtype dtype)
{
    int64_t strides[TENSOR_DIMS];

    if (!x)
        return NULL;
    if (tensor_is_dense(x))
        return tensor_new_strided(g, dtype, x->dims, x->sizes, x->strides);
    dense_strides(x, strides);
    return tensor_new_strided(g, dtype, x->dims, x->sizes, strides);
}

struct tensor *tensor_view(struct tensor *x,
                           unsigned dims,
                           const int64_t *sizes,
                           const int64_t *strides)
{
    if (!x || x->ghost->halt)
        return NULL;
    struct tensor *y = make(x->ghost, x->dtype, dims, sizes);

    if (dims > 0)
        memcpy(y->strides, strides, dims * sizeof *strides);
    y->storage = x->storage;
    y->storage->refs++;
    y->view = true;
    y->base_requires_grad = x->requires_grad || x->base_requires_grad;
    return y;
}

struct tensor *tensor_detach(struct tensor *x)
{
    struct tensor *y = x ? tensor_view(x, x->dims, x->sizes, x->strides) : NULL;

    if (y) {
        y->view = x->view;
        y->base_requires_grad = false;
    }
    return y;
}

void tensor_release_storage(struct tensor *x)
{
    if (!x)
        return;
    ghost_free(x->ghost, x->storage->allocation);
    x->storage->allocation = 0;
}

void tensor_restore_storage(struct tensor *x)
{
    if (x && x->storage->allocation == 0)
        x->storage->allocation = ghost_alloc(x->ghost, x->storage->bytes);
}

void tensor_renew_storage(struct tensor *x)
{
    uint32_t old = x ? x->storage->allocation : 0;

    if (!x)
        return;
    x->storage->allocation = ghost_alloc(x->ghost, x->storage->bytes);
    ghost_free(x->ghost, old);
}

static void storage_drop(struct ghost *g, struct storage *storage)
{
    if (--storage->refs > 0)
        return;
    ghost_free(g, storage->allocation);
    pool_free(&g->pool, storage, sizeof *storage);
}

void tensor_set_data(struct tensor *x, struct tensor *from)
{
    if (!x || !from)
        return;
    from->storage->refs++;
    storage_drop(x->ghost, x->storage);
    x->storage = from->storage;
}

void tensor_resize(struct tensor *x, unsigned dims, const int64_t *sizes)
{
    if (!x || dims > TENSOR_DIMS)
        return;
    struct storage *storage = x->storage;

    x->dims = dims;
    memcpy(x->sizes, sizes, dims * sizeof *sizes);
    tensor_contiguous_strides(dims, sizes, x->strides);
    plm_bytes bytes = tensor_bytes(x);

    if (bytes <= storage->bytes)
        return;
    uint32_t allocation = ghost_alloc(x->ghost, bytes);

    ghost_free(x->ghost, storage->allocation);
    *storage = (struct storage){ .bytes = bytes, .refs = storage->refs, .allocation = allocation };
}

struct tensor *tensor_ref(struct tensor *x)
{
    if (x)
        x->refs++;
    return x;
}

void tensor_drop(struct tensor *x)
{
    if (!x || --x->refs > 0)
        return;
    struct ghost *g = x->ghost;

    storage_drop(g, x->storage);
    tensor_drop(x->grad);
    node_drop(x->grad_fn);
    pool_free(&g->pool, x, sizeof *x);
}

int64_t tensor_numel(const struct tensor *x)
{
    int64_t numel = 1;

    for (unsigned i = 0; i < x->dims; i++)
        if (x->sizes[i] == 0)
            return 0;
    /* without a 0 the product fits: it was checked when the tensor was made, or expanded */
    for (unsigned i = 0; i < x->dims; i++)
        numel *= x->sizes[i];
    return numel;
}

plm_bytes tensor_bytes(const struct tensor *x)
{
    return (plm_bytes)tensor_numel(x) * tensor_itemsize(x);
}

bool tensor_is_floating(const struct tensor *x)
{
    return x && dtype_defs[x->dtype].floating;
}

static bool strides_are(const struct tensor *x, const int64_t *wanted)
{
    for (unsigned i = 0; i < x->dims; i++) {
        if (x->sizes[i] == 0)
            return true;
        if (x->sizes[i] != 1 && x->strides[i] != wanted[i])
            return false;
    }
    return true;
}

bool tensor_is_contiguous(const struct tensor *x)
{
    int64_t stride = 1;

    for (unsigned i = x->dims; i-- > 0;) {
        if (x->sizes[i] == 1)
            continue;
        if (x->strides[i] != stride)
            return tensor_numel(x) == 0;
        stride *= x->sizes[i];
    }
    return true;
}

bool tensor_is_channels_last(const struct tensor *x)
{
    int64_t wanted[TENSOR_DIMS];

    if (x->dims != 4 && x->dims != 5)
        return false;
    tensor_channels_last_strides(x->dims, x->sizes, wanted);
    return strides_are(x, wanted);
}

/* c10/core/MemoryFormat.h, is_channels_last_strides_2d: ambiguous layouts (N111, N11W…) count as contiguous */
bool tensor_suggests_channels_last(const struct tensor *x)
{
    static const unsigned orders[2][5] = { { 1, 3, 2, 0 }, { 1, 4, 3, 2, 0 } };
    int64_t least = 0;

    if ((x->dims != 4 && x->dims != 5) || x->strides[1] == 0)
        return false;
    for (unsigned i = 0; i < x->dims; i++) {
        unsigned d = orders[x->dims - 4][i];

        if (x->sizes[d] == 0 || x->strides[d] < least)
            return false;
        if (d == 0 && least == x->strides[1])
            return false;
        least = x->strides[d];
        /* past 2^63 only an empty tensor's strides go, and it has a 0 further on */
        if (x->sizes[d] > 1 && !num_mul(least, x->sizes[d], &least))
            return false;
    }
    return true;
}

bool tensor_is_dense(const struct tensor *x)
{
    if (tensor_is_contiguous(x))
        return true;
    /* every dimension in order of strides must continue where the last one ended */
    bool used[TENSOR_DIMS] = { false };
    int64_t stride = 1;

    for (unsigned n = 0; n < x->dims; n++) {
        unsigned next = TENSOR_DIMS;

        for (unsigned i = 0; i < x->dims; i++)
            if (!used[i] && (x->sizes[i] < 2 || x->strides[i] == stride)) {
                next = i;
                break;
            }
        if (next == TENSOR_DIMS)
            return false;
        used[next] = true;
        stride *= x->sizes[next];
    }
    return true;
}

bool tensor_same_sizes(const struct tensor *a, const struct tensor *b)
{
    return a->dims == b->dims &&
           (a->dims == 0 || memcmp(a->sizes, b->sizes, a->dims * sizeof *a->sizes) == 0);
}

bool tensor_same_strides(const struct tensor *a, const struct tensor *b)
{
    return a->dims == b->dims &&
           (a->dims == 0 || memcmp(a->strides, b->strides, a->dims * sizeof *a->strides) == 0);
}

bool tensor_requires_grad(const struct tensor *x)
{
    return x && x->requires_grad;
}

unsigned tensor_dim(struct ghost *g, const struct tensor *x, int64_t dim)
{
    unsigned dims = x ? x->dims : 1;
    int64_t places = dims ? dims : 1; /* a scalar counts as one dimension */
    int64_t index = dim < 0 ? dim + places : dim;

    if (index < 0 || index >= places) {
        ghost_fail(g, PLM_E_MODEL, "dimension %lld is out of range for a tensor of %u dimensions",
                   (long long)dim, dims);
        return 0;
    }
    return (unsigned)index;
}

const char *tensor_text(const struct tensor *x, char text[TENSOR_TEXT])
{
    int length = snprintf(text, TENSOR_TEXT, "[");

    for (unsigned i = 0; x && i < x->dims && length < TENSOR_TEXT; i++)
        length += snprintf(text + length, TENSOR_TEXT - (size_t)length, "%s%lld", i ? ", " : "",
                           (long long)x->sizes[i]);
    if (length < TENSOR_TEXT)
        snprintf(text + length, TENSOR_TEXT - (size_t)length, "]");
    return text;
}
