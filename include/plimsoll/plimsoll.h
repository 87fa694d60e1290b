/*
 * plimsoll/plimsoll.h - how much memory a training or inference run takes, and the largest batch that is safe
 *
 *     struct plm_context *context;
 *     struct plm_model *model;
 *     struct plm_strategy strategy = { .precision = PLM_PRECISION_BF16, .batch = 8, .seq = 1024 };
 *     struct plm_estimate *estimate;
 *     struct plm_error error;
 *
 *     context = plm_context_create();
 *     plm_context_add_models(context, "/usr/share/plimsoll/models");
 *     if (plm_model_load(context, "gpt2", &model, &error) != PLM_OK) …
 *     if (plm_estimate(model, &strategy, &estimate, &error) != PLM_OK) …
 *     printf("%llu\n", (unsigned long long)plm_estimate_result(estimate)->peak.allocated);
 *
 * Ownership: a pointer returned by the library belongs to the object it came from and lives as long as that
 * object. Errors: functions return an enum plm_status; results are written on success only, @reterr (which may be
 * NULL) on failure only. The library never prints, exits, reads the environment or sets the locale.
 * Option structs are zero-initialisable, and zero means the default.
 */
#ifndef PLM_PLIMSOLL_H
#define PLM_PLIMSOLL_H

#include <stdbool.h>

#include "plimsoll/types.h"

struct plm_context;  /* where models and devices are found */
struct plm_model;    /* a model that was read and checked */
struct plm_estimate; /* the result of one estimate, with everything it points to */
struct plm_plan;     /* the result of a search for the largest batch */
struct plm_compare;  /* the results of several strategies */
struct plm_baseline; /* results that were written before */

enum plm_precision {
    PLM_PRECISION_FP32,
    PLM_PRECISION_BF16,
    PLM_PRECISION_FP16,
    PLM_PRECISION_AMP_BF16, /* autocast over fp32 parameters */
    PLM_PRECISION_AMP_FP16, /* the same, with GradScaler */
};

enum plm_optimizer {
    PLM_OPTIMIZER_ADAMW, /* the default; foreach, as PyTorch chooses on CUDA */
    PLM_OPTIMIZER_NONE,
    PLM_OPTIMIZER_SGD,
    PLM_OPTIMIZER_SGD_MOMENTUM,
    PLM_OPTIMIZER_ADAM,
    PLM_OPTIMIZER_ADAM_FUSED,
    PLM_OPTIMIZER_ADAMW_FUSED,
    PLM_OPTIMIZER_ADAMW_LOOP,
    PLM_OPTIMIZER_ADAFACTOR,
    PLM_OPTIMIZER_RMSPROP,
    PLM_OPTIMIZER_ADAGRAD,
    PLM_OPTIMIZER_LION,
    PLM_OPTIMIZER_ADAMW_8BIT,
};

enum plm_checkpoint {
    PLM_CHECKPOINT_NONE,
    PLM_CHECKPOINT_FULL,   /* every marked place */
    PLM_CHECKPOINT_EVERY,  /* every Nth place alone */
    PLM_CHECKPOINT_GROUP,  /* one checkpoint around N consecutive places */
    PLM_CHECKPOINT_SQRT,   /* groups of about the square root of their number */
    PLM_CHECKPOINT_BLOCKS, /* the places listed */
    PLM_CHECKPOINT_AUTO,   /* the fewest recomputed operators that fit the device */
};

enum plm_zero_grad { PLM_ZERO_GRAD_SET_TO_NONE, PLM_ZERO_GRAD_ZERO };
enum plm_zero_grad_at {
    PLM_ZERO_GRAD_AT_END,
    PLM_ZERO_GRAD_AT_BEGIN,
    PLM_ZERO_GRAD_AT_BEFORE_BACKWARD
};
enum plm_workspace { PLM_WORKSPACE_AUTO, PLM_WORKSPACE_NONE, PLM_WORKSPACE_BYTES };

/* struct plm_setting - one --set: a dim (number) or an option (word or number) of the model */
struct plm_setting {
    const char *name, *value;
};

/* struct plm_device - a GPU as CUDA describes it, and what a process takes before its first tensor */
struct plm_device {
    const char *name;  /* "a100-80" */
    const char *title; /* "NVIDIA A100-SXM4-80GB" */
    plm_bytes total;   /* totalGlobalMem */
    plm_bytes context; /* CUDA context and modules */
    int cc;            /* compute capability, 80 for 8.0 */
    int sm_count, threads_per_sm;
    const char *source;         /* of the totals: document or measurement */
    const char *context_source; /* of the context's size */
    bool calibrated;            /* measured by `plimsoll calibrate` rather than built in */
    const char *uuid, *driver;  /* where it was measured; NULL for one that was not */
    plm_bytes margin;           /* from the residuals of the measurement; 0: none is known */
    const char *margin_reason;
    const char *file; /* that it was read from */
};

enum plm_schedule {
    PLM_SCHEDULE_1F1B,
    PLM_SCHEDULE_GPIPE,
    PLM_SCHEDULE_INTERLEAVED,
    PLM_SCHEDULE_ZERO_BUBBLE
};
enum plm_reshard {
    PLM_RESHARD_DEFAULT,
    PLM_RESHARD_TRUE,
    PLM_RESHARD_FALSE,
    PLM_RESHARD_BUT_LAST,
    PLM_RESHARD_TO
};
/* where a model is before it is split: whole on the device; on the host; on the meta device, without memory until to_empty() */
enum plm_load { PLM_LOAD_DEVICE, PLM_LOAD_HOST, PLM_LOAD_META };
enum plm_rotate { PLM_ROTATE_ALLGATHER, PLM_ROTATE_ALLTOALL };
enum plm_reduced { PLM_REDUCED_DEFAULT, PLM_REDUCED_FP32, PLM_REDUCED_BF16, PLM_REDUCED_FP16 };
enum plm_switch { PLM_SWITCH_DEFAULT, PLM_SWITCH_TRUE, PLM_SWITCH_FALSE };
enum plm_offload { PLM_OFFLOAD_NONE, PLM_OFFLOAD_OPTIMIZER, PLM_OFFLOAD_ALL };

/*
 * struct plm_deepspeed - "zero_optimization" of a DeepSpeed configuration, and what else of it takes memory
 *
 * Sizes are in elements: 0 is DeepSpeed's default, PLM_DEEPSPEED_NONE is 0, PLM_DEEPSPEED_AUTO what Hugging Face's Trainer
 * works out from the model's hidden size.
 */
enum { PLM_DEEPSPEED_NONE = -1, PLM_DEEPSPEED_AUTO = -2 };
struct plm_deepspeed {
    const char *file; /* where all of it comes from, as the recipe says; NULL: from options */
    int64_t reduce_bucket_size;
    int64_t prefetch_bucket_size, param_persistence_threshold, model_persistence_threshold;
    int64_t max_live_parameters, max_reuse_distance, sub_group_size;
    enum plm_switch overlap_comm, contiguous_gradients, reduce_scatter;
    enum plm_switch multi_rank_allreduce; /* use_multi_rank_bucket_allreduce */
    enum plm_switch check_grad_overflow;  /* of bf16 */
    bool round_robin_gradients;
    bool no_clipping;         /* "gradient_clipping": 0; DeepSpeed's default is 1.0 */
    enum plm_offload offload; /* to the host: the optimizer; with its parameters, in stage 3 */
    bool has_offload;         /* as has_precision of struct plm_strategy */
    enum plm_reduced communication_dtype;
};

enum plm_recompute { PLM_RECOMPUTE_NONE, PLM_RECOMPUTE_SELECTIVE, PLM_RECOMPUTE_FULL };
enum plm_recompute_method { PLM_RECOMPUTE_UNIFORM, PLM_RECOMPUTE_BLOCK };

/* struct plm_parallel - more than one GPU; numbers of ranks, 0 where a technique is not used */
struct plm_parallel {
    int64_t ddp;           /* DistributedDataParallel */
    int64_t data_parallel; /* torch.nn.DataParallel */
    int64_t fsdp;          /* fully_shard (FSDP2) */
    int64_t fsdp1;         /* FullyShardedDataParallel */
    int64_t hsdp_replicate, hsdp_shard;
    int64_t zero_optimizer; /* ZeroRedundancyOptimizer over that many ranks, under DDP */
    int64_t zero;           /* DeepSpeed's ZeRO: the stage, from 1 to 3; over what gpus leave */
    struct plm_deepspeed deepspeed; /* with zero */
    int64_t gpus;                   /* in all; 0: the product of the others */
    int64_t tp, pp;
    int64_t megatron; /* train as Megatron-LM does, over that many data-parallel ranks */
    bool sequence_parallel, distributed_optimizer, overlap_grad_reduce;
    enum plm_recompute recompute;
    enum plm_recompute_method recompute_method;
    int64_t recompute_layers; /* of a chunk, or of a stage; 0: 1 */
    int64_t cp;               /* context parallelism: ranks that share a sequence */
    enum plm_rotate rotate;   /* how its keys and values travel */
    int64_t ep;               /* expert parallelism: ranks that share the experts */
    double moe_imbalance;     /* rows of the most loaded rank over the mean; 0 is 1 */
    double
        moe_capacity_factor; /* rows that an expert has room for over the mean; 0: no row is dropped */
    double bucket_cap_mb;    /* 0: the framework's */
    bool gradient_as_bucket_view, find_unused_parameters,
        static_graph; /* of DistributedDataParallel */
    enum plm_load load;
    enum plm_reshard reshard;
    int64_t reshard_to;
    enum plm_reduced param_dtype, reduce_dtype;
    bool cpu_offload;
    bool fsdp_forward_prefetch; /* FullyShardedDataParallel(forward_prefetch=True) */
    bool fsdp_no_sync;          /* gradients are reduced in the last micro-batch only */
    enum plm_schedule schedule;
    int64_t virtual_stages; /* of interleaved:V */
    int64_t microbatches;
    int64_t microbatch_group; /* Megatron's interleaved:V: so many go through a stage in a row */
    const char *pp_split;     /* "4,4,3,5": blocks of each stage */
    int64_t
        rank; /* with has_rank: the one that is simulated; otherwise one of each class, and the worst is reported */
    bool has_rank;
};

/* struct plm_strategy - how the model is trained; zero is the default everywhere */
struct plm_strategy {
    int64_t batch, seq; /* 0: the model's default */
    enum plm_precision precision;
    enum plm_optimizer optimizer;
    enum plm_checkpoint checkpoint;
    int64_t checkpoint_count;      /* N of every=N and group=N */
    const char *checkpoint_blocks; /* "0-3,7" */
    bool checkpoint_reentrant;
    bool checkpoint_selective; /* by operator, as torchtitan does */
    int64_t accumulate;        /* micro-batches a step; 0 is 1 */
    double clip_grad_norm;     /* 0: no clipping */
    enum plm_zero_grad zero_grad;
    enum plm_zero_grad_at zero_grad_at;
    bool keep_outputs, keep_outputs_in_step, eval, channels_last;
    const char
        *frozen;   /* POSIX extended regular expression searched in parameter names; NULL: none */
    int64_t steps; /* 0: until reserved memory repeats */
    const struct plm_setting *settings;
    size_t setting_count;
    const char *allocator; /* PYTORCH_ALLOC_CONF; NULL: PyTorch's defaults */
    const char *framework; /* NULL: the newest */
    bool assume_ghostgpu;
    enum plm_workspace cudnn_workspace;
    plm_bytes cudnn_workspace_bytes;
    const struct plm_device *device; /* NULL: no device; capacity and context still count */
    plm_bytes capacity; /* device's total; 0: the device's own; without a device: unlimited */
    plm_bytes context;  /* with has_context: in place of the device's */
    bool has_context;
    bool minimum_capacity;             /* find it, by bisection */
    bool has_precision, has_optimizer; /* asked for, so that a DeepSpeed configuration must agree */
    struct plm_parallel parallel;
};

/* ------------------------------------------------------------------ results */

struct plm_memory {
    plm_bytes requested; /* what tensors asked for and hold */
    plm_bytes allocated; /* the allocator's blocks that are in use (max_memory_allocated) */
    plm_bytes reserved;  /* what the allocator holds from the device (max_memory_reserved) */
    plm_bytes device;    /* reserved + context + NCCL: what nvidia-smi shows for the process */
};

struct plm_phase {
    const char *name; /* "load", "forward", "backward", "optimizer", … as docs list them */
    int step;         /* -1: before the first */
    unsigned micro;
    struct plm_memory peak; /* highest within the phase */
    plm_bytes allocated_end, reserved_end;
};

struct plm_step_peak {
    plm_bytes allocated, reserved, requested;
};

/* struct plm_share - bytes that are alive at the peak, under one heading */
struct plm_share {
    const char *name; /* category, block or operator */
    plm_bytes bytes;  /* requested */
    uint64_t count;   /* of tensors */
};

/* struct plm_ledger_line - one line of the bytes-per-parameter ledger */
struct plm_ledger_line {
    const char
        *name; /* "weights", "gradients", "optimizer states", "master copies", "temporaries" */
    plm_bytes bytes;
    double per_parameter;
};

/* struct plm_rank - the ranks of a parallel run that have the same to do, and what one of them takes */
struct plm_rank {
    const char *name; /* "stage 0", "stage 1, last shard" */
    const char *
        about; /* "blocks 0-3 and what comes before; at most 4 in flight"; "" when there is nothing to say */
    int64_t rank; /* the one that was simulated */
    struct plm_memory peak;
    const char *phase; /* of its allocated peak */
    int step;
    bool out_of_memory, worst;
};

struct plm_result {
    const char *model, *framework, *allocator;
    uint64_t parameters, trainable_parameters;
    int64_t batch, seq;
    int fits; /* 1, 0, or -1: no device was given */
    struct plm_memory peak;
    struct {
        const char *phase, *op, *block;
        int step;
        unsigned micro;
    } at; /* of the allocated peak, the earliest maximum */
    bool out_of_memory;
    struct {
        const char *phase, *op, *block;
        int step;
        plm_bytes request, segment; /* what was asked for, and the segment that could not be had */
    } failure;                      /* with out_of_memory */
    bool has_minimum_capacity;
    plm_bytes minimum_capacity;          /* for the allocator, context not counted */
    plm_bytes capacity, context;         /* 0: none given */
    plm_bytes nccl, nccl_low, nccl_high; /* buffers of its communicators: usual, and the range */
    uint64_t retries;                    /* the allocator freed its cache and tried again */
    uint64_t fallbacks; /* failed allocations that were caught (cuDNN takes another plan) */
    const struct plm_step_peak *steps;
    size_t step_count;
    const struct plm_phase *phases;
    size_t phase_count;
    const struct plm_share *live_by_category, *live_by_block,
        *live_by_operator; /* by bytes, descending */
    size_t live_by_category_count, live_by_block_count, live_by_operator_count;
    const struct plm_ledger_line *ledger;
    size_t ledger_count;
    const struct plm_rank
        *ranks; /* by class; 0 when all ranks are alike: the rest of the result is the worst's */
    size_t rank_count;
    const char *rank_reason;       /* what the worst has more of; or NULL */
    const char *checkpoint_chosen; /* by PLM_CHECKPOINT_AUTO: "none" or "blocks=0-3,7"; else NULL */
    const char *advice;            /* one line: where the peak is and what would lower it */
    const char *const *warnings;   /* for stderr */
    size_t warning_count;
    const char *const *unverified; /* rules behind this number that no reference has confirmed */
    size_t unverified_count;
    bool
        workspace_unknown; /* cuDNN would choose workspaces that are not known here: figures are a lower bound */
    plm_bytes workspace_low, workspace_high; /* its range, when unknown */
    struct {
        int library, table; /* versions of cuDNN that answered, 92600 for 9.26.0; 0: none did */
        uint64_t asked, looked_up,
            unknown; /* calls: known by the library, by the table, by nobody; batch norms are among the last */
        uint64_t
            blas; /* of those known, calls that cuDNN hands to cuBLASLt, which is taken to need no workspace */
        plm_bytes blas_most; /* that it might take in one of them */
        uint64_t
            left_out; /* calls answered without cuBLASLt, where nothing stood in for it: a GPU may take another plan */
    } cudnn;
    const struct plm_device *device; /* NULL: none */
};

/* ------------------------------------------------------------------ models and devices */

PLM_API struct plm_context *plm_context_create(void);
PLM_API void plm_context_destroy(struct plm_context *context);

/* plm_context_add_models(), plm_context_add_devices() - a folder that is searched for NAME.yaml, in the order added */
PLM_API void plm_context_add_models(struct plm_context *context, const char *folder);
PLM_API void plm_context_add_devices(struct plm_context *context, const char *folder);

/*
 * Where workspaces of cuDNN come from. Without any of these they are not known, and a result has their range.
 *
 * plm_context_add_cudnn() - a libcudnn.so.9 that may be asked; it is loaded into a process of its own, which is forked when
 * the first estimate needs it. The one of the framework's version is asked, or the last with @chosen.
 * plm_context_add_cudnn_tables() - a folder with tables of workspaces, for calls that no library of that version answers
 * plm_context_set_cudnn_stand_ins() - the folder with cublaslt-stand-in-12.so and -13.so, which the program installs in libexec/plimsoll.
 * cuDNN hands some convolutions to cuBLASLt, which cannot run without a GPU; in the asking process they answer in its place, that it
 * needs no workspace. Answers that rest on that are counted in a result. Without them these plans of cuDNN are left out.
 * plm_context_set_cudnn_cache() - a folder for answers, so that a library is asked once; it is made when needed
 */
PLM_API void plm_context_add_cudnn(struct plm_context *context, const char *library, bool chosen);
PLM_API void plm_context_add_cudnn_tables(struct plm_context *context, const char *folder);
PLM_API void plm_context_set_cudnn_stand_ins(struct plm_context *context, const char *folder);
PLM_API void plm_context_set_cudnn_cache(struct plm_context *context, const char *folder);

/* plm_model_load() - a zoo name, a YAML file, or a Hugging Face config.json of an architecture in the zoo */
PLM_API PLM_MUST_CHECK enum plm_status plm_model_load(struct plm_context *context,
                                                      const char *name,
                                                      struct plm_model **ret_model,
                                                      struct plm_error *reterr);
PLM_API void plm_model_destroy(struct plm_model *model);

/*
 * plm_cudnn_tables() - ask a libcudnn what the model's convolutions take at common batches on common GPUs, and write tables
 *
 * Into @folder, one for each compute capability; what they have already stays. @source says in them where they are from.
 * @ret_count is how many there are. Without a library that answers: PLM_E_DEVICE.
 */
PLM_API PLM_MUST_CHECK enum plm_status plm_cudnn_tables(struct plm_model *model,
                                                        const char *folder,
                                                        const char *source,
                                                        size_t *ret_count,
                                                        struct plm_error *reterr);

/* plm_model_names() - the zoo's models, sorted */
PLM_API PLM_MUST_CHECK enum plm_status plm_model_names(struct plm_context *context,
                                                       const char *const **ret_names,
                                                       size_t *ret_count,
                                                       struct plm_error *reterr);

struct plm_model_info {
    const char *name, *about, *source;
    uint64_t parameters;                      /* under the model's defaults */
    int64_t batch, seq;                       /* defaults */
    const struct plm_setting *dims, *options; /* values as text; options list their words */
    size_t dim_count, option_count;
};
PLM_API PLM_MUST_CHECK enum plm_status plm_model_describe(struct plm_model *model,
                                                          struct plm_model_info *ret_info,
                                                          struct plm_error *reterr);

/* plm_device_find() - a built-in profile's name, or a profile file */
PLM_API PLM_MUST_CHECK enum plm_status plm_device_find(struct plm_context *context,
                                                       const char *name,
                                                       const struct plm_device **ret_device,
                                                       struct plm_error *reterr);

/* struct plm_device_list - the profiles in a context's folders, sorted by name */
struct plm_device_list {
    const struct plm_device *items;
    size_t count;
    const struct plm_error
        *wrong; /* of the files that are no profile or cannot be read, and are left out */
    size_t wrong_count;
};
PLM_API void plm_devices(struct plm_context *context, struct plm_device_list *ret_list);

/* plm_frameworks() - the names that strategy.framework takes, newest first */
PLM_API const char *const *plm_frameworks(size_t *ret_count);

/*
 * plm_deepspeed_read() - fill @strategy in with what a DeepSpeed configuration file says
 *
 * The file is JSON, in the wider sense of Hjson. What it does not say, or leaves open with "auto", stays as it is; what it says
 * otherwise than @strategy, where that is not its default or has_… says that it was asked for, is refused.
 */
PLM_API PLM_MUST_CHECK enum plm_status plm_deepspeed_read(const char *file,
                                                          struct plm_strategy *strategy,
                                                          struct plm_error *reterr);

/* ------------------------------------------------------------------ answers */

PLM_API PLM_MUST_CHECK enum plm_status plm_estimate(struct plm_model *model,
                                                    const struct plm_strategy *strategy,
                                                    struct plm_estimate **ret_estimate,
                                                    struct plm_error *reterr);
PLM_API const struct plm_result *plm_estimate_result(const struct plm_estimate *estimate);
PLM_API void plm_estimate_destroy(struct plm_estimate *estimate);

/* struct plm_life - one tensor of the timeline */
struct plm_life {
    plm_bytes requested, bytes; /* asked for; taken from the allocator */
    uint64_t address;           /* in the allocator's model */
    uint32_t born, died;        /* event numbers; died is UINT32_MAX for what outlives the run */
    const char *category, *op, *block;
    int step;
};

/* struct plm_moment - the allocator's figures after one event */
struct plm_moment {
    plm_bytes allocated, reserved;
};

struct plm_timeline {
    const struct plm_life *lives; /* [life_count], by birth */
    size_t life_count;
    const struct plm_moment *moments; /* [event_count] */
    size_t event_count;
    const struct plm_phase *phases; /* with .event below */
    const uint32_t *phase_events;   /* [phase_count]: the event at which each begins */
    size_t phase_count;
};
/* plm_estimate_timeline() - the run event by event; made when first asked for */
PLM_API PLM_MUST_CHECK enum plm_status plm_estimate_timeline(
    struct plm_estimate *estimate,
    const struct plm_timeline **ret_timeline,
    struct plm_error *reterr);

/* plm_dump() - a stage of the pipeline as text: "document", "model", "graph", "schedule", "memory" */
PLM_API PLM_MUST_CHECK enum plm_status plm_dump(struct plm_model *model,
                                                const struct plm_strategy *strategy,
                                                const char *stage,
                                                const char **ret_text, /* belongs to the model */
                                                struct plm_error *reterr);

struct plm_search {
    struct plm_strategy strategy; /* batch is ignored */
    double margin_share;          /* of the capacity; with has_margin */
    plm_bytes margin_bytes;       /* absolute; the larger of the two counts */
    bool has_margin;              /* otherwise the default, see the manual */
    plm_bytes reserve;            /* kept free for others, on top of the margin */
    int64_t global_batch; /* 0: none; otherwise micro-batch × micro-batches × data-parallel ranks */
    int64_t multiple_of; /* 0: 1 */
    int64_t max_batch;   /* 0: no limit but what the numbers allow */
    void (*progress)(void *context,
                     const char *what,
                     unsigned done,
                     unsigned total); /* NULL: silent */
    void *progress_context;
};

struct plm_candidate {
    int64_t batch, accumulate;
    struct plm_memory peak;
    bool finishes; /* without a margin */
    bool safe;     /* with the margin */
};

struct plm_plan_result {
    int64_t batch;      /* 0: not even the smallest fits */
    int64_t accumulate; /* micro-batches of a step: accumulated, or sent through the pipeline */
    int64_t data_parallel, gpus; /* ranks that share the global batch; all of them */
    plm_bytes margin, reserve, capacity, context;
    const char *margin_reason;
    const struct plm_candidate *candidates; /* around the answer, by batch */
    size_t candidate_count;
    bool not_monotone; /* a smaller batch that was tried is not safe */
    bool
        limited; /* nothing larger was asked for, or can be run: a limit, not memory, ends the search */
    const struct plm_result *result; /* the estimate at the answer, or at the smallest batch */
};
PLM_API PLM_MUST_CHECK enum plm_status plm_plan(struct plm_model *model,
                                                const struct plm_search *search,
                                                struct plm_plan **ret_plan,
                                                struct plm_error *reterr);
PLM_API const struct plm_plan_result *plm_plan_result(const struct plm_plan *plan);
PLM_API void plm_plan_destroy(struct plm_plan *plan);

/*
 * struct plm_comparison - strategies of one model, to run side by side
 *
 * Each is run on its own, on as many threads as @jobs says; what comes out does not depend on their number.
 */
struct plm_comparison {
    const struct plm_strategy *strategies; /* [strategy_count] */
    size_t strategy_count;                 /* at most PLM_COMPARE_MOST */
    /* [strategy_count]: search the largest safe batch of this one too; NULL: of none */
    const bool *largest_batch;
    struct plm_search search; /* its margin and limits; its strategy is ignored */
    unsigned jobs;            /* threads; 0: one for each processor */
    /* NULL: silent; called on any of the threads, by one at a time */
    void (*progress)(void *context, const char *what, unsigned done, unsigned total);
    void *progress_context;
};
enum { PLM_COMPARE_MOST = 10000 };

/* struct plm_compared - what became of one strategy */
struct plm_compared {
    enum plm_status status; /* other than PLM_OK: it was refused, and @error says why */
    struct plm_error error;
    /*
     * NULL when refused. Each phase is there once, with its highest figures in any step; steps and what is alive by
     * block and operator are left out, so that many strategies fit into little memory.
     */
    const struct plm_result *result;
    double
        bytes_per_parameter; /* weights, gradients, optimizer states and master copies, each at its most */
    bool has_largest_batch;
    int64_t largest_batch; /* 0: not even the smallest is safe */
};
PLM_API PLM_MUST_CHECK enum plm_status plm_compare(struct plm_model *model,
                                                   const struct plm_comparison *comparison,
                                                   struct plm_compare **ret_compare,
                                                   struct plm_error *reterr);
/* plm_compare_results() - in the order of the strategies */
PLM_API const struct plm_compared *plm_compare_results(const struct plm_compare *compare,
                                                       size_t *ret_count);
PLM_API void plm_compare_destroy(struct plm_compare *compare);

/* struct plm_term - one heading of two strategies' memory; 0 where a strategy has nothing of it */
struct plm_term {
    const char *name;
    plm_bytes a, b;
};

/* struct plm_difference - two strategies term by term */
struct plm_difference {
    const struct plm_term *categories; /* at the peak; the sums are the allocated peaks */
    size_t category_count;
    const struct plm_term *phases; /* each one's highest allocated figure, in order */
    size_t phase_count;
    bool
        b_saves; /* b's peak is not above a's: what follows is of a against b; otherwise of b against a */
    const char *from, *to; /* the phase of the dearer peak, and that of the cheaper one */
    plm_bytes saved_there, saved_in_all; /* in phase @from, and at the peak */
    const char *
        vanishes; /* the phase in which a saving is lost; NULL: the peak falls by all that is saved */
};
/* plm_compare_difference() - of the strategies with these indices, which were not refused; belongs to @compare */
PLM_API PLM_MUST_CHECK enum plm_status plm_compare_difference(struct plm_compare *compare,
                                                              size_t a,
                                                              size_t b,
                                                              const struct plm_difference **ret,
                                                              struct plm_error *reterr);

/* struct plm_baseline_entry - one strategy of a document that was written before */
struct plm_baseline_entry {
    const char *model;
    const struct plm_setting *recipe; /* what is not null; of --set as "set.NAME" */
    size_t recipe_count;
    plm_bytes capacity, context; /* 0: none */
    struct plm_memory peak;
    bool out_of_memory;
};
/* plm_baseline_load() - from the JSON that `plimsoll compare` or `estimate` wrote */
PLM_API PLM_MUST_CHECK enum plm_status plm_baseline_load(const char *file,
                                                         struct plm_baseline **ret_baseline,
                                                         struct plm_error *reterr);
PLM_API const struct plm_baseline_entry *plm_baseline_entries(const struct plm_baseline *baseline,
                                                              size_t *ret_count);
PLM_API void plm_baseline_destroy(struct plm_baseline *baseline);

/* ------------------------------------------------------------------ the vocabulary */

struct plm_operator_info {
    const char *name, *help;
    int least, most, outputs;
};
PLM_API const struct plm_operator_info *plm_operators(size_t *ret_count);

/* struct plm_attribute_info - @fallback is NULL when the attribute is required, "" when it may be absent */
struct plm_attribute_info {
    const char *op, *name, *type, *fallback, *help;
};
PLM_API const struct plm_attribute_info *plm_attributes(size_t *ret_count);

PLM_API const char *plm_version(void);

#endif
