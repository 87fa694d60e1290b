/*
 * train/zero3.h - ZeRO stage 3 of DeepSpeed: what its files share
 *
 * Mirrors deepspeed/runtime/zero (0.19.8). Every parameter is cut into a part for each rank. A module that owns parameters
 * gathers them before its forward and its backward and lets go of them after each; the first forward and backward record
 * the order, and from the second on what will be needed is gathered ahead.
 */
#ifndef PLM_TRAIN_ZERO3_H
#define PLM_TRAIN_ZERO3_H

#include "train/deepspeed.h"

enum zero3_status { ZERO3_NOT_AVAILABLE, ZERO3_INFLIGHT, ZERO3_AVAILABLE }; /* ZeroParamStatus */

/* struct zero3_handle - AllGatherCoalescedHandle: one buffer for several parameters, which are copied out of it */
struct zero3_handle {
    uint32_t refs;
    struct tensor *buffer; /* NULL: the one parameter is a view of what was gathered */
    size_t *params;        /* [count], sorted */
    size_t count;
    bool complete;
};

/* struct zero3_param - a parameter with DeepSpeed's attributes (ds_…) */
struct zero3_param {
    struct param *param; /* ->tensor is the leaf; its memory is what was gathered, or none */
    struct leaf *leaf;
    name_id module;
    int64_t numel, partition; /* elements of it, and of a rank's part */
    struct tensor *shard;     /* ds_tensor */
    enum zero3_status status;
    bool persists;
    struct zero3_handle *handle; /* while in the registry of those in flight */
    uint32_t *active;            /* [active_count] ds_active_sub_modules */
    size_t active_count, active_capacity;
    int64_t recent;      /* most_recent_step_id_param_fetched_for */
    struct tensor *norm; /* norm_for_param_grads, of an offloaded optimizer */
};

/* struct zero3_module - an nn.Module that is called, and the parameters that are its own */
struct zero3_module {
    size_t *params; /* [param_count] */
    size_t param_count, param_capacity;
    uint32_t applied;   /* applied_pre_backward_ref_cnt */
    uint32_t remaining; /* ds_grads_remaining */
    bool active;        /* in active_backward_submodules */
    struct zero3 *zero3;
    uint32_t number;
};

/* struct zero3_group - a sub-group: parameters that the optimizer updates in one call */
struct zero3_group {
    size_t *params; /* [param_count] */
    size_t param_count;
    int64_t numel; /* of this rank's parts */
    struct leaf master, *masters[1];
    struct param master_param;
};

/* struct zero3_use - __ParamInTrace */
struct zero3_use {
    size_t param;
    int64_t step;
};

struct zero3 {
    struct deepspeed *ds;
    struct zero3_param
        *params; /* [param_count] of run->params; those that are buffers are left out */
    size_t param_count;
    size_t cut_count;             /* of them cut up */
    size_t *number_of_param;      /* [run->param_count] */
    struct leaf_place *places;    /* [param_count] by address of the leaf */
    struct zero3_module *modules; /* [module_count] */
    size_t module_count, module_capacity;
    uint32_t *module_of_path; /* [path_count] numbers from 1 */
    size_t path_count;
    struct zero3_group *groups; /* [group_count] */
    size_t group_count;
    struct tensor *flat, *gradients; /* lp_param_buffer, grad_partitions_flat_buffer */
    bool in_model;
    struct tensor **replaced; /* [replaced_count] inputs of the operator that runs now */
    size_t replaced_count, replaced_capacity;

    /* PartitionedParameterCoordinator */
    enum { ZERO3_INVALID, ZERO3_RECORD, ZERO3_COMPLETE } trace;
    uint32_t *order; /* [order_count] the modules of a forward and backward */
    size_t order_count, order_capacity;
    struct zero3_use *uses; /* [use_count] the parameters in that order */
    size_t use_count, use_capacity, next_use;
    int64_t step;       /* modules so far */
    int64_t available;  /* elements */
    uint32_t *backward; /* [backward_count] active_backward_submodules */
    size_t backward_count, backward_capacity;

    /* the bucket of gradients */
    struct tensor *bucket;
    int64_t bucket_elements;
    size_t *bucket_params; /* [bucket_count] */
    size_t bucket_count;
};

/* ------------------------------------------------------------------ zero3.c */

void zero3_create(struct deepspeed *ds);
void zero3_load_parameter(struct run *run, size_t param);
void zero3_wrap(struct deepspeed *ds);
size_t zero3_number(const struct zero3 *zero3, const struct tensor *leaf);

/* ------------------------------------------------------------------ zero3_modules.c */

/* zero3_find_modules() - which modules own which parameters */
void zero3_find_modules(struct zero3 *zero3);
void zero3_before_forward(struct run *run, struct wrapped_call *call);
void zero3_after_forward(struct run *run, struct wrapped_call *call);
void zero3_before_operator(struct run *run,
                           const struct graph_step *step,
                           struct tensor **inputs,
                           uint32_t count);
void zero3_after_operator(struct run *run, const struct graph_step *step, struct tensor **outputs);

/* ------------------------------------------------------------------ zero3_fetch.c: partitioned_param_coordinator.py */

void zero3_reset_step(struct zero3 *zero3);
void zero3_fetch(struct zero3_module *module, bool forward);
void zero3_release(struct zero3_module *module, bool forward);
/* zero3_release_leftovers() - of modules whose backward was not seen to end */
void zero3_release_leftovers(struct zero3 *zero3);
/* zero3_release_all() - _partition_all_parameters() */
void zero3_release_all(struct zero3 *zero3);

/* ------------------------------------------------------------------ zero3_gather.c: partition_parameters.py */

/* zero3_gather() - all_gather_coalesced() of parameters that are not available, [count] */
void zero3_gather(struct zero3 *zero3, const size_t *params, size_t count);
/* zero3_wait() - the handle's wait(), after which its parameters are there */
void zero3_wait(struct zero3 *zero3, struct zero3_param *p);
/* zero3_gather_now() - param.all_gather(param_list), blocking, each to a tensor of its own */
void zero3_gather_now(struct zero3 *zero3, const size_t *params, size_t count);
/* zero3_free() - free_param() */
void zero3_free(struct zero3 *zero3, struct zero3_param *p);

/* ------------------------------------------------------------------ zero3_reduce.c, zero3_step.c: stage3.py */

void zero3_ready(struct deepspeed *ds, struct tensor *leaf, bool boundary);
void zero3_reduced(struct deepspeed *ds, bool boundary);
void zero3_step(struct deepspeed *ds);

#endif
