/*
 * device/cudnn_plan.c - the plans of a call, in the order in which PyTorch tries them
 *
 * Mirrors run_single_conv() of aten/src/ATen/native/cudnn/Conv_v8.cpp with benchmark and deterministic off: the engines that the
 * instant heuristic lists, then those of the fallback list; engines that convert their inputs to a narrower type are left out (TF32
 * is allowed, as PyTorch has it for convolutions); the first whose plan can be made and whose workspace can be had is taken.
 *
 * A described device (CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR) takes the place of the handle, so that no GPU is needed.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "device/cudnn_attention.h"
#include "device/cudnn_plan.h"

enum {
    CONFIGS_MOST = 256, /* of a heuristic; cuDNN 9.26 lists up to 40 */
    ALIGNMENT = 32, /* getAlignment(): the most it says, and what the allocator's addresses have */
};

/* ------------------------------------------------------------------ loading */

/* find() - the address of a function; the detour keeps ISO C, which has no cast from an object's pointer to a function's */
static bool find(void *library, const char *name, void *ret_function)
{
    void *address = dlsym(library, name);

    memcpy(ret_function, &address, sizeof address);
    return address;
}

/* load_error() - what dlopen says, without the path, which a message has already */
static const char *load_error(const char *path)
{
    const char *reason = dlerror();
    size_t length = strlen(path);

    if (!reason)
        return "it cannot be loaded";
    return strncmp(reason, path, length) == 0 && strncmp(reason + length, ": ", 2) == 0
               ? reason + length + 2
               : reason;
}

const char *cudnn_plan_load(const char *path,
                            struct backend *ret_backend,
                            char message[CUDNN_MESSAGE_MAX])
{
    struct backend b;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    if (!library) {
        snprintf(message, CUDNN_MESSAGE_MAX, "%s", load_error(path));
        return message;
    }
    if (!find(library, "cudnnGetVersion", &b.version) ||
        !find(library, "cudnnGetLastErrorString", &b.last_error) ||
        !find(library, "cudnnBackendCreateDescriptor", &b.create) ||
        !find(library, "cudnnBackendDestroyDescriptor", &b.destroy) ||
        !find(library, "cudnnBackendFinalize", &b.finalize) ||
        !find(library, "cudnnBackendSetAttribute", &b.set) ||
        !find(library, "cudnnBackendGetAttribute", &b.get))
        return "it lacks functions of the backend API of cuDNN 9";
    *ret_backend = b;
    return NULL;
}

/* explain() - cuDNN's last error as one line */
static void explain(const struct backend *b, int status, char message[CUDNN_MESSAGE_MAX])
{
    char text[CUDNN_MESSAGE_MAX - 32] = "";

    b->last_error(text, sizeof text);
    text[sizeof text - 1] = '\0';
    text[strcspn(text, "\r\n")] = '\0';
    snprintf(message, CUDNN_MESSAGE_MAX, "cudnnStatus_t %d %s", status, text);
}

/* ------------------------------------------------------------------ the device */

/* struct limits - of a compute capability: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability" */
struct limits {
    int cc;
    int shared_kib; /* of a block, at most, when it opts in */
    int blocks;     /* resident on one multiprocessor */
};

static const struct limits limits[] = {
    { 70, 96, 32 },   { 75, 64, 16 },  { 80, 163, 32 }, { 86, 99, 16 },
    { 87, 163, 16 },  { 89, 99, 24 },  { 90, 227, 32 }, { 100, 227, 32 },
    { 103, 227, 32 }, { 120, 99, 24 }, { 121, 99, 24 },
};

/*
 * write_device() - what cudaGetDeviceProperties() says, in the form that cuDNN reads
 *
 * The form has no document of its own; it is what cudnnBackendGetAttribute() returns for a real device. cuDNN demands every
 * field. The clocks, the caches, the memory's size and the name change no plan of any convolution that was tried (docs/decisions/0011), so one
 * value stands for all devices.
 */
static int write_device(const struct cudnn_gpu *gpu,
                        const struct limits *l,
                        char *text,
                        size_t size)
{
    return snprintf(
        text, size,
        "{\"cudaDeviceId\":0,\"deviceVer\":%d,\"driverVer\":13000,"
        "\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],"
        "\"regsPerBlock\":65536,\"multiProcessorCount\":%d,\"smCountOrigin\":0,\"warpSize\":32,"
        "\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":%d,"
        "\"oversizedSharedMemoryPerBlock\":%d,\"reservedSharedMemoryPerBlock\":%d,"
        "\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":%d,\"maxThreadsPerBlock\":1024,"
        "\"maxThreadsPerSM\":%d,\"pciDeviceId\":0,\"isTccDriver\":0,\"supportCoopLaunch\":1,"
        "\"totalGlobalMem\":85899345920,\"smClockRateKHz\":1500000,\"memClockRateKHz\":2000000,"
        "\"l2CacheSize\":41943040,\"deviceName\":\"GPU\"}",
        gpu->cc * 10, gpu->sm_count, l->shared_kib * 1024, l->shared_kib * 1024,
        gpu->cc >= 80 ? 1024 : 0, l->blocks, gpu->threads_per_sm);
}

backend_desc cudnn_plan_device(const struct backend *backend,
                               const struct cudnn_gpu *gpu,
                               char message[CUDNN_MESSAGE_MAX])
{
    struct maker m = { .backend = backend };
    const struct limits *l = NULL;
    char text[1024];

    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++)
        if (limits[i].cc == gpu->cc)
            l = &limits[i];
    if (!l) {
        snprintf(message, CUDNN_MESSAGE_MAX, "compute capability %d.%d is not known", gpu->cc / 10,
                 gpu->cc % 10);
        return NULL;
    }
    int length = write_device(gpu, l, text, sizeof text);
    backend_desc device = maker_create(&m, BACKEND_DEVICEPROP);

    maker_set(&m, device, ATTR_DEVICEPROP_JSON_REPRESENTATION, TYPE_CHAR, length, text);
    maker_finalize(&m, device);
    if (m.status == 0)
        return device;
    explain(backend, m.status, message);
    maker_destroy(&m);
    return NULL;
}

/* ------------------------------------------------------------------ the operation */

static int data_type(const struct cudnn_call *call)
{
    static const int types[CUDNN_TYPES] = {
        [CUDNN_F32] = DATA_FLOAT,
        [CUDNN_F64] = DATA_DOUBLE,
        [CUDNN_F16] = DATA_HALF,
        [CUDNN_BF16] = DATA_BFLOAT16,
    };

    return types[call->type];
}

/*
 * dense_strides() - fixSizeOneDimStride() of a dense tensor: a dimension of size 1 has the stride that it would have if it
 * were larger, by the layout's order
 */
static void dense_strides(const struct cudnn_call *call, const int64_t *sizes, int64_t *ret_strides)
{
    int dims = 2 + call->spatial;
    int64_t stride = 1;

    if (call->channels_last) {
        ret_strides[1] = stride;
        stride *= sizes[1];
    }
    for (int i = dims - 1; i >= 2; i--) {
        ret_strides[i] = stride;
        stride *= sizes[i];
    }
    if (!call->channels_last) {
        ret_strides[1] = stride;
        stride *= sizes[1];
    }
    ret_strides[0] = stride;
}

static backend_desc make_tensor(struct maker *m,
                                const struct cudnn_call *call,
                                char id,
                                const int64_t *sizes)
{
    backend_desc tensor = maker_create(m, BACKEND_TENSOR);
    int type = data_type(call);
    int64_t dims = 2 + call->spatial, uid = id, alignment = ALIGNMENT;
    int64_t strides[CUDNN_DIMS_MOST];

    dense_strides(call, sizes, strides);
    maker_set(m, tensor, ATTR_TENSOR_DATA_TYPE, TYPE_DATA_TYPE, 1, &type);
    maker_set(m, tensor, ATTR_TENSOR_DIMENSIONS, TYPE_INT64, dims, sizes);
    maker_set(m, tensor, ATTR_TENSOR_STRIDES, TYPE_INT64, dims, strides);
    maker_set(m, tensor, ATTR_TENSOR_UNIQUE_ID, TYPE_INT64, 1, &uid);
    maker_set(m, tensor, ATTR_TENSOR_BYTE_ALIGNMENT, TYPE_INT64, 1, &alignment);
    maker_finalize(m, tensor);
    return tensor;
}

static backend_desc make_convolution(struct maker *m, const struct cudnn_call *call)
{
    backend_desc convolution = maker_create(m, BACKEND_CONVOLUTION);
    int compute = call->type == CUDNN_F64 ? DATA_DOUBLE : DATA_FLOAT, mode = MODE_CROSS_CORRELATION;
    int64_t spatial = call->spatial;

    maker_set(m, convolution, ATTR_CONVOLUTION_COMP_TYPE, TYPE_DATA_TYPE, 1, &compute);
    maker_set(m, convolution, ATTR_CONVOLUTION_MODE, TYPE_CONVOLUTION_MODE, 1, &mode);
    maker_set(m, convolution, ATTR_CONVOLUTION_SPATIAL_DIMS, TYPE_INT64, 1, &spatial);
    maker_set(m, convolution, ATTR_CONVOLUTION_PRE_PADDINGS, TYPE_INT64, spatial, call->padding);
    maker_set(m, convolution, ATTR_CONVOLUTION_POST_PADDINGS, TYPE_INT64, spatial, call->padding);
    maker_set(m, convolution, ATTR_CONVOLUTION_DILATIONS, TYPE_INT64, spatial, call->dilation);
    maker_set(m, convolution, ATTR_CONVOLUTION_STRIDES, TYPE_INT64, spatial, call->stride);
    maker_finalize(m, convolution);
    return convolution;
}

/* struct operation - how a direction's operation and its attributes are called */
struct operation {
    enum backend_descriptor type;
    enum backend_attribute alpha, beta, convolution, weight, input, output;
};

static const struct operation operations[] = {
    [CUDNN_FORWARD] = { BACKEND_CONVOLUTION_FORWARD, ATTR_FORWARD_ALPHA, ATTR_FORWARD_BETA,
                        ATTR_FORWARD_CONV_DESC, ATTR_FORWARD_W, ATTR_FORWARD_X, ATTR_FORWARD_Y },
    [CUDNN_BACKWARD_DATA] = { BACKEND_CONVOLUTION_BACKWARD_DATA, ATTR_DATA_ALPHA, ATTR_DATA_BETA,
                              ATTR_DATA_CONV_DESC, ATTR_DATA_W, ATTR_DATA_DX, ATTR_DATA_DY },
    [CUDNN_BACKWARD_FILTER] = { BACKEND_CONVOLUTION_BACKWARD_FILTER, ATTR_FILTER_ALPHA,
                                ATTR_FILTER_BETA, ATTR_FILTER_CONV_DESC, ATTR_FILTER_DW,
                                ATTR_FILTER_X, ATTR_FILTER_DY },
};

/* make_graph() - a convolution as a graph of one node */
static backend_desc make_graph(struct maker *m, const struct cudnn_call *call)
{
    static const float one_f = 1, zero_f = 0;
    static const double one_d = 1, zero_d = 0;
    const struct operation *op = &operations[call->op];
    bool wide = call->type == CUDNN_F64;
    int64_t output[CUDNN_DIMS_MOST] = { call->input[0], call->weight[0] };

    for (int i = 0; i < call->spatial; i++)
        output[2 + i] = cudnn_output_size(call, i);
    backend_desc x = make_tensor(m, call, 'x', call->input);
    backend_desc y = make_tensor(m, call, 'y', output);
    backend_desc w = make_tensor(m, call, 'w', call->weight);
    backend_desc convolution = make_convolution(m, call);
    backend_desc node = maker_create(m, op->type);
    enum backend_type scale = wide ? TYPE_DOUBLE : TYPE_FLOAT;

    maker_set(m, node, op->alpha, scale, 1, wide ? (const void *)&one_d : &one_f);
    maker_set(m, node, op->beta, scale, 1, wide ? (const void *)&zero_d : &zero_f);
    maker_set_descriptor(m, node, op->convolution, convolution);
    maker_set_descriptor(m, node, op->weight, w);
    maker_set_descriptor(m, node, op->input, x);
    maker_set_descriptor(m, node, op->output, y);
    maker_finalize(m, node);
    backend_desc graph = maker_create(m, BACKEND_OPERATIONGRAPH);

    maker_set_descriptor(m, graph, ATTR_OPERATIONGRAPH_OPS, node);
    maker_finalize(m, graph);
    return graph;
}

/* ------------------------------------------------------------------ plans */

/* is_left_out() - filterEngineConfigs(): does the engine convert its inputs to a narrower type? */
static bool is_left_out(const struct backend *b, backend_desc config)
{
    backend_desc engine = NULL;
    int notes[NOTE_COUNT];
    int64_t count = 0;
    bool found = false;

    if (b->create(BACKEND_ENGINE, &engine) != 0)
        return false;
    if (b->get(config, ATTR_ENGINECFG_ENGINE, TYPE_BACKEND_DESCRIPTOR, 1, &count, &engine) == 0 &&
        b->get(engine, ATTR_ENGINE_NUMERICAL_NOTE, TYPE_NUMERICAL_NOTE, NOTE_COUNT, &count,
               notes) == 0)
        for (int64_t i = 0; i < count && i < NOTE_COUNT; i++)
            found = found || notes[i] == NOTE_DOWN_CONVERT_INPUTS;
    b->destroy(engine);
    return found;
}

/* plan_workspace() - of the configuration's plan; false when cuDNN cannot make it, and PyTorch goes on to the next */
static bool plan_workspace(const struct backend *b,
                           backend_desc device,
                           backend_desc config,
                           plm_bytes *ret_bytes)
{
    struct maker m = { .backend = b };
    backend_desc plan = maker_create(&m, BACKEND_EXECUTION_PLAN);
    int64_t bytes = -1, count = 0;

    maker_set_descriptor(&m, plan, ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    maker_set_descriptor(&m, plan, ATTR_EXECUTION_PLAN_DEVICEPROP, device);
    maker_finalize(&m, plan);
    if (m.status == 0)
        m.status = b->get(plan, ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, TYPE_INT64, 1, &count, &bytes);
    maker_destroy(&m);
    if (m.status != 0 || bytes < 0)
        return false;
    *ret_bytes = (plm_bytes)bytes;
    return true;
}

/*
 * config_workspace() - what the configuration's plan would take; false when cuDNN does not say
 *
 * The engines of attention are compiled as their plan is made, which wants a GPU. The configurations that a heuristic lists were checked
 * before, so PyTorch's plan is that of the first.
 */
static bool config_workspace(const struct backend *b, backend_desc config, plm_bytes *ret_bytes)
{
    int64_t bytes = -1, count = 0;

    if (b->get(config, ATTR_ENGINECFG_WORKSPACE_SIZE, TYPE_INT64, 1, &count, &bytes) != 0 ||
        bytes < 0)
        return false;
    *ret_bytes = (plm_bytes)bytes;
    return true;
}

/* is_enough() - a plan that needs nothing ends the chain, and so do @wanted plans */
static bool is_enough(const struct cudnn_workspaces *w, size_t wanted)
{
    return w->count == wanted || (w->count > 0 && w->bytes[w->count - 1] == 0);
}

/*
 * add_plans() - of the engine configurations that a heuristic lists, up to the first that needs no workspace, or @wanted
 *
 * Of heuristic A only the first is wanted: the front end of attention keeps that, whatever it computes with.
 */
static void add_plans(struct maker *m,
                      backend_desc device,
                      backend_desc graph,
                      enum backend_heur_mode mode,
                      size_t wanted,
                      struct cudnn_workspaces *workspaces)
{
    const struct backend *b = m->backend;
    backend_desc heuristic = maker_create(m, BACKEND_ENGINEHEUR), configs[CONFIGS_MOST];
    int64_t listed = 0, count = 0, made = 0;
    int mode_number = (int)mode;

    maker_set_descriptor(m, heuristic, ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    maker_set(m, heuristic, ATTR_ENGINEHEUR_MODE, TYPE_HEUR_MODE, 1, &mode_number);
    maker_set_descriptor(m, heuristic, ATTR_ENGINEHEUR_DEVICEPROP, device);
    maker_finalize(m, heuristic);
    if (m->status == 0)
        m->status =
            b->get(heuristic, ATTR_ENGINEHEUR_RESULTS, TYPE_BACKEND_DESCRIPTOR, 0, &listed, NULL);
    if (m->status != 0)
        return;
    if (listed > CONFIGS_MOST)
        listed = CONFIGS_MOST;
    while (made < listed && b->create(BACKEND_ENGINECFG, &configs[made]) == 0)
        made++;
    m->status =
        b->get(heuristic, ATTR_ENGINEHEUR_RESULTS, TYPE_BACKEND_DESCRIPTOR, made, &count, configs);
    for (int64_t i = 0; m->status == 0 && i < count && i < made && !is_enough(workspaces, wanted);
         i++) {
        plm_bytes bytes;

        bool has = mode == HEUR_A ? config_workspace(b, configs[i], &bytes)
                                  : !is_left_out(b, configs[i]) &&
                                        plan_workspace(b, device, configs[i], &bytes);

        if (has)
            cudnn_workspaces_add(workspaces, bytes);
    }
    while (made > 0)
        b->destroy(configs[--made]);
}

/* add_all() - of both lists */
static void add_all(struct maker *m,
                    backend_desc device,
                    backend_desc graph,
                    size_t wanted,
                    struct cudnn_workspaces *workspaces)
{
    add_plans(m, device, graph, HEUR_INSTANT, wanted, workspaces);
    if (!is_enough(workspaces, wanted))
        add_plans(m, device, graph, HEUR_FALLBACK, wanted, workspaces);
}

/*
 * judge_blas() - what the first plan owes to cuBLASLt
 *
 * No attribute of a plan tells. So cuDNN is asked for it again, with a cuBLASLt that takes a byte more than it may: a plan that then takes
 * more is one of those, and it cannot take that much more.
 */
static void judge_blas(struct maker *m,
                       const struct cudnn_blas *blas,
                       backend_desc device,
                       const struct cudnn_call *call,
                       struct cudnn_workspaces *w)
{
    struct cudnn_workspaces most = { 0 };

    if (blas->count == 0 && !blas->real)
        w->blas = CUDNN_BLAS_LEFT_OUT;
    if (w->count == 0 || !cudnn_blas_was_asked(blas))
        return;
    cudnn_blas_take_most(blas, true);
    add_all(m, device, make_graph(m, call), 1, &most);
    cudnn_blas_take_most(blas, false);
    if (most.count > 0 && most.bytes[0] > w->bytes[0]) {
        w->blas = CUDNN_BLAS_ASSUMED;
        w->blas_most = most.bytes[0] - w->bytes[0];
    }
}

static void plan_convolution(struct maker *m,
                             const struct cudnn_blas *blas,
                             backend_desc device,
                             const struct cudnn_call *call,
                             struct cudnn_workspaces *found)
{
    cudnn_blas_take_most(blas, false);
    add_all(m, device, make_graph(m, call), CUDNN_PLANS_MOST, found);
    judge_blas(m, blas, device, call, found);
}

/* plan_attention() - the one plan, and what the front end keeps beside its workspace */
static void plan_attention(struct maker *m,
                           backend_desc device,
                           int cc,
                           const struct cudnn_call *call,
                           struct cudnn_workspaces *found)
{
    backend_desc graph = cudnn_attention_graph(m, call, cc);
    plm_bytes bytes;

    if (cudnn_attention_is_fixed(call, cc)) {
        backend_desc config = cudnn_attention_config(m, graph, device);

        if (m->status == 0 && config_workspace(m->backend, config, &bytes))
            cudnn_workspaces_add(found, bytes);
    } else {
        add_plans(m, device, graph, HEUR_A, 1, found);
    }
    if (found->count > 0)
        found->bytes[0] += cudnn_attention_kept(call, cc);
}

bool cudnn_plan_call(const struct backend *backend,
                     const struct cudnn_blas *blas,
                     backend_desc device,
                     int cc,
                     const struct cudnn_call *call,
                     struct cudnn_workspaces *ret_workspaces,
                     char message[CUDNN_MESSAGE_MAX])
{
    struct maker m = { .backend = backend };
    struct cudnn_workspaces found = { 0 };

    if (cudnn_call_is_attention(call))
        plan_attention(&m, device, cc, call, &found);
    else
        plan_convolution(&m, blas, device, call, &found);
    maker_destroy(&m);
    if (found.count > 0) {
        *ret_workspaces = found;
        return true;
    }
    if (m.status != 0)
        explain(backend, m.status, message);
    else
        snprintf(message, CUDNN_MESSAGE_MAX, "cuDNN has no plan");
    return false;
}
