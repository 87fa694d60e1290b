/*
 * ghost/library.h - what an operator asks about a library that it calls: how large a workspace it will want
 *
 * Only cuDNN decides by shape. Whoever drives the run gives the answers, or none.
 */
#ifndef PLM_GHOST_LIBRARY_H
#define PLM_GHOST_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

#include "opdef/opdef.h"
#include "plimsoll/types.h"

enum library_op {
    LIBRARY_CONV_FORWARD,
    LIBRARY_CONV_DATA,
    LIBRARY_CONV_FILTER,
    LIBRARY_ATTENTION, /* that keeps what its backward needs */
    LIBRARY_ATTENTION_INFERENCE,
    LIBRARY_ATTENTION_BACKWARD,
};

enum library_mask { LIBRARY_OPEN, LIBRARY_CAUSAL, LIBRARY_MASKED };

enum { LIBRARY_SPATIAL = 3, LIBRARY_PLANS = 16 };

/*
 * struct library_call - a convolution, or an attention
 *
 * @input and @weight are those of a convolution's forward, or their gradients. Of an attention they are the query's sizes, and
 * the heads, the length and the value's head size of key and value.
 */
struct library_call {
    enum library_op op;
    enum dtype dtype;
    enum library_mask mask; /* of an attention; what follows, but for the sizes, of a convolution */
    bool channels_last;
    unsigned spatial;                                                /* dimensions: 2 or 3 */
    int64_t input[2 + LIBRARY_SPATIAL], weight[2 + LIBRARY_SPATIAL]; /* sizes */
    int64_t padding[LIBRARY_SPATIAL], stride[LIBRARY_SPATIAL], dilation[LIBRARY_SPATIAL];
};

/* struct library_plans - workspaces in the order in which they are tried until one can be had */
struct library_plans {
    plm_bytes bytes[LIBRARY_PLANS]; /* [count]; only the last may be 0 */
    size_t count;
};

/* struct library - who knows; @plans is NULL when nobody does */
struct library {
    bool (*plans)(void *context, const struct library_call *call, struct library_plans *ret_plans);
    void *context;
};

#endif
