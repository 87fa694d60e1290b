/*
 * device/probe_fit.c - what the device counts for what an allocator reserves
 *
 * Segments as PyTorch's allocator asks for them: 2 MiB for small tensors, 20 MiB for those up to 10 MiB, multiples of 2 MiB above.
 */
#include <inttypes.h>

#include "device/hold.h"

enum plm_status probe_fit(struct probe *probe, bool with_libraries)
{
    const plm_bytes mib = (plm_bytes)1 << 20;
    static const struct {
        plm_bytes mib;
        size_t most;
    } sets[] = { { 2, 64 }, { 20, 32 }, { 22, 16 }, { 134, 8 }, { 1024, 64 } };
    struct hold hold;
    plm_bytes now = 0;
    enum plm_status status = hold_begin(probe, &hold);

    if (status == PLM_OK)
        child_say(probe->voice, "fit 0 %" PRIu64 " %d", hold.free_before, with_libraries);
    for (size_t i = 0; status == PLM_OK && i < sizeof sets / sizeof *sets; i++) {
        enum hold_answer answer;

        status = hold_fill(probe, &hold, sets[i].mib * mib, sets[i].most, &answer);
        if (status != PLM_OK || answer == HOLD_SHRUNK)
            break;
        status = probe_free_bytes(probe, &now);
        if (status == PLM_OK)
            child_say(probe->voice, "fit %" PRIu64 " %" PRIu64 " %d", hold.bytes, now,
                      with_libraries);
    }
    return status == PLM_OK ? hold_end(probe, &hold) : status;
}
