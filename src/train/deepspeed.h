/*
 * train/deepspeed.h - DeepSpeed's ZeRO: what its files share
 *
 * Mirrors deepspeed/runtime (DeepSpeed 0.19.8). The engine calls the model, divides and scales the loss, runs the backward, and
 * steps an optimizer that holds this rank's part of the fp32 master weights. Stages 1 and 2 keep the parameters whole
 * in one flat tensor; stage 3 keeps a part of each and gathers them around the modules that use them.
 */
#ifndef PLM_TRAIN_DEEPSPEED_H
#define PLM_TRAIN_DEEPSPEED_H

#include "train/wrapper.h"

/* Streams beside the default one on which memory is allocated. */
enum deepspeed_stream {
    DEEPSPEED_STREAM_DEFAULT,
    DEEPSPEED_STREAM_REDUCE,
    DEEPSPEED_STREAM_GATHER
};

/* struct deepspeed_settings - the configuration with its defaults filled in; sizes in elements */
struct deepspeed_settings {
    int64_t stage;
    int64_t reduce_bucket_size;
    int64_t prefetch_bucket_size, param_persistence_threshold, model_persistence_threshold;
    int64_t max_live_parameters, max_reuse_distance, sub_group_size;
    bool overlap_comm, contiguous_gradients, reduce_scatter, multi_rank_allreduce, round_robin;
    bool checks_overflow;
    bool clips;  /* "gradient_clipping" above 0 */
    bool scales; /* the loss, by more than 1 */
    bool offload_optimizer, offload_params;
    enum dtype communication_dtype;
};

struct deepspeed {
    struct run *run;
    struct deepspeed_settings settings;
    int64_t world, rank;
    enum dtype dtype;             /* of parameters and gradients */
    struct tensor *global_norm;   /* _global_grad_norm of the optimizer */
    struct tensor *reported_norm; /* that of the engine, until the step's end the last step's */
    enum dtype norm_dtype;        /* of the global norm */
    struct deepspeed_flat *flat;  /* stages 1 and 2 */
    struct zero3 *zero3;          /* stage 3 */
};

/* ------------------------------------------------------------------ deepspeed_flat.c: stages 1 and 2, the parameters */

/* struct flat_param - a trained parameter in the flat tensor */
struct flat_param {
    struct param *param; /* ->tensor is a view of the flat tensor */
    name_id module;
    int64_t offset, numel;
    bool mine;           /* a part of it is in this rank's partition */
    bool reduced;        /* params_already_reduced */
    struct tensor *norm; /* of an offloaded part, until the step */
};

/* struct ipg_bucket - gradients that are reduced together */
struct ipg_bucket {
    struct tensor *buffers[2];
    unsigned index;
    int64_t elements;
    uint32_t *members; /* [member_count] */
    size_t member_count;
};

/* struct leaf_place - of a trained parameter's tensor; sorted by address, to be found again */
struct leaf_place {
    const struct tensor *leaf;
    uint32_t number;
};

struct deepspeed_flat {
    struct flat_param *params; /* [param_count], in the order of model.parameters() */
    uint32_t *placed;          /* [param_count] the same in the order of the flat tensor */
    struct leaf_place *places; /* [param_count] */
    size_t param_count;
    int64_t partition;               /* elements of one */
    struct leaf master, *masters[1]; /* the fp32 partition, which is what the optimizer sees */
    struct param master_param;
    struct ipg_bucket bucket;
    bool ready; /* ready_for_gradients */
    struct tensor *grads_in_partition;
    struct tensor **summed;   /* [mine_count] all_grad_tensors */
    struct tensor **averaged; /* [mine_count + 1] averaged_gradients, with what pads them */
    size_t mine_count, averaged_count;
    int64_t mine_numel; /* of parameters that this rank has a part of */
    bool has_sum;
    struct tensor *offload_buffer; /* temp_grad_buffer_for_gpu_offload */
};

/* deepspeed_flatten() - DeepSpeedZeroOptimizer.__init__() */
void deepspeed_flatten(struct deepspeed *ds);
/* deepspeed_flat_number() - of the parameter whose tensor @leaf is; SIZE_MAX: none */
size_t deepspeed_flat_number(const struct deepspeed_flat *flat, const struct tensor *leaf);

/* ------------------------------------------------------------------ deepspeed_reduce.c: stages 1 and 2, the gradients */

/* deepspeed_flat_ready() - a gradient has come */
void deepspeed_flat_ready(struct deepspeed *ds, struct tensor *leaf, bool boundary);
/* deepspeed_flat_reduced() - the end of a backward; @boundary: the step's last */
void deepspeed_flat_reduced(struct deepspeed *ds, bool boundary);

/* ------------------------------------------------------------------ deepspeed_step.c: stages 1 and 2, the update */

void deepspeed_flat_step(struct deepspeed *ds);

/* ------------------------------------------------------------------ deepspeed_norm.c: deepspeed/runtime/utils.py */

/* deepspeed_overflow() - has one of the gradients, which may be NULL, an infinity or no number? */
void deepspeed_overflow(struct deepspeed *ds, struct tensor *const *grads, size_t count);
/* deepspeed_one_norm() - of one gradient, in float64; owned */
struct tensor *deepspeed_one_norm(struct deepspeed *ds, struct tensor *x);
/* deepspeed_has_overflow() - has one gradient? */
void deepspeed_has_overflow(struct deepspeed *ds, const struct tensor *x);
/* deepspeed_norm() - the norm of all gradients over all ranks; owned */
struct tensor *deepspeed_norm(struct deepspeed *ds, struct tensor *const *grads, size_t count);
/* deepspeed_mask_invalid() - of a norm in float32 */
void deepspeed_mask_invalid(struct deepspeed *ds);
/* deepspeed_combine_norms() - combine_grad_norm_groups() of @count groups; owned */
struct tensor *deepspeed_combine_norms(struct deepspeed *ds, size_t count);
/* deepspeed_check_norm() - is_invalid_grad_norm() */
void deepspeed_check_norm(struct deepspeed *ds);
/* deepspeed_unscale() - unscale_and_clip_grads() */
void deepspeed_unscale(struct deepspeed *ds);

#endif
