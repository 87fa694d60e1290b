/*
 * tests/doubles/nvml.c - a double of libnvidia-ml.so.1
 *
 * PLM_DOUBLE_NVML names a file of settings, one "KEY VALUES" a line ('#' begins a comment):
 *
 *     driver TEXT            580.65.06
 *     gpu NAME               a GPU; the keys below are of the one that was named last
 *     slice NAME             a MIG slice of the last GPU, which then is in MIG mode; the keys below are of the slice
 *     uuid TEXT              GPU-0, GPU-1, …
 *     total SIZE             8GiB; sizes are bytes, or have KiB, MiB, GiB
 *     reserved SIZE          0: the driver's own
 *     ecc, compute_mode N    0, 0; -1: not told
 *     told WORD              yes; no: the list of processes is not supported; unknown: it is, without their memory
 *     process WHO SIZES      a process that is listed. WHO is its number, or "child" or "grandchild" of whoever asks, which is
 *                            there while that process is. SIZES: "1GiB,2GiB*10,+2MiB*5": a figure for each sample, repeated,
 *                            or so much more each time; the last one stays
 *     hidden WHO SIZES       the same of one that is not listed
 *     fail FUNCTION N CODE   the Nth call (from 1) returns CODE
 *     from FUNCTION N CODE   … and so does every later one
 *     delay FUNCTION REAL    each call takes so many seconds
 *
 * A sample is one call for a GPU's memory, of either form: so what a test sees does not depend on time.
 * Compiled with DOUBLE_OLD it has only what the drivers before R450 had, with DOUBLE_BROKEN it lacks a function that every driver has.
 *
 * Limits: one thread, nothing but reading, no vGPU, no MPS, and a process has memory in compute contexts only.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "device/nvml_abi.h"

#define EXPORT __attribute__((visibility("default")))

enum { GPUS = 8, PROCESSES = 16, VALUES = 4096, EVENTS = 16, LINE = 4096 };
enum told { TOLD_YES, TOLD_NO, TOLD_UNKNOWN };

struct user {
    char who[32];
    int listed;
    uint64_t values[VALUES];
    size_t value_count;
};

struct gpu {
    char name[96], uuid[96];
    uint64_t total, reserved, sample;
    int ecc, compute_mode, parent; /* @parent: of a slice; -1: none */
    enum told told;
    struct user users[PROCESSES];
    size_t user_count;
};

struct event {
    char function[64];
    uint64_t nth, calls;
    int code, lasting;
    double delay;
};

static struct gpu gpus[GPUS];
static size_t gpu_count;
static struct event events[EVENTS];
static size_t event_count;
static char driver[96] = "580.65.06";
static int started;

/* ------------------------------------------------------------------ settings */

static _Noreturn void wrong(const char *line)
{
    fprintf(stderr, "NVML double: cannot understand: %s\n", line);
    _exit(97);
}

static uint64_t size(const char *text, char **ret_end)
{
    double value = strtod(text, ret_end);
    static const struct {
        const char *name;
        double factor;
    } units[] = { { "KiB", 1024 }, { "MiB", 1048576 }, { "GiB", 1073741824 } };

    for (size_t i = 0; i < 3; i++)
        if (strncmp(*ret_end, units[i].name, 3) == 0) {
            *ret_end += 3;
            value *= units[i].factor;
        }
    return (uint64_t)value;
}

/* read_values() - "1GiB,2GiB*10,+2MiB*5" */
static void read_values(struct user *user, char *text)
{
    while (*text) {
        int more = *text == '+';
        uint64_t bytes = size(text + more, &text);
        long times = *text == '*' ? strtol(text + 1, &text, 10) : 1;

        while (times-- > 0 && user->value_count < VALUES) {
            uint64_t before = user->value_count ? user->values[user->value_count - 1] : 0;

            user->values[user->value_count++] = more ? before + bytes : bytes;
        }
        if (*text == ',')
            text++;
        else if (*text)
            wrong(text);
    }
}

static void add_gpu(const char *name, int parent)
{
    struct gpu *gpu = &gpus[gpu_count];

    if (gpu_count == GPUS)
        wrong(name);
    gpu->parent = parent;
    gpu->total = (uint64_t)8 << 30;
    snprintf(gpu->name, sizeof gpu->name, "%s", name);
    snprintf(gpu->uuid, sizeof gpu->uuid, "%s-%zu", parent < 0 ? "GPU" : "MIG", gpu_count);
    gpu_count++;
}

static int last_whole(void)
{
    for (size_t i = gpu_count; i-- > 0;)
        if (gpus[i].parent < 0)
            return (int)i;
    wrong("slice before gpu");
}

static void read_event(const char *kind, char *rest)
{
    struct event *event = &events[event_count++];
    double first = 0, second = 0;

    if (event_count > EVENTS || sscanf(rest, "%63s %lf %lf", event->function, &first, &second) < 2)
        wrong(rest);
    event->delay = strcmp(kind, "delay") == 0 ? first : 0;
    event->nth = strcmp(kind, "delay") == 0 ? 0 : (uint64_t)first;
    event->lasting = strcmp(kind, "from") == 0;
    event->code = (int)second;
}

static void read_user(struct gpu *gpu, int listed, char *rest)
{
    struct user *user = &gpu->users[gpu->user_count++];
    char *space = strchr(rest, ' ');

    if (gpu->user_count > PROCESSES || !space)
        wrong(rest);
    *space = '\0';
    snprintf(user->who, sizeof user->who, "%s", rest);
    user->listed = listed;
    read_values(user, space + 1);
}

static void read_line(char *line)
{
    char *rest = line + strcspn(line, " "), *end;
    struct gpu *gpu = gpu_count ? &gpus[gpu_count - 1] : NULL;

    if (*rest)
        *rest++ = '\0';
    if (strcmp(line, "driver") == 0)
        snprintf(driver, sizeof driver, "%s", rest);
    else if (strcmp(line, "gpu") == 0)
        add_gpu(rest, -1);
    else if (strcmp(line, "slice") == 0)
        add_gpu(rest, last_whole());
    else if (strcmp(line, "fail") == 0 || strcmp(line, "from") == 0 || strcmp(line, "delay") == 0)
        read_event(line, rest);
    else if (!gpu)
        wrong(line);
    else if (strcmp(line, "uuid") == 0)
        snprintf(gpu->uuid, sizeof gpu->uuid, "%s", rest);
    else if (strcmp(line, "total") == 0)
        gpu->total = size(rest, &end);
    else if (strcmp(line, "reserved") == 0)
        gpu->reserved = size(rest, &end);
    else if (strcmp(line, "ecc") == 0)
        gpu->ecc = (int)strtol(rest, NULL, 10);
    else if (strcmp(line, "compute_mode") == 0)
        gpu->compute_mode = (int)strtol(rest, NULL, 10);
    else if (strcmp(line, "told") == 0)
        gpu->told = strcmp(rest, "no") == 0        ? TOLD_NO
                    : strcmp(rest, "unknown") == 0 ? TOLD_UNKNOWN
                                                   : TOLD_YES;
    else if (strcmp(line, "process") == 0 || strcmp(line, "hidden") == 0)
        read_user(gpu, *line == 'p', rest);
    else
        wrong(line);
}

static void read_settings(void)
{
    const char *path = getenv("PLM_DOUBLE_NVML");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[LINE];

    if (!file)
        wrong("PLM_DOUBLE_NVML");
    gpu_count = event_count = 0;
    memset(gpus, 0, sizeof gpus);
    memset(events, 0, sizeof events);
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n#")] = '\0';
        if (*line)
            read_line(line);
    }
    fclose(file);
}

/* enter() - what the call of @function shall fail with, or 0 */
static int enter(const char *function)
{
    int code = 0;

    if (!started)
        read_settings();
    started = 1;
    for (size_t i = 0; i < event_count; i++) {
        struct event *event = &events[i];

        if (strcmp(event->function, function) != 0)
            continue;
        event->calls++;
        if (event->delay > 0)
            nanosleep(
                &(struct timespec){
                    .tv_sec = (time_t)event->delay,
                    .tv_nsec = (long)((event->delay - (double)(time_t)event->delay) * 1e9) },
                NULL);
        if (event->nth &&
            (event->lasting ? event->calls >= event->nth : event->calls == event->nth))
            code = event->code;
    }
    return code;
}

#define ENTER()                                                                                    \
    do {                                                                                           \
        int code_ = enter(__func__);                                                               \
        if (code_)                                                                                 \
            return code_;                                                                          \
    } while (0)

/* ------------------------------------------------------------------ processes */

/* first_child() - a process whose parent is @parent, or 0 */
static long first_child(long parent)
{
    DIR *folder = opendir("/proc");
    const struct dirent *entry;
    long found = 0;

    while (folder && !found && (entry = readdir(folder))) {
        char path[300], text[512];
        FILE *file;
        const char *at;

        if (*entry->d_name < '1' || *entry->d_name > '9')
            continue;
        snprintf(path, sizeof path, "/proc/%s/stat", entry->d_name);
        file = fopen(path, "r");
        if (!file)
            continue;
        if (fgets(text, sizeof text, file) && (at = strrchr(text, ')')) && at[2] != 'Z' &&
            strtol(at + 3, NULL, 10) == parent)
            found = strtol(entry->d_name, NULL, 10);
        fclose(file);
    }
    if (folder)
        closedir(folder);
    return found;
}

/* pid_of() - 0 when it is not there */
static long pid_of(const struct user *user)
{
    long child;

    if (strcmp(user->who, "child") == 0)
        return first_child(getpid());
    if (strcmp(user->who, "grandchild") == 0) {
        child = first_child(getpid());
        return child ? first_child(child) : 0;
    }
    return strtol(user->who, NULL, 10);
}

static uint64_t bytes_of(const struct gpu *gpu, const struct user *user)
{
    size_t at = gpu->sample > 0 ? gpu->sample - 1 : 0;

    if (user->value_count == 0 || pid_of(user) == 0)
        return 0;
    return user->values[at < user->value_count ? at : user->value_count - 1];
}

static uint64_t used_of(const struct gpu *gpu)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < gpu->user_count; i++)
        sum += bytes_of(gpu, &gpu->users[i]);
    return sum;
}

/* ------------------------------------------------------------------ what NVML exports */

EXPORT int nvmlInit_v2(void);
EXPORT int nvmlShutdown(void);
EXPORT const char *nvmlErrorString(int code);
#define NVML_CALL(member, symbol, required, arguments) EXPORT int symbol arguments;
#include "device/nvml.def"
#undef NVML_CALL

int nvmlInit_v2(void)
{
    ENTER();
    return 0;
}

int nvmlShutdown(void)
{
    ENTER();
    started = 0;
    return 0;
}

const char *nvmlErrorString(int code)
{
    static char text[32];

    snprintf(text, sizeof text, code == 3 ? "Not Supported" : "Double's Error %d", code);
    return text;
}

int nvmlSystemGetDriverVersion(char *text, unsigned length)
{
    ENTER();
    snprintf(text, length, "%s", driver);
    return 0;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
    ENTER();
    *count = 0;
    for (size_t i = 0; i < gpu_count; i++)
        *count += gpus[i].parent < 0;
    return 0;
}

/* pick() - the @index'th GPU, or slice of the GPU @parent */
static int pick(int parent, unsigned index, nvml_handle *handle)
{
    for (size_t i = 0; i < gpu_count; i++)
        if (gpus[i].parent == parent && index-- == 0) {
            *handle = &gpus[i];
            return 0;
        }
    return NVML_CODE_NOT_FOUND;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, nvml_handle *handle)
{
    ENTER();
    return pick(-1, index, handle);
}

int nvmlDeviceGetName(nvml_handle handle, char *text, unsigned length)
{
    ENTER();
    snprintf(text, length, "%s", ((struct gpu *)handle)->name);
    return 0;
}

int nvmlDeviceGetUUID(nvml_handle handle, char *text, unsigned length)
{
    ENTER();
    snprintf(text, length, "%s", ((struct gpu *)handle)->uuid);
    return 0;
}

#ifndef DOUBLE_BROKEN
int nvmlDeviceGetMemoryInfo(nvml_handle handle, struct nvml_abi_memory *memory)
{
    struct gpu *gpu = handle;

    ENTER();
    gpu->sample++;
    memory->total = gpu->total;
    memory->used = used_of(gpu) + gpu->reserved;
    memory->free = memory->total - memory->used;
    return 0;
}
#endif

int nvmlDeviceGetComputeRunningProcesses(nvml_handle handle,
                                         unsigned *count,
                                         struct nvml_abi_process *list)
{
    struct gpu *gpu = handle;
    unsigned room = *count;

    ENTER();
    if (gpu->told == TOLD_NO)
        return NVML_CODE_NOT_SUPPORTED;
    *count = 0;
    for (size_t i = 0; i < gpu->user_count; i++) {
        uint64_t bytes = bytes_of(gpu, &gpu->users[i]);

        if (!gpu->users[i].listed || bytes == 0)
            continue;
        if (*count < room)
            list[*count] = (struct nvml_abi_process){
                .pid = (uint32_t)pid_of(&gpu->users[i]),
                .bytes = gpu->told == TOLD_UNKNOWN ? NVML_ABI_UNKNOWN : bytes,
            };
        ++*count;
    }
    return *count > room ? NVML_CODE_INSUFFICIENT_SIZE : 0;
}

#ifndef DOUBLE_OLD
int nvmlDeviceGetMemoryInfo_v2(nvml_handle handle, struct nvml_abi_memory_v2 *memory)
{
    struct gpu *gpu = handle;

    ENTER();
    if (memory->version != NVML_ABI_MEMORY_V2)
        return 25; /* NVML_ERROR_ARGUMENT_VERSION_MISMATCH */
    gpu->sample++;
    memory->total = gpu->total;
    memory->reserved = gpu->reserved;
    memory->used = used_of(gpu);
    memory->free = memory->total - memory->used - memory->reserved;
    return 0;
}

int nvmlDeviceGetComputeRunningProcesses_v2(nvml_handle handle,
                                            unsigned *count,
                                            struct nvml_abi_process_v2 *list)
{
    struct nvml_abi_process first[PROCESSES];
    unsigned room = *count, most = room < PROCESSES ? room : PROCESSES;
    int code;

    ENTER();
    *count = most;
    code = nvmlDeviceGetComputeRunningProcesses(handle, count, first);
    for (unsigned i = 0; code == 0 && i < *count; i++)
        list[i] =
            (struct nvml_abi_process_v2){ first[i].pid, first[i].bytes, UINT32_MAX, UINT32_MAX };
    return code;
}

int nvmlDeviceGetEccMode(nvml_handle handle, unsigned *now, unsigned *next)
{
    const struct gpu *gpu = handle;

    ENTER();
    *now = *next = gpu->ecc > 0;
    return gpu->ecc < 0 ? NVML_CODE_NOT_SUPPORTED : 0;
}

int nvmlDeviceGetComputeMode(nvml_handle handle, unsigned *mode)
{
    const struct gpu *gpu = handle;

    ENTER();
    *mode = (unsigned)gpu->compute_mode;
    return gpu->compute_mode < 0 ? NVML_CODE_NOT_SUPPORTED : 0;
}

int nvmlDeviceGetMaxMigDeviceCount(nvml_handle handle, unsigned *count)
{
    ENTER();
    *count = 7; /* of an A100, an H100 and their successors */
    return 0;
}

int nvmlDeviceGetMigMode(nvml_handle handle, unsigned *now, unsigned *next)
{
    nvml_handle slice;

    ENTER();
    *now = *next = pick((int)((struct gpu *)handle - gpus), 0, &slice) == 0;
    return 0;
}

int nvmlDeviceGetMigDeviceHandleByIndex(nvml_handle handle, unsigned index, nvml_handle *slice)
{
    ENTER();
    return pick((int)((struct gpu *)handle - gpus), index, slice);
}
#endif
