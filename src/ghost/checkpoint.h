/*
 * ghost/checkpoint.h - torch.utils.checkpoint: saved tensors become holders, and are made again in the backward
 *
 * Mirrors torch/utils/checkpoint.py (2.15): non-reentrant with early stop.
 */
#ifndef PLM_GHOST_CHECKPOINT_H
#define PLM_GHOST_CHECKPOINT_H

#include "ghost/autograd.h"
#include "ghost/selective.h"

/*
 * struct frame - one checkpointed region
 *
 * @recompute runs the region again (with grad enabled); the run may halt with HALT_STOP once every holder has its
 * tensor. @release is called with the last reference, to let go of the region's inputs.
 */
struct frame {
    struct ghost *ghost;
    uint32_t refs;
    void (*recompute)(void *context);
    void (*release)(void *context);
    void *context;
    struct frame *outer; /* whose hooks were active before */
    bool recomputing, recomputed;
    uint32_t counter; /* of packed tensors in this recomputation */
    uint32_t holder_count;
    size_t holder_capacity;
    struct holder {
        struct tensor *tensor; /* recomputed and not yet fetched; owned */
        bool alive;            /* some node still refers to it */
    } * holders;
    struct selective selective;
    struct autocast autocast; /* as it was in the forward: dtype and whether enabled */
};

/* checkpoint_begin() - from here on tensors are saved as holders of a new frame; the caller owns it */
struct frame *checkpoint_begin(struct ghost *g,
                               void (*recompute)(void *context),
                               void (*release)(void *context),
                               void *context);
/* checkpoint_end() - the region's forward is over */
void checkpoint_end(struct frame *frame);

struct frame *frame_ref(struct frame *frame);
void frame_drop(struct frame *frame);

/* For autograd.c: what node_save(), node_saved() and the release of a node do when a frame is active. */
void checkpoint_pack(struct frame *frame, struct saved *saved, struct tensor *x);
struct tensor *checkpoint_unpack(struct saved *saved);
void checkpoint_forget(struct saved *saved);

#endif
