/*
 * device/hold.h - many blocks of device memory held at once, within what a probe may take
 *
 * Two promises to other processes: never more than --max-fill of what was free at the beginning is held; and when free memory falls by
 * more than was taken here, somebody else needs it: HOLD_SHRUNK, and the caller gives everything back.
 */
#ifndef PLM_DEVICE_HOLD_H
#define PLM_DEVICE_HOLD_H

#include "device/probe.h"

enum hold_answer {
    HOLD_GOT,
    HOLD_FULL,   /* cudaMalloc had no memory */
    HOLD_LIMIT,  /* no more is allowed */
    HOLD_SHRUNK, /* another process takes memory */
};

struct hold_block {
    void *address; /* NULL: given back */
    plm_bytes bytes;
};

/* struct hold - the blocks, in order of time */
struct hold {
    struct hold_block *blocks; /* [count] */
    size_t count, capacity;
    plm_bytes bytes;       /* what is held, as asked for */
    plm_bytes taken;       /* the same rounded up to pages */
    plm_bytes free_before; /* when it began */
    plm_bytes limit;       /* of taken */
    plm_bytes checked;     /* taken, when free memory was last looked at */
};

/* hold_begin() - no blocks yet; looks at free memory */
PLM_MUST_CHECK enum plm_status hold_begin(struct probe *probe, struct hold *ret_hold);

/* hold_add() - one more block; what became of it is in @ret_answer */
PLM_MUST_CHECK enum plm_status hold_add(struct probe *probe,
                                        struct hold *hold,
                                        plm_bytes bytes,
                                        enum hold_answer *ret_answer);

/* hold_fill() - blocks of one size until there is another answer than HOLD_GOT, at most @most of them */
PLM_MUST_CHECK enum plm_status hold_fill(struct probe *probe,
                                         struct hold *hold,
                                         plm_bytes bytes,
                                         size_t most,
                                         enum hold_answer *ret_answer);

/* hold_drop() - give block @i back */
PLM_MUST_CHECK enum plm_status hold_drop(struct probe *probe, struct hold *hold, size_t i);

/* hold_end() - give all back */
PLM_MUST_CHECK enum plm_status hold_end(struct probe *probe, struct hold *hold);

#endif
