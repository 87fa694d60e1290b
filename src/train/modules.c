/*
 * train/modules.c - the model's tree of modules, and the orders in which PyTorch goes through it
 *
 * Mirrors torch/nn/modules/module.py (2.15), Module._apply: children first, in the order of registration, then a
 * module's own parameters, then its own buffers; and the queue of torch/distributed/fsdp/_init_utils.py, which goes level by level.
 */
#include <string.h>

#include "train/modules.h"
#include "train/pipeline.h"

/* struct tree - modules by the id of their full name */
struct tree {
    struct run *run;
    struct module **by_name;
    size_t by_name_count;
};

static struct module *new_module(struct tree *tree, name_id name)
{
    struct module *m = arena_new(tree->run->arena, struct module);

    m->name = name;
    m->children_end = &m->children;
    m->parameters_end = &m->parameters;
    m->buffers_end = &m->buffers;
    m->tied_end = &m->tied;
    return m;
}

static name_id parent_of(struct run *run, name_id name)
{
    const char *text = names_text(run->ghost.names, name);
    const char *dot = strrchr(text, '.');

    return dot ? names_add(run->ghost.names, text, (size_t)(dot - text)) : 0;
}

static struct module *find_module(struct tree *tree, name_id name)
{
    struct run *run = tree->run;

    if (name == 0)
        return run->modules;
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
    struct module *parent = find_module(tree, parent_of(run, name));
    struct module *m = new_module(tree, name);

    *parent->children_end = m;
    parent->children_end = &m->next;
    tree->by_name[name] = m;
    return m;
}

static void add(struct run *run, struct owned ***end, size_t param)
{
    struct owned *owned = arena_new(run->arena, struct owned);

    owned->param = param;
    **end = owned;
    *end = &owned->next;
}

/* add_ties() - the modules that only have another's parameter come after all others */
static void add_ties(struct tree *tree)
{
    struct run *run = tree->run;

    for (size_t t = 0; t < run->tie_count; t++)
        for (size_t i = 0; i < run->param_count; i++)
            if (run->params[i].name == run->ties[t].param)
                add(run, &find_module(tree, run->ties[t].module)->tied_end, i);
}

void modules_build(struct run *run)
{
    struct tree tree = { .run = run };

    run->modules = new_module(&tree, 0);
    for (size_t i = 0; i < run->param_count; i++) {
        run->leaves[i].module = parent_of(run, run->params[i].name);
        struct module *m = find_module(&tree, run->leaves[i].module);

        add(run, run->params[i].buffer ? &m->buffers_end : &m->parameters_end, i);
    }
    add_ties(&tree);
}

/* struct way - how to go through the tree */
struct way {
    modules_visitor *visit;
    bool ties;
    void (*left)(struct run *run, name_id module);
};

static void visit_each(struct run *run, const struct owned *owned, modules_visitor *visit)
{
    for (; owned; owned = owned->next)
        if (run->params[owned->param].stage == run->stage)
            visit(run, owned->param);
}

/* apply() - names are at most as deep as blocks may nest */
static void apply(struct run *run, const struct module *m, const struct way *way)
{
    for (const struct module *child = m->children; child; child = child->next)
        apply(run, child, way);
    visit_each(run, m->parameters, way->visit);
    if (way->ties)
        visit_each(run, m->tied, way->visit);
    visit_each(run, m->buffers, way->visit);
    if (way->left)
        way->left(run, m->name);
}

/* apply_each() - to the model, or to one after the other of the stages that a pipeline's rank has */
static void apply_each(struct run *run, const struct way *way)
{
    for (run->stage = 0; run->stage < pipeline_stage_count(run); run->stage++)
        apply(run, run->modules, way);
    run->stage = 0;
}

void modules_apply(struct run *run, modules_visitor *visit)
{
    apply_each(run, &(struct way){ .visit = visit });
}

void modules_apply_all(struct run *run,
                       modules_visitor *visit,
                       void (*left)(struct run *run, name_id module))
{
    apply_each(run, &(struct way){ .visit = visit, .ties = true, .left = left });
}

static const struct module *module_of_name(const struct module *m, name_id name)
{
    const struct module *found = m->name == name ? m : NULL;

    for (const struct module *child = m->children; child && !found; child = child->next)
        found = module_of_name(child, name);
    return found;
}

static size_t count_modules(const struct module *m)
{
    size_t count = 1;

    for (const struct module *child = m->children; child; child = child->next)
        count += count_modules(child);
    return count;
}

void modules_walk(struct run *run,
                  name_id name,
                  unsigned parts,
                  bool (*stops)(struct run *run, name_id name),
                  modules_visitor *visit)
{
    const struct module *first = module_of_name(run->modules, name);

    if (!first)
        return;
    size_t size = count_modules(first) * sizeof(struct module *), begin = 0, end = 0;
    const struct module **queue = pool_alloc(&run->ghost.pool, size);

    queue[end++] = first;
    while (begin < end) {
        const struct module *m = queue[begin++];

        if (parts & MODULE_PARAMETERS)
            visit_each(run, m->parameters, visit);
        if (parts & MODULE_BUFFERS)
            visit_each(run, m->buffers, visit);
        for (const struct module *child = m->children; child; child = child->next)
            if (!stops(run, child->name))
                queue[end++] = child;
    }
    pool_free(&run->ghost.pool, queue, size);
}
