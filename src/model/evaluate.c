/*
 * model/evaluate.c - the value of a compiled expression
 *
 * Conditions are lazy, as in Python: `a / b if b else 0` never divides by zero.
 */
#include <math.h>
#include <stdio.h>

#include "base/num.h"
#include "model/expression.h"

static const char *const symbols[] = {
    [EXPR_CONSTANT] = "", [EXPR_GLOBAL] = "",      [EXPR_LOCAL] = "", [EXPR_NEGATE] = "-",
    [EXPR_NOT] = "not",   [EXPR_ADD] = "+",        [EXPR_SUB] = "-",  [EXPR_MUL] = "*",
    [EXPR_DIV] = "/",     [EXPR_FLOOR_DIV] = "//", [EXPR_MOD] = "%",  [EXPR_MIN] = "min",
    [EXPR_MAX] = "max",   [EXPR_CEIL] = "ceil",    [EXPR_EQ] = "==",  [EXPR_NE] = "!=",
    [EXPR_LT] = "<",      [EXPR_LE] = "<=",        [EXPR_GT] = ">",   [EXPR_GE] = ">=",
    [EXPR_AND] = "and",   [EXPR_OR] = "or",        [EXPR_IF] = "if",
};

const char *value_describe(const struct names *names, struct value value, char text[96])
{
    switch (value.kind) {
    case VALUE_NONE:
        return "nothing";
    case VALUE_INT:
        snprintf(text, 96, "%lld", (long long)value.as.i);
        return text;
    case VALUE_REAL:
        snprintf(text, 96, "%g", value.as.real);
        return text;
    case VALUE_BOOL:
        return value.as.i ? "true" : "false";
    case VALUE_WORD:
        snprintf(text, 96, "the word '%.60s'", names ? names_text(names, value.as.word) : "");
        return text;
    }
    return "";
}

static bool is_number(struct value v)
{
    return v.kind == VALUE_INT || v.kind == VALUE_REAL;
}

static double as_real(struct value v)
{
    return v.kind == VALUE_REAL ? v.as.real : (double)v.as.i;
}

static enum plm_status fail_operand(const struct expr *e,
                                    const struct expr_env *env,
                                    const char *wanted,
                                    struct value got,
                                    struct plm_error *reterr)
{
    char text[96];

    return plm_fail_at(reterr, PLM_E_MODEL, e->at, "'%s' takes %s, not %s", symbols[e->op], wanted,
                       value_describe(env->names, got, text));
}

static enum plm_status fail_range(
    const struct expr *e, int64_t a, int64_t b, const char *why, struct plm_error *reterr)
{
    if (e->op == EXPR_CEIL || e->op == EXPR_MIN || e->op == EXPR_MAX)
        return plm_fail_at(reterr, PLM_E_RANGE, e->at, "%s(%lld, %lld) %s", symbols[e->op],
                           (long long)a, (long long)b, why);
    return plm_fail_at(reterr, PLM_E_RANGE, e->at, "%lld %s %lld %s", (long long)a, symbols[e->op],
                       (long long)b, why);
}

static enum plm_status eval_int(
    const struct expr *e, int64_t a, int64_t b, int64_t *ret, struct plm_error *reterr)
{
    bool fits = true;
    enum expr_op op = e->op;

    if (op == EXPR_DIV || op == EXPR_FLOOR_DIV || op == EXPR_MOD || op == EXPR_CEIL) {
        if (b == 0)
            return fail_range(e, a, b, "divides by zero", reterr);
        if (a == INT64_MIN && b == -1)
            return fail_range(e, a, b, "does not fit 64 bits", reterr);
        int64_t quotient = a / b, rest = a % b;
        bool below = rest != 0 && (rest < 0) != (b < 0); /* C rounds to zero, Python down */

        if (op == EXPR_DIV && rest != 0)
            return fail_range(e, a, b, "does not divide exactly", reterr);
        *ret = op == EXPR_DIV         ? quotient
               : op == EXPR_FLOOR_DIV ? quotient - below
               : op == EXPR_CEIL      ? quotient + (rest != 0 && !below)
                                      : rest + (below ? b : 0);
        return PLM_OK;
    }
    if (op == EXPR_ADD)
        fits = num_add(a, b, ret);
    else if (op == EXPR_SUB)
        fits = num_sub(a, b, ret);
    else if (op == EXPR_MUL)
        fits = num_mul(a, b, ret);
    else
        *ret = (op == EXPR_MIN) == (a < b) ? a : b;
    return fits ? PLM_OK : fail_range(e, a, b, "does not fit 64 bits", reterr);
}

static enum plm_status eval_real(
    const struct expr *e, double a, double b, double *ret, struct plm_error *reterr)
{
    enum expr_op op = e->op;

    if (op == EXPR_FLOOR_DIV || op == EXPR_MOD || op == EXPR_CEIL)
        return plm_fail_at(reterr, PLM_E_MODEL, e->at, "'%s' takes integers", symbols[op]);
    *ret = op == EXPR_ADD   ? a + b
           : op == EXPR_SUB ? a - b
           : op == EXPR_MUL ? a * b
           : op == EXPR_DIV ? a / b
           : op == EXPR_MIN ? fmin(a, b)
                            : fmax(a, b);
    if (!isfinite(*ret))
        return plm_fail_at(reterr, PLM_E_RANGE, e->at, "%g %s %g is not a finite number", a,
                           symbols[op], b);
    return PLM_OK;
}

static enum plm_status eval_arithmetic(const struct expr *e,
                                       const struct expr_env *env,
                                       struct value a,
                                       struct value b,
                                       struct value *ret,
                                       struct plm_error *reterr)
{
    if (!is_number(a) || !is_number(b))
        return fail_operand(e, env, "numbers", is_number(a) ? b : a, reterr);
    if (a.kind == VALUE_INT && b.kind == VALUE_INT) {
        ret->kind = VALUE_INT;
        return eval_int(e, a.as.i, b.as.i, &ret->as.i, reterr);
    }
    ret->kind = VALUE_REAL;
    return eval_real(e, as_real(a), as_real(b), &ret->as.real, reterr);
}

static enum plm_status eval_comparison(const struct expr *e,
                                       const struct expr_env *env,
                                       struct value a,
                                       struct value b,
                                       struct value *ret,
                                       struct plm_error *reterr)
{
    bool equality = e->op == EXPR_EQ || e->op == EXPR_NE;
    bool numbers = is_number(a) && is_number(b);
    int order; /* of a against b */

    if (!numbers && !(equality && a.kind == b.kind))
        return fail_operand(e, env, equality ? "two values of one kind" : "numbers",
                            is_number(a) ? b : a, reterr);
    if (!numbers)
        order = a.kind == VALUE_WORD ? a.as.word != b.as.word : a.as.i != b.as.i;
    else if (a.kind == VALUE_INT && b.kind == VALUE_INT)
        order = (a.as.i > b.as.i) - (a.as.i < b.as.i);
    else
        order = (as_real(a) > as_real(b)) - (as_real(a) < as_real(b));
    bool holds = e->op == EXPR_EQ   ? order == 0
                 : e->op == EXPR_NE ? order != 0
                 : e->op == EXPR_LT ? order < 0
                 : e->op == EXPR_LE ? order <= 0
                 : e->op == EXPR_GT ? order > 0
                                    : order >= 0;

    *ret = (struct value){ .kind = VALUE_BOOL, .as.i = holds };
    return PLM_OK;
}

static enum plm_status eval_negate(const struct expr *e,
                                   const struct expr_env *env,
                                   struct value a,
                                   struct value *ret,
                                   struct plm_error *reterr)
{
    if (!is_number(a))
        return fail_operand(e, env, "a number", a, reterr);
    *ret = a;
    if (a.kind == VALUE_REAL)
        ret->as.real = -a.as.real;
    else if (!num_sub(0, a.as.i, &ret->as.i))
        return plm_fail_at(reterr, PLM_E_RANGE, e->at, "-%lld does not fit 64 bits",
                           (long long)a.as.i);
    return PLM_OK;
}

/* eval_condition() - not, and, or, if: the first operand is true or false, the others may never be looked at */
static enum plm_status eval_condition(const struct expr *e,
                                      const struct expr_env *env,
                                      struct value a,
                                      struct value *ret,
                                      struct plm_error *reterr)
{
    if (a.kind != VALUE_BOOL)
        return fail_operand(e, env, "true or false", a, reterr);
    if (e->op == EXPR_NOT) {
        *ret = (struct value){ .kind = VALUE_BOOL, .as.i = !a.as.i };
        return PLM_OK;
    }
    if (e->op == EXPR_IF)
        return expr_eval(a.as.i ? e->b : e->c, env, ret, reterr);
    if ((e->op == EXPR_AND) != (a.as.i != 0)) {
        *ret = a;
        return PLM_OK;
    }
    struct value b;
    enum plm_status status = expr_eval(e->b, env, &b, reterr);

    if (!status && b.kind != VALUE_BOOL)
        status = fail_operand(e, env, "true or false", b, reterr);
    if (!status)
        *ret = b;
    return status;
}

static enum plm_status eval_variable(const struct expr *e,
                                     struct value value,
                                     struct value *ret,
                                     struct plm_error *reterr)
{
    if (value.kind == VALUE_NONE)
        return plm_fail_at(reterr, PLM_E_MODEL, e->at, "this name has no value here");
    *ret = value;
    return PLM_OK;
}

enum plm_status expr_eval(const struct expr *expr,
                          const struct expr_env *env,
                          struct value *ret_value,
                          struct plm_error *reterr)
{
    const struct expr *e = expr;
    struct value a = { 0 }, b = { 0 };
    enum plm_status status = PLM_OK;

    if (e->a)
        status = expr_eval(e->a, env, &a, reterr);
    if (status)
        return status;
    switch (e->op) {
    case EXPR_CONSTANT:
        *ret_value = e->value;
        return PLM_OK;
    case EXPR_GLOBAL:
        return eval_variable(e, env->globals[e->variable], ret_value, reterr);
    case EXPR_LOCAL:
        return eval_variable(e, env->locals[e->variable], ret_value, reterr);
    case EXPR_NEGATE:
        return eval_negate(e, env, a, ret_value, reterr);
    case EXPR_NOT:
    case EXPR_AND:
    case EXPR_OR:
    case EXPR_IF:
        return eval_condition(e, env, a, ret_value, reterr);
    case EXPR_ADD:
    case EXPR_SUB:
    case EXPR_MUL:
    case EXPR_DIV:
    case EXPR_FLOOR_DIV:
    case EXPR_MOD:
    case EXPR_MIN:
    case EXPR_MAX:
    case EXPR_CEIL:
        status = expr_eval(e->b, env, &b, reterr);
        return status ? status : eval_arithmetic(e, env, a, b, ret_value, reterr);
    case EXPR_EQ:
    case EXPR_NE:
    case EXPR_LT:
    case EXPR_LE:
    case EXPR_GT:
    case EXPR_GE:
        status = expr_eval(e->b, env, &b, reterr);
        return status ? status : eval_comparison(e, env, a, b, ret_value, reterr);
    }
    return PLM_E_MODEL;
}

void expr_mark_globals(const struct expr *expr, bool *marks)
{
    for (; expr; expr = expr->a) { /* the long side of a chain is the left one */
        if (expr->op == EXPR_GLOBAL)
            marks[expr->variable] = true;
        expr_mark_globals(expr->b, marks);
        expr_mark_globals(expr->c, marks);
    }
}
