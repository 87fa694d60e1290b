/*
 * ghost/split.c - the two halves of a backward, as zero-bubble schedules run them
 *
 * Mirrors torch/distributed/pipelining/_backward.py (2.15): get_param_groups(), stage_backward_input(), stage_backward_weight().
 * A node lies on the way to an input when autograd_select() stamps it (the inputs' closure). Its gradients are kept when a
 * weight hangs on it by nodes that do not lie on that way.
 */
#include <string.h>

#include "ghost/kernels.h"
#include "ghost/split.h"

/* struct kept - a node where weights branch off */
struct kept {
    struct node *node;     /* owned, until its group has run */
    struct tensor **grads; /* [output_count], owned */
    uint32_t output_count;
    uint32_t group; /* from 1 */
};

/* struct branch - a weight's leaf node and the group that it is in */
struct branch {
    struct tensor *weight;
    struct node *leaf; /* owned */
    uint32_t group;    /* 0: no gradient comes here */
};

struct split {
    struct ghost *ghost;
    struct kept *kept; /* [kept_count], in the order in which they were found */
    size_t kept_count, kept_capacity;
    struct branch *branches; /* [branch_count] */
    size_t branch_count;
    uint32_t group_count;
    /* of the search */
    struct node **found; /* [found_count], between the roots and the leaves */
    size_t found_count, found_capacity;
};

static bool contains(struct node *const *nodes, size_t count, const struct node *n)
{
    for (size_t i = 0; i < count; i++)
        if (nodes[i] == n)
            return true;
    return false;
}

/* find_nodes() - all that can be reached from the roots, each once */
static void find_nodes(struct split *s, const struct autograd_call *call)
{
    struct ghost *g = s->ghost;
    uint32_t visit = ++g->visit;

    for (uint32_t i = 0; i < call->root_count; i++)
        if (call->roots[i].node->visit != visit) {
            call->roots[i].node->visit = visit;
            arena_push(g->arena, s->found, s->found_count, s->found_capacity, call->roots[i].node);
        }
    for (size_t i = 0; i < s->found_count; i++)
        for (uint32_t k = 0; k < s->found[i]->edge_count; k++) {
            struct node *next = s->found[i]->edges[k].node;

            if (!next || next->visit == visit)
                continue;
            next->visit = visit;
            arena_push(g->arena, s->found, s->found_count, s->found_capacity, next);
        }
}

/* leads_to() - from @n, which lies off the way, to @leaf; what hangs on a node there is a cast and the like */
static bool leads_to(const struct node *n, const struct node *leaf, uint32_t selected)
{
    if (n == leaf)
        return true;
    for (uint32_t k = 0; k < n->edge_count; k++)
        if (n->edges[k].node && n->edges[k].node->selected != selected &&
            leads_to(n->edges[k].node, leaf, selected))
            return true;
    return false;
}

static struct kept *keep(struct split *s, struct node *n)
{
    struct pool *pool = &s->ghost->pool;
    struct kept kept = { .node = n, .output_count = n->output_count };

    for (size_t i = 0; i < s->kept_count; i++)
        if (s->kept[i].node == n)
            return &s->kept[i];
    kept.grads = pool_alloc(pool, n->output_count * sizeof(struct tensor *));
    memset(kept.grads, 0, n->output_count * sizeof(struct tensor *));
    node_ref(n);
    n->capture = kept.grads;
    arena_push(s->ghost->arena, s->kept, s->kept_count, s->kept_capacity, kept);
    return &s->kept[s->kept_count - 1];
}

/*
 * group_branch() - find where a weight branches off, and make one group with all that meet there
 *
 * Only nodes on the way have edges that leave it: @found holds them all.
 */
static void group_branch(struct split *s, struct branch *b, uint32_t selected)
{
    for (size_t i = 0; i < s->found_count; i++) {
        struct node *n = s->found[i];
        bool branches = false;

        for (uint32_t k = 0; n->selected == selected && k < n->edge_count && !branches; k++)
            branches = n->edges[k].node && n->edges[k].node->selected != selected &&
                       leads_to(n->edges[k].node, b->leaf, selected);
        if (!branches)
            continue;
        struct kept *kept = keep(s, n);

        if (kept->group)
            b->group = kept->group;
        else
            kept->group = b->group ? b->group : ++s->group_count;
        b->group = kept->group;
    }
}

struct split *split_input(struct ghost *g,
                          const struct autograd_call *call,
                          struct tensor *const *inputs,
                          uint32_t input_count,
                          struct tensor *const *weights,
                          size_t weight_count,
                          struct tensor **ret)
{
    struct split *s = pool_alloc(&g->pool, sizeof *s);
    struct edge *edges = pool_alloc(&g->pool, (input_count + 1) * sizeof *edges);
    struct tensor **grads = pool_alloc(&g->pool, (input_count + 1) * sizeof(struct tensor *));
    struct autograd_call first = *call;
    uint32_t wanted = 0;

    *s = (struct split){ .ghost = g };
    s->branches = arena_array(g->arena, struct branch, weight_count);
    for (uint32_t i = 0; i < input_count; i++)
        if (tensor_requires_grad(inputs[i]))
            edges[wanted++] = autograd_edge(inputs[i]);
    uint32_t selected = autograd_select(g, call->roots, call->root_count, edges, wanted);

    find_nodes(s, call);
    for (size_t i = 0; i < weight_count; i++) {
        struct branch *b = &s->branches[s->branch_count++];

        *b = (struct branch){ weights[i], autograd_edge(weights[i]).node, 0 };
        if (b->leaf && contains(s->found, s->found_count, b->leaf))
            group_branch(s, b, selected);
    }
    memset(grads, 0, (input_count + 1) * sizeof(struct tensor *));
    first.inputs = edges;
    first.input_count = wanted;
    first.ret = grads;
    first.keep_graph = true;
    if (wanted > 0)
        autograd_run(g, &first);
    for (uint32_t i = 0, k = 0; i < input_count; i++) {
        ret[i] = NULL;
        if (!tensor_requires_grad(inputs[i]))
            continue;
        ret[i] = grads[k++];
        if (ret[i] && !inputs[i]->grad)
            inputs[i]->grad = tensor_ref(ret[i]);
    }
    for (uint32_t i = 0; i < wanted; i++)
        node_drop(edges[i].node);
    pool_free(&g->pool, grads, (input_count + 1) * sizeof(struct tensor *));
    pool_free(&g->pool, edges, (input_count + 1) * sizeof *edges);
    s->found = NULL; /* borrowed: some of these nodes may die before the second half */
    s->found_count = s->found_capacity = 0;
    return s;
}

/* add_gradient() - weight.grad = dw, or weight.grad += dw, in place */
static void add_gradient(struct tensor *weight, struct tensor *dw)
{
    if (weight->grad || !dw)
        return;
    if (dw->storage->allocation)
        dw->ghost->records[dw->storage->allocation].category = CATEGORY_GRADIENT;
    weight->grad = tensor_ref(dw);
}

/* struct second - the arguments of one autograd.grad() of the second half */
struct second {
    struct edge *roots, *leaves;
    struct tensor **grads, **ret;
    struct tensor *
        *last; /* [last_count] of the call before: its result lives until this one's is there */
    uint32_t root_count, leaf_count, last_count;
};

static void collect(struct split *s, uint32_t group, struct second *c)
{
    c->root_count = c->leaf_count = 0;
    for (size_t i = 0; i < s->kept_count; i++)
        for (uint32_t o = 0; s->kept[i].group == group && o < s->kept[i].output_count; o++)
            if (s->kept[i].grads[o]) {
                c->roots[c->root_count] = (struct edge){ s->kept[i].node, o };
                c->grads[c->root_count++] = s->kept[i].grads[o];
            }
    for (size_t i = 0; i < s->branch_count; i++)
        if (s->branches[i].group == group) {
            c->ret[c->leaf_count] = NULL;
            c->leaves[c->leaf_count++] = (struct edge){ s->branches[i].leaf, 0 };
        }
}

static void release_group(struct split *s, uint32_t group)
{
    for (size_t i = 0; i < s->kept_count; i++) {
        struct kept *kept = &s->kept[i];

        if (kept->group != group)
            continue;
        for (uint32_t o = 0; o < kept->output_count; o++)
            tensor_drop(kept->grads[o]);
        pool_free(&s->ghost->pool, kept->grads, kept->output_count * sizeof(struct tensor *));
        node_drop(kept->node);
        kept->group = 0;
    }
}

static void drop_last(struct second *c)
{
    for (uint32_t i = 0; i < c->last_count; i++)
        tensor_drop(c->last[i]);
    c->last_count = 0;
}

static void run_group(struct split *s, uint32_t group, struct second *c)
{
    collect(s, group, c);
    if (c->root_count > 0)
        autograd_run(s->ghost, &(struct autograd_call){ .roots = c->roots,
                                                        .grads = c->grads,
                                                        .root_count = c->root_count,
                                                        .inputs = c->leaves,
                                                        .input_count = c->leaf_count,
                                                        .ret = c->ret });
    drop_last(c);
    release_group(s, group);
    for (size_t i = 0, k = 0; i < s->branch_count; i++)
        if (s->branches[i].group == group)
            add_gradient(s->branches[i].weight, c->ret[k++]);
    struct tensor **free = c->last;

    c->last = c->ret;
    c->last_count = c->leaf_count;
    c->ret = free;
}

void split_weight(struct split *s)
{
    struct ghost *g = s->ghost;
    size_t outputs = 1;

    for (size_t i = 0; i < s->kept_count; i++)
        outputs += s->kept[i].output_count;
    struct second c = {
        .roots = arena_array(g->arena, struct edge, outputs),
        .grads = arena_array(g->arena, struct tensor *, outputs),
        .leaves = arena_array(g->arena, struct edge, s->branch_count),
        .ret = arena_array(g->arena, struct tensor *, s->branch_count),
        .last = arena_array(g->arena, struct tensor *, s->branch_count),
    };

    for (uint32_t group = 1; group <= s->group_count; group++)
        run_group(s, group, &c);
    drop_last(&c);
    for (size_t i = 0; i < s->branch_count; i++)
        node_drop(s->branches[i].leaf);
    pool_free(&g->pool, s, sizeof *s);
}
