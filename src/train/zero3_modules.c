/*
 * train/zero3_modules.c - ZeRO stage 3: hooks around modules
 *
 * Mirrors deepspeed/runtime/zero/parameter_offload.py (0.19.8). A module is here a `call:` of the graph, or an operator that owns
 * parameters; modules without parameters and without a body, such as an activation, are not known, and gather nothing
 * ahead. A hook on a module's outputs comes before its backward, a node around its inputs after it.
 */
#include <string.h>

#include "train/zero3.h"

/* ------------------------------------------------------------------ which modules, which parameters */

static struct zero3_module *module_of(struct zero3 *zero3, name_id path)
{
    struct run *run = zero3->ds->run;

    if (path >= zero3->path_count) {
        size_t count = run->ghost.names->text_count * 2 + 64;
        uint32_t *grown = arena_array(run->arena, uint32_t, count);

        if (zero3->module_of_path)
            memcpy(grown, zero3->module_of_path, zero3->path_count * sizeof *grown);
        zero3->module_of_path = grown;
        zero3->path_count = count;
    }
    uint32_t *number = &zero3->module_of_path[path];

    if (*number == 0) {
        struct zero3_module m = { .zero3 = zero3, .number = (uint32_t)zero3->module_count };

        arena_push(run->arena, zero3->modules, zero3->module_count, zero3->module_capacity, m);
        *number = (uint32_t)zero3->module_count;
    }
    return &zero3->modules[*number - 1];
}

/* own() - @module has the parameter; in the order in which parameters were made, each once */
static void own(struct zero3 *zero3, struct zero3_module *module, size_t param)
{
    size_t at = module->param_count;

    for (size_t i = 0; i < module->param_count; i++)
        if (module->params[i] == param)
            return;
    arena_push(zero3->ds->run->arena, module->params, module->param_count, module->param_capacity,
               param);
    for (; at > 0 && module->params[at - 1] > param; at--)
        module->params[at] = module->params[at - 1];
    module->params[at] = param;
}

/* own_all() - the parameters of an operator step, which are @module's */
static void own_all(struct zero3 *zero3, const struct graph_step *step, name_id path)
{
    const struct run *run = zero3->ds->run;

    for (unsigned i = 0; i < OWNED_MOST; i++) {
        uint32_t number = run->owned[step->node][i];

        if (number > 0 && !run->params[number - 1].buffer)
            own(zero3, module_of(zero3, path), zero3->number_of_param[number - 1]);
    }
}

static bool is_bare(const struct graph_step *step)
{
    return step->op == OP_PARAMETER || step->op == OP_BUFFER;
}

/* find() - @path: of the innermost call around @body */
static void find(struct zero3 *zero3, const struct graph_body *body, name_id path)
{
    for (size_t i = 0; i < body->step_count; i++) {
        const struct graph_step *step = &body->steps[i];

        if (step->kind == STEP_CALL)
            module_of(zero3, step->path);
        if (step->body)
            find(zero3, step->body, step->kind == STEP_CALL ? step->path : path);
        else if (step->kind == STEP_OP)
            own_all(zero3, step, is_bare(step) ? path : step->path);
    }
}

void zero3_find_modules(struct zero3 *zero3)
{
    const struct run *run = zero3->ds->run;

    if (!run->model_call)
        return;
    module_of(zero3, run->model_call->path);
    find(zero3, run->model_call->body, run->model_call->path);
}

/* ------------------------------------------------------------------ the end of a module's backward */

/* PostBackwardFunctionModule: the gradient passes through; with the last of its inputs' the module is done */
static void post_backward_apply(struct ghost *g,
                                struct node *n,
                                struct tensor *const *grads,
                                struct tensor **ret)
{
    struct zero3_module *module = (struct zero3_module *)(intptr_t)n->numbers[0];

    if (module->remaining > 0 && --module->remaining == 0)
        zero3_release(module, false);
    if (node_needs(n, 0))
        ret[0] = tensor_ref(grads[0]);
}

static const struct backward post_backward = { "PostBackwardFunctionModuleBackward",
                                               post_backward_apply };

/* see_input() - @x behind a node of its own, or @x when it needs no gradient; owned */
static struct tensor *see_input(struct zero3_module *module, struct tensor *x)
{
    struct ghost *g = &module->zero3->ds->run->ghost;

    if (!tensor_requires_grad(x))
        return tensor_ref(x);
    struct node *n = node_new(g, &post_backward, &x, 1, 0, 1);

    if (!n)
        return tensor_ref(x);
    n->numbers[0] = (int64_t)(intptr_t)module;
    module->remaining++;
    return node_attach(n, tensor_view(x, x->dims, x->sizes, x->strides));
}

/* ------------------------------------------------------------------ the beginning of a module's backward */

static void before_backward(void *context, struct tensor *grad)
{
    struct zero3_module *module = context;

    (void)grad;
    if (module->applied == 0)
        return;
    zero3_fetch(module, false);
    module->applied--;
}

static void see_output(struct zero3_module *module, struct tensor *x)
{
    module->applied++;
    if (tensor_requires_grad(x) && x->grad_fn)
        autograd_hook(x, before_backward, module);
}

static void see_outputs(struct zero3_module *module, const struct value *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        switch (values[i].kind) {
        case VALUE_TENSOR:
            see_output(module, values[i].as.tensor);
            break;
        case VALUE_RECORD:
            see_outputs(module, values[i].as.object->items, values[i].as.object->count);
            break;
        case VALUE_LIST: /* of the zoo's models: a DynamicCache, which is not looked into */
        case VALUE_NONE:
            break;
        }
}

/* ------------------------------------------------------------------ hooks */

static struct zero3 *zero3_of(struct run *run)
{
    return ((struct deepspeed *)run->wrapper_state)->zero3;
}

void zero3_before_forward(struct run *run, struct wrapped_call *call)
{
    struct zero3 *zero3 = zero3_of(run);
    struct ghost *g = &run->ghost;

    if (call->root) {
        zero3->in_model = true;
        zero3_reset_step(zero3);
    }
    if (!zero3->in_model)
        return;
    struct zero3_module *module = module_of(zero3, call->step->path);

    zero3_fetch(module, true);
    module->remaining = 0;
    for (uint32_t i = 0; i < call->step->in_count && module->param_count > 0; i++)
        if (call->args[i].kind == VALUE_TENSOR)
            value_set(g, &call->args[i], value_tensor(see_input(module, call->args[i].as.tensor)));
}

void zero3_after_forward(struct run *run, struct wrapped_call *call)
{
    struct zero3 *zero3 = zero3_of(run);

    if (!zero3->in_model)
        return;
    struct zero3_module *module = module_of(zero3, call->step->path);

    zero3_release(module, true);
    see_outputs(module, call->ret, call->step->body->out_count);
    if (call->root)
        zero3->in_model = false;
}

void zero3_before_operator(struct run *run,
                           const struct graph_step *step,
                           struct tensor **inputs,
                           uint32_t count)
{
    struct zero3 *zero3 = zero3_of(run);

    if (is_bare(step))
        return;
    struct zero3_module *module = module_of(zero3, step->path);

    zero3_fetch(module, true);
    module->remaining = 0;
    zero3->replaced_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!inputs[i])
            continue;
        inputs[i] = see_input(module, inputs[i]);
        arena_push(run->arena, zero3->replaced, zero3->replaced_count, zero3->replaced_capacity,
                   inputs[i]);
    }
}

void zero3_after_operator(struct run *run, const struct graph_step *step, struct tensor **outputs)
{
    struct zero3 *zero3 = zero3_of(run);

    if (is_bare(step))
        return;
    struct zero3_module *module = module_of(zero3, step->path);

    while (zero3->replaced_count > 0)
        tensor_drop(zero3->replaced[--zero3->replaced_count]);
    if (run->ghost.halt)
        return;
    zero3_release(module, true);
    for (uint32_t i = 0; i < step->out_count; i++)
        if (outputs[i])
            see_output(module, outputs[i]);
}
