/*
 * opdef/opdef.h - the operators' vocabulary: names, inputs, attributes, help; no behaviour
 *
 * Made from ops.def, attrs.def, keys.def and dtypes.def. A model file is checked against these tables, the manual
 * is printed from them, and src/ops adds to each row the function of the same name.
 */
#ifndef PLM_OPDEF_OPDEF_H
#define PLM_OPDEF_OPDEF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum op_kind {
#define OP(ID, name, least, most, outputs, owns, cast, help) OP_##ID,
#include "opdef/ops.def"
#undef OP
    OP_COUNT
};

enum attr_key {
#define KEY(ID, name) KEY_##ID,
#include "opdef/keys.def"
#undef KEY
    KEY_COUNT
};

enum dtype {
#define DTYPE(ID, name, bytes, floating, rank) DTYPE_##ID,
#include "opdef/dtypes.def"
#undef DTYPE
    DTYPE_COUNT
};

enum attr_type {
    ATTR_INT,
    ATTR_REAL,
    ATTR_BOOL,
    ATTR_INTS,
    ATTR_WORD,
    ATTR_DTYPE,
    ATTR_NAME,
};

/*
 * enum shard - how tensor parallelism splits a linear layer: its output features, or its input features
 *
 * SHARD_SEQUENCE is not split; under sequence parallelism each rank has the gradient of its part of the sequence.
 */
enum shard { SHARD_NONE, SHARD_COLUMN, SHARD_ROW, SHARD_SEQUENCE };

enum cast_policy { CAST_KEEP, CAST_LOWER, CAST_FP32, CAST_SET, CAST_WIDEST };

struct dtype_def {
    const char *name;
    unsigned bytes; /* of an element */
    bool floating;
    int rank;
};

struct attr_def {
    enum op_kind op;
    enum attr_key key;
    enum attr_type type;
    const char
        *fallback; /* as written in a model file; NULL: may be absent; attr_required: may not */
    const char *choices; /* for ATTR_WORD: "none|tanh" */
    const char *help;
};

struct op_def {
    const char *name;
    int least, most; /* tensors in `in:`; most -1: any number */
    int outputs;     /* names in `as:`; -1: as many as it makes */
    int owns;        /* parameters and buffers that it declares at most */
    enum cast_policy cast;
    const char *help;
};

extern const char attr_required[]; /* compared by address */
extern const struct op_def op_defs[OP_COUNT];
extern const char *const key_names[KEY_COUNT];
extern const struct dtype_def dtype_defs[DTYPE_COUNT];
extern const struct attr_def attr_defs[];
extern const size_t attr_def_count;

/* opdef_attrs() - the rows of attr_defs that belong to @op: returns the first, writes how many */
const struct attr_def *opdef_attrs(enum op_kind op, size_t *ret_count);

/* opdef_find() - the operator of that name; OP_COUNT when there is none */
enum op_kind opdef_find(const char *name);

/* opdef_find_dtype() - the type of that name ("fp32", "bf16", "fp16" too); DTYPE_COUNT when there is none */
enum dtype opdef_find_dtype(const char *name);

/*
 * struct attr - the value of one attribute of one node
 *
 * A node carries all attributes of its operator that have a value, in the order of attrs.def.
 */
struct attr {
    uint16_t key;   /* enum attr_key */
    uint16_t type;  /* enum attr_type */
    uint32_t count; /* of items, for ATTR_INTS */
    union {
        int64_t
            i; /* INT; WORD: index among the choices; DTYPE: enum dtype; BOOL: 0 or 1; NAME: name_id */
        double real;          /* REAL */
        const int64_t *items; /* INTS: [count] */
    } value;
};

#endif
