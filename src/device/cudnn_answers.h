/*
 * device/cudnn_answers.h - answers that are known: from call to workspaces
 *
 * A table of calls in memory. Filled from a file of lines (cudnn_call.h): the cache of an earlier run, or a table that is
 * shipped.
 */
#ifndef PLM_DEVICE_CUDNN_ANSWERS_H
#define PLM_DEVICE_CUDNN_ANSWERS_H

#include "base/arena.h"
#include "device/cudnn_call.h"

/* struct cudnn_answer - one call; in a free slot spatial is 0 */
struct cudnn_answer {
    struct cudnn_call call;
    const plm_bytes *bytes; /* [count] */
    size_t count;           /* 0: it was asked, and there is no answer */
    enum cudnn_blas_part blas;
    plm_bytes blas_most;
};

/* struct cudnn_answers - zero-initialise all but @arena */
struct cudnn_answers {
    struct arena *arena;
    struct cudnn_answer *slots; /* [capacity], a power of two; at most half are taken */
    size_t count, capacity;
};

/* cudnn_answers_find() - NULL when the call is not there */
const struct cudnn_answer *cudnn_answers_find(const struct cudnn_answers *answers,
                                              const struct cudnn_call *call);

/* cudnn_answers_add() - unless the call is there already */
void cudnn_answers_add(struct cudnn_answers *answers,
                       const struct cudnn_call *call,
                       const struct cudnn_workspaces *workspaces);

/* cudnn_answers_read() - add a line, "CALL = BYTES…", of @length bytes; false when it is none */
bool cudnn_answers_read(struct cudnn_answers *answers, const char *line, size_t length);

/* cudnn_answers_sort() - [answers->count] of them, in the order of their calls' text: for tables */
const struct cudnn_answer *const *cudnn_answers_sort(const struct cudnn_answers *answers,
                                                     struct arena *arena);

#endif
