/*
 * device/probe_libraries.c - what CUDA's libraries take of the device, and how fast cuBLAS multiplies
 *
 * A process that trains has handles of cuBLAS and cuBLASLt, and of cuDNN once it convolves. The order is theirs: what one library has
 * loaded, the next finds there. The fit is taken with all of them loaded.
 */
#include <stdio.h>

#include "base/num.h"
#include "device/library.h"
#include "device/stopwatch.h"

enum { SIDE = 1024, WORKSPACE = 32 << 20, REPEATS = 7, REPEATS_QUICK = 3, GPUS_MAX = 64 };

/* struct loaded - handles, and the blocks of the products */
struct loaded {
    struct libraries call;
    void *cublas, *cublaslt, *cudnn;
    void *c, *a, *b, *workspace;
    int side; /* of the largest product that the blocks hold */
    int capability;
};

/* library_check() - a status of a library's; 0 is none */
static enum plm_status library_check(struct probe *probe, int error, const char *call)
{
    return error == 0
               ? PLM_OK
               : plm_fail(probe->reterr, PLM_E_DEVICE, "%s failed with status %d", call, error);
}

/* found() - open a library; one that is not there is skipped */
static bool found(struct probe *probe, struct loaded *l, enum library_id id, enum figure_id figure)
{
    struct plm_error error;

    if (library_open(id, probe->cuda->runtime_version, &l->call, &error) == PLM_OK)
        return true;
    probe_skip(probe, figure, error.message);
    return false;
}

/* fell() - say by how much free memory has fallen from @before, and begin anew from there */
static enum plm_status fell(struct probe *probe, enum figure_id id, plm_bytes *before)
{
    plm_bytes now = 0;
    enum plm_status status =
        probe_check(probe, probe->cuda->cudaDeviceSynchronize(), "cudaDeviceSynchronize");

    if (status == PLM_OK)
        status = probe_free_bytes(probe, &now);
    if (status == PLM_OK)
        probe_say(probe, id, 0, *before > now ? (double)(*before - now) : 0);
    *before = now;
    return status;
}

/* ------------------------------------------------------------------ cuBLAS */

static const struct product {
    enum library_type type;
    int compute;
    unsigned element; /* bytes */
    int capability;
    enum figure_id rate;
} products[] = {
    { LIBRARY_FLOAT32, LIBRARY_COMPUTE_32F, 4, 0, FIGURE_CUBLAS_FP32 },
    { LIBRARY_FLOAT32, LIBRARY_COMPUTE_32F_TF32, 4, 80, FIGURE_CUBLAS_TF32 },
    { LIBRARY_FLOAT16, LIBRARY_COMPUTE_32F, 2, 0, FIGURE_CUBLAS_FP16 },
    { LIBRARY_BFLOAT16, LIBRARY_COMPUTE_32F, 2, 80, FIGURE_CUBLAS_BF16 },
};
enum { PRODUCTS = sizeof products / sizeof *products };

static enum plm_status multiply(
    struct probe *probe, const struct loaded *l, void *handle, const struct product *p, int n)
{
    const float one = 1, zero = 0;

    return library_check(probe,
                         l->call.cublasGemmEx(handle, LIBRARY_PLAIN, LIBRARY_PLAIN, n, n, n, &one,
                                              l->a, (int)p->type, n, l->b, (int)p->type, n, &zero,
                                              l->c, (int)p->type, n, p->compute,
                                              LIBRARY_GEMM_DEFAULT),
                         "cublasGemmEx");
}

/* make_blocks() - for products of float32, the largest that a quarter of what may be taken allows; and a workspace */
static enum plm_status make_blocks(struct probe *probe, struct loaded *l)
{
    const struct cuda *cuda = probe->cuda;
    void **blocks[] = { &l->c, &l->a, &l->b };
    plm_bytes room = 0;
    enum plm_status status = probe_room(probe, &room);

    l->side = 8 * SIDE;
    while (l->side > SIDE / 8 && 12 * (plm_bytes)l->side * (plm_bytes)l->side > room / 4)
        l->side /= 2;
    for (size_t i = 0; i < 3 && status == PLM_OK; i++) {
        size_t bytes = 4 * (size_t)l->side * (size_t)l->side;

        status = probe_check(probe, cuda->cudaMalloc(blocks[i], bytes), "cudaMalloc");
        if (status == PLM_OK)
            status = probe_check(probe, cuda->cudaMemset(*blocks[i], 0, bytes), "cudaMemset");
    }
    return status == PLM_OK
               ? probe_check(probe, cuda->cudaMalloc(&l->workspace, WORKSPACE), "cudaMalloc")
               : status;
}

static enum plm_status free_blocks(struct probe *probe, struct loaded *l)
{
    void *blocks[] = { l->c, l->a, l->b, l->workspace };
    enum plm_status status = PLM_OK;

    for (size_t i = 0; i < sizeof blocks / sizeof *blocks && status == PLM_OK; i++)
        status = probe_check(probe, probe->cuda->cudaFree(blocks[i]), "cudaFree");
    return status;
}

/* own_workspace() - a second handle, to which none is given, with one product */
static enum plm_status own_workspace(struct probe *probe, struct loaded *l)
{
    void *handle = NULL;
    plm_bytes before = 0;
    enum plm_status status = probe_free_bytes(probe, &before);

    if (status == PLM_OK)
        status = library_check(probe, l->call.cublasCreate(&handle), "cublasCreate");
    if (status == PLM_OK)
        status = multiply(probe, l, handle, &products[0], (int)num_min(SIDE, (uint64_t)l->side));
    if (status == PLM_OK)
        status = fell(probe, FIGURE_CUBLAS_WORKSPACE, &before);
    return status == PLM_OK ? library_check(probe, l->call.cublasDestroy(handle), "cublasDestroy")
                            : status;
}

static enum plm_status load_cublas(struct probe *probe, struct loaded *l)
{
    plm_bytes before = 0;
    enum plm_status status = probe_free_bytes(probe, &before);

    if (status == PLM_OK)
        status = library_check(probe, l->call.cublasCreate(&l->cublas), "cublasCreate");
    if (status == PLM_OK)
        status = fell(probe, FIGURE_CUBLAS_HANDLE, &before);
    if (status == PLM_OK)
        status =
            library_check(probe, l->call.cublasSetWorkspace(l->cublas, l->workspace, WORKSPACE),
                          "cublasSetWorkspace");
    for (size_t i = 0; i < PRODUCTS && status == PLM_OK; i++)
        if (l->capability >= products[i].capability)
            status =
                multiply(probe, l, l->cublas, &products[i], (int)num_min(SIDE, (uint64_t)l->side));
    return status == PLM_OK ? fell(probe, FIGURE_CUBLAS_KERNELS, &before) : status;
}

/* rate() - one product, several times */
static enum plm_status rate(struct probe *probe,
                            const struct loaded *l,
                            struct stopwatch *watch,
                            const struct product *p,
                            int n)
{
    double rates[REPEATS], operations = 2.0 * n * n * n;
    size_t count = probe->options->quick ? REPEATS_QUICK : REPEATS;
    unsigned times = operations < 1e11 ? 8 : 1;
    enum plm_status status = multiply(probe, l, l->cublas, p, n); /* warms up */

    for (size_t i = 0; i < count && status == PLM_OK; i++) {
        double seconds = 0;

        status = stopwatch_start(probe, watch);
        for (unsigned k = 0; k < times && status == PLM_OK; k++)
            status = multiply(probe, l, l->cublas, p, n);
        if (status == PLM_OK)
            status = stopwatch_stop(probe, watch, &seconds);
        rates[i] = seconds > 0 ? operations * times / seconds : 0;
    }
    if (status == PLM_OK)
        probe_say_all(probe, p->rate, (plm_bytes)n * (plm_bytes)n * p->element, rates, count);
    return status;
}

static enum plm_status rates(struct probe *probe, const struct loaded *l)
{
    struct stopwatch watch;
    enum plm_status status = stopwatch_create(probe, &watch);

    for (size_t i = 0; i < PRODUCTS && status == PLM_OK; i++)
        for (int n = SIDE; n <= l->side && status == PLM_OK; n *= probe->options->quick ? 4 : 2)
            if (l->capability >= products[i].capability)
                status = rate(probe, l, &watch, &products[i], n);
    return status == PLM_OK ? stopwatch_destroy(probe, &watch) : status;
}

/* ------------------------------------------------------------------ the others */

static enum plm_status load_cublaslt(struct probe *probe, struct loaded *l)
{
    plm_bytes before = 0;
    enum plm_status status = probe_free_bytes(probe, &before);

    if (status == PLM_OK)
        status = library_check(probe, l->call.cublasLtCreate(&l->cublaslt), "cublasLtCreate");
    return status == PLM_OK ? fell(probe, FIGURE_CUBLASLT_HANDLE, &before) : status;
}

static enum plm_status load_cudnn(struct probe *probe, struct loaded *l)
{
    plm_bytes before = 0;
    enum plm_status status = probe_free_bytes(probe, &before);

    if (status == PLM_OK)
        status = library_check(probe, l->call.cudnnCreate(&l->cudnn), "cudnnCreate");
    return status == PLM_OK ? fell(probe, FIGURE_CUDNN_HANDLE, &before) : status;
}

/* leave_others() - give back the contexts that NCCL made on the other GPUs */
static enum plm_status leave_others(struct probe *probe, int count)
{
    const struct cuda *cuda = probe->cuda;
    enum plm_status status = PLM_OK;

    for (int i = 0; i < count && status == PLM_OK; i++) {
        if (i == probe->options->ordinal)
            continue;
        status = probe_check(probe, cuda->cudaSetDevice(i), "cudaSetDevice");
        if (status == PLM_OK)
            status = probe_check(probe, cuda->cudaDeviceReset(), "cudaDeviceReset");
    }
    return status == PLM_OK
               ? probe_check(probe, cuda->cudaSetDevice(probe->options->ordinal), "cudaSetDevice")
               : status;
}

/* communicate() - communicators of all GPUs, in this process */
static enum plm_status communicate(struct probe *probe, struct loaded *l)
{
    void *communicators[GPUS_MAX];
    int devices[GPUS_MAX], count = 0;
    plm_bytes before = 0;
    enum plm_status status =
        probe_check(probe, probe->cuda->cudaGetDeviceCount(&count), "cudaGetDeviceCount");

    if (status == PLM_OK && (count < 2 || count > GPUS_MAX))
        probe_skip(probe, FIGURE_NCCL_COMMUNICATOR, "only where there are several GPUs");
    if (status != PLM_OK || count < 2 || count > GPUS_MAX ||
        !found(probe, l, LIBRARY_NCCL, FIGURE_NCCL_COMMUNICATOR))
        return status;
    for (int i = 0; i < count; i++)
        devices[i] = i;
    status = probe_free_bytes(probe, &before);
    if (status == PLM_OK)
        status = library_check(probe, l->call.ncclCommInitAll(communicators, count, devices),
                               "ncclCommInitAll");
    if (status == PLM_OK)
        status = probe_check(probe, probe->cuda->cudaSetDevice(probe->options->ordinal),
                             "cudaSetDevice");
    if (status == PLM_OK)
        status = fell(probe, FIGURE_NCCL_COMMUNICATOR, &before);
    for (int i = 0; i < count && status == PLM_OK; i++)
        status = library_check(probe, l->call.ncclCommDestroy(communicators[i]), "ncclCommDestroy");
    return status == PLM_OK ? leave_others(probe, count) : status;
}

static enum plm_status unload(struct probe *probe, struct loaded *l)
{
    enum plm_status status = PLM_OK;

    if (l->cudnn)
        status = library_check(probe, l->call.cudnnDestroy(l->cudnn), "cudnnDestroy");
    if (status == PLM_OK && l->cublaslt)
        status = library_check(probe, l->call.cublasLtDestroy(l->cublaslt), "cublasLtDestroy");
    if (status == PLM_OK && l->cublas)
        status = library_check(probe, l->call.cublasDestroy(l->cublas), "cublasDestroy");
    return status;
}

enum plm_status probe_libraries(struct probe *probe)
{
    struct loaded l = { 0 };
    bool cublas;
    enum plm_status status = probe_capability(probe, &l.capability);

    cublas = status == PLM_OK && found(probe, &l, LIBRARY_CUBLAS, FIGURE_CUBLAS_HANDLE);
    if (status == PLM_OK && cublas)
        status = make_blocks(probe, &l);
    if (status == PLM_OK && cublas)
        status = load_cublas(probe, &l);
    if (status == PLM_OK && found(probe, &l, LIBRARY_CUBLASLT, FIGURE_CUBLASLT_HANDLE))
        status = load_cublaslt(probe, &l);
    if (status == PLM_OK && found(probe, &l, LIBRARY_CUDNN, FIGURE_CUDNN_HANDLE))
        status = load_cudnn(probe, &l);
    if (status == PLM_OK && cublas)
        status = own_workspace(probe, &l);
    if (status == PLM_OK && cublas)
        status = rates(probe, &l);
    if (status == PLM_OK && cublas)
        status = free_blocks(probe, &l);
    if (status == PLM_OK && (l.cublas || l.cublaslt || l.cudnn))
        status = probe_fit(probe, true);
    if (status == PLM_OK)
        status = communicate(probe, &l);
    return status == PLM_OK ? unload(probe, &l) : status;
}
