/*
 * device/probe_speed.c - how fast the GPU is, by the kernels of calib/kernels.cu
 *
 * Each rate is taken over so many launches that they last some milliseconds, once to warm up and then several times; the figure is the
 * median. Working sets are at most a quarter of what may be taken.
 */
#include "base/num.h"
#include "device/stopwatch.h"

#define KIB ((plm_bytes)1 << 10)
#define MIB ((plm_bytes)1 << 20)
#define GIB ((plm_bytes)1 << 30)

enum { REPEATS = 7, REPEATS_QUICK = 3, REPEATS_MAX = 8, BLOCK = 256, BLOCKS_PER_PROCESSOR = 8 };

static size_t repeats(const struct probe *probe)
{
    return probe->options->quick ? REPEATS_QUICK : REPEATS;
}

/* struct kernels - the loaded image, and what the probes share */
struct kernels {
    void *module;
    struct stopwatch watch;
    int processors, capability;
    plm_bytes room; /* that the probes may take */
};

/* struct launch - one kernel with its arguments, times over */
struct launch {
    void *function;
    unsigned grid_x, grid_y, times;
    void **arguments;
};

static enum plm_status run(struct probe *probe, const struct launch *l)
{
    enum plm_status status = PLM_OK;

    for (unsigned i = 0; i < l->times && status == PLM_OK; i++)
        status = probe_check(probe,
                             probe->cuda->cuLaunchKernel(l->function, l->grid_x, l->grid_y, 1,
                                                         BLOCK, 1, 1, 0, NULL, l->arguments, NULL),
                             "cuLaunchKernel");
    return status;
}

/* rate() - @amount of one launch, by the time of all; the median is said */
static enum plm_status rate(struct probe *probe,
                            struct kernels *k,
                            const struct launch *l,
                            enum figure_id id,
                            plm_bytes size,
                            double amount)
{
    double rates[REPEATS_MAX];
    size_t count = repeats(probe);
    enum plm_status status = run(probe, l); /* warms up */

    for (size_t i = 0; i < count && status == PLM_OK; i++) {
        double seconds = 0;

        status = stopwatch_start(probe, &k->watch);
        if (status == PLM_OK)
            status = run(probe, l);
        if (status == PLM_OK)
            status = stopwatch_stop(probe, &k->watch, &seconds);
        rates[i] = seconds > 0 ? amount * l->times / seconds : 0;
    }
    if (status == PLM_OK)
        probe_say_all(probe, id, size, rates, count);
    return status;
}

static enum plm_status find(struct probe *probe,
                            const struct kernels *k,
                            const char *name,
                            void **ret)
{
    return probe_check(probe, probe->cuda->cuModuleGetFunction(ret, k->module, name),
                       "cuModuleGetFunction");
}

/* ------------------------------------------------------------------ streaming */

static enum plm_status stream(struct probe *probe,
                              struct kernels *k,
                              const char *name,
                              enum figure_id id,
                              void *to,
                              void *from,
                              plm_bytes most)
{
    static const plm_bytes sizes[] = {
        256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB, GIB
    };
    size_t step = probe->options->quick ? 3 : 1; /* 256 KiB, 16 MiB and 1 GiB */
    void *function = NULL;
    enum plm_status status = find(probe, k, name, &function);

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && status == PLM_OK; i += step) {
        unsigned long long bytes = sizes[i];
        void *arguments[] = { &to, &from, &bytes };
        struct launch l = { .function = function,
                            .grid_x = (unsigned)(k->processors * BLOCKS_PER_PROCESSOR),
                            .grid_y = 1,
                            .times = (unsigned)num_max(1, num_min(2 * GIB / sizes[i], 256)),
                            .arguments = arguments };

        if (sizes[i] <= most)
            status = rate(probe, k, &l, id, sizes[i], 2.0 * (double)sizes[i]);
    }
    return status;
}

static enum plm_status streaming(struct probe *probe, struct kernels *k)
{
    const struct cuda *cuda = probe->cuda;
    plm_bytes most = num_min(GIB, k->room / 4 / MIB * MIB);
    void *to = NULL, *from = NULL;
    enum plm_status status = probe_check(probe, cuda->cudaMalloc(&to, most), "cudaMalloc");

    if (status == PLM_OK)
        status = probe_check(probe, cuda->cudaMalloc(&from, most), "cudaMalloc");
    if (status == PLM_OK)
        status = probe_check(probe, cuda->cudaMemset(from, 0, most), "cudaMemset");
    if (status == PLM_OK)
        status = stream(probe, k, "plimsoll_copy", FIGURE_COPY_RATE, to, from, most);
    if (status == PLM_OK)
        status = stream(probe, k, "plimsoll_scale", FIGURE_SCALE_RATE, to, from, most);
    if (status == PLM_OK)
        status = probe_check(probe, cuda->cudaFree(to), "cudaFree");
    if (status == PLM_OK)
        status = probe_check(probe, cuda->cudaFree(from), "cudaFree");
    return status;
}

/* ------------------------------------------------------------------ products */

static const struct product {
    const char *kernel;
    enum figure_id figure;
    unsigned element; /* bytes */
    int capability;   /* that it needs */
} products[] = {
    { "plimsoll_gemm_fp32", FIGURE_GEMM_FP32, 4, 75 },
    { "plimsoll_gemm_tf32", FIGURE_GEMM_TF32, 4, 80 },
    { "plimsoll_gemm_fp16", FIGURE_GEMM_FP16, 2, 75 },
    { "plimsoll_gemm_bf16", FIGURE_GEMM_BF16, 2, 80 },
    { "plimsoll_gemm_fp8", FIGURE_GEMM_FP8, 1, 89 },
};
enum { TILE = 128, SIDE_MAX = 8192 }; /* TILE as in calib/kernels.cu */

/* product() - square ones of several sizes; @c, @a and @b hold the largest, in the widest type */
static enum plm_status product(struct probe *probe,
                               struct kernels *k,
                               const struct product *p,
                               void *const blocks[3],
                               int most)
{
    static const int sides[] = { 1024, 2048, 4096, SIDE_MAX };
    size_t step = probe->options->quick ? 2 : 1;
    void *function = NULL, *c = blocks[0], *a = blocks[1], *b = blocks[2];
    enum plm_status status = find(probe, k, p->kernel, &function);

    for (size_t i = 0; i < sizeof sides / sizeof *sides && status == PLM_OK; i += step) {
        int m = sides[i], n = m, depth = m;
        double operations = 2.0 * m * n * depth;
        void *arguments[] = { &c, &a, &b, &m, &n, &depth };
        struct launch l = { .function = function,
                            .grid_x = (unsigned)(n / TILE),
                            .grid_y = (unsigned)(m / TILE),
                            .times = operations < 1e11 ? 8 : 1,
                            .arguments = arguments };

        if (m <= most)
            status =
                rate(probe, k, &l, p->figure, (plm_bytes)m * (plm_bytes)n * p->element, operations);
    }
    return status;
}

static enum plm_status multiply(struct probe *probe, struct kernels *k)
{
    const struct cuda *cuda = probe->cuda;
    void *blocks[3] = { NULL };
    int most = SIDE_MAX;
    enum plm_status status = PLM_OK;

    while (most > TILE && 3 * 4 * (plm_bytes)most * (plm_bytes)most > k->room / 4)
        most /= 2;
    for (size_t i = 0; i < 3 && status == PLM_OK; i++) {
        size_t bytes = 4 * (size_t)most * (size_t)most;

        status = probe_check(probe, cuda->cudaMalloc(&blocks[i], bytes), "cudaMalloc");
        if (status == PLM_OK)
            status = probe_check(probe, cuda->cudaMemset(blocks[i], 0, bytes), "cudaMemset");
    }
    for (size_t i = 0; i < sizeof products / sizeof *products && status == PLM_OK; i++)
        if (k->capability >= products[i].capability)
            status = product(probe, k, &products[i], blocks, most);
        else
            probe_skip(probe, products[i].figure, "the GPU has no such tensor cores");
    for (size_t i = 0; i < 3 && status == PLM_OK; i++)
        status = probe_check(probe, cuda->cudaFree(blocks[i]), "cudaFree");
    return status;
}

/* ------------------------------------------------------------------ launches */

static enum plm_status launches(struct probe *probe, struct kernels *k)
{
    double without[REPEATS_MAX], with[REPEATS_MAX];
    size_t count = repeats(probe);
    const unsigned times = 500;
    struct launch l = { .grid_x = 1, .grid_y = 1, .times = times };
    enum plm_status status = find(probe, k, "plimsoll_empty", &l.function);

    if (status == PLM_OK)
        status = run(probe, &l);
    for (size_t i = 0; i < count && status == PLM_OK; i++) {
        double begin;

        status = probe_check(probe, probe->cuda->cudaDeviceSynchronize(), "cudaDeviceSynchronize");
        begin = stopwatch_now();
        l.times = times;
        if (status == PLM_OK)
            status = run(probe, &l);
        without[i] = (stopwatch_now() - begin) / times;
        if (status == PLM_OK)
            status =
                probe_check(probe, probe->cuda->cudaDeviceSynchronize(), "cudaDeviceSynchronize");
        begin = stopwatch_now();
        l.times = 1;
        for (unsigned n = 0; n < times / 10 && status == PLM_OK; n++) {
            status = run(probe, &l);
            if (status == PLM_OK)
                status = probe_check(probe, probe->cuda->cudaDeviceSynchronize(),
                                     "cudaDeviceSynchronize");
        }
        with[i] = (stopwatch_now() - begin) / (times / 10);
    }
    if (status == PLM_OK) {
        probe_say_all(probe, FIGURE_LAUNCH, 0, without, count);
        probe_say_all(probe, FIGURE_LAUNCH_AND_WAIT, 0, with, count);
    }
    return status;
}

/* ------------------------------------------------------------------ all of it */

/* load() - the image; what it takes of the device shows when a kernel of it has run */
static enum plm_status load(struct probe *probe, struct kernels *k)
{
    const struct cuda *cuda = probe->cuda;
    plm_bytes before = 0, after = 0;
    struct launch l = { .grid_x = 1, .grid_y = 1, .times = 1 };
    enum plm_status status =
        probe_check(probe,
                    cuda->cudaDeviceGetAttribute(&k->processors, CUDA_ATTRIBUTE_PROCESSORS,
                                                 probe->options->ordinal),
                    "cudaDeviceGetAttribute");

    if (status == PLM_OK)
        status = probe_capability(probe, &k->capability);
    if (status == PLM_OK)
        status = probe_free_bytes(probe, &before);
    if (status == PLM_OK)
        status = probe_check(probe, cuda->cuModuleLoadData(&k->module, probe->options->kernels),
                             "cuModuleLoadData");
    if (status == PLM_OK)
        status = find(probe, k, "plimsoll_empty", &l.function);
    if (status == PLM_OK)
        status = run(probe, &l);
    if (status == PLM_OK)
        status = probe_check(probe, cuda->cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    if (status == PLM_OK)
        status = probe_free_bytes(probe, &after);
    if (status == PLM_OK)
        status = probe_room(probe, &k->room);
    if (status == PLM_OK)
        probe_say(probe, FIGURE_MODULE, 0, before > after ? (double)(before - after) : 0);
    return status;
}

enum plm_status probe_kernels(struct probe *probe)
{
    const struct cuda *cuda = probe->cuda;
    struct kernels k = { 0 };
    enum plm_status status;

    if (!probe->options->kernels || !cuda->cuModuleLoadData || !cuda->cuModuleGetFunction ||
        !cuda->cuLaunchKernel || !cuda->cuModuleUnload) {
        probe_skip(probe, FIGURE_COPY_RATE,
                   "the program was built without nvcc: it has no kernels");
        return PLM_OK;
    }
    status = load(probe, &k);
    if (status == PLM_OK)
        status = stopwatch_create(probe, &k.watch);
    if (status == PLM_OK)
        status = launches(probe, &k);
    if (status == PLM_OK)
        status = streaming(probe, &k);
    if (status == PLM_OK)
        status = multiply(probe, &k);
    if (status == PLM_OK)
        status = stopwatch_destroy(probe, &k.watch);
    if (status == PLM_OK)
        status = probe_check(probe, cuda->cuModuleUnload(k.module), "cuModuleUnload");
    return status;
}
