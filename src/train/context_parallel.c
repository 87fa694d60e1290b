/*
 * train/context_parallel.c - context_parallel: a rank has a part of every sequence
 *
 * Mirrors torch/distributed/tensor/experimental/_context_parallel/_attention.py and _load_balancer.py (2.15): entering the context
 * rearranges each buffer, so that a rank gets the r-th chunk from the front and the r-th from the back, and resizes it
 * in place to the rank's part; resize_() to fewer elements keeps the memory. What was made on the way lives until the context is
 * left after the backward. Attention is in ops/attention_ring.c.
 *
 * Under Megatron each micro-batch is cut to the rank's two chunks when it has come: get_batch_on_this_cp_rank() of
 * megatron/core/utils.py (megatron-core 0.16.1). Attention is Transformer Engine's, in ops/attention_fused_ring.c.
 */
#include <string.h>

#include "train/internal.h"
#include "train/mesh.h"

/* struct tensors - a list of any length; its memory is used again */
struct tensors {
    struct tensor **items; /* [capacity], owned */
    size_t count, capacity;
};

struct context {
    struct tensors buffers; /* whose names live until the next batch has come */
    struct tensors shards;  /* the local variables of the context manager */
    struct tensor *last;
    const struct graph_step *batch; /* Megatron's: the operator that names what of a batch is cut */
};

static void push(struct run *run, struct tensors *list, struct tensor *x)
{
    arena_push(run->arena, list->items, list->count, list->capacity, x);
}

static void drop_all(struct tensors *list)
{
    while (list->count > 0)
        tensor_drop(list->items[--list->count]);
}

/* takes_inputs() - has the operator inputs of main only? */
static bool takes_inputs(const struct run *run, const struct graph_step *step)
{
    bool all = true;

    for (uint32_t i = 0; i < step->in_count; i++)
        all = all && step->in[i] < run->graph->input_count; /* whose slots come first */
    return all;
}

/* sharing() - where the training script shares out its sequence; NULL: nowhere */
static const struct graph_step *sharing(const struct graph_body *main)
{
    for (size_t i = 0; i < main->step_count; i++)
        if (main->steps[i].kind == STEP_OP && main->steps[i].op == OP_CONTEXT_PARALLEL)
            return &main->steps[i];
    return NULL;
}

/* attends() - is there an operator @attention in @body, whose place the ring takes? */
static bool attends(const struct graph_body *body, enum op_kind attention)
{
    for (size_t i = 0; i < body->step_count; i++) {
        const struct graph_step *step = &body->steps[i];

        if (step->kind == STEP_OP && step->op == attention)
            return true;
        if (step->body && attends(step->body, attention))
            return true;
    }
    return false;
}

enum plm_status context_create(struct run *run, struct plm_error *reterr)
{
    const struct plm_parallel *p = &run->strategy->parallel;
    const struct graph_step *sharing_step = sharing(run->graph->main);
    bool megatron = p->megatron > 0;

    if (p->cp <= 1)
        return PLM_OK;
    if (megatron && !attends(run->graph->main, OP_FUSED_ATTENTION))
        return plm_fail(reterr, PLM_E_USAGE,
                        "cp: under Megatron parts of a sequence need Transformer Engine's fused "
                        "attention ('--set attention=fused' of megatron-gpt); Megatron Core's own "
                        "asserts context_parallel_size == 1");
    if (!sharing_step)
        return plm_fail(reterr, PLM_E_USAGE,
                        "cp: the model's script does not say how its sequence is shared out "
                        "(operator 'context_parallel')");
    if (megatron && !takes_inputs(run, sharing_step))
        return plm_fail(reterr, PLM_E_USAGE,
                        "cp: Megatron cuts what has come, so that 'context_parallel' takes inputs "
                        "of main only");
    if (!megatron && !attends(run->graph->main, OP_SCALED_DOT_PRODUCT_ATTENTION))
        return plm_fail(reterr, PLM_E_USAGE,
                        "cp: ring attention takes the place of scaled_dot_product_attention, which "
                        "this model does not use");
    run->ring = (struct context_ring){
        .size = p->cp,
        .rank = mesh_place(p, p->rank).context,
        .all_to_all = p->rotate == PLM_ROTATE_ALLTOALL,
    };
    run->context = arena_new(run->arena, struct context);
    run->context->batch = megatron ? sharing_step : NULL;
    return PLM_OK;
}

/* head_tail_indices() - _HeadTailLoadBalancer._generate_indices(): owned */
static struct tensor *head_tail_indices(struct ghost *g, int64_t ranks, int64_t length)
{
    TENSOR_AUTO *tail_index = NULL;
    TENSOR_AUTO *head_index = NULL;
    TENSOR_AUTO *indices = tensor_new_sizes(g, DTYPE_INT32, length);

    head_index = tensor_new_sizes(g, DTYPE_INT64, ranks);
    tail_index = tensor_new_sizes(g, DTYPE_INT64, ranks);
    TENSOR_AUTO *head = tensor_new_sizes(g, DTYPE_INT32, ranks, length / ranks / 2);
    TENSOR_AUTO *tail = tensor_new_sizes(g, DTYPE_INT32, ranks, length / ranks / 2);

    return tensor_new_sizes(g, DTYPE_INT32, length);
}

/* is_shared_out() - can @v be cut along @dim in two chunks for each rank? */
static bool is_shared_out(struct value v, size_t dim, int64_t ranks)
{
    return v.kind == VALUE_TENSOR && dim < v.as.tensor->dims &&
           v.as.tensor->sizes[dim] % (2 * ranks) == 0;
}

/* make_shards() - _context_parallel_buffers(): each buffer is gathered in the new order, and this rank's part of it copied */
static void make_shards(struct run *run, const struct value *in, uint32_t count, size_t dim)
{
    struct ghost *g = &run->ghost;
    TENSOR_AUTO *indices = head_tail_indices(g, run->ring.size, in[0].as.tensor->sizes[dim]);
    int64_t sizes[TENSOR_DIMS];

    for (uint32_t i = 0; i < count; i++) {
        const struct tensor *x = in[i].as.tensor;

        memcpy(sizes, x->sizes, sizeof sizes);
        TENSOR_AUTO *arranged = tensor_new(g, x->dtype, x->dims, sizes);

        sizes[dim] /= run->ring.size;
        push(run, &run->context->shards, tensor_new(g, x->dtype, x->dims, sizes));
    }
}

/* check_shared_out() - a failure unless @v, input @i of the operator, can be cut along @dim */
static bool check_shared_out(struct run *run, struct value v, uint32_t i, size_t dim)
{
    if (is_shared_out(v, dim, run->ring.size))
        return true;
    ghost_fail(&run->ghost, PLM_E_MODEL,
               "input %u must be a tensor whose size %zu is a multiple of 2 × %lld", i + 1, dim,
               (long long)run->ring.size);
    return false;
}

void context_batch(struct run *run)
{
    const struct graph_step *step = run->context ? run->context->batch : NULL;
    struct ghost *g = &run->ghost;
    enum category outer = g->category;
    struct tensor *index = NULL;

    g->category = CATEGORY_INPUT;
    for (uint32_t i = 0; step && i < step->in_count && !g->halt; i++) {
        size_t dim = (size_t)step->attrs[0].value.i;
        struct value *item = &run->batch[step->in[i]];
        int64_t sizes[TENSOR_DIMS];

        if (!check_shared_out(run, *item, i, dim))
            break;
        struct tensor *next = tensor_new_sizes(g, DTYPE_INT64, 2);

        tensor_drop(index);
        index = next;
        memcpy(sizes, item->as.tensor->sizes, sizeof sizes);
        sizes[dim] /= run->ring.size;
        value_set(
            g, item,
            value_tensor(tensor_new(g, item->as.tensor->dtype, item->as.tensor->dims, sizes)));
    }
    tensor_drop(index);
    g->category = outer;
}

struct value context_shard(struct ghost *g, const struct graph_step *step, const struct value *in)
{
    static const struct value none = { 0 };
    struct run *run = (struct run *)g; /* whose first member it is */
    struct context *context = run->context;
    size_t dim = (size_t)step->attrs[0].value.i;
    enum category outer = g->category;

    if (!context || context->batch)
        return none;
    for (uint32_t i = 0; i < step->in_count; i++) {
        if (!check_shared_out(run, in[i], i, dim))
            return none;
        push(run, &context->buffers, tensor_ref(in[i].as.tensor));
    }
    g->category = CATEGORY_INPUT;
    make_shards(run, in, step->in_count, dim);
    for (uint32_t i = 0; i < step->in_count && !g->halt; i++) {
        struct tensor *shard = context->shards.items[i];

        tensor_drop(context->last);
        context->last = tensor_new(g, shard->dtype, shard->dims, shard->sizes);
        tensor_resize(in[i].as.tensor, shard->dims, shard->sizes);
    }
    g->category = outer;
    return none;
}

void context_exit(struct run *run)
{
    struct context *context = run->context;

    if (!context)
        return;
    drop_all(&context->shards);
    tensor_drop(context->last);
    context->last = NULL;
}

void context_forget(struct run *run)
{
    if (run->context)
        drop_all(&run->context->buffers);
}
