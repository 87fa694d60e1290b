/* opdef/opdef.c - the vocabulary's tables, and finding a row by its name */
#include <string.h>

#include "opdef/opdef.h"

const struct op_def op_defs[OP_COUNT] = {
#define OP(ID, name, least, most, outputs, owns, cast, help)                                       \
    [OP_##ID] = { #name, least, most, outputs, owns, CAST_##cast, help },
#include "opdef/ops.def"
#undef OP
};

const char *const key_names[KEY_COUNT] = {
#define KEY(ID, name) [KEY_##ID] = #name,
#include "opdef/keys.def"
#undef KEY
};

const struct dtype_def dtype_defs[DTYPE_COUNT] = {
#define DTYPE(ID, name, bytes, floating, rank) [DTYPE_##ID] = { #name, bytes, floating, rank },
#include "opdef/dtypes.def"
#undef DTYPE
};

const char attr_required[] = "required";

#define REQUIRED attr_required
#define ABSENT NULL
const struct attr_def attr_defs[] = {
#define ATTR(OP, KEY, type, fallback, choices, help)                                               \
    { OP_##OP, KEY_##KEY, ATTR_##type, fallback, choices, help },
#include "opdef/attrs.def"
#undef ATTR
};
#undef REQUIRED
#undef ABSENT

const size_t attr_def_count = sizeof attr_defs / sizeof attr_defs[0];

const struct attr_def *opdef_attrs(enum op_kind op, size_t *ret_count)
{
    const struct attr_def *end = attr_defs + attr_def_count, *first = attr_defs;

    while (first < end && first->op != op)
        first++;
    const struct attr_def *last = first;

    while (last < end && last->op == op)
        last++;
    *ret_count = (size_t)(last - first);
    return first;
}

enum op_kind opdef_find(const char *name)
{
    enum op_kind op = 0;

    while (op < OP_COUNT && strcmp(op_defs[op].name, name) != 0)
        op++;
    return op;
}

enum dtype opdef_find_dtype(const char *name)
{
    static const struct {
        const char *name;
        enum dtype dtype;
    } short_names[] = {
        { "fp32", DTYPE_FLOAT32 },
        { "fp16", DTYPE_FLOAT16 },
        { "bf16", DTYPE_BFLOAT16 },
    };

    for (size_t i = 0; i < sizeof short_names / sizeof short_names[0]; i++)
        if (strcmp(short_names[i].name, name) == 0)
            return short_names[i].dtype;
    enum dtype dtype = 0;

    while (dtype < DTYPE_COUNT && strcmp(dtype_defs[dtype].name, name) != 0)
        dtype++;
    return dtype;
}
