/* tests/doubles/world.c - settings, what processes share, and device memory; world.h says what is modelled */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "world.h"

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)

enum event_kind { EVENT_FAIL, EVENT_HANG, EVENT_DIE, EVENT_DELAY, EVENT_OTHERS, EVENT_KINDS };
enum { EVENTS_MAX = 64 };

/* struct planned - a line such as "fail cudaMalloc 3 2" */
struct planned {
    enum event_kind kind;
    enum call_id call;
    uint64_t nth, bytes;
    double seconds;
    int error;
};

static struct world the_world;
static struct planned planned[EVENTS_MAX];
static size_t planned_count;

static const char *const call_names[CALL_COUNT] = {
#define CALL(library, need, result, symbol, member, arguments) [CALL_##member] = #member,
#include "device/cuda_calls.def"
#include "device/library_calls.def"
#undef CALL
};

struct world *world(void)
{
    return &the_world;
}

/* ------------------------------------------------------------------ settings */

static _Noreturn void wrong(const char *what, const char *which)
{
    fprintf(stderr, "CUDA double: %s: %s\n", what, which);
    _exit(97);
}

static uint64_t size(const char *text)
{
    char *end;
    double value = strtod(text, &end);

    if (strcmp(end, "KiB") == 0)
        value *= (double)KIB;
    else if (strcmp(end, "MiB") == 0)
        value *= (double)MIB;
    else if (strcmp(end, "GiB") == 0)
        value *= (double)GIB;
    else if (*end != '\0')
        wrong("no size", text);
    return (uint64_t)value;
}

static const struct {
    const char *key;
    size_t offset;
} integers[] = {
#define INTEGER(key)                                                                               \
    {                                                                                              \
#key, offsetof(struct world_settings, key)                                                 \
    }
    INTEGER(devices),    INTEGER(driver),       INTEGER(runtime),  INTEGER(capability),
    INTEGER(processors), INTEGER(threads),      INTEGER(ecc),      INTEGER(compute_mode),
    INTEGER(integrated), INTEGER(contiguous), INTEGER(coalesce),     INTEGER(reuse),    INTEGER(pools),
    INTEGER(vmm),        INTEGER(managed),    INTEGER(blind),
}, sizes[] = {
    INTEGER(total),      INTEGER(others),       INTEGER(context),  INTEGER(module),
    INTEGER(granularity), INTEGER(small),       INTEGER(alignment), INTEGER(unusable),
    INTEGER(kept),       INTEGER(pool_growth),  INTEGER(pool_rounding),
    INTEGER(pool_threshold), INTEGER(vmm_minimum), INTEGER(cublas), INTEGER(cublas_kernels), INTEGER(cublas_workspace), INTEGER(cublaslt), INTEGER(cudnn), INTEGER(nccl), INTEGER(vmm_recommended),
};

static const char *const rates[RATE_COUNT] = {
    [RATE_BANDWIDTH] = "bandwidth",
    [RATE_H2D] = "h2d",
    [RATE_D2H] = "d2h",
    [RATE_H2D_PAGEABLE] = "h2d_pageable",
    [RATE_D2H_PAGEABLE] = "d2h_pageable",
    [RATE_PEER] = "peer",
    [RATE_FP32] = "fp32",
    [RATE_TF32] = "tf32",
    [RATE_FP16] = "fp16",
    [RATE_BF16] = "bf16",
    [RATE_FP8] = "fp8",
    [RATE_LAUNCH] = "launch",
};

static const char *const kinds[EVENT_KINDS] = { "fail", "hang", "die", "delay", "others_at" };

static void defaults(struct world_settings *s)
{
    *s = (struct world_settings){
        .name = "NVIDIA Double",
        .uuid = { 0xd0, 0xb1, 0xe0 },
        .devices = 1,
        .driver = 13000,
        .runtime = 13000,
        .capability = 90,
        .processors = 132,
        .threads = 2048,
        .ecc = 1,
        .total = 8 * GIB,
        .context = 300 * MIB,
        .module = 4 * MIB,
        .granularity = 2 * MIB,
        .small = MIB,
        .alignment = 512,
        .coalesce = 1,
        .reuse = 1,
        .pools = 1,
        .vmm = 1,
        .managed = 1,
        .pool_growth = 32 * MIB,
        .pool_rounding = 512,
        .vmm_minimum = 2 * MIB,
        .vmm_recommended = 2 * MIB,
        .cublas = 8 * MIB,
        .cublas_kernels = 16 * MIB,
        .cublas_workspace = 32 * MIB,
        .cublaslt = 2 * MIB,
        .cudnn = 4 * MIB,
        .nccl = 40 * MIB,
        .rates = { 3e12, 50e9, 40e9, 10e9, 8e9, 200e9, 50e12, 400e12, 800e12, 700e12, 1500e12,
                   5e-6 },
    };
}

/* plan() - "fail FUNCTION N ERROR" and its like; @rest is what follows the kind */
static void plan(enum event_kind kind, char *rest)
{
    struct planned *event = &planned[planned_count];
    char name[64], first[64] = "", second[64] = "";
    int found = sscanf(rest, "%63s %63s %63s", name, first, second);

    if (planned_count == EVENTS_MAX || found < (kind == EVENT_FAIL || kind == EVENT_OTHERS ? 3 : 2))
        wrong("too many or incomplete", rest);
    *event = (struct planned){ .kind = kind, .call = CALL_COUNT };
    for (unsigned i = 0; i < CALL_COUNT; i++)
        if (strcmp(call_names[i], name) == 0)
            event->call = (enum call_id)i;
    if (event->call == CALL_COUNT)
        wrong("no such function", name);
    event->nth = strtoull(first, NULL, 10);
    event->seconds = strtod(first, NULL);
    if (kind == EVENT_FAIL)
        event->error = (int)strtol(second, NULL, 10);
    if (kind == EVENT_OTHERS)
        event->bytes = size(second);
    planned_count++;
}

static void read_uuid(struct world_settings *s, const char *text)
{
    for (size_t i = 0; i < sizeof s->uuid; i++) {
        unsigned byte;

        if (sscanf(text + 2 * i, "%2x", &byte) != 1)
            wrong("no UUID", text);
        s->uuid[i] = (unsigned char)byte;
    }
}

static void read_line(struct world_settings *s, char *line)
{
    char *value = line + strcspn(line, " ");

    line[strcspn(line, "\r\n")] = '\0';
    if (*line == '\0' || *line == '#')
        return;
    if (*value)
        *value++ = '\0';
    value += strspn(value, " ");
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++)
        if (strcmp(line, integers[i].key) == 0) {
            *(int64_t *)(void *)((char *)s + integers[i].offset) = strtoll(value, NULL, 10);
            return;
        }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (strcmp(line, sizes[i].key) == 0) {
            *(uint64_t *)(void *)((char *)s + sizes[i].offset) = size(value);
            return;
        }
    for (size_t i = 0; i < RATE_COUNT; i++)
        if (strcmp(line, rates[i]) == 0) {
            s->rates[i] = strtod(value, NULL);
            return;
        }
    for (size_t i = 0; i < EVENT_KINDS; i++)
        if (strcmp(line, kinds[i]) == 0) {
            plan((enum event_kind)i, value);
            return;
        }
    if (strcmp(line, "state") == 0)
        snprintf(s->state, sizeof s->state, "%s", value);
    else if (strcmp(line, "name") == 0)
        snprintf(s->name, sizeof s->name, "%s", value);
    else if (strcmp(line, "uuid") == 0)
        read_uuid(s, value);
    else
        wrong("unknown setting", line);
}

static void read_settings(struct world_settings *s)
{
    const char *path = getenv("PLM_DOUBLE");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[600];

    if (!file)
        wrong("PLM_DOUBLE must name a file of settings", path ? path : "not set");
    defaults(s);
    while (fgets(line, sizeof line, file))
        read_line(s, line);
    fclose(file);
    if (s->state[0] == '\0' || s->devices > WORLD_DEVICES)
        wrong("a state file, and at most 4 devices, are needed", path);
}

/* ------------------------------------------------------------------ what processes share */

static void open_state(struct world *w)
{
    int fd = open(w->set.state, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *map;

    if (fd < 0 || ftruncate(fd, sizeof *w->state) != 0)
        wrong("cannot open the state", w->set.state);
    map = mmap(NULL, sizeof *w->state, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        wrong("cannot map the state", w->set.state);
    close(fd);
    w->state = map;
    for (size_t i = 0; i < WORLD_PROCESSES && !w->self; i++)
        if (w->state->processes[i].pid == 0) {
            w->self = &w->state->processes[i];
            w->self->pid = getpid();
        }
    if (!w->self)
        wrong("too many processes for one state", w->set.state);
}

/* alive() - does it hold what is written of it? */
static bool alive(const struct world_process *process)
{
    return process->pid != 0 && kill((pid_t)process->pid, 0) == 0;
}

uint64_t world_free(void)
{
    const struct world *w = &the_world;
    uint64_t used = w->set.others + w->state->others;

    for (size_t i = 0; i < WORLD_PROCESSES; i++)
        if (alive(&w->state->processes[i]))
            used += w->state->processes[i].used[w->device];
    return used < w->set.total ? w->set.total - used : 0;
}

uint64_t world_seen_free(void)
{
    const struct world *w = &the_world;

    return w->set.blind ? w->set.total - w->self->used[w->device] : world_free();
}

bool world_take(uint64_t bytes)
{
    if (world_free() < bytes + the_world.set.unusable)
        return false;
    the_world.self->used[the_world.device] += bytes;
    if (the_world.self->used[the_world.device] > the_world.self->most)
        the_world.self->most = the_world.self->used[the_world.device];
    return true;
}

void world_give(uint64_t bytes)
{
    the_world.self->used[the_world.device] -= bytes;
}

static void happen(const struct planned *event, uint64_t nth, int *error)
{
    switch (event->kind) {
    case EVENT_FAIL:
        if (nth == event->nth)
            *error = event->error;
        break;
    case EVENT_HANG:
        while (nth == event->nth)
            pause();
        break;
    case EVENT_DIE:
        if (nth == event->nth)
            raise(SIGKILL);
        break;
    case EVENT_DELAY:
        nanosleep(
            &(struct timespec){
                .tv_sec = (time_t)event->seconds,
                .tv_nsec = (long)((event->seconds - (double)(time_t)event->seconds) * 1e9) },
            NULL);
        break;
    case EVENT_OTHERS:
        if (nth == event->nth)
            the_world.state->others = event->bytes;
        break;
    case EVENT_KINDS:
        break;
    }
}

int world_enter(enum call_id call)
{
    struct world *w = &the_world;
    int error = 0;
    uint64_t nth;

    if (w->self && w->self->pid != getpid())
        *w = (struct world){ 0 }; /* forked: it is a process of its own */
    if (!w->state) {
        planned_count = 0;
        read_settings(&w->set);
        open_state(w);
    }
    nth = __atomic_add_fetch(&w->state->calls[call], 1, __ATOMIC_RELAXED);
    for (size_t i = 0; i < planned_count; i++)
        if (planned[i].call == call)
            happen(&planned[i], nth, &error);
    if (error != 0)
        w->last_error = error;
    return error;
}

static bool taken_by_another(const struct world *w)
{
    for (size_t i = 0; i < WORLD_PROCESSES; i++) {
        const struct world_process *process = &w->state->processes[i];

        if (process != w->self && alive(process) && process->contexts > 0)
            return true;
    }
    return false;
}

int world_context(void)
{
    struct world *w = &the_world;

    if (w->set.devices == 0)
        return w->last_error = CUDA_ERROR_NO_DEVICE;
    if (w->self->contexts >> w->device & 1)
        return 0;
    if (w->set.compute_mode == CUDA_COMPUTE_MODE_PROHIBITED ||
        (w->set.compute_mode == CUDA_COMPUTE_MODE_EXCLUSIVE_PROCESS && taken_by_another(w)))
        return w->last_error = CUDA_ERROR_DEVICES_UNAVAILABLE;
    if (!world_take(w->set.context))
        return w->last_error = CUDA_ERROR_MEMORY_ALLOCATION;
    w->self->contexts |= INT64_C(1) << w->device;
    return 0;
}

void world_work(enum world_rate rate, double amount)
{
    the_world.clock += rate == RATE_LAUNCH ? amount : amount / the_world.set.rates[rate];
}

/* ------------------------------------------------------------------ device memory */

/* struct stretch - of the addresses; one that is not used keeps its shape when neighbours do not merge */
struct stretch {
    uint64_t at, bytes;
    bool used;
    bool granule; /* holds small blocks, and is the allocator's own */
};

enum { STRETCHES_MAX = 1 << 17 };

/* struct line - stretches in order of address; what lies between them is free */
struct line {
    struct stretch items[STRETCHES_MAX];
    size_t count;
    uint64_t end; /* addresses below it were given out */
};

static struct line large[WORLD_DEVICES], small[WORLD_DEVICES];

#define BASE UINT64_C(0x7f0000000000)
#define SPAN UINT64_C(0x010000000000) /* addresses of a device */

static uint64_t up(uint64_t n, uint64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

static void insert(struct line *line, size_t i, struct stretch stretch)
{
    if (line->count == STRETCHES_MAX)
        wrong("too many blocks", "device memory");
    memmove(line->items + i + 1, line->items + i, (line->count - i) * sizeof *line->items);
    line->items[i] = stretch;
    line->count++;
    if (stretch.at + stretch.bytes > line->end)
        line->end = stretch.at + stretch.bytes;
}

/* place() - the first gap of @bytes in [from, to), or an unused stretch; 0 when there is none */
static uint64_t place(struct line *line, uint64_t bytes, uint64_t from, uint64_t to)
{
    uint64_t at = from;
    size_t i = 0;

    if (!the_world.set.reuse && line->end > at)
        at = line->end;
    for (; i < line->count; i++) {
        struct stretch *s = &line->items[i];

        if (s->at + s->bytes <= at)
            continue;
        if (s->at >= at + bytes || s->at >= to)
            break;
        if (!s->used && s->at >= from && s->bytes >= bytes) {
            s->used = true;
            return s->at;
        }
        at = s->at + s->bytes;
    }
    if (at + bytes > to)
        return 0;
    insert(line, i, (struct stretch){ .at = at, .bytes = bytes, .used = true });
    return at;
}

static struct stretch *find(struct line *line, uint64_t address)
{
    for (size_t i = 0; i < line->count; i++)
        if (line->items[i].at == address && line->items[i].used)
            return &line->items[i];
    return NULL;
}

static void drop(struct line *line, struct stretch *s)
{
    if (the_world.set.contiguous && !the_world.set.coalesce) {
        bool any = false;

        s->used = false;
        for (size_t i = 0; i < line->count; i++)
            any = any || line->items[i].used;
        if (!any)
            line->count = 0;
        return;
    }
    memmove(s, s + 1, (size_t)(line->items + line->count - (s + 1)) * sizeof *s);
    line->count--;
}

/* allocate_granules() - of the large line; with contiguous memory, within what the device has */
static uint64_t allocate_granules(uint64_t bytes)
{
    struct world *w = &the_world;
    uint64_t from = BASE + (uint64_t)w->device * SPAN, room = SPAN, at;
    uint64_t mine = w->self->used[w->device];

    if (w->set.contiguous) {
        /* the stretch that this process can have: its own blocks, and what is free */
        uint64_t own = 0;

        for (size_t i = 0; i < large[w->device].count; i++)
            own += large[w->device].items[i].used ? large[w->device].items[i].bytes : 0;
        room = own + (world_free() > w->set.unusable ? world_free() - w->set.unusable : 0);
        room = room / w->set.granularity * w->set.granularity;
    }
    if (!world_take(bytes))
        return 0;
    at = place(&large[w->device], bytes, from, from + room);
    if (at == 0)
        w->self->used[w->device] = mine;
    return at;
}

static uint64_t allocate_small(uint64_t bytes)
{
    struct world *w = &the_world;
    struct line *line = &large[w->device];
    uint64_t granule;

    for (size_t i = 0; i < line->count; i++)
        if (line->items[i].granule) {
            uint64_t at = place(&small[w->device], bytes, line->items[i].at,
                                line->items[i].at + line->items[i].bytes);

            if (at != 0)
                return at;
        }
    granule = allocate_granules(w->set.granularity);
    if (granule == 0)
        return 0;
    find(line, granule)->granule = true;
    return place(&small[w->device], bytes, granule, granule + w->set.granularity);
}

uint64_t world_allocate(uint64_t bytes)
{
    const struct world_settings *s = &the_world.set;
    uint64_t at = bytes <= s->small ? allocate_small(up(bytes, s->alignment))
                                    : allocate_granules(up(bytes, s->granularity));

    if (at != 0)
        the_world.self->blocks++;
    return at;
}

/* come_back() - @bytes are free again, but for what the driver keeps */
static void come_back(uint64_t bytes)
{
    struct world *w = &the_world;
    static uint64_t kept[WORLD_DEVICES];
    uint64_t keep = w->set.kept - kept[w->device] < bytes ? w->set.kept - kept[w->device] : bytes;

    kept[w->device] += keep;
    world_give(bytes - keep);
}

static void release_empty_granule(uint64_t address)
{
    struct line *line = &large[the_world.device], *blocks = &small[the_world.device];

    for (size_t i = 0; i < line->count; i++) {
        struct stretch *g = &line->items[i];

        if (!g->granule || address < g->at || address >= g->at + g->bytes)
            continue;
        for (size_t j = 0; j < blocks->count; j++)
            if (blocks->items[j].used && blocks->items[j].at >= g->at &&
                blocks->items[j].at < g->at + g->bytes)
                return;
        g->granule = false;
        come_back(g->bytes);
        drop(line, g);
        return;
    }
}

bool world_release(uint64_t address)
{
    struct line *line = &large[the_world.device];
    struct stretch *s = find(&small[the_world.device], address);

    if (s) {
        drop(&small[the_world.device], s);
        release_empty_granule(address);
    } else {
        s = find(line, address);
        if (!s || s->granule)
            return false;
        come_back(s->bytes);
        drop(line, s);
    }
    the_world.self->blocks--;
    return true;
}

void world_reset(void)
{
    struct world *w = &the_world;

    struct world_process *p = w->self;

    p->used[w->device] = 0;
    p->contexts &= ~(INT64_C(1) << w->device);
    p->lost += p->blocks + p->modules + p->mappings + p->pooled + p->managed;
    p->blocks = p->modules = p->mappings = p->pooled = p->managed = 0;
    large[w->device].count = small[w->device].count = 0;
}
