/* ghost/selective.h - results that a checkpointed region keeps, although it runs again */
#ifndef PLM_GHOST_SELECTIVE_H
#define PLM_GHOST_SELECTIVE_H

#include "ghost/tensor.h"

enum selected { SELECTED_PRODUCT, SELECTED_ATTENTION, SELECTED_COUNT };

/* struct selective - what a frame keeps, of each kind in the order in which it was made */
struct selective {
    bool active;
    uint32_t products; /* matrix products seen in this run of the region */
    struct selected_queue {
        struct tensor **items; /* [capacity]; those from next to count are owned, some NULL */
        size_t next, count, capacity;
    } queues[SELECTED_COUNT];
};

/*
 * selective_take() - in a region's second run: the results of this call, which the first kept
 *
 * Writes ret[count] and returns true, or returns false: they have to be computed, and then handed to selective_keep(),
 * which keeps those that are to be kept.
 */
bool selective_take(struct ghost *g, enum selected kind, struct tensor **ret, unsigned count);
void selective_keep(struct ghost *g,
                    enum selected kind,
                    struct tensor *const *made,
                    unsigned count);

/* selective_finish() - let go of what was not taken */
void selective_finish(struct ghost *g, struct selective *s);

#endif
