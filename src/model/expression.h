/*
 * model/expression.h - the small language of dims, sizes and conditions
 *
 * Compiled once, when the model is loaded; then names are indices and evaluating needs no memory:
 *
 *     a if c else b     or   and   not     == != < <= > >=     + -     * / // %     -x     ( )
 *     min(a, …) max(…) ceil(a, b) ceil(a / b)     12   0.1   true   false   NAME
 *
 * Integers are 64 bits and checked; `/` of integers must divide exactly, `//` and `%` round as Python's. Decimals
 * are for probabilities and the like: an operation with one decimal side is decimal.
 */
#ifndef PLM_MODEL_EXPRESSION_H
#define PLM_MODEL_EXPRESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/names.h"

enum value_kind { VALUE_NONE, VALUE_INT, VALUE_REAL, VALUE_BOOL, VALUE_WORD };

struct value {
    enum value_kind kind; /* NONE: not known yet */
    union {
        int64_t i; /* INT; BOOL: 0 or 1 */
        double real;
        name_id word;
    } as;
};

enum expr_op {
    EXPR_CONSTANT,
    EXPR_GLOBAL, /* env->globals[variable] */
    EXPR_LOCAL,  /* env->locals[variable] */
    EXPR_NEGATE,
    EXPR_NOT,
    EXPR_ADD,
    EXPR_SUB,
    EXPR_MUL,
    EXPR_DIV,
    EXPR_FLOOR_DIV,
    EXPR_MOD,
    EXPR_MIN,
    EXPR_MAX,
    EXPR_CEIL,
    EXPR_EQ,
    EXPR_NE,
    EXPR_LT,
    EXPR_LE,
    EXPR_GT,
    EXPR_GE,
    EXPR_AND,
    EXPR_OR,
    EXPR_IF, /* b if a else c */
};

enum { EXPR_USES_GLOBAL = 1, EXPR_USES_LOCAL = 2 };

struct expr {
    enum expr_op op;
    unsigned uses;     /* mask of EXPR_USES_*, of everything below */
    uint32_t variable; /* GLOBAL, LOCAL */
    struct source at;
    struct value value;           /* CONSTANT */
    const struct expr *a, *b, *c; /* operands; NULL where there is none */
};

/*
 * struct expr_scope - the names that an expression may use
 *
 * Locals hide globals, which hide words. A word stands for itself (`attention == eager`). Names that are 0 match nothing.
 */
struct expr_scope {
    struct names *names;
    const name_id *globals; /* [global_count] */
    const name_id *locals;  /* [local_count] */
    const name_id *words;   /* [word_count] */
    size_t global_count, local_count, word_count;
};

struct expr_env {
    const struct names *names;   /* for messages */
    const struct value *globals; /* as in the scope */
    const struct value *locals;
};

/*
 * expr_compile() - read @text, which stands at @at in a file
 *
 * @exact: columns within @text can be counted from @at. Constant parts are folded, and so checked.
 */
PLM_MUST_CHECK enum plm_status expr_compile(const struct expr_scope *scope,
                                            const char *text,
                                            struct source at,
                                            bool exact,
                                            struct arena *arena,
                                            const struct expr **ret_expr,
                                            struct plm_error *reterr);

/* expr_constant() - an expression that is @value */
const struct expr *expr_constant(struct arena *arena, struct value value, struct source at);

PLM_MUST_CHECK enum plm_status expr_eval(const struct expr *expr,
                                         const struct expr_env *env,
                                         struct value *ret_value,
                                         struct plm_error *reterr);

/* expr_mark_globals() - set marks[i] for every global i that occurs in @expr */
void expr_mark_globals(const struct expr *expr, bool *marks);

/* value_describe() - "the word 'eager'", "0.1", "true", for messages */
const char *value_describe(const struct names *names, struct value value, char text[96]);

#endif
