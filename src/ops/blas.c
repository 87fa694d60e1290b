/*
 * ops/blas.c - what cuBLAS and cuBLASLt are asked for
 *
 * Mirrors aten/src/ATen/native/cuda/Blas.cpp (prepare_matrix_for_cublas) and ATen/cuda/CublasHandlePool.cpp. cuBLAS is
 * column-major and the output row-major, so that the second operand is its first.
 */
#include <string.h>

#include "ops/blas.h"

enum { CALLS_MOST = 1 << 17 }; /* each is two events of the schedule */

/* CublasHandlePool.cpp, parseChosenWorkspaceSize(): ":4096:2:16:8", and 32 MiB since Hopper */
static const plm_bytes blas_bytes = 2 * 4096 * 1024 + 8 * 16 * 1024;
static const plm_bytes blas_bytes_hopper = 8 * 4096 * 1024;
/* CUDABlas.cpp, CUBLASLT_WORKSPACE_SIZE: 1024 KiB */
static const plm_bytes lt_bytes = 1024 * 1024;

/* keep_workspace() - where the version caches workspaces, a thread's first call allocates it for good */
static void keep_workspace(struct ghost *g, struct tensor **kept, plm_bytes bytes)
{
    enum category outer = g->category;

    if (*kept)
        return;
    g->category = CATEGORY_WORKSPACE;
    *kept = tensor_new_bytes(g, bytes);
    g->category = outer;
}

void blas_workspace(struct ghost *g)
{
    int major = g->around.cc / 10;
    bool large = major == 9 || (major >= 10 && g->around.framework->blackwell_32mib);
    plm_bytes bytes = large ? blas_bytes_hopper : blas_bytes;

    if (g->around.framework->blas_cached)
        keep_workspace(g, &g->blas_workspace[g->thread], bytes);
    else
        ghost_workspace(g, bytes);
}

void blas_calls(struct ghost *g, int64_t count)
{
    if (count > CALLS_MOST)
        ghost_fail(g, PLM_E_RANGE, "%lld products one after another; at most %d are followed",
                   (long long)count, CALLS_MOST);
    for (int64_t i = 0; i < count && !g->halt; i++)
        blas_workspace(g);
}

void blas_lt_workspace(struct ghost *g)
{
    /* cuBLASLt's handle is cuBLAS's, and asking for that sets up its workspace where it is cached */
    if (g->around.framework->lt_cached) {
        blas_workspace(g);
        keep_workspace(g, &g->lt_workspace[g->thread], lt_bytes);
        return;
    }
    enum category outer = g->category;

    g->category = CATEGORY_WORKSPACE;
    TENSOR_AUTO *workspace = tensor_new_bytes(g, lt_bytes);

    g->category = outer;
    if (g->around.framework->blas_cached)
        blas_workspace(g);
}

/* ------------------------------------------------------------------ kernels, without autograd */

/* blas_copy() - a clone of a matrix (the last two dimensions) that cuBLAS cannot read; NULL for one that it can */
static struct tensor *blas_copy(struct tensor *x)
{
    unsigned rows = x->dims - 2, columns = x->dims - 1;
    int64_t row = x->strides[rows], column = x->strides[columns];
    int64_t height = x->sizes[rows], width = x->sizes[columns];

    if ((row == 1 && column >= (height > 1 ? height : 1)) ||
        (column == 1 && row >= (width > 1 ? width : 1)))
        return NULL;
    if (x->dims == 2 ? tensor_is_dense(x) : tensor_is_contiguous(x) && row != 0 && column != 0)
        return NULL;
    return tensor_new(x->ghost, x->dtype, x->dims, x->sizes);
}

/* blas_product() - [.., m, k] times [.., k, n]: sizes are right; @lt: the product goes through cuBLASLt */
struct tensor *blas_product(struct tensor *a, struct tensor *b, bool lt)
{
    struct ghost *g = a->ghost;
    int64_t sizes[TENSOR_DIMS];

    memcpy(sizes, a->sizes, a->dims * sizeof *sizes);
    sizes[a->dims - 1] = b->sizes[b->dims - 1];
    struct tensor *out = tensor_new(g, a->dtype, a->dims, sizes);

    if (!out || tensor_numel(out) == 0 || a->sizes[a->dims - 1] == 0)
        return out;
    enum category outer = g->category;

    g->category = CATEGORY_TEMPORARY;
    /* the output is row-major and cuBLAS column-major: b is its first operand */
    TENSOR_AUTO *copy_b = blas_copy(b);
    TENSOR_AUTO *copy_a = blas_copy(a);

    g->category = outer;
    if (lt)
        blas_lt_workspace(g);
    else
        blas_workspace(g);
    return out;
}

struct tensor *blas_turned(struct tensor *x)
{
    struct tensor *y = x ? tensor_view(x, x->dims, x->sizes, x->strides) : NULL;

    if (y) {
        unsigned d = y->dims - 2;

        y->sizes[d] = x->sizes[d + 1];
        y->sizes[d + 1] = x->sizes[d];
        y->strides[d] = x->strides[d + 1];
        y->strides[d + 1] = x->strides[d];
    }
    return y;
}
