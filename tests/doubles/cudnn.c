/*
 * tests/doubles/cudnn.c - a double of libcudnn.so.9 that plans without a GPU
 *
 * It is told what to say by the environment, read when it is first asked:
 *
 *     PLM_DOUBLE_CUDNN_VERSION     92600
 *     PLM_DOUBLE_CUDNN_INSTANT     the plans of the instant heuristic, "64 d32 ! X W Y S A 0": a workspace in bytes; d: the engine
 *                                  converts its inputs to a narrower type; b: it wants cuBLASLt, whose workspace comes on top, or it
 *                                  is not in the list; !: a plan that cannot be made. Letters stand for bytes
 *                                  that show what arrived: X, W and Y the elements of the input, the weight and the output, S the
 *                                  input's stride between channels, A its alignment
 *     PLM_DOUBLE_CUDNN_FALLBACK    those of the fallback list; "0"
 *     PLM_DOUBLE_CUDNN_A           those of heuristic A, of which the configurations are asked; "256"
 *     PLM_DOUBLE_CUDNN_GRAPH       a file to which each graph is added whose plan is asked for, in numbers: {type attribute=value …},
 *                                  attributes in order, tensors as #number[sizes|strides]type at first and then as #number
 *     PLM_DOUBLE_CUDNN_LIMIT       the most that cuBLASLt may take; "4194304"
 *     PLM_DOUBLE_CUDNN_DOES        hang, crash or exit at the first plan; crash-attention at heuristic A; want-driver: no plans of it without a
 *                                  libcuda.so.1 in the process; print; refuse-device; refuse-graph;
 *                                  no-plans; one-device: exit when a second one is described
 *
 * A test that has the double in its own process can have the nth call from now fail, and count what is not destroyed.
 *
 * Limits: only what convolutions and attention need of the backend API; a descriptor checks nothing, and keeps the descriptors that it was
 * given by reference.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/cublaslt_stand_in.h"
#include "device/cudnn_backend.h"

#define EXPORT __attribute__((visibility("default")))

enum { ATTRIBUTES = 16, VALUE_BYTES = 2048, CONFIGS = 16, BAD = 2000, NOT_SUPPORTED = 3000 };

struct attribute {
    int name, type;
    int64_t count;
    unsigned char value[VALUE_BYTES];
};

struct descriptor {
    int type;
    int config;   /* of an engine, its configuration or its plan: the number in the list */
    int mode;     /* and the heuristic that listed it */
    int64_t blas; /* what cuBLASLt takes, when it is asked */
    size_t attribute_count;
    struct attribute attributes[ATTRIBUTES];
};

/* Of cuDNN 9.26: the bytes of an element, by attribute type. */
static size_t size_of(int type)
{
    switch (type) {
    case TYPE_INT64:
    case TYPE_DOUBLE:
    case TYPE_BACKEND_DESCRIPTOR:
        return 8;
    case TYPE_CHAR:
    case TYPE_BOOLEAN:
        return 1;
    default:
        return 4;
    }
}

static const char *setting(const char *name, const char *otherwise)
{
    const char *value = getenv(name);

    return value ? value : otherwise;
}

static bool does(const char *what)
{
    return strcmp(setting("PLM_DOUBLE_CUDNN_DOES", ""), what) == 0;
}

static const struct attribute *attribute(const struct descriptor *d, int name)
{
    for (size_t i = 0; i < d->attribute_count; i++)
        if (d->attributes[i].name == name)
            return &d->attributes[i];
    return NULL;
}

static struct descriptor *other(const struct descriptor *d, int name)
{
    const struct attribute *a = attribute(d, name);
    struct descriptor *found = NULL;

    if (a)
        memcpy(&found, a->value, sizeof found);
    return found;
}

/* ------------------------------------------------------------------ what the settings say */

static const char *list_of(int mode)
{
    return mode == HEUR_A          ? setting("PLM_DOUBLE_CUDNN_A", "256")
           : mode == HEUR_FALLBACK ? setting("PLM_DOUBLE_CUDNN_FALLBACK", "0")
                                   : setting("PLM_DOUBLE_CUDNN_INSTANT", "64 0");
}

/* word_at() - the nth word of a list; NULL: there are fewer */
static const char *word_at(const char *list, int n)
{
    while (*list) {
        list += strspn(list, " ");
        if (*list && n-- == 0)
            return list;
        list += strcspn(list, " ");
    }
    return NULL;
}

static int64_t elements(const struct descriptor *tensor)
{
    const struct attribute *a = attribute(tensor, ATTR_TENSOR_DIMENSIONS);
    int64_t numel = 1, size;

    for (int64_t i = 0; a && i < a->count; i++) {
        memcpy(&size, a->value + 8 * i, sizeof size);
        numel *= size;
    }
    return numel;
}

static int64_t number(const struct descriptor *tensor, int name, int at)
{
    const struct attribute *a = attribute(tensor, name);
    int64_t value = -1;

    if (a)
        memcpy(&value, a->value + 8 * at, sizeof value);
    return value;
}

/* workspace() - of a plan, by its word */
static int64_t workspace(const struct descriptor *plan)
{
    const struct descriptor *config = other(plan, ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    const struct descriptor *graph = other(config, ATTR_ENGINEHEUR_OPERATION_GRAPH);
    const struct descriptor *node = other(graph, ATTR_OPERATIONGRAPH_OPS);
    int w = ATTR_FORWARD_W, x = ATTR_FORWARD_X, y = ATTR_FORWARD_Y;
    const char *word = word_at(list_of(config->mode), config->config);

    if (node->type == BACKEND_CONVOLUTION_BACKWARD_DATA)
        w = ATTR_DATA_W, x = ATTR_DATA_DX, y = ATTR_DATA_DY;
    else if (node->type == BACKEND_CONVOLUTION_BACKWARD_FILTER)
        w = ATTR_FILTER_DW, x = ATTR_FILTER_X, y = ATTR_FILTER_DY;
    switch (*word) {
    case 'X':
        return elements(other(node, x));
    case 'W':
        return elements(other(node, w));
    case 'Y':
        return elements(other(node, y));
    case 'S':
        return number(other(node, x), ATTR_TENSOR_STRIDES, 1);
    case 'A':
        return number(other(node, x), ATTR_TENSOR_BYTE_ALIGNMENT, 0);
    default:
        return strtoll(word + (*word == 'd' || *word == 'b'), NULL, 10) + config->blas;
    }
}

/* ------------------------------------------------------------------ graphs as text */

/* struct drawing - the tensors met so far, by their ids in the order of their numbers */
struct drawing {
    FILE *out;
    int64_t ids[64];
    int count;
};

static int number_of(struct drawing *d, int64_t id, bool *ret_new)
{
    int at = 0;

    while (at < d->count && d->ids[at] != id)
        at++;
    *ret_new = at == d->count;
    if (*ret_new)
        d->ids[d->count++] = id;
    return at + 1;
}

static void draw_list(struct drawing *d, const struct descriptor *tensor, int name, char between)
{
    const struct attribute *a = attribute(tensor, name);

    for (int i = 0; i < a->count; i++) {
        if (i > 0)
            fputc(between, d->out);
        fprintf(d->out, "%lld", (long long)number(tensor, name, i));
    }
}

static void draw_tensor(struct drawing *d, const struct descriptor *tensor)
{
    const struct attribute *type = attribute(tensor, ATTR_TENSOR_DATA_TYPE);
    bool is_new;
    int data;

    fprintf(d->out, "#%d", number_of(d, number(tensor, ATTR_TENSOR_UNIQUE_ID, 0), &is_new));
    if (!is_new)
        return;
    memcpy(&data, type->value, sizeof data);
    fputc('[', d->out);
    draw_list(d, tensor, ATTR_TENSOR_DIMENSIONS, 'x');
    fputc('|', d->out);
    draw_list(d, tensor, ATTR_TENSOR_STRIDES, ',');
    fprintf(d->out, "]%s%s%s",
            data == DATA_FLOAT  ? "f32"
            : data == DATA_HALF ? "f16"
                                : "bf16",
            attribute(tensor, ATTR_TENSOR_IS_VIRTUAL) ? " virtual" : "",
            attribute(tensor, ATTR_TENSOR_IS_BY_VALUE) ? " value" : "");
}

static void draw(struct drawing *d, const struct descriptor *it);

static void draw_value(struct drawing *d, const struct attribute *a, int i)
{
    const unsigned char *at = a->value + (size_t)i * size_of(a->type);
    const struct descriptor *other_one;
    int64_t whole = 0;
    float real;
    bool is_new;

    switch (a->type) {
    case TYPE_BACKEND_DESCRIPTOR:
        memcpy(&other_one, at, sizeof other_one);
        draw(d, other_one);
        break;
    case TYPE_FLOAT:
        memcpy(&real, at, sizeof real);
        fprintf(d->out, "%g", (double)real);
        break;
    default:
        memcpy(&whole, at, size_of(a->type)); /* of a little-endian machine */
        if (a->name == ATTR_SDPA_FORWARD_SUBGRAPH_INPUT_UID ||
            a->name == ATTR_SDPA_FORWARD_SUBGRAPH_OUTPUT_UID)
            fprintf(d->out, "#%d", number_of(d, whole, &is_new));
        else
            fprintf(d->out, "%lld", (long long)whole);
        break;
    }
}

static int by_name(const void *a, const void *b)
{
    const struct attribute *x = a, *y = b;

    return (x->name > y->name) - (x->name < y->name);
}

static void draw(struct drawing *d, const struct descriptor *it)
{
    struct attribute sorted[ATTRIBUTES];

    if (it->type == BACKEND_TENSOR) {
        draw_tensor(d, it);
        return;
    }
    memcpy(sorted, it->attributes, it->attribute_count * sizeof *sorted);
    qsort(sorted, it->attribute_count, sizeof *sorted, by_name);
    fprintf(d->out, "{%d", it->type);
    for (size_t a = 0; a < it->attribute_count; a++) {
        fprintf(d->out, " %d=", sorted[a].name);
        for (int i = 0; i < sorted[a].count; i++) {
            if (i > 0)
                fputc(' ', d->out);
            draw_value(d, &sorted[a], i);
        }
    }
    fputc('}', d->out);
}

/* draw_graph() - its operations, a line for each */
static void draw_graph(const struct descriptor *graph)
{
    const char *path = setting("PLM_DOUBLE_CUDNN_GRAPH", NULL);
    const struct attribute *operations = attribute(graph, ATTR_OPERATIONGRAPH_OPS);
    struct drawing d = { .out = path ? fopen(path, "a") : NULL };

    if (!d.out)
        return;
    for (int i = 0; i < operations->count; i++) {
        draw_value(&d, operations, i);
        fputc('\n', d.out);
    }
    fclose(d.out);
}

/* ------------------------------------------------------------------ calls that fail */

static long fails_in, alive;

EXPORT void double_cudnn_fail(long nth);
EXPORT long double_cudnn_alive(void);

/* double_cudnn_fail() - the @nth call from now on fails, 1 the next; 0: none does */
void double_cudnn_fail(long nth)
{
    fails_in = nth;
}

/* double_cudnn_alive() - descriptors that were created and not destroyed */
long double_cudnn_alive(void)
{
    return alive;
}

static bool fails(void)
{
    return fails_in > 0 && --fails_in == 0;
}

/* ------------------------------------------------------------------ the library's functions */

EXPORT size_t cudnnGetVersion(void);
EXPORT void cudnnGetLastErrorString(char *message, size_t size);
EXPORT int cudnnBackendCreateDescriptor(int type, backend_desc *ret);
EXPORT int cudnnBackendDestroyDescriptor(backend_desc descriptor);
EXPORT int cudnnBackendSetAttribute(
    backend_desc descriptor, int name, int type, int64_t count, const void *elements);
EXPORT int cudnnBackendGetAttribute(backend_desc descriptor,
                                    int name,
                                    int type,
                                    int64_t requested,
                                    int64_t *ret_count,
                                    void *elements);
EXPORT int cudnnBackendFinalize(backend_desc descriptor);

size_t cudnnGetVersion(void)
{
    return (size_t)strtoul(setting("PLM_DOUBLE_CUDNN_VERSION", "92600"), NULL, 10);
}

void cudnnGetLastErrorString(char *message, size_t size)
{
    snprintf(message, size, "the double was told to refuse\nin two lines");
}

int cudnnBackendCreateDescriptor(int type, backend_desc *ret)
{
    static int devices;
    struct descriptor *d = fails() ? NULL : calloc(1, sizeof *d);

    if (type == BACKEND_DEVICEPROP && devices++ > 0 && does("one-device"))
        _exit(4);
    if (d) {
        d->type = type;
        alive++;
    }
    *ret = d;
    return d ? 0 : BAD;
}

int cudnnBackendDestroyDescriptor(backend_desc descriptor)
{
    free(descriptor);
    alive--;
    return 0;
}

int cudnnBackendSetAttribute(
    backend_desc descriptor, int name, int type, int64_t count, const void *elements)
{
    struct descriptor *d = descriptor;
    size_t bytes = (size_t)count * size_of(type);

    if (fails() || d->attribute_count == ATTRIBUTES || bytes > VALUE_BYTES)
        return BAD;
    struct attribute *a = &d->attributes[d->attribute_count++];

    a->name = name;
    a->type = type;
    a->count = count;
    memcpy(a->value, elements, bytes);
    return 0;
}

/* blas_workspace() - of the algorithm that cuBLASLt names, the library of that name which is found; -1: there is none */
static int64_t blas_workspace(void)
{
    void *library = dlopen("libcublasLt.so.13", RTLD_NOW), *handle, *preference;
    const char *names[] = { "cublasLtCreate", "cublasLtMatmulPreferenceCreate",
                            "cublasLtMatmulPreferenceSetAttribute",
                            "cublasLtMatmulAlgoGetHeuristic" };
    void *addresses[4];
    __typeof__(&cublasLtCreate) create;
    __typeof__(&cublasLtMatmulPreferenceCreate) create_preference;
    __typeof__(&cublasLtMatmulPreferenceSetAttribute) set;
    __typeof__(&cublasLtMatmulAlgoGetHeuristic) name_algorithm;
    struct cublaslt_result result[8] = { 0 };
    uint64_t limit = strtoull(setting("PLM_DOUBLE_CUDNN_LIMIT", "4194304"), NULL, 10);
    int count = 0;

    for (int i = 0; i < 4; i++)
        if (!library || !(addresses[i] = dlsym(library, names[i])))
            return -1;
    memcpy(&create, &addresses[0], sizeof create);
    memcpy(&create_preference, &addresses[1], sizeof create_preference);
    memcpy(&set, &addresses[2], sizeof set);
    memcpy(&name_algorithm, &addresses[3], sizeof name_algorithm);
    if (create(&handle) != 0 || create_preference(&preference) != 0 ||
        set(preference, CUBLASLT_MAX_WORKSPACE, &limit, sizeof limit) != 0 ||
        name_algorithm(handle, NULL, NULL, NULL, NULL, NULL, preference, 8, result, &count) != 0)
        return -1;
    return count > 0 ? (int64_t)result[0].workspace : -1;
}

/* results() - of a heuristic: how many configurations, and as many as there is room for */
static int64_t results(const struct descriptor *heuristic, int64_t requested, void *elements)
{
    int mode = HEUR_INSTANT;
    int64_t count = 0;
    const struct descriptor *graph = other(heuristic, ATTR_ENGINEHEUR_OPERATION_GRAPH);
    const char *word;

    memcpy(&mode, attribute(heuristic, ATTR_ENGINEHEUR_MODE)->value, sizeof mode);
    if (mode == HEUR_A && does("crash-attention"))
        raise(SIGSEGV);
    for (int i = 0; i < CONFIGS && (word = word_at(list_of(mode), i)); i++) {
        struct descriptor *config;
        int64_t blas = *word == 'b' ? blas_workspace() : 0;

        if (blas < 0)
            continue;
        if (elements && count < requested) {
            config = ((backend_desc *)elements)[count];
            config->config = i;
            config->blas = blas;
            config->mode = mode;
            cudnnBackendSetAttribute(config, ATTR_ENGINEHEUR_OPERATION_GRAPH,
                                     TYPE_BACKEND_DESCRIPTOR, 1, &graph);
        }
        count++;
    }
    if (mode == HEUR_A && does("want-driver") && !dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD))
        return 0;
    return does("no-plans") ? 0 : count;
}

/* config_workspace() - of one that heuristic A listed, by its word, or of an engine that was named with all its settings */
static int config_workspace(const struct descriptor *config, int64_t *ret)
{
    const struct attribute *settings = attribute(config, ATTR_ENGINECFG_KNOB_CHOICES);
    const struct descriptor *engine = other(config, ATTR_ENGINECFG_ENGINE);
    const char *word = word_at(list_of(HEUR_A), config->config);

    if (settings && (settings->count != 6 || number(engine, ATTR_ENGINE_GLOBAL_INDEX, 0) != 5))
        return NOT_SUPPORTED;
    if (*word == '!')
        return NOT_SUPPORTED;
    *ret = strtoll(word, NULL, 10);
    return 0;
}

int cudnnBackendGetAttribute(backend_desc descriptor,
                             int name,
                             int type,
                             int64_t requested,
                             int64_t *ret_count,
                             void *elements)
{
    const struct descriptor *d = descriptor;

    (void)type;
    if (fails())
        return BAD;
    *ret_count = 1;
    if (name == ATTR_ENGINEHEUR_RESULTS) {
        *ret_count = results(d, requested, elements);
    } else if (name == ATTR_ENGINECFG_ENGINE) {
        struct descriptor *engine = *(backend_desc *)elements;

        engine->config = d->config;
        engine->mode = d->mode;
    } else if (name == ATTR_ENGINE_NUMERICAL_NOTE) {
        *ret_count = *word_at(list_of(d->mode), d->config) == 'd';
        if (*ret_count > 0)
            *(int *)elements = NOTE_DOWN_CONVERT_INPUTS;
    } else if (name == ATTR_ENGINECFG_WORKSPACE_SIZE) {
        return config_workspace(d, elements);
    } else if (name == ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
        *(int64_t *)elements = workspace(d);
    } else {
        return BAD;
    }
    return 0;
}

int cudnnBackendFinalize(backend_desc descriptor)
{
    const struct descriptor *d = descriptor;

    if (fails())
        return BAD;
    if (d->type == BACKEND_DEVICEPROP && does("refuse-device"))
        return NOT_SUPPORTED;
    if (d->type == BACKEND_OPERATIONGRAPH && does("refuse-graph"))
        return NOT_SUPPORTED;
    if (d->type == BACKEND_ENGINEHEUR)
        draw_graph(other(d, ATTR_ENGINEHEUR_OPERATION_GRAPH));
    if (d->type == BACKEND_ENGINE)
        draw_graph(other(d, ATTR_ENGINE_OPERATION_GRAPH));
    if (d->type != BACKEND_EXECUTION_PLAN)
        return 0;
    const struct descriptor *config = other(d, ATTR_EXECUTION_PLAN_ENGINE_CONFIG);

    if (does("hang"))
        pause();
    if (does("crash"))
        raise(SIGSEGV);
    if (does("exit"))
        _exit(3);
    if (does("print")) {
        printf("noise\n");
        fflush(stdout);
        fprintf(stderr, "more noise\n");
    }
    return *word_at(list_of(config->mode), config->config) == '!' ? NOT_SUPPORTED : 0;
}
