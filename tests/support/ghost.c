/* support/ghost.c - starts ghost runs for tests and calls operators as the executor would */
#include <assert.h>
#include <stdarg.h>
#include <string.h>

#include "base/units.h"
#include "support/ghost.h"
#include "support/trace.h"

enum { MOST_ATTRS = 16 };

void test_ghost_start_version(struct test_ghost *t, const char *version)
{
    *t = (struct test_ghost){ 0 };
    t->names.arena = &t->arena;
    t->schedule.arena = &t->arena;
    struct surroundings around = {
        .framework = framework_find(version),
        .cc = 80,
        .sm_count = 108,
        .threads_per_sm = 2048,
        .ghostgpu = true,
        .workspace_mode = WORKSPACE_NONE,
    };

    assert(around.framework);
    ghost_init(&t->ghost, &t->arena, &t->names, &t->schedule, &around);
    t->ghost.training = true;
    t->ghost.grad_enabled = true;
    t->ghost.needs_gradient_of_parameters = true;
}

void test_ghost_start(struct test_ghost *t)
{
    test_ghost_start_version(t, "pytorch-2.15");
}

void test_ghost_finish(struct test_ghost *t)
{
    arena_finish(&t->arena);
}

const char *test_ghost_trace(struct test_ghost *t, size_t first)
{
    struct buf text = { .arena = &t->arena };

    trace_text(&t->schedule, first, &text);
    return buf_string(&text);
}

struct tensor *test_make_leaf(struct tensor *x)
{
    autograd_leaf(x);
    return x;
}

static struct attr fallback(const struct attr_def *def, struct arena *arena)
{
    struct attr attr = { .key = (uint16_t)def->key, .type = (uint16_t)def->type };
    int64_t i = 0;
    bool good = true;

    switch (def->type) {
    case ATTR_INT:
    case ATTR_INTS:
        good = units_parse_int(def->fallback, &i);
        break;
    case ATTR_REAL:
        good = units_parse_real(def->fallback, &attr.value.real);
        break;
    case ATTR_BOOL:
        i = strcmp(def->fallback, "true") == 0;
        break;
    case ATTR_DTYPE:
        i = opdef_find_dtype(def->fallback);
        break;
    case ATTR_WORD:
        /* the index of the fallback among the choices */
        for (const char *c = def->choices, *end = strstr(c, def->fallback); end && c < end; c++)
            i += *c == '|';
        break;
    case ATTR_NAME:
        break;
    }
    assert(good);
    (void)good;
    if (def->type == ATTR_INTS) {
        int64_t *items = arena_new(arena, int64_t);

        *items = i;
        attr.count = 1;
        attr.value.items = items;
    } else if (def->type != ATTR_REAL) {
        attr.value.i = i;
    }
    return attr;
}

void test_call_owned(struct ghost *g,
                     const struct op_owner *owner,
                     enum op_kind op,
                     struct tensor *const *in,
                     size_t in_count,
                     const struct attr *attrs,
                     size_t attr_count,
                     struct tensor **ret,
                     size_t out_count)
{
    struct attr all[MOST_ATTRS];
    size_t def_count, count = 0;
    const struct attr_def *defs = opdef_attrs(op, &def_count);

    for (size_t i = 0; i < def_count; i++) {
        const struct attr *given = NULL;

        for (size_t j = 0; j < attr_count; j++)
            if (attrs[j].key == defs[i].key)
                given = &attrs[j];
        if (given) {
            all[count] = *given;
            all[count++].type = (uint16_t)defs[i].type;
        } else if (defs[i].fallback && defs[i].fallback != attr_required) {
            all[count++] = fallback(&defs[i], g->arena);
        }
    }
    struct op_args args = {
        .op = op,
        .in_count = (uint32_t)in_count,
        .attr_count = (uint32_t)count,
        .out_count = (uint32_t)out_count,
        .in = in,
        .attrs = all,
        .owner = owner,
    };

    op_call(g, &args, ret);
}

void test_call_outputs(struct ghost *g,
                       enum op_kind op,
                       struct tensor *const *in,
                       size_t in_count,
                       const struct attr *attrs,
                       size_t attr_count,
                       struct tensor **ret,
                       size_t out_count)
{
    test_call_owned(g, NULL, op, in, in_count, attrs, attr_count, ret, out_count);
}

struct tensor *test_call(
    struct ghost *g, enum op_kind op, struct tensor *const *in, size_t in_count, ...)
{
    struct attr attrs[MOST_ATTRS];
    size_t count = 0;
    struct tensor *result = NULL;
    va_list list;

    va_start(list, in_count);
    for (struct attr attr = va_arg(list, struct attr); attr.key != KEY_COUNT && count < MOST_ATTRS;
         attr = va_arg(list, struct attr))
        attrs[count++] = attr;
    va_end(list);
    test_call_outputs(g, op, in, in_count, attrs, count, &result, 1);
    return result;
}
