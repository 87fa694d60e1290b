/*
 * train/params.c - finds a model's parameters and buffers: whatever its operators ask for in a mute forward
 *
 * Registration order is the order of first use, unless the model gives another (graph->order). Afterwards each
 * operator step knows its parameters by number, so that a run looks up no name.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/num.h"
#include "ghost/autocast.h"
#include "train/internal.h"

enum dtype params_cast_dtype(const struct run *run)
{
    switch (run->strategy->precision) {
    case PLM_PRECISION_BF16:
        return DTYPE_BFLOAT16;
    case PLM_PRECISION_FP16:
        return DTYPE_FLOAT16;
    case PLM_PRECISION_FP32:
    case PLM_PRECISION_AMP_BF16:
    case PLM_PRECISION_AMP_FP16:
        break;
    }
    return DTYPE_COUNT;
}

enum dtype params_dtype(const struct run *run)
{
    enum dtype cast = params_cast_dtype(run);

    return cast == DTYPE_COUNT ? DTYPE_FLOAT32 : cast;
}

/* loaded_dtype() - Module.to(dtype) casts what is floating-point, and nothing else; DeepSpeed leaves buffers alone before stage 3 */
static enum dtype loaded_dtype(const struct run *run, enum dtype declared, bool buffer)
{
    enum dtype cast = params_cast_dtype(run);

    if (buffer && run->strategy->parallel.zero > 0 && run->strategy->parallel.zero < 3)
        return declared == DTYPE_PRECISION ? DTYPE_FLOAT32 : declared;
    if (declared == DTYPE_PRECISION)
        return params_dtype(run);
    return dtype_defs[declared].floating && cast != DTYPE_COUNT ? cast : declared;
}

/* ------------------------------------------------------------------ found in the mute forward */

static uint32_t *slot_of_name(struct run *run, name_id name)
{
    if (name >= run->by_name_count) {
        size_t count = run->ghost.names->text_count * 2 + 64;
        uint32_t *grown = arena_array(run->arena, uint32_t, count);

        if (run->by_name)
            memcpy(grown, run->by_name, run->by_name_count * sizeof *grown);
        run->by_name = grown;
        run->by_name_count = count;
    }
    return &run->by_name[name];
}

struct tensor *param_shard(struct run *run, const struct param *param, enum dtype dtype)
{
    int64_t sizes[8];

    memcpy(sizes, param->sizes, sizeof sizes);
    if (param->shard != SHARD_NONE)
        sizes[param->shard == SHARD_ROW] /= run->strategy->parallel.tp;
    if (param->experts && run->strategy->parallel.ep > 1)
        sizes[0] /= run->strategy->parallel.ep;
    return tensor_new(&run->ghost, dtype, param->dims, sizes);
}

static uint32_t add_param(struct run *run, const struct param *param)
{
    arena_push(run->arena, run->params, run->param_count, run->param_capacity, *param);
    struct param *added = &run->params[run->param_count - 1];

    added->tensor = param_shard(run, param, param->dtype); /* what the operator computes with */
    return (uint32_t)run->param_count;
}

static void check_same(struct run *run, const struct param *had, const struct param *now)
{
    bool same = had->dims == now->dims &&
                memcmp(had->sizes, now->sizes, now->dims * sizeof *now->sizes) == 0;
    const char *name = names_text(run->ghost.names, now->name);

    if (had->buffer != now->buffer)
        ghost_fail(&run->ghost, PLM_E_MODEL, "'%s' is used as a parameter and as a buffer", name);
    else if (!same)
        ghost_fail(&run->ghost, PLM_E_MODEL, "'%s' is used with different sizes", name);
}

/* is_weight() - the parameter that `tie:` replaces: the weight, or the only one that the operator has */
static bool is_weight(const char *name)
{
    return *name == '\0' || strcmp(name, "weight") == 0;
}

/* whole_of_shard() - an operator under tensor parallelism names its shard's sizes; a row shard's bias is whole */
static void whole_of_shard(struct run *run, enum shard shard, struct param *param)
{
    if (shard == SHARD_ROW && param->dims < 2)
        return;
    param->shard = shard;
    if (!num_mul(param->sizes[shard == SHARD_ROW], run->strategy->parallel.tp,
                 &param->sizes[shard == SHARD_ROW]))
        ghost_fail(&run->ghost, PLM_E_RANGE, "a parameter is too large");
}

/* all_experts() - an operator under expert parallelism names the sizes of this rank's experts */
static void all_experts(struct run *run, struct param *param)
{
    int64_t ep = run->strategy->parallel.ep;

    param->experts = param->dims > 0;
    if (ep > 1 && param->experts && !num_mul(param->sizes[0], ep, &param->sizes[0]))
        ghost_fail(&run->ghost, PLM_E_RANGE, "a parameter is too large");
}

/* add_tie() - once for each module, however often it runs */
static void add_tie(struct run *run, name_id module, name_id param)
{
    for (size_t i = 0; i < run->tie_count; i++)
        if (run->ties[i].module == module)
            return;
    arena_push(run->arena, run->ties, run->tie_count, run->tie_capacity,
               ((struct tie){ module, param }));
}

/* is_from_host() - does `host: true` say that it comes with the rest of the model? */
static bool is_from_host(const struct graph_step *step)
{
    for (uint32_t i = 0; i < step->attr_count; i++)
        if (step->attrs[i].key == KEY_HOST)
            return step->attrs[i].value.i != 0;
    return false;
}

static struct tensor *register_parameter(const struct op_owner *base,
                                         unsigned index,
                                         const char *name,
                                         bool buffer,
                                         enum dtype dtype,
                                         unsigned dims,
                                         const int64_t *sizes)
{
    struct run *run = ((const struct owner *)base)->run;
    const struct graph_step *step = ((const struct owner *)base)->step;
    struct ghost *g = &run->ghost;
    name_id suffix = *name ? names_add(g->names, name, strlen(name)) : 0;
    struct param param = {
        .name = step->tie && is_weight(name) ? step->tie : names_join(g->names, step->path, suffix),
        .buffer = buffer,
        .dtype = loaded_dtype(run, dtype, buffer),
        .dims = dims,
    };

    if (dims > sizeof param.sizes / sizeof *param.sizes || index >= OWNED_MOST)
        return ghost_fail(g, PLM_E_MODEL, "more than 8 dimensions");
    if (!param.name)
        return ghost_fail(g, PLM_E_MODEL, "an operator with parameters needs a name");
    if (dims > 0)
        memcpy(param.sizes, sizes, dims * sizeof *sizes);
    param.on_host = step->op == OP_PARAMETER && is_from_host(step);
    param.on_device = step->op == OP_PARAMETER && !param.on_host;
    param.sequence = step->shard == SHARD_SEQUENCE;
    if (run->strategy->parallel.tp > 1 && step->shard != SHARD_NONE && !param.sequence &&
        (!step->tie || param.on_device))
        whole_of_shard(run, step->shard, &param);
    if (step->experts)
        all_experts(run, &param);
    uint32_t *number = slot_of_name(run, param.name);

    bool tied = step->tie && is_weight(name);

    if (tied)
        add_tie(run, step->path, param.name);
    param.tied_at = tied ? step : NULL;
    if (!*number)
        *number = add_param(run, &param);
    else
        check_same(run, &run->params[*number - 1], &param);
    if (!tied)
        run->params[*number - 1].tied_at = NULL;
    run->params[*number - 1].tied = run->params[*number - 1].tied || tied;
    run->owned[step->node][index] = *number;
    return g->halt ? NULL : run->params[*number - 1].tensor;
}

/* is_whole() - is what a module finds its parameter as of these sizes, and in memory, as between gathering and sharding again? */
static bool is_whole(const struct run *run,
                     const struct tensor *x,
                     unsigned dims,
                     const int64_t *sizes)
{
    bool there = x->storage->allocation != 0 || x->storage->bytes == 0 || !run->ghost.schedule;

    return there && x->dims == dims && memcmp(x->sizes, sizes, dims * sizeof *sizes) == 0;
}

/* loaded_parameter() - the same question in the run; what a wrapper gathers may not be there */
static struct tensor *loaded_parameter(const struct op_owner *base,
                                       unsigned index,
                                       const char *name,
                                       bool buffer,
                                       enum dtype dtype,
                                       unsigned dims,
                                       const int64_t *sizes)
{
    const struct owner *owner = (const struct owner *)base;
    uint32_t number = owner->run->owned[owner->step->node][index];

    if (number == 0)
        return ghost_fail(&owner->run->ghost, PLM_E_MODEL,
                          "'%s' was not there when the model was loaded", name);
    const struct param *p = &owner->run->params[number - 1];
    struct tensor *used = p->used ? p->used : p->tensor;

    if (p->used && !is_whole(owner->run, used, dims, sizes))
        return ghost_fail(
            &owner->run->ghost, PLM_E_MODEL,
            "'%s' is split over ranks where it is used: outside of the unit that gathers "
            "it",
            names_text(owner->run->ghost.names, p->name));
    return used;
}

/* ------------------------------------------------------------------ order */

struct ranked {
    size_t rank, number; /* number: of the old order, from 0 */
};

static int by_rank(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

/* order_by_name() - for each name its number in the model's order, counted from 1; 0 where it is not in it */
static const uint32_t *order_by_name(const struct run *run)
{
    const struct graph *graph = run->graph;
    uint32_t *numbers = arena_array(run->arena, uint32_t, run->ghost.names->text_count);

    for (uint32_t i = (uint32_t)graph->order_count; i > 0; i--)
        numbers[graph->order[i - 1]] = i;
    return numbers;
}

/* rank() - the first entry of the model's order that is the parameter's name or a prefix of it at a dot */
static size_t rank(const struct run *run, const uint32_t *numbers, name_id name)
{
    const char *text = names_text(run->ghost.names, name);
    size_t first = run->graph->order_count + 1;

    for (const char *end = text; *end; end++)
        if (end[1] == '.' || end[1] == '\0') {
            name_id prefix = names_find(run->ghost.names, text, (size_t)(end + 1 - text));

            if (numbers[prefix] != 0)
                first = num_min(first, numbers[prefix]);
        }
    return first;
}

static void reorder(struct run *run)
{
    size_t count = run->param_count;
    struct ranked *ranked = arena_array(run->arena, struct ranked, count);
    struct param *params = arena_array(run->arena, struct param, count);
    uint32_t *moved = arena_array(run->arena, uint32_t, count + 1);

    if (run->graph->order_count == 0 || count == 0)
        return;
    const uint32_t *numbers = order_by_name(run);

    for (size_t i = 0; i < count; i++)
        ranked[i] = (struct ranked){ rank(run, numbers, run->params[i].name), i };
    qsort(ranked, count, sizeof *ranked, by_rank);
    for (size_t i = 0; i < count; i++) {
        params[i] = run->params[ranked[i].number];
        moved[ranked[i].number + 1] = (uint32_t)i + 1;
    }
    for (uint32_t node = 0; node < run->graph->node_count; node++)
        for (unsigned k = 0; k < OWNED_MOST; k++)
            run->owned[node][k] = moved[run->owned[node][k]];
    run->params = params;
    run->param_capacity = count;
}

/* forget() - what the mute forward left in the ghost: it is as new, but for the failure */
static void forget(struct run *run, struct schedule *schedule)
{
    struct ghost *g = &run->ghost;

    for (uint32_t i = 0; i < run->graph->node_count; i++)
        value_set(g, &run->held_by_modules[i], (struct value){ 0 });
    for (unsigned i = 0; i < GHOST_THREADS; i++) {
        tensor_drop(g->blas_workspace[i]);
        tensor_drop(g->lt_workspace[i]);
        g->blas_workspace[i] = g->lt_workspace[i] = NULL;
    }
    for (unsigned i = 0; i < GHOST_BUFFERS * DTYPE_COUNT; i++) {
        struct tensor **buffer = &g->memory_buffer[i / DTYPE_COUNT][i % DTYPE_COUNT];

        tensor_drop(*buffer);
        *buffer = NULL;
    }
    g->schedule = schedule;
    g->op_count = 0;
    g->op = OP_COUNT;
    g->unknown_workspaces = 0;
}

void params_borrow(struct run *run)
{
    for (size_t i = 0; i < run->param_count; i++) {
        struct param *p = &run->params[i];

        p->tensor = param_shard(run, p, p->dtype);
        if (p->tensor && !p->buffer && dtype_defs[p->dtype].floating)
            autograd_leaf(p->tensor);
    }
}

void params_return(struct run *run, struct schedule *schedule)
{
    for (size_t i = 0; i < run->param_count; i++) {
        tensor_drop(run->params[i].tensor);
        run->params[i].tensor = NULL;
    }
    forget(run, schedule);
}

/* check_ties() - each names a parameter that some operator has as its own */
static enum plm_status check_ties(const struct run *run, struct plm_error *reterr)
{
    const struct names *names = run->ghost.names;
    const char **own = arena_array(run->arena, const char *, run->param_count);
    const struct param *lost = NULL;
    size_t own_count = 0;

    for (size_t i = 0; i < run->param_count; i++)
        if (run->params[i].tied_at)
            lost = lost ? lost : &run->params[i];
        else
            own[own_count++] = names_text(names, run->params[i].name);
    if (!lost)
        return PLM_OK;
    const char *name = names_text(names, lost->name);
    const char *near = error_nearest(name, own, own_count);

    return plm_fail_at(reterr, PLM_E_MODEL, lost->tied_at->at,
                       "tie: no operator has a parameter '%s' of its own%s%s%s", name,
                       near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

enum plm_status params_find(struct run *run, struct plm_error *reterr)
{
    struct ghost *g = &run->ghost;
    struct schedule *schedule = g->schedule;
    struct value *ret = arena_array(run->arena, struct value, run->graph->main->out_count);

    run->owned =
        arena_alloc(run->arena, run->graph->node_count, sizeof *run->owned, alignof(uint32_t));
    run->held_by_modules = arena_array(run->arena, struct value, run->graph->node_count);
    run->owner.base.parameter = register_parameter;
    g->schedule = NULL;
    batch_make(run);
    loop_forward(run, ret);
    for (uint32_t i = 0; i < run->graph->main->out_count; i++)
        value_drop(g, ret[i]);
    context_exit(run);
    batch_drop(run);
    for (size_t i = 0; i < run->param_count; i++) {
        tensor_drop(run->params[i].tensor);
        run->params[i].tensor = NULL;
    }
    forget(run, schedule);
    run->owner.base.parameter = loaded_parameter;
    if (g->halt) {
        if (reterr)
            *reterr = g->error;
        return g->status;
    }
    enum plm_status status = check_ties(run, reterr);

    if (!status)
        reorder(run);
    return status;
}
