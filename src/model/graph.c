/*
 * model/graph.c - filling in the numbers: from a model and settings to a graph
 *
 * Walks the model as a call would, once for each repetition. No text is compared, and whatever does not depend
 * on the repetition is shared with the model or made once (`cached`).
 *
 * A node runs in some of two modes: while gradients are recorded, and while not. Which of them are possible
 * is known inside of a no_grad scope; `when: grad_enabled` selects among them. For each slot of a frame, bound says in
 * which of the frame's modes it has a value.
 */
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "model/graph_build.h"

const char *const scope_names[SCOPE_COUNT] = {
    [SCOPE_NO_GRAD] = "no_grad",
    [SCOPE_ENABLE_GRAD] = "enable_grad",
    [SCOPE_AUTOCAST_OFF] = "autocast_off",
};

static enum plm_status join_path(struct builder *b, name_id prefix, name_id name, name_id *ret)
{
    char path[PATH_MAX_LENGTH + 1];

    if (prefix == 0 || name == 0) {
        *ret = prefix ? prefix : name;
        return PLM_OK;
    }
    const char *head = names_text(b->names, prefix), *tail = names_text(b->names, name);
    size_t head_length = strlen(head), tail_length = strlen(tail);

    if (head_length + 1 + tail_length > PATH_MAX_LENGTH)
        return plm_fail(b->reterr, PLM_E_RANGE, "a module path of more than %d characters",
                        PATH_MAX_LENGTH);
    memcpy(path, head, head_length);
    path[head_length] = '.';
    memcpy(path + head_length + 1, tail, tail_length);
    *ret = names_add(b->names, path, head_length + 1 + tail_length);
    return PLM_OK;
}

static name_id number_name(struct builder *b, int64_t number)
{
    char text[24];
    bool small = number >= 0 && (uint64_t)number < b->number_count;

    if (small && b->numbers[number])
        return b->numbers[number];
    int length = snprintf(text, sizeof text, "%lld", (long long)number);
    name_id name = names_add(b->names, text, (size_t)length);

    if (small)
        b->numbers[number] = name;
    return name;
}

/* note_owner() - @path has parameters now: two operators may not have the same, unless they share them */
static enum plm_status note_owner(struct builder *b, const struct graph_step *step, unsigned modes)
{
    while (step->path >= b->owner_count) {
        size_t capacity = b->owner_count;

        b->owners = arena_grow(b->scratch, b->owners, &capacity, 1, 1);
        b->owner_count = capacity;
    }
    if ((b->owners[step->path] & modes) && !step->shared)
        return plm_fail_at(b->reterr, PLM_E_MODEL, step->at,
                           "'%.80s' has parameters already: give another 'name', or 'share: true'",
                           names_text(b->names, step->path));
    b->owners[step->path] |= (unsigned char)modes;
    return PLM_OK;
}

static enum plm_status check_bound(struct builder *b,
                                   const struct frame *f,
                                   const uint32_t *slots,
                                   size_t count,
                                   unsigned modes,
                                   struct source at)
{
    for (size_t i = 0; i < count; i++)
        if (slots[i] != GRAPH_NO_SLOT && (f->bound[slots[i]] & modes) != modes)
            return plm_fail_at(b->reterr, PLM_E_MODEL, at,
                               "'%.60s' has no value here: the node that makes it is left out, or "
                               "it was deleted",
                               names_text(b->names, f->block->slot_names[slots[i]]));
    return PLM_OK;
}

static enum plm_status build_block(struct builder *b,
                                   struct frame *f,
                                   const struct graph_body **ret);
static enum plm_status build_nodes(struct builder *b,
                                   struct frame *f,
                                   const struct place *place,
                                   const struct model_block *block,
                                   struct graph_body *body);

/* mentions() - does @expr read the global @variable? */
static bool mentions(const struct expr *expr, uint32_t variable)
{
    return expr && ((expr->op == EXPR_GLOBAL && expr->variable == variable) ||
                    mentions(expr->a, variable) || mentions(expr->b, variable) ||
                    mentions(expr->c, variable));
}

static enum plm_status build_call(struct builder *b,
                                  struct frame *f,
                                  const struct model_node *node,
                                  unsigned modes,
                                  struct graph_step *step)
{
    const struct model_block *block = node->block;
    struct frame callee = { .block = block, .modes = modes, .path = step->path };
    enum plm_status status = PLM_OK;
    bool checkpoint;

    callee.shared = step->shared;
    callee.locals = arena_array(b->scratch, struct value, block->param_count + 1);
    callee.bound = arena_array(b->scratch, unsigned char, block->slot_count);
    memset(callee.bound, BOTH_MODES, block->in_count);
    for (size_t i = 0; i < block->param_count && !status; i++) {
        if (node->with[i])
            status = graph_eval(b, f, node->with[i], &callee.locals[i]);
        else
            status = graph_eval(b, &callee, block->params[i].fallback, &callee.locals[i]);
    }
    if (!status)
        status = graph_eval_bool(b, f, node->checkpoint, "checkpoint", &checkpoint);
    if (!status)
        status = graph_eval_bool(b, f, node->wrap, "wrap", &step->wrap);
    if (status)
        return status;
    step->place = checkpoint ? ++b->place_count : 0;
    b->recomputes_attention =
        b->recomputes_attention || mentions(node->checkpoint, MODEL_RECOMPUTE_SELECTIVE);
    return build_block(b, &callee, &step->body);
}

static enum plm_status build_scope(struct builder *b,
                                   struct frame *f,
                                   const struct model_node *node,
                                   const struct place *inside,
                                   struct graph_step *step)
{
    struct graph_body *body = arena_new(b->arena, struct graph_body);
    struct place place = *inside;

    if (node->scope == SCOPE_NO_GRAD)
        place.modes = STEP_WHEN_NO_GRAD;
    if (node->scope == SCOPE_ENABLE_GRAD)
        place.modes = STEP_WHEN_GRAD;
    body->name = f->block->name;
    body->slot_names = f->block->slot_names;
    step->body = body;
    return build_nodes(b, f, &place, node->block, body);
}

static enum plm_status build_op(struct builder *b,
                                const struct frame *f,
                                const struct model_node *node,
                                unsigned modes,
                                struct graph_step *step)
{
    enum plm_status status = graph_eval_attrs(b, f, node, &step->attrs);

    step->node = b->node_count++;
    step->attr_count = node->attr_count;
    if (status || !attr_owns_parameters(node->op, step->attrs, node->attr_count))
        return status;
    if (!node->name)
        return plm_fail_at(b->reterr, PLM_E_MODEL, node->at,
                           "'name' is missing: the operator has parameters");
    return note_owner(b, step, modes);
}

/* build_step() - one repetition of a node that runs in @modes */
static enum plm_status build_step(struct builder *b,
                                  struct frame *f,
                                  const struct place *place,
                                  const struct model_node *node,
                                  unsigned modes,
                                  struct graph_step *step)
{
    unsigned reach = place->modes == f->modes ? place->reach & modes : place->reach;
    struct place inside = { modes, reach };
    enum plm_status status = PLM_OK;

    step->when = modes == place->modes ? BOTH_MODES : modes;
    step->in = node->in;
    step->in_count = node->in_count;
    step->in_names = node->in_names;
    step->positional_count = node->positional_count;
    step->out = node->out;
    step->out_count = node->out_count;
    step->drop = node->drop;
    step->drop_count = node->repeat ? 0 : node->drop_count; /* see build_repeats() */
    step->tie = node->tie;
    step->shared = f->shared || node->share;
    step->shard = node->shard;
    step->experts = node->experts;
    if (node->kind != STEP_SCOPE)
        status = check_bound(b, f, node->in, node->in_count, reach, node->at);
    if (!status && node->kind == STEP_OP)
        status = build_op(b, f, node, modes, step);
    else if (!status && (node->kind == STEP_CALL || node->kind == STEP_INLINE))
        status = build_call(b, f, node, modes, step);
    else if (!status && node->kind == STEP_SCOPE)
        status = build_scope(b, f, node, &inside, step);
    if (status)
        return status;
    for (uint32_t i = 0; i < node->out_count; i++)
        if (node->out[i] != GRAPH_NO_SLOT)
            f->bound[node->out[i]] |= (unsigned char)reach;
    for (uint32_t i = 0; i < step->drop_count; i++)
        if (node->drop[i] != GRAPH_NO_SLOT)
            f->bound[node->drop[i]] &= (unsigned char)~reach;
    return PLM_OK;
}

/* name_failure() - put the operator or block and its path in front, once: the innermost node's */
static enum plm_status name_failure(struct builder *b,
                                    const struct frame *f,
                                    const struct model_node *node,
                                    name_id path,
                                    enum plm_status status)
{
    char label[LOAD_LABEL];
    const char *what = node->kind == STEP_OP ? op_defs[node->op].name
                       : node->block         ? names_text(b->names, node->block->name)
                                             : "del";
    const char *text = names_text(b->names, path ? path : f->path);
    size_t length = strlen(text);

    if (!b->reterr)
        return status;
    if (b->reterr->line == 0) {
        b->reterr->line = node->at.line;
        b->reterr->column = node->at.column;
        snprintf(b->reterr->file, sizeof b->reterr->file, "%s", node->at.file ? node->at.file : "");
    }
    /* the end of a long path says more than its beginning */
    snprintf(label, sizeof label, length ? "%.40s '%s%s'" : "%.40s", what, length > 70 ? "…" : "",
             length > 70 ? text + length - 70 : text);
    load_prefix(b->reterr, status, label);
    b->reterr = NULL;
    return status;
}

static enum plm_status count_steps(struct builder *b,
                                   struct frame *f,
                                   const struct model_block *block,
                                   size_t *ret_count)
{
    size_t count = 0;

    for (size_t i = 0; i < block->node_count; i++) {
        const struct model_node *node = &block->nodes[i];
        int64_t times = 1;

        if (node->repeat) {
            enum plm_status status =
                graph_eval_int(b, f, node->repeat, "repeat", 0, GRAPH_REPEAT_MAX, &times);

            if (status)
                return name_failure(b, f, node, 0, status);
        }
        count += (size_t)times + (node->repeat && node->drop_count > 0);
        if (count > b->step_max - b->step_count)
            return name_failure(b, f, node, 0,
                                plm_fail_at(b->reterr, PLM_E_RANGE, node->at,
                                            "the model has more than %u steps", b->step_max));
    }
    b->step_count += (uint32_t)count;
    *ret_count = count;
    return PLM_OK;
}

static enum plm_status build_repetition(struct builder *b,
                                        struct frame *f,
                                        const struct place *place,
                                        const struct model_node *node,
                                        int64_t number,
                                        struct graph_body *body,
                                        struct graph_step *step)
{
    unsigned modes;
    name_id path = f->path;
    enum plm_status status = graph_eval_when(b, f, node, place, &modes);

    if (!status && modes == 0)
        return PLM_OK;
    if (!status)
        status = join_path(b, path, node->name, &path);
    if (!status && node->repeat && !node->share)
        status = join_path(b, path, number_name(b, number), &path);
    step->kind = node->kind;
    step->op = node->op;
    step->scope = node->scope;
    step->path = path;
    step->at = node->at;
    if (!status)
        status = build_step(b, f, place, node, modes, step);
    if (status)
        return name_failure(b, f, node, path, status);
    body->step_count++;
    return PLM_OK;
}

/* build_repeats() - all repetitions of a node; its `del` comes after the last */
static enum plm_status build_repeats(struct builder *b,
                                     struct frame *f,
                                     const struct place *place,
                                     const struct model_node *node,
                                     struct graph_body *body,
                                     struct graph_step *steps)
{
    int64_t times = 1, start = 0;
    uint32_t repeat = node->repeat ? ++b->repeat_count : 0;
    struct value *index = &f->locals[f->block->param_count], before = *index;
    size_t first = body->step_count;
    enum plm_status status = PLM_OK;

    if (node->repeat)
        status = graph_eval_int(b, f, node->repeat, "repeat", 0, GRAPH_REPEAT_MAX, &times);
    if (!status && node->start)
        status = graph_eval_int(b, f, node->start, "start", 0, INT32_MAX, &start);
    if (status)
        return name_failure(b, f, node, 0, status);
    for (int64_t i = 0; i < times && !status; i++) {
        struct graph_step *step = &steps[body->step_count];

        if (node->repeat)
            *index = (struct value){ .kind = VALUE_INT, .as.i = start + i };
        step->repeat = repeat;
        step->repeat_index = (uint32_t)i;
        step->repeat_count = (uint32_t)times;
        status = build_repetition(b, f, place, node, start + i, body, step);
    }
    *index = before;
    if (status || !node->repeat || node->drop_count == 0 || body->step_count == first)
        return status;
    struct model_node drop = { .kind = STEP_DROP, .at = node->at };

    drop.drop = node->drop;
    drop.drop_count = node->drop_count;
    return build_repetition(b, f, place, &drop, 0, body, &steps[body->step_count]);
}

static enum plm_status build_nodes(struct builder *b,
                                   struct frame *f,
                                   const struct place *place,
                                   const struct model_block *block,
                                   struct graph_body *body)
{
    size_t count = 0;
    enum plm_status status = count_steps(b, f, block, &count);

    if (status)
        return status;
    struct graph_step *steps = arena_array(b->arena, struct graph_step, count);

    body->steps = steps;
    for (size_t i = 0; i < block->node_count && !status; i++)
        status = build_repeats(b, f, place, &block->nodes[i], body, steps);
    return status;
}

static enum plm_status build_block(struct builder *b,
                                   struct frame *f,
                                   const struct graph_body **ret)
{
    const struct model_block *block = f->block;
    struct graph_body *body = arena_new(b->arena, struct graph_body);
    struct place place = { f->modes, f->modes };

    *body = (struct graph_body){
        .name = block->name,
        .slot_count = block->slot_count,
        .in_count = block->in_count,
        .out_count = block->out_count,
        .out = block->out,
        .slot_names = block->slot_names,
    };
    enum plm_status status = build_nodes(b, f, &place, block, body);

    if (!status)
        status = check_bound(b, f, block->out, block->out_count, f->modes, block->at);
    *ret = body;
    return status;
}

static enum plm_status build_input(struct builder *b,
                                   const struct model_input *input,
                                   struct graph_input *ret)
{
    int64_t *sizes = arena_array(b->arena, int64_t, input->dim_count), elements = 1;

    for (uint32_t i = 0; i < input->dim_count; i++) {
        enum plm_status status =
            graph_eval_int(b, NULL, input->sizes[i], "shape", 0, INT64_MAX, &sizes[i]);

        if (status)
            return status;
        if (sizes[i] == 0) {
            bool *marks = arena_array(b->scratch, bool, b->model->global_count);

            expr_mark_globals(input->sizes[i], marks);
            return plm_fail_at(b->reterr, PLM_E_RANGE, input->sizes[i]->at,
                               "'shape' has a size of 0%s",
                               marks[MODEL_SEQ] ? ": the model needs --seq" : "");
        }
        if (!num_mul(elements, sizes[i], &elements) || elements >> 60)
            return plm_fail_at(b->reterr, PLM_E_RANGE, input->at,
                               "'shape' has more than 2^60 elements");
    }
    *ret = (struct graph_input){ input->name, input->dtype, input->dim_count, sizes };
    return PLM_OK;
}

static enum plm_status build_inputs(struct builder *b, struct graph *graph)
{
    const struct model *model = b->model;
    struct graph_input *inputs = arena_array(b->arena, struct graph_input, model->input_count);

    for (size_t i = 0; i < model->input_count; i++) {
        enum plm_status status = build_input(b, &model->inputs[i], &inputs[i]);
        char label[LOAD_LABEL];

        if (!status)
            continue;
        snprintf(label, sizeof label, "input '%.60s'", names_text(b->names, model->inputs[i].name));
        return load_prefix(b->reterr, status, label);
    }
    graph->inputs = inputs;
    graph->input_count = model->input_count;
    return PLM_OK;
}

static enum plm_status build_main(struct builder *b, struct graph *graph)
{
    const struct model_block *main = b->model->main;
    struct frame frame = { .block = main, .modes = BOTH_MODES };

    frame.locals = arena_array(b->scratch, struct value, 1);
    frame.bound = arena_array(b->scratch, unsigned char, main->slot_count);
    memset(frame.bound, BOTH_MODES, main->in_count);
    return build_block(b, &frame, &graph->main);
}

/* copy_names() - the graph adds module paths to names of its own, and leaves the model as it is */
static struct names *copy_names(const struct names *from, struct arena *arena)
{
    struct names *names = arena_new(arena, struct names);

    *names = *from;
    names->arena = arena;
    names->texts = arena_array(arena, const char *, from->text_capacity);
    names->slots = arena_array(arena, uint32_t, from->slot_count);
    memcpy(names->texts, from->texts, from->text_count * sizeof *names->texts);
    memcpy(names->slots, from->slots, from->slot_count * sizeof *names->slots);
    return names;
}

static int64_t hidden_size(const struct model *model, const struct value *globals)
{
    for (size_t i = 0; model->hidden_size && i < model->global_count; i++)
        if (model->global_names[i] == model->hidden_size)
            return globals[i].as.i;
    return 0;
}

static enum plm_status build_graph(struct builder *b,
                                   const struct graph_settings *settings,
                                   struct graph *graph)
{
    const struct model *model = b->model;
    const struct value *globals;
    enum plm_status status = model_globals(model, settings, b->scratch, &globals, b->reterr);

    if (status)
        return status;
    b->globals = arena_array(b->scratch, struct value, model->global_count);
    memcpy(b->globals, globals, model->global_count * sizeof *globals);
    b->names = copy_names(&model->names, b->arena);
    b->cached = arena_array(b->scratch, const struct attr *, model->node_count);
    b->number_count = 256;
    b->numbers = arena_array(b->scratch, name_id, b->number_count);
    b->step_max = settings->step_max ? settings->step_max : GRAPH_STEPS_MAX;
    *graph = (struct graph){
        .model_name = model->name,
        .names = b->names,
        .batch = globals[MODEL_BATCH].as.i,
        .seq = globals[MODEL_SEQ].as.i,
        .reads_seq = model->reads_seq,
        .hidden_size = hidden_size(model, globals),
    };
    status = build_inputs(b, graph);
    if (!status)
        status = build_main(b, graph);
    if (!status)
        graph_build_order(b, graph);
    graph->node_count = b->node_count;
    graph->place_count = b->place_count;
    graph->recomputes_attention = b->recomputes_attention;
    return status;
}

enum plm_status graph_build(const struct model *model,
                            const struct graph_settings *settings,
                            struct arena *arena,
                            const struct graph **ret_graph,
                            struct plm_error *reterr)
{
    struct arena scratch = { 0 };
    struct builder b = { .model = model, .arena = arena, .scratch = &scratch, .reterr = reterr };
    struct graph *graph = arena_new(arena, struct graph);
    enum plm_status status = build_graph(&b, settings, graph);

    arena_finish(&scratch);
    if (!status)
        *ret_graph = graph;
    return status;
}
