/*
 * train/pipeline.h - one rank of a pipeline: its stages, and what they hold of each micro-batch
 *
 * Mirrors torch/distributed/pipelining (2.15): stage.py's PipelineStage with metadata that is given (no inference run), and
 * schedules.py's loops. A stage is called like a module. What crosses a cut is received into a buffer, which is a leaf of the
 * stage's graph; its outputs are let go when they are sent, and only their places in the graph are kept for the backward.
 */
#ifndef PLM_TRAIN_PIPELINE_H
#define PLM_TRAIN_PIPELINE_H

#include "ghost/split.h"
#include "train/internal.h"
#include "train/pipeline_order.h"

/* struct port - a tensor that goes from one stage to the next */
struct port {
    uint32_t slot; /* in the row of all steps (model/cut.h) */
    enum dtype dtype;
    unsigned dims;
    int64_t sizes[TENSOR_DIMS], strides[TENSOR_DIMS];
    bool grad; /* a gradient comes back for it */
};

struct ports {
    struct port *ports; /* [count] */
    size_t count, capacity;
};

/* struct sent - tensors that a list of communication operations holds */
struct sent {
    struct tensor **items; /* [count], owned */
    uint32_t count;
};

/* struct chunk - what a stage holds of one micro-batch */
struct chunk {
    struct value
        *args; /* [call.in_count]: received tensors, then the batch's; until the backward */
    struct value
        *outputs; /* [call.out_count]: until they are sent; the last stage's until its backward */
    struct edge *edges; /* [call.out_count + 1]: where backward enters; the last is the loss's */
    struct tensor **received;        /* [in->count]: buffers that wait for the forward */
    struct tensor **gradients;       /* [out->count]: buffers that wait for the backward */
    struct tensor **input_gradients; /* [in->count]: until they are sent */
    struct tensor *loss;
    struct held *held;                       /* of reentrant checkpoints: until the backward */
    struct split *split;                     /* zero-bubble: between the two halves */
    struct sent forward_send, backward_send; /* lowered schedules: until the wait */
};

struct stage {
    int32_t index;
    const struct ports *in, *out; /* empty on the first and the last stage */
    struct graph_step call;       /* its module: takes what it receives, then the model's inputs */
    struct graph_step
        loss; /* of the last stage: main's steps after the model, given its outputs and the batch */
    struct value *
        frame; /* [call.in_count + call.out_count + loss.out_count, at least 1] around the calls; the loss comes after them */
    struct chunk *chunks;   /* [micros] */
    bool *has;              /* [run->param_count] the parameters and buffers that it uses */
    struct param **weights; /* [weight_count] those that want gradients, in their order */
    size_t weight_count;
};

struct pipeline {
    struct run *run;
    struct pipeline_shape shape;
    int32_t rank;
    uint32_t stage_count; /* of all ranks */
    struct ports
        *cuts; /* [stage_count + 1]: what goes into each stage; the first and the last are empty */
    struct stage *stages; /* [shape.local] of this rank */
    /* main's steps on the step's whole batch, before it calls the model: context_parallel; most have none */
    const struct graph_step *script; /* [script_count] */
    size_t script_count;
    struct value *
        whole; /* [of the row's slots] the script's frame: the batch, and what it makes of that; until the step's end */
    size_t whole_count;
    uint32_t *
        given; /* [given_count] of these slots, those that stages are given micro-batches of: the model's inputs first */
    uint32_t given_count;
    struct action_list actions;
    const char *about; /* "blocks 0-3 and the embedding; 4 micro-batches in flight" */
};

/* pipeline_stage_count() - of this rank; without a pipeline the model is the only one */
uint32_t pipeline_stage_count(const struct run *run);
/* pipeline_stage_body() - what the module of stage @i runs; without a pipeline main */
const struct graph_body *pipeline_stage_body(const struct run *run, uint32_t i);
/* pipeline_stage_has() - does stage @i use the parameter or buffer run->params[@param]? */
bool pipeline_stage_has(const struct run *run, uint32_t i, size_t param);

/* ------------------------------------------------------------------ pipeline_cut.c, pipeline_build.c */

/* pipeline_cut() - cut the model, give this rank its stages, and mark the parameters that are elsewhere */
PLM_MUST_CHECK enum plm_status pipeline_cut(struct pipeline *p, struct plm_error *reterr);

/* stage_weights() - after the model is loaded: which of the stage's parameters want gradients */
void stage_weights(struct pipeline *p, struct stage *stage);

/* ------------------------------------------------------------------ pipeline_script.c */

/* script_enter() - the whole batch, and what main does with it; script_part() a micro-batch of what stages are given as number @i */
void script_enter(struct pipeline *p);
struct value script_part(struct pipeline *p, uint32_t i);
void script_leave(struct pipeline *p);

/* ------------------------------------------------------------------ pipeline_stage.c */

/* stage_prepare() - after the model is loaded: room for what it holds */
void stage_prepare(struct pipeline *p, struct stage *stage);

/*
 * What a schedule asks of a stage. A receive or send fills in @ops with references to its tensors, as the list of operations
 * has them; sent_drop() lets go of them.
 */
void stage_receive_forward(struct pipeline *p, struct stage *s, int32_t micro, struct sent *ops);
void stage_forward(struct pipeline *p, struct stage *s, int32_t micro);
void stage_send_forward(struct pipeline *p, struct stage *s, int32_t micro, struct sent *ops);
/* stage_release() - a forward's outputs have been sent */
void stage_release(struct pipeline *p, struct stage *s, int32_t micro);
void stage_receive_backward(struct pipeline *p, struct stage *s, int32_t micro, struct sent *ops);
void stage_backward(struct pipeline *p, struct stage *s, int32_t micro);
void stage_backward_input(struct pipeline *p, struct stage *s, int32_t micro);
void stage_backward_weight(struct pipeline *p, struct stage *s, int32_t micro);
void stage_send_backward(struct pipeline *p, struct stage *s, int32_t micro, struct sent *ops);
/* stage_clear() - the next step begins with nothing of the last; also after a failure */
void stage_clear(struct pipeline *p, struct stage *s);

void sent_drop(struct ghost *g, struct sent *ops);
/* sent_move() - @to holds what @from held, which is then empty */
void sent_move(struct ghost *g, struct sent *to, struct sent *from);

/* ------------------------------------------------------------------ pipeline_step.c */

/* pipeline_micro_steps() - forward and backward of all micro-batches, in the schedule's order */
void pipeline_micro_steps(struct pipeline *p);

#endif
