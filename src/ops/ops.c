/*
 * ops/ops.c - the table of operators, and the one way to call them
 *
 * A call is cast as autocast demands (operators that own parameters do it themselves, since their weights are cast
 * too), and then goes to its row's function.
 */
#include <string.h>

#include "ghost/autocast.h"
#include "ops/ops.h"

static op_function *const functions[OP_COUNT] = {
#define OP(ID, name, least, most, outputs, owns, cast, help) [OP_##ID] = op_##name,
#include "opdef/ops.def"
#undef OP
};

enum { CALL_INPUTS = 16, CALL_ATTRS = 16 };

/* with_float32() - the same attributes with dtype: float32, as autocast's fp32_set_opt_dtype calls an operator */
static uint32_t with_float32(const struct op_args *args, struct attr *ret)
{
    if (args->attr_count >= CALL_ATTRS)
        return 0;
    if (args->attr_count > 0)
        memcpy(ret, args->attrs, args->attr_count * sizeof *ret);
    ret[args->attr_count] =
        (struct attr){ .key = KEY_DTYPE, .type = ATTR_DTYPE, .value.i = DTYPE_FLOAT32 };
    return args->attr_count + 1;
}

static void call_cast(struct ghost *g,
                      const struct op_args *args,
                      enum cast_policy policy,
                      struct tensor **ret)
{
    struct tensor *few[CALL_INPUTS], **tensors = few;
    struct attr attrs[CALL_ATTRS];
    struct op_args inner = *args;
    size_t size = args->in_count * sizeof *tensors;

    if (args->in_count > CALL_INPUTS)
        tensors = pool_alloc(&g->pool, size);
    if (size > 0)
        memcpy(tensors, args->in, size);
    bool was_active = autocast_cast(g, policy, tensors, args->in_count);

    inner.in = tensors;
    if (policy == CAST_SET && autocast_eligible(args->in[0]) && !op_attr(args, KEY_DTYPE)) {
        inner.attr_count = with_float32(args, attrs);
        inner.attrs = attrs;
    }
    functions[args->op](g, &inner, ret);
    autocast_restore(g, was_active, tensors, args->in_count);
    if (args->in_count > CALL_INPUTS)
        pool_free(&g->pool, tensors, size);
}

void op_call(struct ghost *g, const struct op_args *args, struct tensor **ret)
{
    const struct op_def *def = &op_defs[args->op];

    g->op_count++;
    for (uint32_t i = 0; i < args->out_count; i++)
        ret[i] = NULL;
    if (g->halt)
        return;
    if (g->autocast.enabled && def->cast != CAST_KEEP && def->owns == 0)
        call_cast(g, args, def->cast, ret);
    else
        functions[args->op](g, args, ret);
    /* operators take none for none; another name for it is all that comes of that */
    if (!g->halt && args->out_count > 0 && !ret[0] && args->op != OP_ALIAS)
        ghost_fail(g, PLM_E_MODEL, "an input is none; a tensor is needed");
}

struct tensor *op_apply(struct ghost *g,
                        enum op_kind op,
                        struct tensor *const *in,
                        uint32_t in_count,
                        const struct attr *attrs,
                        uint32_t attr_count)
{
    struct tensor *ret = NULL;

    op_call(g,
            &(struct op_args){ .op = op,
                               .in = in,
                               .in_count = in_count,
                               .attrs = attrs,
                               .attr_count = attr_count,
                               .out_count = 1 },
            &ret);
    return ret;
}

const struct attr *op_attr(const struct op_args *args, enum attr_key key)
{
    for (uint32_t i = 0; i < args->attr_count; i++)
        if (args->attrs[i].key == key)
            return &args->attrs[i];
    return NULL;
}

int64_t op_int(const struct op_args *args, enum attr_key key)
{
    const struct attr *attr = op_attr(args, key);

    return attr ? attr->value.i : 0;
}

enum dtype op_dtype(const struct ghost *g, const struct op_args *args)
{
    const struct attr *attr = op_attr(args, KEY_DTYPE);

    if (!attr)
        return DTYPE_COUNT;
    return attr->value.i == DTYPE_PRECISION ? g->precision : (enum dtype)attr->value.i;
}

double op_real(const struct op_args *args, enum attr_key key)
{
    const struct attr *attr = op_attr(args, key);

    if (!attr)
        return 0;
    return attr->type == ATTR_REAL ? attr->value.real : (double)attr->value.i;
}

void op_ints(
    struct ghost *g, const struct op_args *args, enum attr_key key, unsigned count, int64_t *ret)
{
    const struct attr *attr = op_attr(args, key);

    for (unsigned i = 0; i < count; i++)
        ret[i] =
            attr && attr->count > 0 ? attr->value.items[attr->count == 1 ? 0 : i % attr->count] : 0;
    if (attr && attr->count != 1 && attr->count != count)
        ghost_fail(g, PLM_E_MODEL, "'%s' has %u numbers; 1 or %u were expected", key_names[key],
                   attr->count, count);
}

struct tensor *op_own_parameter(const struct op_args *args,
                                unsigned index,
                                const char *name,
                                unsigned dims,
                                const int64_t *sizes)
{
    return args->owner->parameter(args->owner, index, name, false, DTYPE_PRECISION, dims, sizes);
}

struct tensor *op_own_buffer(const struct op_args *args,
                             unsigned index,
                             const char *name,
                             enum dtype dtype,
                             unsigned dims,
                             const int64_t *sizes)
{
    return args->owner->parameter(args->owner, index, name, true, dtype, dims, sizes);
}
