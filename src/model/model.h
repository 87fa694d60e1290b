/*
 * model/model.h - a model file after loading: typed, every name resolved, no numbers filled in
 *
 * All that can be checked without numbers has been checked: operators and attributes exist, blocks are not
 * recursive, names are bound before they are read. Names of values are slots of their block, names of
 * dims, options and the run's own facts are indices of struct expr_env's globals, in this order:
 *
 *     MODEL_BATCH, MODEL_SEQ, …            the run's own
 *     MODEL_RUN_COUNT + i                  dims[i]
 *     MODEL_RUN_COUNT + dim_count + i      options[i]
 *
 * Of a node with `repeat:`, `index` and the number in the path count from `start`; `when` is asked for each repetition;
 * `del` comes once, after the last.
 */
#ifndef PLM_MODEL_MODEL_H
#define PLM_MODEL_MODEL_H

#include "model/expression.h"
#include "model/graph.h"
#include "yaml/document.h"

enum {
    MODEL_BATCH,
    MODEL_SEQ,
    MODEL_TRAINING,
    MODEL_CHECKPOINTING,
    MODEL_READS_ZERO,
    MODEL_AUTOCAST,
    MODEL_HALF,
    MODEL_TP,
    MODEL_SEQUENCE_PARALLEL,
    MODEL_RECOMPUTE_SELECTIVE,
    MODEL_CP,
    MODEL_EP,
    MODEL_IMBALANCE,
    MODEL_CAPACITY,
    MODEL_PYTORCH,
    MODEL_GRAD_ENABLED,
    MODEL_RUN_COUNT
};

enum {
    MODEL_DIMS_MAX = 512,
    MODEL_OPTIONS_MAX = 128,
    MODEL_WORDS_MAX = 64,
    MODEL_BLOCKS_MAX = 4096,
    MODEL_BLOCK_NODES_MAX = 16384,
    MODEL_PARAMS_MAX = 64,
    MODEL_CALL_DEPTH_MAX = 64,
    MODEL_EXTENDS_MAX = 8,
    MODEL_NAME_MAX = 200, /* characters of one name or path component */
};

struct model_dim {
    name_id name;
    const struct expr *value;
    struct source at;
};

struct model_option {
    name_id name;
    size_t word_count;         /* 0: a number */
    const struct value *words; /* [word_count] VALUE_WORD, or VALUE_BOOL for [true, false] */
    struct value value;        /* unless set otherwise */
    struct source at;
};

struct model_input {
    name_id name;
    enum dtype dtype;
    uint32_t dim_count;
    const struct expr *const *sizes; /* [dim_count] */
    struct source at;
};

/* struct model_param - a parameter of a block, which a call gives by `with:` */
struct model_param {
    name_id name;
    const struct expr *fallback; /* NULL: every call must give it; sees the parameters before it */
};

struct model_attr {
    const struct attr_def *def;
    struct attr value;               /* when no expression is needed */
    uint32_t item_count;             /* 0: @value holds */
    const struct expr *const *items; /* [item_count]; 1 unless def->type is ATTR_INTS */
    struct source at;
};

struct model_node {
    enum step_kind kind;
    enum op_kind op;
    enum step_scope scope;
    uint32_t number; /* of all nodes of the model, from 0 */
    uint32_t in_count, out_count, drop_count, attr_count;
    uint32_t positional_count;       /* of in_count, as in struct graph_step */
    const uint32_t *in, *out, *drop; /* slots, as in struct graph_step */
    const name_id *in_names;
    const struct model_attr *attrs;  /* [attr_count] */
    unsigned attr_uses;              /* mask of EXPR_USES_*: what the attributes depend on */
    const struct attr *fixed;        /* [attr_count], when they depend on nothing */
    const struct model_block *block; /* CALL, INLINE, SCOPE */
    const struct expr *const *with;  /* [block->param_count]; NULL entries: the fallback */
    name_id name, tie;
    const struct expr *repeat, *start, *checkpoint, *wrap, *when; /* NULL where not given */
    bool share;
    enum shard shard;
    bool experts;
    struct source at;
};

struct model_block {
    name_id name;
    uint32_t in_count, required_count; /* arguments; those past required_count may be absent */
    uint32_t slot_count, out_count;
    const uint32_t *out;       /* [out_count]; GRAPH_NO_SLOT for `none` */
    const name_id *slot_names; /* [slot_count]; arguments first */
    size_t param_count;
    const struct model_param *params;
    size_t node_count;
    const struct model_node *nodes;
    struct source at;
};

/* struct model_config - how a Hugging Face config.json fills dims and options */
struct model_config_key {
    name_id name; /* of a dim or option */
    size_t key_count;
    const char *const *keys; /* [key_count]; the first that the file has counts */
};

struct model_config_assumed {
    const char *key; /* of config.json */
    size_t value_count;
    const char *const *values; /* [value_count]: what the model can stand for */
};

struct model_config_missing {
    const char *key;               /* of config.json */
    const struct yaml_node *value; /* what the class takes without it, or another key to look at */
};

struct model_config {
    size_t architecture_count, key_count, assumed_count, missing_count;
    const char *const *architectures;
    const struct model_config_key *keys;
    const struct model_config_assumed *assumed;
    const struct model_config_missing *missing;
};

struct model {
    const char *file;
    const char *name, *about, *origin; /* origin: `source:`, what it mirrors; "" when not given */
    struct names names;
    size_t global_count;
    const name_id *global_names; /* [global_count], as in the order above */
    size_t dim_count, option_count, input_count;
    const struct model_dim *dims;
    const uint32_t *dim_order; /* [dim_count]: each after those that it is made of */
    const struct model_option *options;
    const struct model_input *inputs;
    size_t block_count;
    const struct model_block *blocks; /* [block_count], in the file's order, main last */
    const struct model_block *main;   /* arguments: the inputs, in their order */
    uint32_t node_count;
    size_t order_count;
    const name_id *order;              /* `parameters:` */
    int64_t batch, seq;                /* `defaults:`; 1 and 0 when not given */
    bool reads_seq;                    /* does an expression name seq? */
    const char *precision;             /* NULL when not given */
    const struct model_config *config; /* NULL when not given */
    name_id hidden_size; /* the dim that is hidden_size of transformers' configuration; 0: none */
};

struct model_text {
    const char *file; /* for messages; must outlive the model */
    const char *text;
    size_t length;
};

/* struct model_finder - how `extends:` finds a model; the library looks nowhere by itself */
struct model_finder {
    void *context;
    /* @from is the file that asks; the text may be in @arena */
    enum plm_status (*find)(void *context,
                            const char *name,
                            const char *from,
                            struct arena *arena,
                            struct model_text *ret_text,
                            struct plm_error *reterr);
};

/* model_load() - read and check a model file; @finder may be NULL, and then `extends:` is an error */
PLM_MUST_CHECK enum plm_status model_load(const struct model_text *text,
                                          const struct model_finder *finder,
                                          struct arena *arena,
                                          const struct model **ret_model,
                                          struct plm_error *reterr);

/* option_read() - @text as a value of @option; false when it has no such */
bool option_read(const struct names *names,
                 const struct model_option *option,
                 const char *text,
                 struct value *ret_value);

/* option_words() - "sdpa, eager" or "a number", for messages */
const char *option_words(const struct names *names,
                         const struct model_option *option,
                         char text[128]);

/* struct model_setting - `--set NAME=VALUE` */
struct model_setting {
    const char *name, *value;
};

/* struct graph_settings - zero-initialise for the model's defaults, in evaluation */
struct graph_settings {
    const struct model_setting *settings; /* [setting_count]; the last of a name counts */
    size_t setting_count;
    int64_t batch, seq; /* 0: the model's default */
    bool training;
    bool checkpointing;
    bool autocast;            /* the forward runs under autocast */
    bool half;                /* parameters are float16 */
    int64_t tp;               /* ranks of tensor parallelism; 0 is 1 */
    int64_t cp;               /* ranks of context parallelism, which share out seq; 0 is 1 */
    int64_t ep;               /* ranks of expert parallelism; 0 is 1 */
    double imbalance;         /* rows of the most loaded of them over the mean; 0 is 1 */
    double capacity;          /* rows that an expert has room for over the mean; 0: any number */
    bool sequence_parallel;   /* Megatron's */
    bool recompute_selective; /* Megatron's: attention alone is recomputed */
    int64_t pytorch;          /* 100 times the major version and the minor; 0: newer than all */
    bool reads_zero;   /* the instrument's device: the host reads zero where a GPU computes */
    uint32_t step_max; /* 0: GRAPH_STEPS_MAX */
};

enum { GRAPH_STEPS_MAX = 2000000, GRAPH_REPEAT_MAX = 100000, GRAPH_PYTORCH_NEWEST = 99999 };

/*
 * graph_build() - fill in the numbers
 *
 * The graph is in @arena and uses @model, which must outlive it.
 */
PLM_MUST_CHECK enum plm_status graph_build(const struct model *model,
                                           const struct graph_settings *settings,
                                           struct arena *arena,
                                           const struct graph **ret_graph,
                                           struct plm_error *reterr);

/*
 * model_globals() - the values of the run's facts, dims and options under @settings
 *
 * Returns [model->global_count] values in @arena, in the order above: for listings and recipes.
 */
PLM_MUST_CHECK enum plm_status model_globals(const struct model *model,
                                             const struct graph_settings *settings,
                                             struct arena *arena,
                                             const struct value **ret_values,
                                             struct plm_error *reterr);

/* model_dump(), graph_dump(), document_dump() - one line for each thing, stable, for people and for tests */
struct buf;
void model_dump(const struct model *model, struct buf *buf);
void graph_dump(const struct graph *graph, struct buf *buf);
void document_dump(const struct yaml_node *root, struct buf *buf);

#endif
