/* device/hold.c - many blocks of device memory held at once, within what a probe may take */
#include "device/hold.h"
#include "base/num.h"

/* Free memory is looked at after every so many bytes; one look takes as long as a small cudaMalloc. */
static const plm_bytes LOOK_EVERY = (plm_bytes)64 << 20;
enum { SAY_EVERY = 256 }; /* blocks */

/* What the driver takes for itself meanwhile, such as page tables, is nobody else's: so much at least is allowed for. */
static const plm_bytes SLACK_LEAST = (plm_bytes)16 << 20;
/* blocks of a few bytes share granules that they do not count */

enum plm_status hold_begin(struct probe *probe, struct hold *ret_hold)
{
    struct hold hold = { 0 };
    enum plm_status status = probe_free_bytes(probe, &hold.free_before);

    hold.limit = (plm_bytes)((double)hold.free_before * probe->options->max_fill);
    if (status == PLM_OK)
        *ret_hold = hold;
    return status;
}

/*
 * look() - has free memory fallen by more than what is held?
 *
 * Less than half of what the limit leaves free does not matter: whoever needed it got it, and the other half is there still.
 */
static enum plm_status look(struct probe *probe, struct hold *hold, bool *ret_shrunk)
{
    plm_bytes now = 0, slack = num_max(SLACK_LEAST, (hold->free_before - hold->limit) / 2);
    enum plm_status status = probe_free_bytes(probe, &now);

    *ret_shrunk = now + hold->taken + slack < hold->free_before;
    hold->checked = hold->taken;
    return status;
}

enum plm_status hold_add(struct probe *probe,
                         struct hold *hold,
                         plm_bytes bytes,
                         enum hold_answer *ret_answer)
{
    plm_bytes rounded = num_round_up(bytes, probe->page);
    void *address = NULL;
    bool shrunk = false;
    enum plm_status status = PLM_OK;
    int error;

    if (hold->taken + rounded > hold->limit) {
        *ret_answer = HOLD_LIMIT;
        return PLM_OK;
    }
    if (hold->taken + rounded >= hold->checked + LOOK_EVERY)
        status = look(probe, hold, &shrunk);
    if (status != PLM_OK || shrunk) {
        *ret_answer = HOLD_SHRUNK;
        return status;
    }
    error = probe->cuda->cudaMalloc(&address, bytes);
    if (error == CUDA_ERROR_MEMORY_ALLOCATION) {
        (void)probe->cuda->cudaGetLastError();
        status = look(probe, hold, &shrunk);
        *ret_answer = shrunk ? HOLD_SHRUNK : HOLD_FULL;
        return status;
    }
    status = probe_check(probe, error, "cudaMalloc");
    if (status != PLM_OK)
        return status;
    arena_push(probe->arena, hold->blocks, hold->count, hold->capacity,
               (struct hold_block){ .address = address, .bytes = bytes });
    hold->bytes += bytes;
    hold->taken += rounded;
    *ret_answer = HOLD_GOT;
    return PLM_OK;
}

enum plm_status hold_fill(struct probe *probe,
                          struct hold *hold,
                          plm_bytes bytes,
                          size_t most,
                          enum hold_answer *ret_answer)
{
    enum plm_status status = PLM_OK;

    *ret_answer = HOLD_GOT;
    for (size_t i = 0; i < most && status == PLM_OK && *ret_answer == HOLD_GOT; i++) {
        if (i % SAY_EVERY == SAY_EVERY - 1)
            child_say(probe->voice, "alive");
        status = hold_add(probe, hold, bytes, ret_answer);
    }
    return status;
}

enum plm_status hold_drop(struct probe *probe, struct hold *hold, size_t i)
{
    struct hold_block *block = &hold->blocks[i];
    enum plm_status status = probe_check(probe, probe->cuda->cudaFree(block->address), "cudaFree");

    if (status != PLM_OK)
        return status;
    hold->bytes -= block->bytes;
    hold->taken -= num_round_up(block->bytes, probe->page);
    block->address = NULL;
    return PLM_OK;
}

enum plm_status hold_end(struct probe *probe, struct hold *hold)
{
    for (size_t i = 0; i < hold->count; i++) {
        enum plm_status status = hold->blocks[i].address ? hold_drop(probe, hold, i) : PLM_OK;

        if (status != PLM_OK)
            return status;
        if (i % SAY_EVERY == SAY_EVERY - 1)
            child_say(probe->voice, "alive");
    }
    *hold = (struct hold){ 0 };
    return PLM_OK;
}
