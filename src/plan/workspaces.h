/*
 * plan/workspaces.h - between a ghost run that asks for workspaces and cuDNN's answers
 */
#ifndef PLM_PLAN_WORKSPACES_H
#define PLM_PLAN_WORKSPACES_H

#include "device/cudnn.h"
#include "ghost/ghost.h"

/* struct workspaces - who answered for one run, and how often */
struct workspaces {
    struct cudnn *cudnn;           /* NULL: nobody answers */
    struct cudnn_planner *planner; /* opened by the first question */
    struct cudnn_gpu gpu;
    int wanted;                /* the framework's version of cuDNN */
    uint64_t asked, looked_up; /* calls that a library, or a table, knew */
    uint64_t unanswered;
    uint64_t assumed;       /* of those known, calls in which the stand-in answered for cuBLASLt */
    plm_bytes assumed_most; /* what cuBLASLt might take in one of them */
    uint64_t left_out;      /* of those known, calls answered without cuBLASLt */
};

/* workspaces_open() - @around's library becomes @workspaces, which must stay where it is; @cudnn may be NULL */
void workspaces_open(struct workspaces *workspaces,
                     struct cudnn *cudnn,
                     struct surroundings *around);

/* workspaces_warning() - what the user must know of the answers; NULL: nothing */
const char *workspaces_warning(const struct workspaces *workspaces, struct arena *arena);

#endif
