/*
 * tests/doubles/libraries/libraries.c - doubles of cuBLAS, cuBLASLt, cuDNN and NCCL: each is this file under its library's name
 *
 * Handles take device memory, as world.h's settings say; products move the clock. Nothing is computed.
 */
#include <stdlib.h>

#include "device/cublaslt_stand_in.h"
#include "device/library.h"
#include "world.h"

#define CALL(library, need, result, symbol, member, arguments) EXPORT result symbol arguments;
#include "device/library_calls.def"
#undef CALL

/* struct handle - of any library */
struct handle {
    uint64_t bytes; /* that it holds */
    bool has_workspace, loaded;
};

enum { FAILED = 3 };

static int create(void **ret, uint64_t bytes)
{
    struct handle *handle;

    if (world_context() != 0 || !world_take(bytes))
        return FAILED;
    handle = calloc(1, sizeof *handle);
    handle->bytes = bytes;
    world()->self->mappings++;
    *ret = handle;
    return 0;
}

static int destroy(void *handle)
{
    world_give(((struct handle *)handle)->bytes);
    world()->self->mappings--;
    free(handle);
    return 0;
}

int cublasCreate_v2(void **handle)
{
    ENTER(cublasCreate);
    return create(handle, world()->set.cublas);
}

int cublasDestroy_v2(void *handle)
{
    ENTER(cublasDestroy);
    return destroy(handle);
}

int cublasSetWorkspace_v2(void *handle, void *workspace, size_t bytes)
{
    ENTER(cublasSetWorkspace);
    ((struct handle *)handle)->has_workspace = workspace && bytes > 0;
    return 0;
}

/* grow() - the handle takes more */
static bool grow(struct handle *handle, uint64_t bytes)
{
    if (!world_take(bytes))
        return false;
    handle->bytes += bytes;
    return true;
}

static enum world_rate rate_of(int type, int compute)
{
    if (type == LIBRARY_FLOAT16)
        return RATE_FP16;
    if (type == LIBRARY_BFLOAT16)
        return RATE_BF16;
    return compute == LIBRARY_COMPUTE_32F_TF32 ? RATE_TF32 : RATE_FP32;
}

int cublasGemmEx(void *handle,
                 int transpose_a,
                 int transpose_b,
                 int m,
                 int n,
                 int k,
                 const void *alpha,
                 const void *a,
                 int a_type,
                 int a_stride,
                 const void *b,
                 int b_type,
                 int b_stride,
                 const void *beta,
                 void *c,
                 int c_type,
                 int c_stride,
                 int compute_type,
                 int algorithm)
{
    static bool kernels; /* loaded by the process's first product */
    struct handle *h = handle;

    ENTER(cublasGemmEx);
    if (!kernels && !grow(h, world()->set.cublas_kernels))
        return FAILED;
    kernels = true;
    if (!h->has_workspace && !h->loaded && !grow(h, world()->set.cublas_workspace))
        return FAILED;
    h->loaded = true;
    world_work(rate_of(a_type, compute_type), 2.0 * m * n * k);
    return 0;
}

int cublasLtCreate(void **handle)
{
    ENTER(cublasLtCreate);
    return create(handle, world()->set.cublaslt);
}

int cublasLtDestroy(void *handle)
{
    ENTER(cublasLtDestroy);
    return destroy(handle);
}

/* Any product has an algorithm that takes this much. */
enum { LT_WORKSPACE = 1000 };

EXPORT int cublasLtMatmulPreferenceCreate(void **preference)
{
    *preference = calloc(1, sizeof(struct handle));
    return 0;
}

EXPORT int cublasLtMatmulPreferenceSetAttribute(void *preference,
                                                int attribute,
                                                const void *value,
                                                size_t bytes)
{
    return 0;
}

EXPORT int cublasLtMatmulAlgoGetHeuristic(void *handle,
                                          void *product,
                                          void *a,
                                          void *b,
                                          void *c,
                                          void *d,
                                          void *preference,
                                          int requested,
                                          struct cublaslt_result *results,
                                          int *ret_count)
{
    results[0] = (struct cublaslt_result){ .workspace = LT_WORKSPACE };
    *ret_count = 1;
    return 0;
}

/* struct layout - of a matrix; descriptions of a product are layouts of nothing */
struct layout {
    int type;
    bool transposed;
    uint64_t rows, columns;
};

static int make_layout(void **ret, struct layout layout)
{
    struct layout *made = calloc(1, sizeof *made);

    *made = layout;
    world()->self->mappings++;
    *ret = made;
    return 0;
}

static int drop_layout(void *layout)
{
    world()->self->mappings--;
    free(layout);
    return 0;
}

int cublasLtMatmulDescCreate(void **operation, int compute_type, int scale_type)
{
    ENTER(cublasLtMatmulDescCreate);
    if (compute_type != LIBRARY_COMPUTE_32F || scale_type != LIBRARY_FLOAT32)
        return FAILED;
    return make_layout(operation, (struct layout){ 0 });
}

int cublasLtMatmulDescDestroy(void *operation)
{
    ENTER(cublasLtMatmulDescDestroy);
    return drop_layout(operation);
}

int cublasLtMatmulDescSetAttribute(void *operation, int attribute, const void *value, size_t bytes)
{
    ENTER(cublasLtMatmulDescSetAttribute);
    if (attribute != LIBRARY_DESC_TRANSPOSE_A || bytes != sizeof(int))
        return FAILED;
    ((struct layout *)operation)->transposed = *(const int *)value == LIBRARY_TRANSPOSED;
    return 0;
}

int cublasLtMatrixLayoutCreate(
    void **layout, int type, uint64_t rows, uint64_t columns, int64_t stride)
{
    ENTER(cublasLtMatrixLayoutCreate);
    if (stride < (int64_t)rows)
        return FAILED;
    return make_layout(layout, (struct layout){ .type = type, .rows = rows, .columns = columns });
}

int cublasLtMatrixLayoutDestroy(void *layout)
{
    ENTER(cublasLtMatrixLayoutDestroy);
    return drop_layout(layout);
}

/* as NVIDIA's: fp8 only with the first factor transposed, on a GPU that has it, to a 16-bit type */
int cublasLtMatmul(void *handle,
                   void *operation,
                   const void *alpha,
                   const void *a,
                   void *a_layout,
                   const void *b,
                   void *b_layout,
                   const void *beta,
                   const void *c,
                   void *c_layout,
                   void *d,
                   void *d_layout,
                   const void *algorithm,
                   void *workspace,
                   size_t workspace_bytes,
                   void *stream)
{
    const struct layout *x = a_layout, *y = b_layout, *z = d_layout;

    ENTER(cublasLtMatmul);
    if (x->type != LIBRARY_E4M3 || y->type != LIBRARY_E4M3 || z->type != LIBRARY_BFLOAT16 ||
        !((struct layout *)operation)->transposed || world()->set.capability < 89)
        return FAILED;
    world_work(RATE_FP8, 2.0 * (double)x->columns * (double)y->columns * (double)x->rows);
    return 0;
}

int cudnnCreate(void **handle)
{
    ENTER(cudnnCreate);
    return create(handle, world()->set.cudnn);
}

int cudnnDestroy(void *handle)
{
    ENTER(cudnnDestroy);
    return destroy(handle);
}

/* A communicator knows its device by its place in the array, so each is destroyed where it was made. */
struct communicator {
    int device;
};

int ncclCommInitAll(void **communicators, int count, const int *devices)
{
    ENTER(ncclCommInitAll);
    for (int i = 0; i < count; i++) {
        struct communicator *c = calloc(1, sizeof *c);

        world()->device = c->device = devices[i];
        if (world_context() != 0 || !world_take(world()->set.nccl))
            return FAILED;
        world()->self->mappings++;
        communicators[i] = c;
    }
    return 0;
}

int ncclCommDestroy(void *communicator)
{
    struct communicator *c = communicator;
    int before;

    ENTER(ncclCommDestroy);
    before = world()->device;
    world()->device = c->device;
    world_give(world()->set.nccl);
    world()->self->mappings--;
    world()->device = before;
    free(c);
    return 0;
}
