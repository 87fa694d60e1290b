/*
 * device/probe_memory.c - how cudaMalloc gives out memory
 *
 * Everything is seen from outside: what a call takes is by how much free memory falls. Other processes disturb that, so the ladder
 * takes a step again until it gets the same answer twice, and what fills the memory gives up when somebody else needs it (hold.h).
 */
#include <inttypes.h>

#include "base/num.h"
#include "device/hold.h"

#define KIB ((plm_bytes)1 << 10)
#define MIB ((plm_bytes)1 << 20)
#define GIB ((plm_bytes)1 << 30)

enum { ATTEMPTS = 3 };

static const char disturbed[] = "other processes took memory meanwhile";

static plm_bytes divisor(plm_bytes a, plm_bytes b)
{
    while (b != 0) {
        plm_bytes rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

/* ------------------------------------------------------------------ the ladder */

enum { LADDER_BLOCKS = 16 };

/* struct step - one size of the ladder */
struct step {
    plm_bytes falls; /* of free memory, for all blocks together */
    plm_bytes unit;  /* that divides the fall of every block */
    plm_bytes alignment;
    size_t count;
};

static enum plm_status take_step(struct probe *probe, plm_bytes size, struct step *ret)
{
    struct step step = { .count = size > 16 * MIB ? 1 : LADDER_BLOCKS };
    plm_bytes before = 0, last, now = 0;
    struct hold hold;
    enum hold_answer answer = HOLD_GOT;
    enum plm_status status = hold_begin(probe, &hold);

    if (status == PLM_OK)
        status = probe_free_bytes(probe, &before);
    last = before;
    for (size_t i = 0; i < step.count && status == PLM_OK && answer == HOLD_GOT; i++) {
        status = hold_add(probe, &hold, size, &answer);
        if (status == PLM_OK && answer == HOLD_GOT)
            status = probe_free_bytes(probe, &now);
        if (status != PLM_OK || answer != HOLD_GOT)
            break;
        step.unit = divisor(step.unit, last > now ? last - now : 0);
        step.alignment = divisor(step.alignment, (plm_bytes)(uintptr_t)hold.blocks[i].address);
        last = now;
    }
    step.count = hold.count;
    step.falls = before > last ? before - last : 0;
    if (status == PLM_OK)
        status = hold_end(probe, &hold);
    *ret = step;
    return status;
}

enum plm_status probe_ladder(struct probe *probe)
{
    static const plm_bytes sizes[] = { 1,        512,       4 * KIB,   64 * KIB, 512 * KIB,
                                       MIB,      MIB + 512, 2 * MIB,   3 * MIB,  10 * MIB,
                                       20 * MIB, 64 * MIB,  256 * MIB, GIB };
    plm_bytes unit = 0, alignment = 2 * MIB;

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct step step, again = { 0 };
        bool same = false;
        enum plm_status status = take_step(probe, sizes[i], &step);

        for (unsigned k = 0; k < ATTEMPTS && status == PLM_OK && !same; k++) {
            status = take_step(probe, sizes[i], &again);
            same = again.falls == step.falls && again.count == step.count;
            step = again;
        }
        if (status != PLM_OK)
            return status;
        if (step.count == 0)
            continue; /* more than may be taken */
        if (!same) {
            probe_skip(probe, FIGURE_LADDER, disturbed);
            continue;
        }
        unit = divisor(unit, step.unit);
        alignment = divisor(alignment, step.alignment);
        probe_say(probe, FIGURE_LADDER, sizes[i], (double)step.falls / (double)step.count);
    }
    if (unit == 0) {
        probe_skip(probe, FIGURE_GRANULARITY, "no call changed free memory");
        return PLM_OK;
    }
    probe->granularity = unit;
    probe->page = num_max(unit, PROBE_PAGE);
    probe_say(probe, FIGURE_GRANULARITY, 0, (double)unit);
    probe_say(probe, FIGURE_ALIGNMENT, 0, (double)alignment);
    return PLM_OK;
}

/* ------------------------------------------------------------------ how much there is */

/* try_block() - can one block of @bytes be had? */
static enum plm_status try_block(struct probe *probe,
                                 plm_bytes bytes,
                                 const struct hold *begun,
                                 enum hold_answer *ret_answer)
{
    struct hold hold = *begun;
    enum plm_status status = hold_add(probe, &hold, bytes, ret_answer);

    if (status == PLM_OK)
        status = hold_end(probe, &hold);
    return status;
}

/* bisect() - *ret_low could be had, and a page more could not, or is not allowed (*ret_limited) */
static enum plm_status bisect(struct probe *probe,
                              plm_bytes *ret_low,
                              bool *ret_limited,
                              enum hold_answer *ret_answer)
{
    plm_bytes unit = probe->page, low = 0, high;
    struct hold begun;
    enum plm_status status = hold_begin(probe, &begun);

    if (status != PLM_OK)
        return status;
    high = begun.limit / unit; /* in pages, as is low */
    status = try_block(probe, high * unit, &begun, ret_answer);
    *ret_limited = status == PLM_OK && *ret_answer == HOLD_GOT;
    if (*ret_limited)
        low = high;
    while (status == PLM_OK && *ret_answer != HOLD_SHRUNK && low + 1 < high) {
        plm_bytes middle = low + (high - low) / 2;

        status = try_block(probe, middle * unit, &begun, ret_answer);
        if (*ret_answer == HOLD_GOT)
            low = middle;
        else
            high = middle;
    }
    *ret_low = low * unit;
    return status;
}

enum plm_status probe_largest(struct probe *probe)
{
    for (unsigned i = 0; i < ATTEMPTS; i++) {
        enum hold_answer answer = HOLD_GOT;
        plm_bytes low = 0;
        bool limited = false;
        enum plm_status status = bisect(probe, &low, &limited, &answer);

        if (status != PLM_OK)
            return status;
        if (answer == HOLD_SHRUNK) {
            probe->backed_off++;
            continue;
        }
        if (limited)
            probe_say_least(probe, FIGURE_LARGEST_BLOCK, 0, (double)low);
        else
            probe_say(probe, FIGURE_LARGEST_BLOCK, 0, (double)low);
        return PLM_OK;
    }
    probe_skip(probe, FIGURE_LARGEST_BLOCK, disturbed);
    return PLM_OK;
}

/* usable() - fill with 1 GiB blocks until @most of @bytes take the rest, then with those */
static enum plm_status usable(struct probe *probe,
                              plm_bytes bytes,
                              size_t most,
                              plm_bytes *ret_held,
                              enum hold_answer *ret_answer)
{
    struct hold hold;
    plm_bytes rest;
    enum plm_status status = hold_begin(probe, &hold);

    if (status != PLM_OK)
        return status;
    rest = bytes * most;
    *ret_answer = HOLD_GOT;
    if (bytes < GIB && hold.limit > rest)
        status = hold_fill(probe, &hold, GIB, (size_t)((hold.limit - rest) / GIB) + 1, ret_answer);
    if (status == PLM_OK && *ret_answer != HOLD_SHRUNK)
        status = hold_fill(probe, &hold, bytes, SIZE_MAX, ret_answer);
    *ret_held = hold.taken;
    if (status == PLM_OK)
        status = hold_end(probe, &hold);
    return status;
}

static enum plm_status probe_usable_by(struct probe *probe, plm_bytes bytes, size_t most)
{
    for (unsigned i = 0; i < ATTEMPTS; i++) {
        enum hold_answer answer = HOLD_GOT;
        plm_bytes held = 0;
        enum plm_status status = usable(probe, bytes, most, &held, &answer);

        if (status != PLM_OK)
            return status;
        if (answer == HOLD_SHRUNK)
            probe->backed_off++;
        else if (answer == HOLD_LIMIT)
            probe_say_least(probe, FIGURE_USABLE, bytes, (double)held);
        else
            probe_say(probe, FIGURE_USABLE, bytes, (double)held);
        if (answer != HOLD_SHRUNK)
            return PLM_OK;
    }
    probe_skip(probe, FIGURE_USABLE, disturbed);
    return PLM_OK;
}

enum plm_status probe_usable(struct probe *probe)
{
    static const plm_bytes sizes[] = { GIB, 256 * MIB, 20 * MIB, 2 * MIB };
    plm_bytes before = 0, after = 0;
    size_t most = probe->options->quick ? 256 : 4096;
    enum plm_status status = probe_free_bytes(probe, &before);

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && status == PLM_OK; i++)
        status = probe_usable_by(probe, sizes[i], most);
    if (status == PLM_OK)
        status = probe_free_bytes(probe, &after);
    if (status == PLM_OK)
        probe_say(probe, FIGURE_KEPT, 0, before > after ? (double)(before - after) : 0);
    return status;
}

/* ------------------------------------------------------------------ holes */

/*
 * hole_block() - the size of the blocks that fill the memory
 *
 * What the limit leaves free, and the rest after the last block, must not have room for a block of twice the size: it shall find
 * room in the holes or nowhere.
 */
static plm_bytes hole_block(const struct probe *probe, const struct hold *hold)
{
    plm_bytes left = hold->free_before - hold->limit;

    return num_round_up(num_max(left + 1, 32 * MIB), probe->page);
}

/* free_every_second() - of @hold; returns how much that was */
static enum plm_status free_every_second(struct probe *probe, struct hold *hold, plm_bytes *ret)
{
    *ret = 0;
    for (size_t i = 0; i < hold->count; i += 2) {
        plm_bytes bytes = hold->blocks[i].bytes;
        enum plm_status status = hold_drop(probe, hold, i);

        if (status != PLM_OK)
            return status;
        *ret += bytes;
    }
    return PLM_OK;
}

/*
 * fragment() - how much of the freed memory blocks of twice the size cannot take
 *
 * They are asked for only as far as the freed memory goes, so that the limit plays no part.
 */
static enum plm_status fragment(struct probe *probe,
                                struct hold *hold,
                                plm_bytes block,
                                enum hold_answer *ret_answer)
{
    plm_bytes freed = 0, got = 0;
    enum plm_status status = hold_fill(probe, hold, block, SIZE_MAX, ret_answer);
    size_t filled = hold->count;

    if (status != PLM_OK || *ret_answer == HOLD_SHRUNK)
        return status;
    if (filled < 4) {
        probe_skip(probe, FIGURE_FRAGMENTED, "too little memory may be taken");
        return PLM_OK;
    }
    status = free_every_second(probe, hold, &freed);
    freed = freed / (2 * block) * (2 * block);
    *ret_answer = HOLD_GOT;
    while (status == PLM_OK && got + 2 * block <= freed && *ret_answer == HOLD_GOT) {
        status = hold_add(probe, hold, 2 * block, ret_answer);
        if (*ret_answer == HOLD_GOT)
            got += 2 * block;
    }
    if (status == PLM_OK && *ret_answer != HOLD_SHRUNK)
        probe_say(probe, FIGURE_FRAGMENTED, 0, (double)(freed - got));
    return status;
}

/* coalesce() - blocks 1 and 2, 5 and 6, … are freed in pairs; does each pair make room for one block of both sizes? */
static enum plm_status coalesce(struct probe *probe,
                                struct hold *hold,
                                plm_bytes block,
                                enum hold_answer *ret_answer)
{
    size_t pairs = 0, joined = 0, filled;
    enum plm_status status = hold_fill(probe, hold, block, SIZE_MAX, ret_answer);

    filled = hold->count;
    if (status != PLM_OK || *ret_answer == HOLD_SHRUNK)
        return status;
    for (size_t i = 1; i + 2 < filled && pairs < 8 && status == PLM_OK; i += 4) {
        status = hold_drop(probe, hold, i);
        if (status == PLM_OK)
            status = hold_drop(probe, hold, i + 1);
        if (status == PLM_OK)
            status = hold_add(probe, hold, 2 * block, ret_answer);
        if (status != PLM_OK || *ret_answer == HOLD_SHRUNK)
            return status;
        pairs++;
        joined += *ret_answer == HOLD_GOT;
    }
    if (status == PLM_OK && pairs > 0)
        probe_say(probe, FIGURE_COALESCED, 0, (double)joined / (double)pairs);
    return status;
}

typedef enum plm_status hole_probe(struct probe *probe,
                                   struct hold *hold,
                                   plm_bytes block,
                                   enum hold_answer *ret_answer);

/* run_holes() - with a fresh hold, again when another process needed the memory */
static enum plm_status run_holes(struct probe *probe, hole_probe *run, enum figure_id id)
{
    for (unsigned i = 0; i < ATTEMPTS; i++) {
        struct hold hold;
        enum hold_answer answer = HOLD_GOT;
        enum plm_status status = hold_begin(probe, &hold);

        if (status == PLM_OK)
            status = run(probe, &hold, hole_block(probe, &hold), &answer);
        if (status == PLM_OK)
            status = hold_end(probe, &hold);
        if (status != PLM_OK || answer != HOLD_SHRUNK)
            return status;
        probe->backed_off++;
    }
    probe_skip(probe, id, disturbed);
    return PLM_OK;
}

enum plm_status probe_fragmentation(struct probe *probe)
{
    enum plm_status status = run_holes(probe, fragment, FIGURE_FRAGMENTED);

    return status == PLM_OK ? run_holes(probe, coalesce, FIGURE_COALESCED) : status;
}

/* ------------------------------------------------------------------ addresses */

enum { ADDRESS_BLOCKS = 16 };

enum plm_status probe_addresses(struct probe *probe)
{
    struct hold hold;
    enum hold_answer answer = HOLD_GOT;
    size_t up = 0, reused = 0, tried = 0;
    enum plm_status status = hold_begin(probe, &hold);

    if (status == PLM_OK)
        status = hold_fill(probe, &hold, 2 * MIB, ADDRESS_BLOCKS, &answer);
    for (size_t i = 1; status == PLM_OK && i < hold.count; i++)
        up += (uintptr_t)hold.blocks[i].address > (uintptr_t)hold.blocks[i - 1].address;
    if (status == PLM_OK && hold.count > 1)
        probe_say(probe, FIGURE_ADDRESSES_INCREASING, 0, (double)up / (double)(hold.count - 1));
    for (size_t i = 0, filled = hold.count; status == PLM_OK && i < filled; i++) {
        const void *was = hold.blocks[i].address;

        status = hold_drop(probe, &hold, i);
        if (status == PLM_OK)
            status = hold_add(probe, &hold, 2 * MIB, &answer);
        if (status != PLM_OK || answer != HOLD_GOT)
            break;
        tried++;
        reused += hold.blocks[hold.count - 1].address == was;
    }
    if (status == PLM_OK && tried > 0)
        probe_say(probe, FIGURE_ADDRESSES_REUSED, 0, (double)reused / (double)tried);
    return status == PLM_OK ? hold_end(probe, &hold) : status;
}
