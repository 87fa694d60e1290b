/*
 * train/load.c - moves the model to the device: Module.to(device, dtype), Module.to(channels_last), requires_grad_
 *
 * Mirrors torch/nn/modules/module.py (2.15), Module._apply: children first, in the order of registration, then a
 * module's own parameters, then its own buffers. The tree of modules is read off the dotted names.
 */
#include <regex.h>
#include <string.h>

#include "train/wrapper.h"

/* struct module - a node of the tree; lists keep the order of registration */
struct module {
    struct module *children, **children_end, *next;
    struct owned {
        struct owned *next;
        size_t param;
    } * parameters, **parameters_end, *buffers, **buffers_end;
};

/* struct tree - modules by the id of their full name */
struct tree {
    struct run *run;
    struct module **by_name;
    size_t by_name_count;
    struct module *root;
};

static struct module *new_module(struct tree *tree)
{
    struct module *m = arena_new(tree->run->arena, struct module);

    m->children_end = &m->children;
    m->parameters_end = &m->parameters;
    m->buffers_end = &m->buffers;
    return m;
}

static struct module *find_module(struct tree *tree, name_id name)
{
    struct run *run = tree->run;

    if (name >= tree->by_name_count) {
        size_t count = run->ghost.names->text_count * 2 + 64;
        struct module **grown = arena_array(run->arena, struct module *, count);

        if (tree->by_name)
            memcpy(grown, tree->by_name, tree->by_name_count * sizeof *grown);
        tree->by_name = grown;
        tree->by_name_count = count;
    }
    if (tree->by_name[name])
        return tree->by_name[name];
    /* its parent is the name up to the last dot */
    const char *text = names_text(run->ghost.names, name);
    const char *dot = strrchr(text, '.');
    struct module *parent = tree->root;

    if (dot)
        parent = find_module(tree, names_add(run->ghost.names, text, (size_t)(dot - text)));
    struct module *m = new_module(tree);

    *parent->children_end = m;
    parent->children_end = &m->next;
    tree->by_name[name] = m;
    return m;
}

static struct module *build_tree(struct run *run)
{
    struct tree tree = { .run = run };

    tree.root = new_module(&tree);
    for (size_t i = 0; i < run->param_count; i++) {
        const char *text = names_text(run->ghost.names, run->params[i].name);
        const char *dot = strrchr(text, '.');
        struct module *m = tree.root;
        struct owned *owned = arena_new(run->arena, struct owned);

        if (dot) {
            run->leaves[i].module = names_add(run->ghost.names, text, (size_t)(dot - text));
            m = find_module(&tree, run->leaves[i].module);
        }
        owned->param = i;
        struct owned ***end = run->params[i].buffer ? &m->buffers_end : &m->parameters_end;

        **end = owned;
        *end = &owned->next;
    }
    return tree.root;
}

typedef void apply_function(struct run *run, size_t param);

/* apply() - Module._apply(); names are at most as deep as blocks may nest */
static void apply(struct run *run, const struct module *m, apply_function *fn)
{
    for (const struct module *child = m->children; child; child = child->next)
        apply(run, child, fn);
    for (const struct owned *o = m->parameters; o; o = o->next)
        fn(run, o->param);
    for (const struct owned *o = m->buffers; o; o = o->next)
        fn(run, o->param);
}

static void set_place(struct run *run, size_t param)
{
    struct ghost *g = &run->ghost;

    g->category = run->params[param].buffer ? CATEGORY_BUFFER : CATEGORY_PARAMETER;
    g->op = OP_COUNT;
    g->path = run->leaves[param].module;
}

static void to_device(struct run *run, size_t i)
{
    struct param *p = &run->params[i];

    if (p->elsewhere || p->tensor)
        return;

    run->leaves[i].rank = run->loaded_count++;
    set_place(run, i);
    if (run->wrapper && run->wrapper->load_parameter && !p->buffer)
        run->wrapper->load_parameter(run, i);
    else
        p->tensor = tensor_new(&run->ghost, p->dtype, p->dims, p->sizes);
}

/*
 * Megatron makes its own layers' parameters on the device, in their type and this rank's part alone (layers.py). Modules of
 * torch.nn are made on the host in float32, moved as they are, and cast after that (Float16Module).
 */
static void make_on_device(struct run *run, size_t i)
{
    struct param *p = &run->params[i];

    if (p->elsewhere || !p->on_device)
        return;
    run->leaves[i].rank = run->loaded_count++;
    set_place(run, i);
    p->tensor = param_shard(run, p, p->dtype);
}

static void to_device_float32(struct run *run, size_t i)
{
    struct param *p = &run->params[i];
    enum dtype dtype = p->dtype;

    if (dtype_defs[dtype].floating)
        p->dtype = DTYPE_FLOAT32;
    to_device(run, i);
    p->dtype = dtype;
}

static void to_float16(struct run *run, size_t i)
{
    struct param *p = &run->params[i];

    if (!p->tensor || p->tensor->dtype == p->dtype)
        return;
    set_place(run, i);
    struct tensor *cast = tensor_new(&run->ghost, p->dtype, p->dims, p->tensor->sizes);

    tensor_drop(p->tensor);
    p->tensor = cast;
}

static void load_megatron(struct run *run, const struct module *root)
{
    for (size_t i = 0; i < run->param_count; i++)
        make_on_device(run, i);
    apply(run, root, to_device_float32);
    apply(run, root, to_float16);
}

struct tensor *channels_last_copy(struct ghost *g, struct tensor *x)
{
    int64_t strides[TENSOR_DIMS];

    if (!x || x->dims < 4 || x->dims > 5 || tensor_suggests_channels_last(x))
        return tensor_ref(x);
    tensor_channels_last_strides(x->dims, x->sizes, strides);
    return tensor_new_strided(g, x->dtype, x->dims, x->sizes, strides);
}

static void to_channels_last(struct run *run, size_t i)
{
    struct param *p = &run->params[i];

    set_place(run, i);
    struct tensor *copy = channels_last_copy(&run->ghost, p->tensor);

    if (copy && copy != p->tensor)
        copy->channels_last = true;
    tensor_drop(p->tensor);
    p->tensor = copy;
}

static enum plm_status freeze(struct run *run, struct plm_error *reterr)
{
    regex_t regex;
    char text[128];
    size_t frozen = 0;
    const char *pattern = run->strategy->frozen;
    int error = regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB);

    if (error) {
        regerror(error, &regex, text, sizeof text);
        return plm_fail(reterr, PLM_E_USAGE, "frozen: '%s' is not a regular expression: %s",
                        pattern, text);
    }
    for (size_t i = 0; i < run->param_count; i++) {
        struct param *p = &run->params[i];

        p->frozen =
            !p->buffer && regexec(&regex, names_text(run->ghost.names, p->name), 0, NULL, 0) == 0;
        frozen += p->frozen;
    }
    regfree(&regex);
    if (frozen == 0)
        run_warn(run, "frozen: no parameter's name matches '%s'", pattern);
    return PLM_OK;
}

enum plm_status params_load(struct run *run, struct plm_error *reterr)
{
    run->leaves = arena_array(run->arena, struct leaf, run->param_count);
    struct module *root = build_tree(run);
    enum plm_status status = run->strategy->frozen ? freeze(run, reterr) : PLM_OK;

    if (status)
        return status;
    if (run->strategy->parallel.megatron > 0)
        load_megatron(run, root);
    else
        apply(run, root, to_device);
    if (run->strategy->channels_last)
        apply(run, root, to_channels_last);
    run->trained = arena_array(run->arena, struct leaf *, run->param_count);
    for (size_t i = 0; i < run->param_count; i++) {
        struct param *p = &run->params[i];

        run->leaves[i].param = p;
        if (p->buffer || p->frozen || !p->tensor || !dtype_defs[p->dtype].floating)
            continue;
        autograd_leaf(p->tensor);
        run->trained[run->trained_count++] = &run->leaves[i];
    }
    if (run->strategy->frozen && run->trained_count == 0 && !run->strategy->eval)
        return plm_fail(reterr, PLM_E_USAGE, "frozen: no parameter is left to train");
    run->ghost.path = 0;
    return PLM_OK;
}
