/*
 * train/megatron.h - training as Megatron-LM does: one buffer of gradients, and an optimizer over float32 copies
 *
 * Mirrors megatron-core 0.16.1 with its local layers, without Apex and Transformer Engine: core/distributed
 * (DistributedDataParallel, _ParamAndGradBuffer, finalize_model_grads), core/optimizer (Float16OptimizerWithFloat16Params,
 * FP32Optimizer, DistributedOptimizer, clip_grads.py) and core/pipeline_parallel/schedules.py.
 */
#ifndef PLM_TRAIN_MEGATRON_H
#define PLM_TRAIN_MEGATRON_H

#include "train/megatron_layout.h"
#include "train/wrapper.h"

/* ------------------------------------------------------------------ the run's state */

/* struct model_buffer - _ParamAndGradBuffer: of the parameters of one of this rank's stages */
struct model_buffer {
    size_t *trained; /* [count] indices into run->trained, in order of registration */
    size_t count;
    uint32_t stage; /* of this rank's stages */
    bool experts;   /* of those that expert parallelism shares out: a buffer of their own */
    int64_t ranks;  /* that have the same parameters */
    int64_t rank;   /* of them */
    struct buffer_layout layout;
    struct tensor *params, *grads; /* params: the distributed optimizer's */
};

/* struct main_param - what the optimizer has in place of a parameter, or of this rank's part of it */
struct main_param {
    struct param param; /* its float32 copy; or the parameter itself, when that is float32 */
    struct leaf leaf;
    struct leaf *model;
    const struct model_buffer *buffer;
};

/* struct part_optimizer - one of ChainedOptimizer's: of the dense parameters, or of the experts' where these are shared out */
struct part_optimizer {
    size_t first, decay_end, end; /* its main_params: with weight decay first */
    struct tensor *scale;         /* of the loss */
    struct tensor *scaler[5];
};

enum { OPTIMIZERS_MOST = 2 };

struct megatron {
    struct model_buffer *buffers; /* [buffer_count] one or two for each of its stages */
    size_t buffer_count;
    bool mixture;             /* has the model experts? */
    struct tensor *aux_scale; /* main_loss_backward_scale of the router's losses */
    struct part_optimizer optimizers[OPTIMIZERS_MOST];
    size_t optimizer_count;
    struct tensor **leaves;   /* [trained_count] the parameters, by address */
    struct main_param *mains; /* [main_count] as the optimizers' groups have them */
    size_t main_count;
    struct leaf **leaves_of_mains; /* [main_count] */
    struct tensor *
        *stage_inputs; /* [stages of this rank] what each stage's module was given last */
    struct interleaved_lists *lists; /* of an interleaved pipeline (megatron_interleaved.c) */
    struct value loss, count; /* of the last micro-batch: names that are bound again by the next */
    struct value *reports;    /* [report_count] of the step's micro-batches */
    size_t report_count, report_capacity;
};

/* megatron_scales() - has the loss a scale that changes (fp16)? */
bool megatron_scales(const struct run *run);

/* megatron_is_given() - does main give the model its @i-th input? The others are for the loss */
bool megatron_is_given(const struct run *run, uint32_t i);

/* ------------------------------------------------------------------ megatron_buffer.c */

/* megatron_buffers() - DistributedDataParallel.__init__: the buffers, with the parameters in theirs */
void megatron_buffers(struct run *run, struct megatron *m);

/* ------------------------------------------------------------------ megatron_optimizer.c */

/* megatron_mains() - the optimizer's constructor; megatron_optimize() optimizer.step(); megatron_zero() zero_grad() */
void megatron_mains(struct run *run, struct megatron *m);
void megatron_optimize(struct run *run, struct megatron *m);
void megatron_zero(struct run *run, struct megatron *m);

/* ------------------------------------------------------------------ megatron_step.c */

/* megatron_bind_outputs() - loss, number of tokens and report of main, taken over: ret[main->out_count] */
void megatron_bind_outputs(struct run *run, struct megatron *m, struct value *ret);
/* megatron_scale_losses() - the end of forward_step(): a scale for the losses of routers */
void megatron_scale_losses(struct run *run, struct megatron *m);
/* megatron_finish_gradients() - finalize_model_grads(), of what takes memory */
void megatron_finish_gradients(struct run *run, const struct megatron *m);

/* ------------------------------------------------------------------ megatron_pipeline.c, megatron_interleaved.c */

/* megatron_pipeline() - forward_backward_pipelining_without_interleaving(); megatron_interleaved() …_with_interleaving() */
void megatron_pipeline(struct run *run, struct megatron *m);
void megatron_interleaved(struct run *run, struct megatron *m);

/* megatron_step() - train_step() of megatron/training/training.py */
void megatron_step(struct run *run);

#endif
