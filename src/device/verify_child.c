/*
 * device/verify_child.c - the process that plays a plan's requests
 *
 * Segments come from cudaMalloc and are filled with cudaMemset; pages of expandable segments come from cuMemCreate and are mapped, as
 * PyTorch does it. The promises of hold.h are kept: no more than is allowed, and everything back when somebody else needs memory.
 */
#include <inttypes.h>

#include "base/num.h"
#include "device/calibrate_child.h"
#include "device/hold.h"
#include "device/verify_child.h"

#define MIB ((plm_bytes)1 << 20)
#define GIB ((plm_bytes)1 << 30)

enum { SAY_EVERY = 64, FILLED_WITH = 0x5a, SLACK_PAGES = 2, PAGE_TRIES = 3 };

/* struct page - of an expandable segment */
struct page {
    cuda_address address;
    unsigned long long handle;
};

/* struct play - a plan that is being played */
struct play {
    struct probe *probe;
    const struct verify_plan *plan;
    struct hold hold;
    size_t *block_of;         /* [request_count] index in hold.blocks */
    struct page *pages;       /* [request_count] */
    plm_bytes held_back;      /* what the plan has outside the allocator and this process has not */
    plm_bytes mapped, looked; /* bytes in pages; the same when free memory was last looked at */
    size_t next;
    enum hold_answer answer;
};

/* takes() - what a request takes of the device; of what gives back: how much that was */
static plm_bytes takes(const struct play *play, const struct plm_request *request)
{
    switch (request->kind) {
    case PLM_REQUEST_ALLOC:
    case PLM_REQUEST_FREE:
        return num_round_up(request->bytes, play->probe->page);
    case PLM_REQUEST_MAP:
    case PLM_REQUEST_UNMAP:
        break;
    }
    return request->bytes;
}

static bool gives_back(const struct plm_request *request)
{
    return request->kind == PLM_REQUEST_FREE || request->kind == PLM_REQUEST_UNMAP;
}

/* needs() - the most that the plan takes of the device beside its context */
static plm_bytes needs(const struct play *play)
{
    plm_bytes now = play->held_back, most = now;

    for (size_t i = 0; i < play->plan->request_count; i++) {
        const struct plm_request *request = &play->plan->requests[i];

        now = gives_back(request) ? now - takes(play, request) : now + takes(play, request);
        most = num_max(most, now);
    }
    return most;
}

/*
 * foresee() - what is not allowed is not played, but a plan that would not go with all that is free is known to fail, and where
 *
 * *ret_free is what would be free there.
 */
static void foresee(struct play *play, plm_bytes *ret_free)
{
    plm_bytes all = play->hold.free_before;
    plm_bytes now = play->hold.taken + play->mapped;

    if (play->hold.count == 0) /* nor was that allowed */
        now += play->held_back;
    for (size_t i = play->next; i < play->plan->request_count && now <= all; i++) {
        const struct plm_request *request = &play->plan->requests[i];

        if (gives_back(request)) {
            now -= takes(play, request);
        } else if (now + takes(play, request) > all) {
            play->answer = HOLD_FULL;
            play->next = i;
            *ret_free = all - now;
            return;
        } else {
            now += takes(play, request);
        }
    }
    if (now > all)
        play->answer = HOLD_FULL;
}

/* ------------------------------------------------------------------ pages of expandable segments */

static bool has_pages(const struct cuda *cuda)
{
    return cuda->cuMemCreate && cuda->cuMemRelease && cuda->cuMemAddressReserve &&
           cuda->cuMemAddressFree && cuda->cuMemMap && cuda->cuMemUnmap && cuda->cuMemSetAccess;
}

/* map_page() - memory for @handle's page at an address of its own */
static enum plm_status map_page(struct play *play, struct page *page, plm_bytes bytes)
{
    struct probe *probe = play->probe;
    const struct cuda *cuda = probe->cuda;
    struct cuda_access access = {
        .location = { .type = CUDA_LOCATION_DEVICE, .id = probe->options->ordinal },
        .flags = CUDA_ACCESS_READ_WRITE,
    };
    enum plm_status status = probe_check(
        probe, cuda->cuMemAddressReserve(&page->address, bytes, 0, 0, 0), "cuMemAddressReserve");

    if (status == PLM_OK)
        status = probe_check(probe, cuda->cuMemMap(page->address, bytes, 0, page->handle, 0),
                             "cuMemMap");
    if (status == PLM_OK)
        status = probe_check(probe, cuda->cuMemSetAccess(page->address, bytes, &access, 1),
                             "cuMemSetAccess");
    if (status == PLM_OK)
        status = probe_check(probe,
                             cuda->cudaMemset((void *)(uintptr_t)page->address, FILLED_WITH, bytes),
                             "cudaMemset");
    return status;
}

/* look() - has somebody else taken memory */
static enum plm_status look(struct play *play)
{
    plm_bytes now = 0;
    enum plm_status status = probe_free_bytes(play->probe, &now);

    play->looked = play->mapped;
    if (now + play->hold.taken + play->mapped + SLACK_PAGES * play->probe->page <
        play->hold.free_before)
        play->answer = HOLD_SHRUNK;
    return status;
}

static enum plm_status take_page(struct play *play, size_t i)
{
    struct probe *probe = play->probe;
    struct cuda_allocation what = {
        .type = CUDA_ALLOCATION_PINNED,
        .location = { .type = CUDA_LOCATION_DEVICE, .id = probe->options->ordinal },
    };
    struct page *page = &play->pages[i];
    plm_bytes bytes = play->plan->requests[i].bytes;
    enum plm_status status = PLM_OK;
    int error;

    if (!has_pages(probe->cuda))
        return plm_fail(
            probe->reterr, PLM_E_DEVICE,
            "the driver has no virtual memory management, which expandable segments need");
    if (play->hold.taken + play->mapped + bytes > play->hold.limit) {
        play->answer = HOLD_LIMIT;
        return PLM_OK;
    }
    if (play->mapped >= play->looked + 64 * MIB)
        status = look(play);
    if (status != PLM_OK || play->answer != HOLD_GOT)
        return status;
    error = probe->cuda->cuMemCreate(&page->handle, bytes, &what, 0);
    if (error == CUDA_ERROR_MEMORY_ALLOCATION) {
        play->answer = HOLD_FULL;
        return look(play);
    }
    status = probe_check(probe, error, "cuMemCreate");
    if (status != PLM_OK)
        return status;
    play->mapped += bytes;
    return map_page(play, page, bytes);
}

static enum plm_status give_page(struct play *play, size_t i)
{
    struct probe *probe = play->probe;
    const struct cuda *cuda = probe->cuda;
    struct page *page = &play->pages[i];
    plm_bytes bytes = play->plan->requests[i].bytes;
    enum plm_status status =
        probe_check(probe, cuda->cuMemUnmap(page->address, bytes), "cuMemUnmap");

    if (status == PLM_OK)
        status = probe_check(probe, cuda->cuMemRelease(page->handle), "cuMemRelease");
    if (status == PLM_OK)
        status =
            probe_check(probe, cuda->cuMemAddressFree(page->address, bytes), "cuMemAddressFree");
    play->mapped -= bytes;
    page->handle = 0;
    return status;
}

/* ------------------------------------------------------------------ segments */

static enum plm_status take_segment(struct play *play, size_t i)
{
    struct probe *probe = play->probe;
    plm_bytes bytes = play->plan->requests[i].bytes;
    enum plm_status status = hold_add(probe, &play->hold, bytes, &play->answer);

    if (status != PLM_OK || play->answer != HOLD_GOT)
        return status;
    play->block_of[i] = play->hold.count - 1;
    return probe_check(
        probe,
        probe->cuda->cudaMemset(play->hold.blocks[play->block_of[i]].address, FILLED_WITH, bytes),
        "cudaMemset");
}

static enum plm_status play_one(struct play *play, size_t i)
{
    const struct plm_request *request = &play->plan->requests[i];

    switch (request->kind) {
    case PLM_REQUEST_ALLOC:
        return take_segment(play, i);
    case PLM_REQUEST_FREE:
        return hold_drop(play->probe, &play->hold, play->block_of[request->of]);
    case PLM_REQUEST_MAP:
        return take_page(play, i);
    case PLM_REQUEST_UNMAP:
        break;
    }
    return give_page(play, request->of);
}

/* ------------------------------------------------------------------ the play */

static void say_played(const struct play *play)
{
    child_say(play->probe->voice, "played %zu", play->next);
}

/* play_until() - stops before @end where an answer is another than HOLD_GOT */
static enum plm_status play_until(struct play *play, size_t end)
{
    for (; play->next < end; play->next++) {
        enum plm_status status;

        if (play->next % SAY_EVERY == 0)
            say_played(play);
        status = play_one(play, play->next);
        if (status != PLM_OK || play->answer != HOLD_GOT)
            return status;
    }
    return probe_check(play->probe, play->probe->cuda->cudaDeviceSynchronize(),
                       "cudaDeviceSynchronize");
}

/* fill() - blocks from large to small, as many as can be had; *ret_answer says what ended it */
static enum plm_status fill(struct play *play, enum hold_answer *ret_answer)
{
    static const plm_bytes sizes[] = { GIB, 256 * MIB, 20 * MIB, 2 * MIB };
    struct hold *hold = &play->hold;
    enum plm_status status = PLM_OK;

    *ret_answer = HOLD_GOT;
    for (size_t i = 0;
         i < sizeof sizes / sizeof *sizes && status == PLM_OK && *ret_answer != HOLD_SHRUNK; i++)
        status = hold_fill(play->probe, hold, sizes[i], SIZE_MAX, ret_answer);
    if (*ret_answer == HOLD_LIMIT && hold->taken + play->probe->page > hold->free_before)
        *ret_answer = HOLD_FULL;
    return status;
}

/* probe_left() - what could still be had, with all that the plan holds in place; given back at once */
static enum plm_status probe_left(struct play *play, plm_bytes at_first)
{
    struct hold *hold = &play->hold;
    plm_bytes limit = hold->limit, now = 0, before = hold->taken, left;
    size_t count = hold->count;
    enum hold_answer answer = HOLD_GOT;
    enum plm_status status = probe_free_bytes(play->probe, &now);

    hold->limit = limit > play->mapped ? limit - play->mapped : 0;
    hold->free_before -=
        num_min(play->mapped, hold->free_before); /* pages are not in hold->taken */
    if (status == PLM_OK)
        status = fill(play, &answer);
    left = hold->taken - before;
    for (size_t i = count; i < hold->count && status == PLM_OK; i++)
        status = hold_drop(play->probe, hold, i);
    hold->count = count;
    hold->limit = limit;
    hold->free_before += play->mapped;
    if (status == PLM_OK && answer == HOLD_SHRUNK)
        play->answer = HOLD_SHRUNK;
    else if (status == PLM_OK)
        child_say(play->probe->voice, "peak %" PRIu64 " %" PRIu64 " %" PRIu64 " %d",
                  at_first > now ? at_first - now : 0, now, left, answer == HOLD_LIMIT);
    return status;
}

/* give_back() - everything, in the order in which it came */
static enum plm_status give_back(struct play *play)
{
    enum plm_status status = PLM_OK;

    for (size_t i = 0; i < play->plan->request_count && status == PLM_OK; i++)
        if (play->pages[i].handle)
            status = give_page(play, i);
    return status == PLM_OK ? hold_end(play->probe, &play->hold) : status;
}

static enum plm_verdict verdict_of(enum hold_answer answer)
{
    switch (answer) {
    case HOLD_GOT:
        break;
    case HOLD_FULL:
        return PLM_VERDICT_FAILS;
    case HOLD_LIMIT:
        return PLM_VERDICT_LIMIT;
    case HOLD_SHRUNK:
        return PLM_VERDICT_DISTURBED;
    }
    return PLM_VERDICT_HOLDS;
}

/*
 * free_before() - what was free before this process's context
 *
 * Where free memory does not tell of other processes, the first process's is not it: this context has not changed it. All that is not
 * free is this process's then.
 */
static plm_bytes free_before(const struct play *play, const struct verify_job *job)
{
    return play->hold.free_before == job->free_before ? job->total : job->free_before;
}

/*
 * meet() - say what this process's context is, and wait until the other process has given its own back
 *
 * The other's was there to tell the size of this one. A job will have no such neighbour, and neither has the play. Returns what was free
 * before this process had its context.
 */
static enum plm_status meet(struct play *play, const struct verify_job *job, plm_bytes *ret_before)
{
    const struct probe *probe = play->probe;
    plm_bytes before = free_before(play, job), now = play->hold.free_before;
    plm_bytes context = before > now ? before - now : 0, outside = play->plan->outside;
    enum plm_status status;

    child_say(probe->voice, "context %" PRIu64, context);
    child_hold(probe->voice);
    status = hold_begin(play->probe, &play->hold);
    *ret_before = play->hold.free_before + context;
    play->held_back = outside > context ? num_round_up(outside - context, probe->page) : 0;
    return status;
}

/* hold_back() - in one block, what the plan has and this process has not */
static enum plm_status hold_back(struct play *play, plm_bytes before)
{
    child_say(play->probe->voice, "before %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, before,
              play->held_back, needs(play), play->hold.limit);
    return play->held_back > 0 ? hold_add(play->probe, &play->hold, play->held_back, &play->answer)
                               : PLM_OK;
}

/*
 * find_page() - what a large block is rounded up to: by how much free memory falls for one of PROBE_PAGE, the least of some tries, as
 * others may take memory meanwhile
 *
 * Each is written to, so that what the driver loads for the first cudaMemset is there before anything is counted.
 */
static enum plm_status find_page(struct probe *probe)
{
    enum plm_status status = PLM_OK;
    plm_bytes least = UINT64_MAX;

    for (int i = 0; i < PAGE_TRIES && status == PLM_OK; i++) {
        plm_bytes before = 0, after = 0;
        void *address = NULL;
        int error;

        status = probe_free_bytes(probe, &before);
        if (status != PLM_OK)
            return status;
        error = probe->cuda->cudaMalloc(&address, PROBE_PAGE);
        if (error == CUDA_ERROR_MEMORY_ALLOCATION) {
            (void)probe->cuda->cudaGetLastError();
            return PLM_OK; /* the play will say so */
        }
        status = probe_check(probe, error, "cudaMalloc");
        if (status == PLM_OK)
            status = probe_check(probe, probe->cuda->cudaMemset(address, FILLED_WITH, PROBE_PAGE),
                                 "cudaMemset");
        if (status == PLM_OK)
            status =
                probe_check(probe, probe->cuda->cudaDeviceSynchronize(), "cudaDeviceSynchronize");
        if (status == PLM_OK)
            status = probe_free_bytes(probe, &after);
        if (status == PLM_OK)
            status = probe_check(probe, probe->cuda->cudaFree(address), "cudaFree");
        least = num_min(least, before > after ? before - after : 0);
    }
    probe->page = num_max(least, PROBE_PAGE);
    return status;
}

static enum plm_status play_plan(struct probe *probe, const struct verify_job *job)
{
    const struct verify_plan *plan = job->plan;
    struct play play = {
        .probe = probe,
        .plan = plan,
        .block_of = arena_array(probe->arena, size_t, plan->request_count),
        .pages = arena_array(probe->arena, struct page, plan->request_count),
        .answer = HOLD_GOT,
    };
    plm_bytes reserved, before = 0, now = 0;
    enum plm_status status = find_page(probe);

    if (status == PLM_OK)
        status = hold_begin(probe, &play.hold);
    if (status == PLM_OK)
        status = meet(&play, job, &before);
    if (status == PLM_OK)
        status = hold_back(&play, before);
    if (status == PLM_OK && play.answer == HOLD_GOT)
        status = play_until(&play, verify_peak(plan, &reserved));
    if (status == PLM_OK && play.answer == HOLD_GOT)
        status = probe_left(&play, before);
    if (status == PLM_OK && play.answer == HOLD_GOT)
        status = play_until(&play, plan->request_count);
    if (status == PLM_OK)
        status = probe_free_bytes(probe, &now);
    if (status == PLM_OK && play.answer == HOLD_LIMIT)
        foresee(&play, &now);
    if (status == PLM_OK)
        child_say(probe->voice, "verdict %d %zu %" PRIu64, (int)verdict_of(play.answer), play.next,
                  now);
    return status == PLM_OK ? give_back(&play) : status;
}

void job_verify(const struct child_voice *voice, const void *what)
{
    const struct verify_job *verify = what;
    struct probe_job job;
    enum plm_status status = probe_begin(&job, voice, verify->options);

    if (status == PLM_OK)
        status = play_plan(&job.probe, verify);
    probe_end(&job, status);
}
