/*
 * device/probe_matmul.c - how fast cuBLASLt multiplies fp8, which cuBLAS itself does not
 *
 * It takes e4m3 with the first factor transposed and gives bfloat16. Nothing else needs it, and its job is its own: what fails leaves this figure out and no other.
 */
#include "device/library.h"
#include "device/stopwatch.h"

enum {
    SIDE_LEAST = 1024,
    SIDE_MOST = 8192,
    WORKSPACE = 32 << 20,
    REPEATS = 7,
    REPEATS_QUICK = 3,
    CAPABILITY = 89, /* that has fp8 */
};

/* struct matmul - a handle, blocks for the largest product, and the descriptions of one */
struct matmul {
    struct libraries call;
    struct stopwatch watch;
    void *handle, *operation;
    void *factor, *result; /* layouts */
    void *a, *b, *c, *workspace;
    int side; /* of the largest */
};

static enum plm_status check(struct probe *probe, int error, const char *call)
{
    return error == 0
               ? PLM_OK
               : plm_fail(probe->reterr, PLM_E_DEVICE, "%s failed with status %d", call, error);
}

static enum plm_status make_block(struct probe *probe, void **block, size_t bytes)
{
    enum plm_status status =
        probe_check(probe, probe->cuda->cudaMalloc(block, bytes), "cudaMalloc");

    return status == PLM_OK
               ? probe_check(probe, probe->cuda->cudaMemset(*block, 0, bytes), "cudaMemset")
               : status;
}

/* make_blocks() - two factors of a byte an element and a result of two, in a quarter of what may be taken */
static enum plm_status make_blocks(struct probe *probe, struct matmul *m)
{
    plm_bytes room = 0;
    enum plm_status status = probe_room(probe, &room);

    m->side = SIDE_MOST;
    while (m->side > SIDE_LEAST && 4 * (plm_bytes)m->side * (plm_bytes)m->side > room / 4)
        m->side /= 2;

    size_t elements = (size_t)m->side * (size_t)m->side;

    if (status == PLM_OK)
        status = make_block(probe, &m->a, elements);
    if (status == PLM_OK)
        status = make_block(probe, &m->b, elements);
    if (status == PLM_OK)
        status = make_block(probe, &m->c, 2 * elements);
    return status == PLM_OK ? make_block(probe, &m->workspace, WORKSPACE) : status;
}

/* describe() - a product of sides @n */
static enum plm_status describe(struct probe *probe, struct matmul *m, int n)
{
    const int transposed = LIBRARY_TRANSPOSED;
    const uint64_t side = (uint64_t)n;
    enum plm_status status =
        check(probe,
              m->call.cublasLtMatmulDescCreate(&m->operation, LIBRARY_COMPUTE_32F, LIBRARY_FLOAT32),
              "cublasLtMatmulDescCreate");

    if (status == PLM_OK)
        status = check(probe,
                       m->call.cublasLtMatmulDescSetAttribute(
                           m->operation, LIBRARY_DESC_TRANSPOSE_A, &transposed, sizeof transposed),
                       "cublasLtMatmulDescSetAttribute");
    if (status == PLM_OK)
        status = check(probe,
                       m->call.cublasLtMatrixLayoutCreate(&m->factor, LIBRARY_E4M3, side, side, n),
                       "cublasLtMatrixLayoutCreate");
    if (status == PLM_OK)
        status = check(
            probe, m->call.cublasLtMatrixLayoutCreate(&m->result, LIBRARY_BFLOAT16, side, side, n),
            "cublasLtMatrixLayoutCreate");
    return status;
}

static enum plm_status forget(struct probe *probe, struct matmul *m)
{
    enum plm_status status =
        check(probe, m->call.cublasLtMatrixLayoutDestroy(m->factor), "cublasLtMatrixLayoutDestroy");

    if (status == PLM_OK)
        status = check(probe, m->call.cublasLtMatrixLayoutDestroy(m->result),
                       "cublasLtMatrixLayoutDestroy");
    if (status == PLM_OK)
        status = check(probe, m->call.cublasLtMatmulDescDestroy(m->operation),
                       "cublasLtMatmulDescDestroy");
    return status;
}

static enum plm_status multiply(struct probe *probe, const struct matmul *m, unsigned times)
{
    const float one = 1, zero = 0;
    enum plm_status status = PLM_OK;

    for (unsigned i = 0; i < times && status == PLM_OK; i++)
        status = check(probe,
                       m->call.cublasLtMatmul(m->handle, m->operation, &one, m->a, m->factor, m->b,
                                              m->factor, &zero, m->c, m->result, m->c, m->result,
                                              NULL, m->workspace, WORKSPACE, NULL),
                       "cublasLtMatmul");
    return status;
}

/* rate() - products of sides @n, several times */
static enum plm_status rate(struct probe *probe, struct matmul *m, int n)
{
    double rates[REPEATS], operations = 2.0 * n * n * n;
    size_t count = probe->options->quick ? REPEATS_QUICK : REPEATS;
    unsigned times = operations < 1e11 ? 8 : 1;
    enum plm_status status = describe(probe, m, n);

    if (status == PLM_OK)
        status = multiply(probe, m, 1); /* warms up */
    for (size_t i = 0; i < count && status == PLM_OK; i++) {
        double seconds = 0;

        status = stopwatch_start(probe, &m->watch);
        if (status == PLM_OK)
            status = multiply(probe, m, times);
        if (status == PLM_OK)
            status = stopwatch_stop(probe, &m->watch, &seconds);
        rates[i] = seconds > 0 ? operations * times / seconds : 0;
    }
    if (status == PLM_OK)
        probe_say_all(probe, FIGURE_CUBLAS_FP8, (plm_bytes)n * (plm_bytes)n, rates, count);
    return status == PLM_OK ? forget(probe, m) : status;
}

static enum plm_status measure(struct probe *probe, struct matmul *m)
{
    void **blocks[] = { &m->a, &m->b, &m->c, &m->workspace };
    enum plm_status status = stopwatch_create(probe, &m->watch);

    if (status == PLM_OK)
        status = make_blocks(probe, m);
    if (status == PLM_OK)
        status = check(probe, m->call.cublasLtCreate(&m->handle), "cublasLtCreate");
    for (int n = SIDE_LEAST; n <= m->side && status == PLM_OK; n *= probe->options->quick ? 4 : 2)
        status = rate(probe, m, n);
    if (status == PLM_OK)
        status = check(probe, m->call.cublasLtDestroy(m->handle), "cublasLtDestroy");
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks && status == PLM_OK; i++)
        status = probe_check(probe, probe->cuda->cudaFree(*blocks[i]), "cudaFree");
    return status == PLM_OK ? stopwatch_destroy(probe, &m->watch) : status;
}

enum plm_status probe_matmul(struct probe *probe)
{
    struct matmul m = { 0 };
    struct plm_error error;
    int capability = 0;
    enum plm_status status = probe_capability(probe, &capability);

    if (status != PLM_OK)
        return status;
    if (capability < CAPABILITY) {
        probe_skip(probe, FIGURE_CUBLAS_FP8, "the GPU has no such tensor cores");
        return PLM_OK;
    }
    if (library_open(LIBRARY_CUBLASLT, probe->cuda->runtime_version, &m.call, &error) != PLM_OK) {
        probe_skip(probe, FIGURE_CUBLAS_FP8, error.message);
        return PLM_OK;
    }
    return measure(probe, &m);
}
