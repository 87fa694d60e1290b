/*
 * train/fsdp.h - fully_shard (FSDP2): what its files share
 *
 * Mirrors torch/distributed/fsdp/_fully_shard (PyTorch 2.15). A state is what fully_shard() adds to one module (its hooks); a
 * group are the parameters that are gathered and reduced together: here each state has exactly one group, which may be
 * empty. Everything that is alive between two calls hangs on the states or on the context that they share: a tree's, which
 * is that of a root module. A pipeline's rank has a tree for each of its stages.
 */
#ifndef PLM_TRAIN_FSDP_H
#define PLM_TRAIN_FSDP_H

#include "train/wrapped.h"

/* Streams of FSDPCommContext, in the order in which it makes them, that memory is allocated on. */
enum fsdp_stream {
    FSDP_STREAM_ALL_GATHER, /* all_gather_copy_in_stream; the all-gather's own comes after it */
    FSDP_STREAM_REDUCE_SCATTER = 2,
    FSDP_STREAM_ALL_REDUCE,
};

/* TrainingState of _fsdp_common.py */
enum fsdp_training { FSDP_IDLE, FSDP_FORWARD, FSDP_PRE_BACKWARD, FSDP_POST_BACKWARD };

enum fsdp_sharding { FSDP_SHARDED, FSDP_SHARDED_POST_FORWARD, FSDP_UNSHARDED };

/* struct fsdp_param - FSDPParam */
struct fsdp_param {
    struct param *param; /* ->tensor is the shard without its padding, which the optimizer sees */
    name_id module;
    struct tensor *shard; /* with the padding; it has no memory on the device when offloaded */
    struct tensor
        *unpadded;         /* what to_empty() made of a shard that is shorter, until it is padded */
    struct tensor *output; /* all_gather_outputs[0]: all ranks' shards, one after the other */
    struct tensor
        *post_forward;          /* this rank's part of the smaller mesh, from forward to backward */
    int64_t sizes[TENSOR_DIMS]; /* of what is sharded: with --tp a part of the parameter already */
    int64_t padded;             /* elements of a shard */
};

/* struct fsdp_state - FSDPState with its FSDPParamGroup */
struct fsdp_state {
    struct fsdp *fsdp;
    struct fsdp_tree *tree;
    name_id path; /* of the module */
    bool root;
    enum fsdp_training training;       /* of the state: its forward and its backward hooks */
    enum fsdp_training group_training; /* of the group */
    enum fsdp_sharding sharding;
    bool reshards;        /* after forward */
    int64_t shards, rank; /* that the group is sharded over, and this one among them */
    bool experts;         /* of expert parallelism */
    struct fsdp_param *params;
    size_t param_count, param_capacity;
    size_t *buffers; /* [buffer_count] numbers of those of the unit's modules */
    size_t buffer_count, buffer_capacity;
    bool pending;               /* _post_backward_pending */
    bool gathering;             /* an all-gather is pending: _all_gather_result */
    struct tensor *gathered;    /* its buffer; NULL in a world of one */
    struct tensor *all_reduced; /* _all_reduce_state: the buffer of the last all-reduce */
    size_t *order;              /* [order_count] _post_forward_indices: its places in tree->order */
    size_t order_count, order_capacity;
};

/* struct fsdp_tree - what FSDPCommContext and FSDPStateContext hold */
struct fsdp_tree {
    struct fsdp *fsdp;
    struct wrapped wrapped;
    struct fsdp_state *states; /* [state_count], by unit: the root comes last */
    size_t state_count;
    struct fsdp_state **outer_first; /* [state_count] in the order of Module.modules() */
    bool reduces;                    /* set_requires_gradient_sync() */
    struct tensor *held;             /* all_gather_state: the last buffer of the forward */
    struct tensor *reduce_input;     /* reduce_scatter_states, of which one is kept */
    struct fsdp_state **order;       /* [order_count] post_forward_order */
    size_t order_count, order_capacity;
    bool callback_queued;
    /* what a lowered schedule remembers: unshard_ops, _finalized_stages */
    bool unsharding, finalized;
};

/* struct fsdp - the strategy's answers */
struct fsdp {
    struct run *run;
    int64_t shards, replicas, rank; /* @rank within a shard group */
    int64_t post_forward_shards;    /* ranks that share a parameter between forward and backward */
    enum dtype param_dtype, reduce_dtype; /* DTYPE_COUNT: none was given */
    bool offload;
    bool
        finalizes; /* a pipeline: nothing is reduced or sharded until a stage's backwards are over */
    struct fsdp_tree *trees; /* [tree_count] */
    size_t tree_count;
    struct tensor *last_named; /* what the loop that froze parameters saw last */
    struct schedule *schedule; /* while the optimizer runs on the host */
};

/* fsdp_tree_of() - of the stage that runs now; without a pipeline there is one */
static inline struct fsdp_tree *fsdp_tree_of(const struct run *run)
{
    struct fsdp *fsdp = run->wrapper_state;

    return &fsdp->trees[run->stage];
}

/* ------------------------------------------------------------------ expert_parallel.c */

/* expert_parallel_check() - has the model experts to share out? expert_parallel_wrap() give each rank its own */
PLM_MUST_CHECK enum plm_status expert_parallel_check(struct run *run, struct plm_error *reterr);
void expert_parallel_wrap(struct run *run);

/* ------------------------------------------------------------------ fsdp_shard.c: _fsdp_init.py, _fsdp_param.py */

/* fsdp_make_trees() - the states of each stage's modules; fsdp_wrap() shards their parameters */
void fsdp_make_trees(struct fsdp *fsdp);
void fsdp_wrap(struct run *run);

/* ------------------------------------------------------------------ fsdp_hooks.c: _fsdp_state.py */

/* as the members of struct wrapper say */
void fsdp_before_forward(struct run *run, struct wrapped_call *call);
void fsdp_after_forward(struct run *run, struct wrapped_call *call);
void fsdp_before_backward(struct run *run, uint32_t micro);
extern const struct stage_hooks fsdp_stage_hooks;

/* ------------------------------------------------------------------ fsdp_group.c: _fsdp_param_group.py */

void fsdp_unshard(struct fsdp_state *state);
void fsdp_wait_for_unshard(struct fsdp_state *state);
void fsdp_reshard(struct fsdp_state *state);
void fsdp_group_pre_backward(struct fsdp_state *state);
void fsdp_group_post_backward(struct fsdp_state *state);

/* ------------------------------------------------------------------ fsdp_collectives.c: _fsdp_collectives.py */

/* fsdp_all_gather() - copy the shards in and gather them; the buffer, owned */
struct tensor *fsdp_all_gather(struct fsdp_state *state);
/* fsdp_copy_out() - from the buffer to a tensor for each parameter; @gathered is NULL in a world of one */
void fsdp_copy_out(struct fsdp_state *state, struct tensor *gathered);
/* fsdp_reduce() - reduce and scatter @grads, [state->param_count], which are taken over; NULL: has none */
void fsdp_reduce(struct fsdp_state *state, struct tensor **grads);

/* fsdp_stream() - the number of one of the tree's streams */
uint16_t fsdp_stream(const struct fsdp_tree *tree, enum fsdp_stream which);
/* fsdp_world() - ranks that a gather of the group's parameters runs over now */
int64_t fsdp_world(const struct fsdp_state *state);
/* fsdp_gathered_dtype() - the type of a gathered parameter */
enum dtype fsdp_gathered_dtype(const struct fsdp_state *state, const struct fsdp_param *p);
/* fsdp_grad_dtype() - unsharded_grad_dtype: in which gradients are accumulated and reduced */
enum dtype fsdp_grad_dtype(const struct fsdp_state *state, const struct fsdp_param *p);

#endif
