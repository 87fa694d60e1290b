/*
 * device/cudnn_attention.c - the graphs of attention, as tables of tensors and operations
 *
 * Mirrors what build_graph() and build_graph_backward() of aten/src/ATen/native/cudnn/MHA.cpp (2.15) make cudnn_frontend 1.23 lower to the
 * backend: forward one operation (UnifiedSDPANode) with the mask as a graph inside it, backward the operations of
 * CompositeSDPABackwardNode, both of node/scaled_dot_product_flash_attention.h. The same descriptors with the same attributes
 * were recorded of PyTorch, case by case. There is no dropout: with it PyTorch takes another kernel.
 *
 * Queries, keys, values, the output and their gradients are asked for as [batch, length, heads, size] in memory. In which order they really
 * lie changed no workspace (docs/decisions/0015).
 */
#include "device/cudnn_attention.h"

/* ------------------------------------------------------------------ tensors */

/* what a dimension of a tensor counts */
enum side { SIDE_ONE, SIDE_HEADS, SIDE_GROUPS, SIDE_QUERIES, SIDE_KEYS, SIDE_SIZE, SIDE_VALUE };

/* how [batch, heads, rows, columns] lies in memory */
enum order {
    ORDER_HEADS,   /* as written */
    ORDER_ROWS,    /* [batch, rows, heads, columns] */
    ORDER_TURNED,  /* [batch, heads, columns, rows] */
    ORDER_KEYS,    /* [batch, columns, heads, rows]: keys and values seen as their transposes */
    ORDER_PRODUCT, /* the front end's strides for a product that is never in memory */
};

enum element { ELEMENT_INPUT, ELEMENT_FLOAT };
enum place { PLACE_MEMORY, PLACE_VIRTUAL, PLACE_VALUE };

enum operand {
    OPERAND_NONE,
#define OPERAND(name, ...) OPERAND_##name,
#include "device/cudnn_operands.def"
#undef OPERAND
    OPERAND_COUNT,
};

/* struct row - a tensor of a graph */
struct row {
    enum side heads, rows, columns;
    enum order order;
    enum element element;
    enum place place;
};

static const struct row operands[OPERAND_COUNT] = {
#define OPERAND(name, heads, rows, columns, order, element, place)                                 \
    [OPERAND_##name] = { SIDE_##heads,  SIDE_##rows,       SIDE_##columns,                         \
                         ORDER_##order, ELEMENT_##element, PLACE_##place },
#include "device/cudnn_operands.def"
#undef OPERAND
};

/* struct graph - what is built, with the descriptors of its tensors as they are first used */
struct graph {
    struct maker *m;
    const struct cudnn_call *call;
    bool fixed; /* the engine */
    backend_desc tensors[OPERAND_COUNT];
};

static int64_t count_of(const struct cudnn_call *call, enum side side)
{
    switch (side) {
    case SIDE_ONE:
        break;
    case SIDE_HEADS:
        return call->input[1];
    case SIDE_GROUPS:
        return call->weight[0];
    case SIDE_QUERIES:
        return call->input[2];
    case SIDE_KEYS:
        return call->weight[1];
    case SIDE_SIZE:
        return call->input[3];
    case SIDE_VALUE:
        return call->weight[2];
    }
    return 1;
}

/* times() - wraps around: cuDNN refuses what is too large */
static int64_t times(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

static void set_strides(enum order order, const int64_t sizes[4], int64_t strides[4])
{
    int64_t heads = sizes[1], rows = sizes[2], columns = sizes[3];

    strides[0] = times(times(heads, rows), columns);
    switch (order) {
    case ORDER_HEADS:
        strides[1] = times(rows, columns), strides[2] = columns, strides[3] = 1;
        break;
    case ORDER_ROWS:
        strides[1] = columns, strides[2] = times(heads, columns), strides[3] = 1;
        break;
    case ORDER_TURNED:
        strides[1] = times(rows, columns), strides[2] = 1, strides[3] = rows;
        break;
    case ORDER_KEYS:
        strides[1] = rows, strides[2] = 1, strides[3] = times(heads, rows);
        break;
    case ORDER_PRODUCT:
        strides[1] = times(rows, columns), strides[2] = times(heads, columns), strides[3] = 1;
        break;
    }
}

static backend_desc make_tensor(struct graph *g, enum operand operand)
{
    struct maker *m = g->m;
    const struct row *row = &operands[operand];
    backend_desc made = maker_create(m, BACKEND_TENSOR);
    int type = row->element == ELEMENT_FLOAT ? DATA_FLOAT
               : g->call->type == CUDNN_F16  ? DATA_HALF
                                             : DATA_BFLOAT16;
    int64_t sizes[4] = { row->rows == SIDE_ONE ? 1 : g->call->input[0],
                         count_of(g->call, row->heads), count_of(g->call, row->rows),
                         count_of(g->call, row->columns) };
    int64_t strides[4], alignment = 16, id = operand;
    bool yes = true;

    set_strides(row->order, sizes, strides);
    maker_set(m, made, ATTR_TENSOR_DATA_TYPE, TYPE_DATA_TYPE, 1, &type);
    maker_set(m, made, ATTR_TENSOR_DIMENSIONS, TYPE_INT64, 4, sizes);
    maker_set(m, made, ATTR_TENSOR_STRIDES, TYPE_INT64, 4, strides);
    maker_set(m, made, ATTR_TENSOR_UNIQUE_ID, TYPE_INT64, 1, &id);
    maker_set(m, made, ATTR_TENSOR_BYTE_ALIGNMENT, TYPE_INT64, 1, &alignment);
    if (row->place == PLACE_VIRTUAL)
        maker_set(m, made, ATTR_TENSOR_IS_VIRTUAL, TYPE_BOOLEAN, 1, &yes);
    if (row->place == PLACE_VALUE)
        maker_set(m, made, ATTR_TENSOR_IS_BY_VALUE, TYPE_BOOLEAN, 1, &yes);
    maker_finalize(m, made);
    return made;
}

/* ------------------------------------------------------------------ operations */

enum kind { KIND_POINTWISE, KIND_MATMUL, KIND_SUM, KIND_RESHAPE, KIND_BAND };

enum when {
    ALWAYS,
    IF_MASKED,
    IF_CAUSAL,
    IF_OWN,    /* every query head has its own keys and values */
    IF_SHARED, /* or several share them */
    IF_SUMMED, /* the query's gradient is summed in float32 */
};

/* struct step - an operation on one or two operands */
struct step {
    enum when when;
    enum kind kind;
    enum backend_pointwise mode;
    enum operand x, b, y;
};

#define POINTWISE(when, mode, x, b, y)                                                             \
    {                                                                                              \
        when, KIND_POINTWISE, POINTWISE_##mode, OPERAND_##x, OPERAND_##b, OPERAND_##y              \
    }
#define MATMUL(when, x, b, y)                                                                      \
    {                                                                                              \
        when, KIND_MATMUL, 0, OPERAND_##x, OPERAND_##b, OPERAND_##y                                \
    }
#define SUM(when, x, y)                                                                            \
    {                                                                                              \
        when, KIND_SUM, 0, OPERAND_##x, OPERAND_NONE, OPERAND_##y                                  \
    }
#define RESHAPE(when, x, y)                                                                        \
    {                                                                                              \
        when, KIND_RESHAPE, 0, OPERAND_##x, OPERAND_NONE, OPERAND_##y                              \
    }
#define BAND(when, x, y)                                                                           \
    {                                                                                              \
        when, KIND_BAND, 0, OPERAND_##x, OPERAND_FILL, OPERAND_##y                                 \
    }

/* the mask of the forward, inside its one operation */
static const struct step mask_steps[] = {
    POINTWISE(IF_MASKED, ADD, OPEN, MASK, MASKED),
    BAND(IF_CAUSAL, OPEN, MASKED),
};

static const struct step backward_steps[] = {
    POINTWISE(ALWAYS, MUL, OUT_GRAD, OUT, PRODUCT),
    SUM(ALWAYS, PRODUCT, PRODUCT_SUM),
    POINTWISE(ALWAYS, MUL, PRODUCT_SUM, UNIT, DELTA),
    MATMUL(ALWAYS, QUERY, KEY_TURNED, SCORES),
    POINTWISE(ALWAYS, MUL, SCORES, SCALE, SCALED),
    POINTWISE(IF_MASKED, ADD, SCALED, MASK, BIASED),
    POINTWISE(ALWAYS, SUB, BIASED, STATISTICS, SHIFTED),
    POINTWISE(ALWAYS, EXP, BANDED, NONE, WEIGHTS),
    RESHAPE(ALWAYS, WEIGHTS, WEIGHTS_TURNED),
    MATMUL(IF_OWN, WEIGHTS_TURNED, OUT_GRAD, VALUE_GRAD),
    MATMUL(IF_SHARED, WEIGHTS_TURNED, OUT_GRAD, WIDE_VALUE_GRAD),
    SUM(IF_SHARED, WIDE_VALUE_GRAD, VALUE_GRAD),
    MATMUL(ALWAYS, OUT_GRAD, VALUE_TURNED, WEIGHTS_GRAD),
    POINTWISE(ALWAYS, SUB, WEIGHTS_GRAD, DELTA, CENTRED),
    POINTWISE(ALWAYS, MUL, CENTRED, WEIGHTS, WEIGHTED),
    POINTWISE(ALWAYS, MUL, WEIGHTED, SCALE, SCORES_GRAD),
    RESHAPE(ALWAYS, SCORES_GRAD, SCORES_GRAD_TURNED),
    MATMUL(IF_OWN, SCORES_GRAD_TURNED, QUERY, KEY_GRAD),
    MATMUL(IF_SHARED, SCORES_GRAD_TURNED, QUERY, WIDE_KEY_GRAD),
    SUM(IF_SHARED, WIDE_KEY_GRAD, KEY_GRAD),
    RESHAPE(ALWAYS, KEY_TURNED, KEY_AGAIN),
    MATMUL(ALWAYS, SCORES_GRAD, KEY_AGAIN, QUERY_SUM),
    POINTWISE(IF_SUMMED, IDENTITY, QUERY_SUM, NONE, QUERY_GRAD),
    BAND(IF_CAUSAL, SHIFTED, BANDED),
};

enum { STEPS_MOST = sizeof backward_steps / sizeof backward_steps[0] };

static bool holds(const struct graph *g, enum when when)
{
    const struct cudnn_call *call = g->call;

    switch (when) {
    case ALWAYS:
        break;
    case IF_MASKED:
        return call->mask == CUDNN_MASKED;
    case IF_CAUSAL:
        return call->mask == CUDNN_CAUSAL;
    case IF_OWN:
        return call->input[1] == call->weight[0];
    case IF_SHARED:
        return call->input[1] != call->weight[0];
    case IF_SUMMED:
        return !g->fixed;
    }
    return true;
}

/* taken() - in the place of what a step that is left out would have made, what would have gone into it, or its own result */
static enum operand taken(const struct graph *g, enum operand operand)
{
    if (operand == OPERAND_BIASED && !holds(g, IF_MASKED))
        return OPERAND_SCALED;
    if (operand == OPERAND_BANDED && !holds(g, IF_CAUSAL))
        return OPERAND_SHIFTED;
    if (operand == OPERAND_QUERY_SUM && !holds(g, IF_SUMMED))
        return OPERAND_QUERY_GRAD;
    return operand;
}

/* set_operand() - an attribute of @node that is a tensor */
static void set_operand(struct graph *g,
                        backend_desc node,
                        enum backend_attribute name,
                        enum operand operand)
{
    enum operand it = taken(g, operand);

    if (!g->tensors[it])
        g->tensors[it] = make_tensor(g, it);
    maker_set_descriptor(g->m, node, name, g->tensors[it]);
}

/* make_rule() - the descriptor that says how an operation computes */
static backend_desc make_rule(struct graph *g,
                              enum backend_descriptor type,
                              enum backend_attribute precision)
{
    backend_desc rule = maker_create(g->m, type);
    int compute = DATA_FLOAT;

    maker_set(g->m, rule, precision, TYPE_DATA_TYPE, 1, &compute);
    return rule;
}

static backend_desc make_pointwise(struct graph *g, const struct step *step)
{
    struct maker *m = g->m;
    backend_desc rule = make_rule(g, BACKEND_POINTWISE, ATTR_POINTWISE_MATH_PREC);
    int mode = (int)step->mode;
    float one = 1;

    maker_set(m, rule, ATTR_POINTWISE_MODE, TYPE_POINTWISE_MODE, 1, &mode);
    maker_finalize(m, rule);
    backend_desc node = maker_create(m, BACKEND_OPERATION_POINTWISE);

    maker_set_descriptor(m, node, ATTR_OPERATION_POINTWISE_PW, rule);
    set_operand(g, node, ATTR_OPERATION_POINTWISE_X, step->x);
    set_operand(g, node, ATTR_OPERATION_POINTWISE_Y, step->y);
    if (step->b != OPERAND_NONE)
        set_operand(g, node, ATTR_OPERATION_POINTWISE_B, step->b);
    maker_set(m, node, ATTR_OPERATION_POINTWISE_ALPHA1, TYPE_FLOAT, 1, &one);
    maker_set(m, node, ATTR_OPERATION_POINTWISE_ALPHA2, TYPE_FLOAT, 1, &one);
    return node;
}

static backend_desc make_matmul(struct graph *g, const struct step *step)
{
    backend_desc rule = make_rule(g, BACKEND_MATMUL, ATTR_MATMUL_COMP_TYPE);

    maker_finalize(g->m, rule);
    backend_desc node = maker_create(g->m, BACKEND_OPERATION_MATMUL);

    set_operand(g, node, ATTR_OPERATION_MATMUL_A, step->x);
    set_operand(g, node, ATTR_OPERATION_MATMUL_B, step->b);
    set_operand(g, node, ATTR_OPERATION_MATMUL_C, step->y);
    maker_set_descriptor(g->m, node, ATTR_OPERATION_MATMUL_DESC, rule);
    return node;
}

static backend_desc make_sum(struct graph *g, const struct step *step)
{
    backend_desc rule = make_rule(g, BACKEND_REDUCTION, ATTR_REDUCTION_COMP_TYPE);
    int add = REDUCE_ADD;
    bool deterministic = false;

    maker_set(g->m, rule, ATTR_REDUCTION_OPERATOR, TYPE_REDUCTION_OPERATOR, 1, &add);
    maker_set(g->m, rule, ATTR_REDUCTION_IS_DETERMINISTIC, TYPE_BOOLEAN, 1, &deterministic);
    maker_finalize(g->m, rule);
    backend_desc node = maker_create(g->m, BACKEND_OPERATION_REDUCTION);

    maker_set_descriptor(g->m, node, ATTR_OPERATION_REDUCTION_DESC, rule);
    set_operand(g, node, ATTR_OPERATION_REDUCTION_X, step->x);
    set_operand(g, node, ATTR_OPERATION_REDUCTION_Y, step->y);
    return node;
}

static backend_desc make_reshape(struct graph *g, const struct step *step)
{
    backend_desc node = maker_create(g->m, BACKEND_OPERATION_RESHAPE);

    set_operand(g, node, ATTR_OPERATION_RESHAPE_X, step->x);
    set_operand(g, node, ATTR_OPERATION_RESHAPE_Y, step->y);
    return node;
}

static backend_desc make_band(struct graph *g, const struct step *step)
{
    backend_desc node = maker_create(g->m, BACKEND_OPERATION_DIAGONAL_BAND_MASK);
    int mode = POINTWISE_GREATER_OR_EQUAL;

    set_operand(g, node, ATTR_DIAGONAL_BAND_MASK_X, step->x);
    set_operand(g, node, ATTR_DIAGONAL_BAND_MASK_B, step->b);
    set_operand(g, node, ATTR_DIAGONAL_BAND_MASK_Y, step->y);
    maker_set(g->m, node, ATTR_DIAGONAL_BAND_MASK_COMPARISON_MODE, TYPE_POINTWISE_MODE, 1, &mode);
    return node;
}

static backend_desc make_step(struct graph *g, const struct step *step)
{
    static backend_desc (*const makers[])(struct graph *, const struct step *) = {
        [KIND_POINTWISE] = make_pointwise, [KIND_MATMUL] = make_matmul, [KIND_SUM] = make_sum,
        [KIND_RESHAPE] = make_reshape,     [KIND_BAND] = make_band,
    };
    backend_desc node = makers[step->kind](g, step);

    maker_finalize(g->m, node);
    return node;
}

/* ------------------------------------------------------------------ graphs */

static backend_desc make_operations(struct graph *g, const backend_desc *nodes, int64_t count)
{
    backend_desc made = maker_create(g->m, BACKEND_OPERATIONGRAPH);

    maker_set(g->m, made, ATTR_OPERATIONGRAPH_OPS, TYPE_BACKEND_DESCRIPTOR, count, nodes);
    maker_finalize(g->m, made);
    return made;
}

/* make_steps() - a graph of those that hold */
static backend_desc make_steps(struct graph *g, const struct step *steps, size_t count)
{
    backend_desc nodes[STEPS_MOST];
    int64_t made = 0;

    for (size_t i = 0; i < count; i++)
        if (holds(g, steps[i].when))
            nodes[made++] = make_step(g, &steps[i]);
    return make_operations(g, nodes, made);
}

/* set_mask() - the mask of a forward, between its scores and its softmax */
static void set_mask(struct graph *g, backend_desc node)
{
    backend_desc mask = make_steps(g, mask_steps, sizeof mask_steps / sizeof mask_steps[0]);
    int64_t in = OPERAND_OPEN, out = OPERAND_MASKED;

    maker_set_descriptor(g->m, node, ATTR_SDPA_FORWARD_SUBGRAPH, mask);
    maker_set(g->m, node, ATTR_SDPA_FORWARD_SUBGRAPH_INPUT_UID, TYPE_INT64, 1, &in);
    maker_set(g->m, node, ATTR_SDPA_FORWARD_SUBGRAPH_OUTPUT_UID, TYPE_INT64, 1, &out);
}

/* set_softmax() - the softmax of a forward that keeps its statistics for a backward */
static void set_softmax(struct graph *g, backend_desc node)
{
    backend_desc softmax = maker_create(g->m, BACKEND_OPERATION_SOFTMAX);

    set_operand(g, softmax, ATTR_OPERATION_SOFTMAX_X, OPERAND_SOFTMAX_IN);
    set_operand(g, softmax, ATTR_OPERATION_SOFTMAX_Y, OPERAND_SOFTMAX_OUT);
    set_operand(g, softmax, ATTR_OPERATION_SOFTMAX_STATS, OPERAND_STATISTICS);
    maker_finalize(g->m, softmax);
    maker_set_descriptor(g->m, node, ATTR_SDPA_FORWARD_SOFTMAX, softmax);
}

static backend_desc make_forward(struct graph *g)
{
    backend_desc node = maker_create(g->m, BACKEND_OPERATION_SDPA_FORWARD);

    set_operand(g, node, ATTR_SDPA_FORWARD_Q, OPERAND_QUERY);
    set_operand(g, node, ATTR_SDPA_FORWARD_K, OPERAND_KEY);
    set_operand(g, node, ATTR_SDPA_FORWARD_V, OPERAND_VALUE);
    set_operand(g, node, ATTR_SDPA_FORWARD_O, OPERAND_OUT);
    if (g->call->op == CUDNN_ATTENTION)
        set_softmax(g, node);
    set_operand(g, node, ATTR_SDPA_FORWARD_SCALE, OPERAND_SCALE);
    if (g->call->mask != CUDNN_OPEN)
        set_mask(g, node);
    maker_finalize(g->m, node);
    return make_operations(g, &node, 1);
}

backend_desc cudnn_attention_graph(struct maker *m, const struct cudnn_call *call, int cc)
{
    struct graph g = { .m = m, .call = call, .fixed = cudnn_attention_is_fixed(call, cc) };

    return call->op == CUDNN_ATTENTION_BACKWARD ? make_steps(&g, backward_steps, STEPS_MOST)
                                                : make_forward(&g);
}

/* ------------------------------------------------------------------ what the front end decides itself */

/*
 * cudnn_attention_is_fixed() - heads of 256 on compute capability 10.x go backward by an engine that sums nothing across blocks
 *
 * As recorded of PyTorch 2.15, which then asks for the deterministic algorithm; cudnn_attention_config() has what
 * override_heuristics_query() names for it.
 */
bool cudnn_attention_is_fixed(const struct cudnn_call *call, int cc)
{
    return call->op == CUDNN_ATTENTION_BACKWARD && cc / 10 == 10 && call->input[3] == 256;
}

static backend_desc make_choice(struct maker *m, enum backend_knob knob, int64_t value)
{
    backend_desc choice = maker_create(m, BACKEND_KNOB_CHOICE);
    int type = (int)knob;

    maker_set(m, choice, ATTR_KNOB_CHOICE_TYPE, TYPE_KNOB_TYPE, 1, &type);
    maker_set(m, choice, ATTR_KNOB_CHOICE_VALUE, TYPE_INT64, 1, &value);
    maker_finalize(m, choice);
    return choice;
}

backend_desc cudnn_attention_config(struct maker *m, backend_desc graph, backend_desc device)
{
    static const struct {
        enum backend_knob knob;
        int64_t value;
    } settings[] = { { KNOB_STAGES, 3 },     { KNOB_STREAM_K, 0 }, { KNOB_KERNEL_CFG, 2 },
                     { KNOB_TILE_CGA_M, 0 }, { KNOB_TILE_N, 2 },   { KNOB_TILE_M, 3 } };
    enum { COUNT = sizeof settings / sizeof settings[0] };
    backend_desc choices[COUNT], engine = maker_create(m, BACKEND_ENGINE);
    int64_t index = 5;

    maker_set_descriptor(m, engine, ATTR_ENGINE_OPERATION_GRAPH, graph);
    maker_set(m, engine, ATTR_ENGINE_GLOBAL_INDEX, TYPE_INT64, 1, &index);
    maker_set_descriptor(m, engine, ATTR_ENGINE_DEVICEPROP, device);
    maker_finalize(m, engine);
    for (int i = 0; i < COUNT; i++)
        choices[i] = make_choice(m, settings[i].knob, settings[i].value);
    backend_desc config = maker_create(m, BACKEND_ENGINECFG);

    maker_set_descriptor(m, config, ATTR_ENGINECFG_ENGINE, engine);
    maker_set(m, config, ATTR_ENGINECFG_KNOB_CHOICES, TYPE_BACKEND_DESCRIPTOR, COUNT, choices);
    maker_finalize(m, config);
    return config;
}

/*
 * cudnn_attention_kept() - get_fe_workspace_size_node(): the sum of output times gradient of each row, and the query's gradient
 * where it is summed in float32
 */
plm_bytes cudnn_attention_kept(const struct cudnn_call *call, int cc)
{
    uint64_t rows = (uint64_t)call->input[0] * (uint64_t)call->input[1] * (uint64_t)call->input[2];
    uint64_t summed = cudnn_attention_is_fixed(call, cc) ? 0 : (uint64_t)call->input[3];

    return call->op == CUDNN_ATTENTION_BACKWARD ? 4 * rows * (1 + summed) : 0;
}
