/*
 * train/value.c - what names hold: tensors, lists and records, with Python's reference counts
 *
 * A list is shared by everyone who was given it, so that append() is seen by all. Lists and records give back
 * what they hold from the last to the first, as CPython's list and tuple do.
 */
#include <string.h>

#include "train/internal.h"

struct value value_tensor(struct tensor *tensor)
{
    return (struct value){ tensor ? VALUE_TENSOR : VALUE_NONE, { .tensor = tensor } };
}

struct value value_ref(struct value v)
{
    switch (v.kind) {
    case VALUE_NONE:
        break;
    case VALUE_TENSOR:
        tensor_ref(v.as.tensor);
        break;
    case VALUE_LIST:
    case VALUE_RECORD:
        v.as.object->refs++;
        break;
    }
    return v;
}

static void object_drop(struct ghost *g, struct object *o)
{
    if (--o->refs > 0)
        return;
    for (uint32_t i = o->count; i-- > 0;)
        value_drop(g, o->items[i]);
    if (o->items)
        pool_free(&g->pool, o->items, o->capacity * sizeof *o->items);
    pool_free(&g->pool, o, sizeof *o);
}

void value_drop(struct ghost *g, struct value v)
{
    switch (v.kind) {
    case VALUE_NONE:
        break;
    case VALUE_TENSOR:
        tensor_drop(v.as.tensor);
        break;
    case VALUE_LIST:
    case VALUE_RECORD:
        object_drop(g, v.as.object);
        break;
    }
}

void value_set(struct ghost *g, struct value *slot, struct value v)
{
    struct value old = *slot;

    *slot = v;
    value_drop(g, old);
}

static void object_push(struct ghost *g, struct object *o, struct value v)
{
    if (o->count == o->capacity) {
        uint32_t capacity = o->capacity ? o->capacity * 2 : 4;
        struct value *items = pool_alloc(&g->pool, capacity * sizeof *items);

        if (o->items) {
            memcpy(items, o->items, o->count * sizeof *items);
            pool_free(&g->pool, o->items, o->capacity * sizeof *items);
        }
        o->items = items;
        o->capacity = capacity;
    }
    o->items[o->count++] = v;
}

static struct value make(struct ghost *g,
                         enum value_kind kind,
                         const struct graph_step *step,
                         const struct value *in)
{
    struct object *o = pool_alloc(&g->pool, sizeof *o);

    *o = (struct object){ .refs = 1, .names = step->in_names };
    for (uint32_t i = 0; i < step->in_count; i++)
        object_push(g, o, value_ref(in[i]));
    return (struct value){ kind, { .object = o } };
}

struct value value_list(struct ghost *g, struct tensor **tensors, uint32_t count)
{
    struct value list = make(g, VALUE_LIST, &(struct graph_step){ 0 }, NULL);

    for (uint32_t i = 0; i < count; i++)
        object_push(g, list.as.object, value_tensor(tensors[i]));
    return list;
}

static struct value make_list(struct ghost *g,
                              const struct graph_step *step,
                              const struct value *in)
{
    return make(g, VALUE_LIST, step, in);
}

static struct value make_record(struct ghost *g,
                                const struct graph_step *step,
                                const struct value *in)
{
    return make(g, VALUE_RECORD, step, in);
}

static const struct value none = { 0 };

/* expect() - the list or record in @v, or NULL and a halted run */
static struct object *expect(struct ghost *g, struct value v, enum value_kind kind)
{
    if (v.kind == kind)
        return v.as.object;
    ghost_fail(g, PLM_E_MODEL, "'in' must be a %s", kind == VALUE_LIST ? "list" : "record");
    return NULL;
}

static struct value append(struct ghost *g, const struct graph_step *step, const struct value *in)
{
    struct object *list = expect(g, in[0], VALUE_LIST);

    if (list && (in[1].kind == VALUE_NONE || in[1].kind == VALUE_TENSOR))
        object_push(g, list, value_ref(in[1]));
    else if (list) /* a list in itself would never be given back */
        ghost_fail(g, PLM_E_MODEL, "only tensors can be appended to a list");
    return none;
}

static struct value extend(struct ghost *g, const struct graph_step *step, const struct value *in)
{
    struct object *list = expect(g, in[0], VALUE_LIST), *other = expect(g, in[1], VALUE_LIST);
    uint32_t count = other ? other->count : 0; /* which grows when it is the same list */

    for (uint32_t i = 0; list && i < count; i++)
        append(g, step, (struct value[]){ in[0], other->items[i] });
    return none;
}

static struct value pop(struct ghost *g, const struct graph_step *step, const struct value *in)
{
    struct object *list = expect(g, in[0], VALUE_LIST);

    if (!list)
        return none;
    if (list->count == 0) {
        ghost_fail(g, PLM_E_MODEL, "the list is empty");
        return none;
    }
    return list->items[--list->count];
}

static const struct attr *find_attr(const struct graph_step *step, enum attr_key key)
{
    for (uint32_t i = 0; i < step->attr_count; i++)
        if (step->attrs[i].key == key)
            return &step->attrs[i];
    return NULL;
}

static struct value item(struct ghost *g, const struct graph_step *step, const struct value *in)
{
    struct object *list = expect(g, in[0], VALUE_LIST);
    int64_t i = find_attr(step, KEY_INDEX)->value.i;

    if (!list)
        return none;
    if (i < -(int64_t)list->count || i >= (int64_t)list->count) {
        ghost_fail(g, PLM_E_MODEL, "index %lld is outside of a list of %u", (long long)i,
                   list->count);
        return none;
    }
    return value_ref(list->items[i < 0 ? i + (int64_t)list->count : i]);
}

name_id value_field(const struct graph_step *step)
{
    return (name_id)find_attr(step, KEY_FIELD)->value.i;
}

static struct value field(struct ghost *g, const struct graph_step *step, const struct value *in)
{
    struct object *record = expect(g, in[0], VALUE_RECORD);
    name_id name = value_field(step);

    if (!record)
        return none;
    for (uint32_t i = 0; i < record->count; i++)
        if (record->names[i] == name)
            return value_ref(record->items[i]);
    ghost_fail(g, PLM_E_MODEL, "the record has no field '%s'", names_text(g->names, name));
    return none;
}

static struct value alias(struct ghost *g, const struct graph_step *step, const struct value *in)
{
    return value_ref(in[0]);
}

/* a ghost's run is found from it */
static struct value keep(struct ghost *g, const struct graph_step *step, const struct value *in)
{
    struct run *run = (struct run *)g;

    value_set(g, &run->held_by_modules[step->node], value_ref(in[0]));
    return none;
}

value_operator *const value_operators[OP_COUNT] = {
    [OP_LIST] = make_list, [OP_APPEND] = append,
    [OP_EXTEND] = extend,  [OP_POP] = pop,
    [OP_ITEM] = item,      [OP_RECORD] = make_record,
    [OP_FIELD] = field,    [OP_ALIAS] = alias,
    [OP_KEEP] = keep,      [OP_CONTEXT_PARALLEL] = context_shard,
};
