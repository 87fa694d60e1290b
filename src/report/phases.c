/* report/phases.c - fold the phases of micro-batches, and the steps that repeat */
#include <stdbool.h>
#include <string.h>

#include "base/num.h"
#include "report/phases.h"

static void raise_peak(struct plm_memory *peak, const struct plm_memory *by)
{
    peak->requested = num_max(peak->requested, by->requested);
    peak->allocated = num_max(peak->allocated, by->allocated);
    peak->reserved = num_max(peak->reserved, by->reserved);
    peak->device = num_max(peak->device, by->device);
}

static bool alike(const struct phase_row *a, const struct phase_row *b)
{
    return strcmp(a->name, b->name) == 0 && a->peak.requested == b->peak.requested &&
           a->peak.allocated == b->peak.allocated && a->peak.reserved == b->peak.reserved &&
           a->allocated_end == b->allocated_end;
}

/* repeats() - are the rows from @start to @end those of the step before, from @before to @start */
static bool repeats(const struct phase_row *rows, size_t before, size_t start, size_t end)
{
    if (end - start != start - before || start == before)
        return false;
    for (size_t i = 0; i < end - start; i++)
        if (rows[before + i].last + 1 != rows[start + i].first ||
            !alike(&rows[before + i], &rows[start + i]))
            return false;
    return true;
}

const struct phase_row *phases_fold(const struct plm_result *result,
                                    struct arena *arena,
                                    size_t *ret_count)
{
    struct phase_row *rows = arena_array(arena, struct phase_row, result->phase_count);
    size_t before = 0, start = 0, end = 0;

    for (size_t i = 0; i <= result->phase_count; i++) {
        const struct plm_phase *phase = i < result->phase_count ? &result->phases[i] : NULL;
        size_t row = start;

        if (end > start && (!phase || rows[start].first != phase->step)) { /* a step ends here */
            if (rows[start].first >= 0 && repeats(rows, before, start, end)) {
                for (size_t j = before; j < start; j++)
                    rows[j].last++;
                end = start;
            } else {
                before = start;
                start = end;
            }
            row = start;
        }
        if (!phase)
            break;
        while (row < end && strcmp(rows[row].name, phase->name) != 0)
            row++;
        if (row == end)
            rows[end++] = (struct phase_row){ .name = phase->name,
                                              .first = phase->step,
                                              .last = phase->step };
        raise_peak(&rows[row].peak, &phase->peak);
        rows[row].allocated_end = phase->allocated_end;
    }
    *ret_count = end;
    return rows;
}
