/*
 * plan/keep.c - a result without its simulation
 *
 * A comparison keeps thousands of results, so each is copied into what it needs: text, categories, the ledger, and of each
 * phase its highest figures in any step.
 */
#include <string.h>

#include "base/num.h"
#include "plan/compare.h"

static const char *copy(struct arena *arena, const char *text)
{
    return text ? arena_copy(arena, text, strlen(text)) : NULL;
}

static const char *const *copy_texts(struct arena *arena, const char *const *texts, size_t count)
{
    const char **copies = arena_array(arena, const char *, count);

    for (size_t i = 0; i < count; i++)
        copies[i] = copy(arena, texts[i]);
    return copies;
}

static struct plm_phase *find_phase(struct plm_phase *phases, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(phases[i].name, name) == 0)
            return &phases[i];
    return NULL;
}

/* raise_phase() - @phase takes the higher of each figure; it stands where the most is allocated */
static void raise_phase(struct plm_phase *phase, const struct plm_phase *other)
{
    if (other->peak.allocated > phase->peak.allocated) {
        phase->step = other->step;
        phase->micro = other->micro;
    }
    phase->peak.requested = num_max(phase->peak.requested, other->peak.requested);
    phase->peak.allocated = num_max(phase->peak.allocated, other->peak.allocated);
    phase->peak.reserved = num_max(phase->peak.reserved, other->peak.reserved);
    phase->peak.device = num_max(phase->peak.device, other->peak.device);
    phase->allocated_end = num_max(phase->allocated_end, other->allocated_end);
    phase->reserved_end = num_max(phase->reserved_end, other->reserved_end);
}

static void keep_phases(const struct plm_result *from, struct arena *arena, struct plm_result *to)
{
    struct plm_phase *phases = NULL;
    size_t count = 0, capacity = 0;

    for (size_t i = 0; i < from->phase_count; i++) {
        struct plm_phase *known = find_phase(phases, count, from->phases[i].name);

        if (known) {
            raise_phase(known, &from->phases[i]);
            continue;
        }
        arena_push(arena, phases, count, capacity, from->phases[i]);
        phases[count - 1].name = copy(arena, from->phases[i].name);
    }
    to->phases = phases;
    to->phase_count = count;
}

static void keep_shares(const struct plm_result *from, struct arena *arena, struct plm_result *to)
{
    struct plm_share *shares = arena_array(arena, struct plm_share, from->live_by_category_count);
    struct plm_ledger_line *lines = arena_array(arena, struct plm_ledger_line, from->ledger_count);

    for (size_t i = 0; i < from->live_by_category_count; i++) {
        shares[i] = from->live_by_category[i];
        shares[i].name = copy(arena, shares[i].name);
    }
    for (size_t i = 0; i < from->ledger_count; i++) {
        lines[i] = from->ledger[i];
        lines[i].name = copy(arena, lines[i].name);
    }
    to->live_by_category = shares;
    to->ledger = lines;
    to->live_by_block = to->live_by_operator = NULL;
    to->live_by_block_count = to->live_by_operator_count = 0;
}

static void keep_ranks(const struct plm_result *from, struct arena *arena, struct plm_result *to)
{
    struct plm_rank *ranks = arena_array(arena, struct plm_rank, from->rank_count);

    for (size_t i = 0; i < from->rank_count; i++) {
        ranks[i] = from->ranks[i];
        ranks[i].name = copy(arena, ranks[i].name);
        ranks[i].about = copy(arena, ranks[i].about);
        ranks[i].phase = copy(arena, ranks[i].phase);
    }
    to->ranks = ranks;
    to->rank_reason = copy(arena, from->rank_reason);
}

const struct plm_result *compare_keep(const struct plm_result *result, struct arena *arena)
{
    struct plm_result *kept = arena_new(arena, struct plm_result);
    const char **texts[] = {
        &kept->model,         &kept->framework, &kept->allocator,         &kept->at.phase,
        &kept->at.op,         &kept->at.block,  &kept->failure.phase,     &kept->failure.op,
        &kept->failure.block, &kept->advice,    &kept->checkpoint_chosen,
    };

    *kept = *result;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        *texts[i] = copy(arena, *texts[i]);
    keep_phases(result, arena, kept);
    keep_shares(result, arena, kept);
    if (result->device) {
        struct plm_device *device = arena_new(arena, struct plm_device);

        *device = *result->device;
        kept->device = device;
    }
    keep_ranks(result, arena, kept);
    kept->steps = NULL;
    kept->step_count = 0;
    kept->warnings = copy_texts(arena, result->warnings, result->warning_count);
    kept->unverified = copy_texts(arena, result->unverified, result->unverified_count);
    return kept;
}
