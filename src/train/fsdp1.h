/*
 * train/fsdp1.h - FullyShardedDataParallel (FSDP1): what its files share
 *
 * Mirrors torch/distributed/fsdp (PyTorch 2.15) with use_orig_params=False: the parameters of a unit become one flat
 * parameter, which is what the optimizer sees. A handle is a unit with its flat parameter.
 */
#ifndef PLM_TRAIN_FSDP1_H
#define PLM_TRAIN_FSDP1_H

#include "train/wrapped.h"

/* Streams beside the default one (_init_streams). */
enum fsdp1_stream {
    FSDP1_STREAM_DEFAULT,
    FSDP1_STREAM_UNSHARD,
    FSDP1_STREAM_PRE_UNSHARD,
    FSDP1_STREAM_POST_BACKWARD,
};

/* HandleTrainingState */
enum fsdp1_training { FSDP1_IDLE, FSDP1_FORWARD, FSDP1_BACKWARD_PRE, FSDP1_BACKWARD_POST };

/* struct fsdp1_handle - FlatParamHandle and the state of its module */
struct fsdp1_handle {
    struct fsdp1 *fsdp;
    name_id path;
    bool root, frozen;
    struct param **params; /* [param_count] of the model; none: the module has no flat parameter */
    struct leaf **leaves;  /* [param_count] theirs */
    size_t param_count, param_capacity;
    int64_t numel, shard_numel; /* of the flat parameter, and of a rank's padded part */
    enum dtype dtype;
    struct param flat; /* ->tensor is the shard */
    struct leaf leaf;
    struct tensor *low;       /* _mp_shard */
    struct tensor *full;      /* _full_param_padded */
    struct tensor *unsharded; /* the leaf over it: flat_param while it is gathered */
    struct tensor *reduced;   /* _saved_grad_shard */
    enum fsdp1_training training;
    bool sharded; /* flat_param.data is the shard */
    bool needs_pre_forward, needs_pre_backward, ran_pre_backward, prefetched;
    bool placed;             /* in the order of the forward */
    size_t index;            /* _post_forward_index, while @placed */
    uint32_t inputs_awaited; /* gradients of inputs after which a frozen one is sharded again */
};

/* struct fsdp1 - the strategy's answers, and what the root shares with all */
struct fsdp1 {
    struct run *run;
    int64_t shards, rank;
    enum dtype param_dtype, reduce_dtype; /* DTYPE_COUNT: none was given */
    bool offload, frees_after_forward, prefetches_forward;
    bool syncs, initialized, callback_queued;
    struct wrapped wrapped;
    struct fsdp1_handle *handles;        /* [units.count + 1], by unit: the root comes last */
    struct fsdp1_handle **after_forward; /* [after_count] handles_post_forward_order */
    size_t after_count, after_capacity;
    struct fsdp1_handle *
        *before_forward; /* [before_count] handles_pre_forward_order, of the first step */
    size_t before_count, before_capacity;
    bool order_is_known;
    struct tensor *last_named;
    struct tensor *zero;       /* _zero_scalar of clip_grad_norm_() */
    struct schedule *schedule; /* while the optimizer runs on the host */
};

/* fsdp1_handle.c: _flat_param.py */
void fsdp1_flatten(struct fsdp1_handle *h);
void fsdp1_init_attributes(struct fsdp1_handle *h);
void fsdp1_unshard(struct fsdp1_handle *h);
void fsdp1_reshard(struct fsdp1_handle *h, bool frees);
/* fsdp1_reduce() - the flat gradient becomes this rank's part of the sum */
void fsdp1_reduce(struct fsdp1_handle *h);

#endif
