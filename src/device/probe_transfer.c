/* device/probe_transfer.c - what a call costs, and how fast copies between host and devices are */
#include <string.h>
#include <sys/mman.h>

#include "base/num.h"
#include "device/stopwatch.h"

#define MIB ((plm_bytes)1 << 20)

enum { REPEATS = 9, REPEATS_QUICK = 3, BATCH = 16 };

static size_t repeats(const struct probe *probe)
{
    return probe->options->quick ? REPEATS_QUICK : REPEATS;
}

/* ------------------------------------------------------------------ calls */

/* allocate() - cudaMalloc and cudaFree of one size, by the host's clock; the device is idle */
static enum plm_status allocate(struct probe *probe, plm_bytes bytes)
{
    const struct cuda *cuda = probe->cuda;
    double taking[REPEATS], giving[REPEATS];
    size_t count = repeats(probe);
    void *block = NULL;
    enum plm_status status = PLM_OK;

    for (size_t i = 0; i < count && status == PLM_OK; i++) {
        double begin = stopwatch_now(), middle;

        status = probe_check(probe, cuda->cudaMalloc(&block, bytes), "cudaMalloc");
        middle = stopwatch_now();
        if (status == PLM_OK)
            status = probe_check(probe, cuda->cudaFree(block), "cudaFree");
        taking[i] = middle - begin;
        giving[i] = stopwatch_now() - middle;
    }
    if (status == PLM_OK) {
        probe_say_all(probe, FIGURE_MALLOC, bytes, taking, count);
        probe_say_all(probe, FIGURE_FREE_CALL, bytes, giving, count);
    }
    return status;
}

static enum plm_status record_events(struct probe *probe)
{
    double values[REPEATS];
    size_t count = repeats(probe);
    struct stopwatch watch;
    enum plm_status status = stopwatch_create(probe, &watch);

    for (size_t i = 0; i < count && status == PLM_OK; i++) {
        double begin = stopwatch_now();

        for (unsigned n = 0; n < BATCH && status == PLM_OK; n++)
            status = stopwatch_start(probe, &watch);
        values[i] = (stopwatch_now() - begin) / BATCH;
    }
    if (status == PLM_OK)
        status = stopwatch_destroy(probe, &watch);
    if (status == PLM_OK)
        probe_say_all(probe, FIGURE_EVENT, 0, values, count);
    return status;
}

enum plm_status probe_calls(struct probe *probe)
{
    static const plm_bytes sizes[] = { 512, 2 * MIB, 20 * MIB, 256 * MIB, 1024 * MIB };
    plm_bytes room = 0;
    enum plm_status status = probe_room(probe, &room);

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && status == PLM_OK; i++)
        if (sizes[i] < room / 4)
            status = allocate(probe, sizes[i]);
    return status == PLM_OK ? record_events(probe) : status;
}

/* ------------------------------------------------------------------ host and device */

/* struct copying - between a block of the host and one of the device */
struct copying {
    struct stopwatch watch;
    void *device, *host;
    plm_bytes bytes;
    bool pinned; /* pinned memory is copied by cudaMemcpyAsync, other by cudaMemcpy */
};

static enum plm_status copy_once(struct probe *probe, const struct copying *c, enum cuda_copy kind)
{
    void *to = kind == CUDA_COPY_TO_DEVICE ? c->device : c->host;
    const void *from = kind == CUDA_COPY_TO_DEVICE ? c->host : c->device;

    if (c->pinned)
        return probe_check(probe, probe->cuda->cudaMemcpyAsync(to, from, c->bytes, (int)kind, NULL),
                           "cudaMemcpyAsync");
    return probe_check(probe, probe->cuda->cudaMemcpy(to, from, c->bytes, (int)kind), "cudaMemcpy");
}

static enum plm_status copy_rate(struct probe *probe,
                                 struct copying *c,
                                 enum cuda_copy kind,
                                 enum figure_id id)
{
    double rates[REPEATS];
    size_t count = repeats(probe);
    enum plm_status status = copy_once(probe, c, kind); /* warms up */

    for (size_t i = 0; i < count && status == PLM_OK; i++) {
        double seconds = 0;

        status = stopwatch_start(probe, &c->watch);
        if (status == PLM_OK)
            status = copy_once(probe, c, kind);
        if (status == PLM_OK)
            status = stopwatch_stop(probe, &c->watch, &seconds);
        rates[i] = seconds > 0 ? (double)c->bytes / seconds : 0;
    }
    if (status == PLM_OK)
        probe_say_all(probe, id, c->bytes, rates, count);
    return status;
}

/* copy_pageable() - memory as malloc gives it: its pages exist, and nothing pins them */
static enum plm_status copy_pageable(struct probe *probe, struct copying *c)
{
    enum plm_status status;

    c->pinned = false;
    c->host = mmap(NULL, c->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (c->host == MAP_FAILED)
        return plm_fail(probe->reterr, PLM_E_DEVICE, "no host memory for copies");
    memset(c->host, 1, c->bytes);
    status = copy_rate(probe, c, CUDA_COPY_TO_DEVICE, FIGURE_H2D_PAGEABLE);
    if (status == PLM_OK)
        status = copy_rate(probe, c, CUDA_COPY_TO_HOST, FIGURE_D2H_PAGEABLE);
    munmap(c->host, c->bytes);
    return status;
}

static enum plm_status copy_pinned(struct probe *probe, struct copying *c)
{
    const struct cuda *cuda = probe->cuda;
    enum plm_status status =
        probe_check(probe, cuda->cudaMallocHost(&c->host, c->bytes), "cudaMallocHost");

    c->pinned = true;
    if (status == PLM_OK) {
        memset(c->host, 1, c->bytes);
        status = copy_rate(probe, c, CUDA_COPY_TO_DEVICE, FIGURE_H2D_PINNED);
    }
    if (status == PLM_OK)
        status = copy_rate(probe, c, CUDA_COPY_TO_HOST, FIGURE_D2H_PINNED);
    if (status == PLM_OK)
        status = probe_check(probe, cuda->cudaFreeHost(c->host), "cudaFreeHost");
    return status;
}

enum plm_status probe_copies(struct probe *probe)
{
    const struct cuda *cuda = probe->cuda;
    plm_bytes room = 0;
    struct copying c = { .bytes = probe->options->quick ? 16 * MIB : 128 * MIB };
    enum plm_status status = probe_room(probe, &room);

    c.bytes = num_min(c.bytes, room / 4 / MIB * MIB);
    if (status == PLM_OK && c.bytes == 0)
        probe_skip(probe, FIGURE_H2D_PINNED, "too little memory may be taken");
    if (status != PLM_OK || c.bytes == 0)
        return status;
    status = stopwatch_create(probe, &c.watch);
    if (status == PLM_OK)
        status = probe_check(probe, cuda->cudaMalloc(&c.device, c.bytes), "cudaMalloc");
    if (status == PLM_OK)
        status = copy_pinned(probe, &c);
    if (status == PLM_OK)
        status = copy_pageable(probe, &c);
    if (status == PLM_OK)
        status = probe_check(probe, cuda->cudaFree(c.device), "cudaFree");
    return status == PLM_OK ? stopwatch_destroy(probe, &c.watch) : status;
}

/* ------------------------------------------------------------------ device and device */

/* peer_rate() - from this GPU to @peer; *ret_rate stays 0 when the two cannot reach each other directly */
static enum plm_status peer_rate(struct probe *probe, int peer, plm_bytes bytes, double *ret_rate)
{
    const struct cuda *cuda = probe->cuda;
    int own = probe->options->ordinal, can = 0;
    void *from = NULL, *to = NULL;
    struct stopwatch watch;
    double seconds = 0;
    enum plm_status status = probe_check(probe, cuda->cudaDeviceCanAccessPeer(&can, own, peer),
                                         "cudaDeviceCanAccessPeer");

    if (status != PLM_OK || !can)
        return status;
    status = probe_check(probe, cuda->cudaSetDevice(peer), "cudaSetDevice");
    if (status == PLM_OK)
        status = probe_check(probe, cuda->cudaMalloc(&to, bytes), "cudaMalloc");
    if (status == PLM_OK)
        status = probe_check(probe, cuda->cudaSetDevice(own), "cudaSetDevice");
    if (status == PLM_OK)
        status = probe_check(probe, cuda->cudaDeviceEnablePeerAccess(peer, 0),
                             "cudaDeviceEnablePeerAccess");
    if (status == PLM_OK)
        status = probe_check(probe, cuda->cudaMalloc(&from, bytes), "cudaMalloc");
    if (status == PLM_OK)
        status = stopwatch_create(probe, &watch);
    for (unsigned i = 0; i < 2 && status == PLM_OK; i++) { /* the first warms up */
        status = stopwatch_start(probe, &watch);
        if (status == PLM_OK)
            status = probe_check(probe, cuda->cudaMemcpyPeerAsync(to, peer, from, own, bytes, NULL),
                                 "cudaMemcpyPeerAsync");
        if (status == PLM_OK)
            status = stopwatch_stop(probe, &watch, &seconds);
    }
    if (status == PLM_OK)
        status = stopwatch_destroy(probe, &watch);
    if (status == PLM_OK)
        status = probe_check(probe, cuda->cudaFree(from), "cudaFree");
    if (status == PLM_OK)
        status = probe_check(probe, cuda->cudaDeviceDisablePeerAccess(peer),
                             "cudaDeviceDisablePeerAccess");
    if (status == PLM_OK)
        status = probe_check(probe, cuda->cudaSetDevice(peer), "cudaSetDevice");
    if (status == PLM_OK)
        status = probe_check(probe, cuda->cudaFree(to), "cudaFree");
    if (status == PLM_OK)
        status = probe_check(probe, cuda->cudaDeviceReset(), "cudaDeviceReset");
    if (status == PLM_OK)
        status = probe_check(probe, cuda->cudaSetDevice(own), "cudaSetDevice");
    *ret_rate = seconds > 0 ? (double)bytes / seconds : 0;
    return status;
}

enum { PEERS_MAX = 16 };

enum plm_status probe_peers(struct probe *probe)
{
    const struct cuda *cuda = probe->cuda;
    const plm_bytes bytes = 64 * MIB;
    plm_bytes room = 0;
    double rates[PEERS_MAX];
    size_t reached = 0;
    int count = 0;
    bool has = cuda->cudaDeviceCanAccessPeer && cuda->cudaDeviceEnablePeerAccess &&
               cuda->cudaDeviceDisablePeerAccess && cuda->cudaMemcpyPeerAsync;
    enum plm_status status =
        probe_check(probe, cuda->cudaGetDeviceCount(&count), "cudaGetDeviceCount");

    if (status == PLM_OK)
        status = probe_room(probe, &room);
    has = has && room / 4 > bytes;
    for (int peer = 0; has && peer < count && reached < PEERS_MAX && status == PLM_OK; peer++) {
        double rate = 0;

        if (peer == probe->options->ordinal)
            continue;
        status = peer_rate(probe, peer, bytes, &rate);
        if (rate > 0)
            rates[reached++] = rate;
    }
    if (status == PLM_OK && reached > 0)
        probe_say_all(probe, FIGURE_PEER, bytes, rates, reached);
    else if (status == PLM_OK)
        probe_skip(probe, FIGURE_PEER,
                   count > 1 ? "no other GPU can be reached directly" : "there is one GPU");
    return status;
}
