/*
 * model/expression.c - reading expressions: a recursive descent, one function for each level of binding
 *
 * Bounds: an expression's text, its nesting and its number of parts, so that neither reading nor evaluating
 * can exhaust the stack.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "model/expression.h"

enum { TEXT_MAX = 4096, DEPTH_MAX = 64, PARTS_MAX = 1024, TOKEN_MAX = 64, NEAR_MAX = 256 };

struct compiler {
    const struct expr_scope *scope;
    const char *text, *next;
    struct source at;
    bool exact;
    struct arena *arena;
    unsigned depth, parts;
    unsigned unfolded; /* inside of so many ceil() */
    struct plm_error *reterr;
};

static enum plm_status read_choice(struct compiler *c, const struct expr **ret);

static struct source source_at(const struct compiler *c, const char *place)
{
    struct source at = c->at;

    if (c->exact)
        at.column += (unsigned)(place - c->text);
    return at;
}

static void skip_space(struct compiler *c)
{
    while (*c->next == ' ' || *c->next == '\t' || *c->next == '\n')
        c->next++;
}

static bool is_name_char(char ch)
{
    return isalnum((unsigned char)ch) || ch == '_';
}

/* accept() - is @token next? A word must end there, and '/' is not the first half of '//' */
static bool accept(struct compiler *c, const char *token)
{
    size_t length = strlen(token);

    skip_space(c);
    if (strncmp(c->next, token, length) != 0)
        return false;
    char after = c->next[length];

    if (is_name_char(token[0]) ? is_name_char(after)
                               : ((token[0] == '/' && length == 1 && after == '/') ||
                                  (strchr("<>=!", token[0]) && length == 1 && after == '=')))
        return false;
    c->next += length;
    return true;
}

static enum plm_status fail_here(const struct compiler *c, const char *wanted)
{
    struct source at = source_at(c, c->next);

    if (*c->next == '\0')
        return plm_fail_at(c->reterr, PLM_E_SYNTAX, at, "'%.80s' ends where %s is expected",
                           c->text, wanted);
    return plm_fail_at(c->reterr, PLM_E_SYNTAX, at, "%s is expected at '%.40s' in '%.80s'", wanted,
                       c->next, c->text);
}

static enum plm_status expect(struct compiler *c, const char *token, const char *wanted)
{
    return accept(c, token) ? PLM_OK : fail_here(c, wanted);
}

/* make() - a node over @parts; folded at once when all of them are constant */
static enum plm_status make(struct compiler *c, struct expr parts, const struct expr **ret)
{
    const struct expr *below[] = { parts.a, parts.b, parts.c };

    if (++c->parts > PARTS_MAX)
        return plm_fail_at(c->reterr, PLM_E_RANGE, parts.at, "more than %d parts in an expression",
                           PARTS_MAX);
    for (size_t i = 0; i < 3; i++)
        if (below[i])
            parts.uses |= below[i]->uses;
    struct expr *expr = arena_new(c->arena, struct expr);

    *expr = parts;
    if (parts.uses == 0 && parts.op != EXPR_CONSTANT && c->unfolded == 0) {
        struct expr_env env = { .names = c->scope->names };
        struct value value;
        enum plm_status status = expr_eval(expr, &env, &value, c->reterr);

        if (status)
            return status;
        *expr = (struct expr){ .op = EXPR_CONSTANT, .at = parts.at, .value = value };
    }
    *ret = expr;
    return PLM_OK;
}

static enum plm_status read_number(struct compiler *c, const struct expr **ret)
{
    char token[TOKEN_MAX];
    size_t length = 0;
    const char *start = c->next;
    struct expr expr = { .op = EXPR_CONSTANT, .at = source_at(c, start) };

    while (is_name_char(start[length]) || start[length] == '.' ||
           ((start[length] == '-' || start[length] == '+') && length > 0 &&
            (start[length - 1] == 'e' || start[length - 1] == 'E')))
        length++;
    snprintf(token, sizeof token, "%.*s", (int)(length < TOKEN_MAX ? length : TOKEN_MAX), start);
    if (length < TOKEN_MAX && units_parse_int(token, &expr.value.as.i))
        expr.value.kind = VALUE_INT;
    else if (length < TOKEN_MAX && strpbrk(token, ".eE") &&
             units_parse_real(token, &expr.value.as.real))
        expr.value.kind = VALUE_REAL;
    else
        return plm_fail_at(c->reterr, PLM_E_RANGE, expr.at, "'%.60s' is not a number of 64 bits",
                           token);
    c->next += length;
    return make(c, expr, ret);
}

static bool find_name(const name_id *names, size_t count, name_id name, uint32_t *ret_index)
{
    for (size_t i = 0; i < count; i++)
        if (names[i] == name) {
            *ret_index = (uint32_t)i;
            return true;
        }
    return false;
}

static enum plm_status fail_name(const struct compiler *c, const char *start, const char *token)
{
    const char *near[NEAR_MAX];
    size_t count = 0;
    const struct expr_scope *s = c->scope;
    const name_id *lists[] = { s->locals, s->globals, s->words };
    const size_t counts[] = { s->local_count, s->global_count, s->word_count };

    for (size_t list = 0; list < 3; list++)
        for (size_t i = 0; i < counts[list] && count < NEAR_MAX; i++)
            if (lists[list][i])
                near[count++] = names_text(s->names, lists[list][i]);
    const char *found = error_nearest(token, near, count);

    return plm_fail_at(c->reterr, PLM_E_MODEL, source_at(c, start), "unknown name '%.60s'%s%s%s",
                       token, found ? "; did you mean '" : "", found ? found : "",
                       found ? "'?" : "");
}

static enum plm_status read_name(struct compiler *c, const struct expr **ret)
{
    char token[TOKEN_MAX];
    size_t length = 0;
    const char *start = c->next;
    const struct expr_scope *s = c->scope;
    struct expr expr = { .op = EXPR_CONSTANT, .at = source_at(c, start) };

    while (is_name_char(start[length]))
        length++;
    snprintf(token, sizeof token, "%.*s", (int)(length < TOKEN_MAX ? length : TOKEN_MAX), start);
    name_id name = length < TOKEN_MAX ? names_find(s->names, token, length) : 0;

    c->next += length;
    if (strcmp(token, "true") == 0 || strcmp(token, "false") == 0) {
        expr.value = (struct value){ .kind = VALUE_BOOL, .as.i = token[0] == 't' };
    } else if (name && find_name(s->locals, s->local_count, name, &expr.variable)) {
        expr.op = EXPR_LOCAL;
        expr.uses = EXPR_USES_LOCAL;
    } else if (name && find_name(s->globals, s->global_count, name, &expr.variable)) {
        expr.op = EXPR_GLOBAL;
        expr.uses = EXPR_USES_GLOBAL;
    } else if (name && find_name(s->words, s->word_count, name, &expr.variable)) {
        expr.value = (struct value){ .kind = VALUE_WORD, .as.word = name };
    } else {
        return fail_name(c, start, token);
    }
    return make(c, expr, ret);
}

/* read_extreme() - after "min(" or "max(" */
static enum plm_status read_extreme(struct compiler *c,
                                    enum expr_op op,
                                    struct source at,
                                    const struct expr **ret)
{
    const struct expr *left;
    enum plm_status status = read_choice(c, &left);

    while (!status && accept(c, ",")) {
        struct expr pair = { .op = op, .at = at, .a = left };

        status = read_choice(c, &pair.b);
        if (!status)
            status = make(c, pair, &left);
    }
    if (!status)
        status = expect(c, ")", "')'");
    if (!status)
        *ret = left;
    return status;
}

/* read_ceil() - ceil(a, b), or ceil(a / b), whose division need not be exact: nothing is folded inside */
static enum plm_status read_ceil(struct compiler *c, struct source at, const struct expr **ret)
{
    struct expr pair = { .op = EXPR_CEIL, .at = at };

    c->unfolded++;
    enum plm_status status = read_choice(c, &pair.a);

    if (!status && accept(c, ","))
        status = read_choice(c, &pair.b);
    if (!status)
        status = expect(c, ")", "')'");
    c->unfolded--;
    if (status)
        return status;
    if (!pair.b && pair.a->op != EXPR_DIV)
        return plm_fail_at(c->reterr, PLM_E_SYNTAX, at, "ceil takes a division: ceil(a / b)");
    if (!pair.b) {
        pair.b = pair.a->b;
        pair.a = pair.a->a;
    }
    return make(c, pair, ret);
}

static enum plm_status read_primary(struct compiler *c, const struct expr **ret)
{
    skip_space(c);
    struct source at = source_at(c, c->next);

    if (isdigit((unsigned char)*c->next) || *c->next == '.')
        return read_number(c, ret);
    if (accept(c, "(")) {
        enum plm_status status = read_choice(c, ret);

        return status ? status : expect(c, ")", "')'");
    }
    const char *start = c->next;

    if (accept(c, "min") && accept(c, "("))
        return read_extreme(c, EXPR_MIN, at, ret);
    c->next = start;
    if (accept(c, "max") && accept(c, "("))
        return read_extreme(c, EXPR_MAX, at, ret);
    c->next = start;
    if (accept(c, "ceil") && accept(c, "("))
        return read_ceil(c, at, ret);
    c->next = start;
    if (isalpha((unsigned char)*c->next) || *c->next == '_')
        return read_name(c, ret);
    return fail_here(c, "a number or a name");
}

static enum plm_status read_unary(struct compiler *c, const struct expr **ret)
{
    skip_space(c);
    struct expr expr = { .op = EXPR_NEGATE, .at = source_at(c, c->next) };

    if (++c->depth > DEPTH_MAX)
        return plm_fail_at(c->reterr, PLM_E_RANGE, expr.at,
                           "an expression nested more than %d deep", DEPTH_MAX);
    enum plm_status status;

    if (accept(c, "-")) {
        status = read_unary(c, &expr.a);
        if (!status)
            status = make(c, expr, ret);
    } else {
        status = read_primary(c, ret);
    }
    c->depth--;
    return status;
}

struct infix {
    const char *token;
    enum expr_op op;
};

/* read_infix() - operands of @below joined by any of @table, from the left */
static enum plm_status read_infix(struct compiler *c,
                                  const struct infix *table,
                                  size_t table_count,
                                  enum plm_status (*below)(struct compiler *, const struct expr **),
                                  const struct expr **ret)
{
    const struct expr *left;
    enum plm_status status = below(c, &left);

    while (!status) {
        size_t i = 0;

        skip_space(c);
        struct expr pair = { .at = source_at(c, c->next), .a = left };

        while (i < table_count && !accept(c, table[i].token))
            i++;
        if (i == table_count)
            break;
        pair.op = table[i].op;
        status = below(c, &pair.b);
        if (!status)
            status = make(c, pair, &left);
    }
    if (!status)
        *ret = left;
    return status;
}

static enum plm_status read_product(struct compiler *c, const struct expr **ret)
{
    static const struct infix table[] = {
        { "*", EXPR_MUL }, { "//", EXPR_FLOOR_DIV }, { "/", EXPR_DIV }, { "%", EXPR_MOD }
    };

    return read_infix(c, table, sizeof table / sizeof table[0], read_unary, ret);
}

static enum plm_status read_sum(struct compiler *c, const struct expr **ret)
{
    static const struct infix table[] = { { "+", EXPR_ADD }, { "-", EXPR_SUB } };

    return read_infix(c, table, sizeof table / sizeof table[0], read_product, ret);
}

static enum plm_status read_comparison(struct compiler *c, const struct expr **ret)
{
    static const struct infix table[] = {
        { "==", EXPR_EQ }, { "!=", EXPR_NE }, { "<=", EXPR_LE },
        { ">=", EXPR_GE }, { "<", EXPR_LT },  { ">", EXPR_GT },
    };

    return read_infix(c, table, sizeof table / sizeof table[0], read_sum, ret);
}

static enum plm_status read_not(struct compiler *c, const struct expr **ret)
{
    skip_space(c);
    struct expr expr = { .op = EXPR_NOT, .at = source_at(c, c->next) };

    if (!accept(c, "not"))
        return read_comparison(c, ret);
    if (++c->depth > DEPTH_MAX)
        return plm_fail_at(c->reterr, PLM_E_RANGE, expr.at,
                           "an expression nested more than %d deep", DEPTH_MAX);
    enum plm_status status = read_not(c, &expr.a);

    c->depth--;
    return status ? status : make(c, expr, ret);
}

static enum plm_status read_and(struct compiler *c, const struct expr **ret)
{
    static const struct infix table[] = { { "and", EXPR_AND } };

    return read_infix(c, table, 1, read_not, ret);
}

static enum plm_status read_or(struct compiler *c, const struct expr **ret)
{
    static const struct infix table[] = { { "or", EXPR_OR } };

    return read_infix(c, table, 1, read_and, ret);
}

/* read_choice() - b if a else c; the whole language */
static enum plm_status read_choice(struct compiler *c, const struct expr **ret)
{
    const struct expr *first = NULL;

    if (++c->depth > DEPTH_MAX)
        return plm_fail_at(c->reterr, PLM_E_RANGE, source_at(c, c->next),
                           "an expression nested more than %d deep", DEPTH_MAX);
    enum plm_status status = read_or(c, &first);

    skip_space(c);
    struct expr expr = { .op = EXPR_IF, .at = source_at(c, c->next), .b = first };

    if (!status && accept(c, "if")) {
        status = read_or(c, &expr.a);
        if (!status)
            status = expect(c, "else", "'else'");
        if (!status)
            status = read_choice(c, &expr.c);
        if (!status)
            status = make(c, expr, &first);
    }
    c->depth--;
    if (!status)
        *ret = first;
    return status;
}

enum plm_status expr_compile(const struct expr_scope *scope,
                             const char *text,
                             struct source at,
                             bool exact,
                             struct arena *arena,
                             const struct expr **ret_expr,
                             struct plm_error *reterr)
{
    struct compiler c = {
        .scope = scope, .text = text, .next = text, .at = at, .exact = exact, .arena = arena
    };

    c.reterr = reterr;
    if (strlen(text) > TEXT_MAX)
        return plm_fail_at(reterr, PLM_E_RANGE, at, "an expression of more than %d characters",
                           TEXT_MAX);
    const struct expr *expr;
    enum plm_status status = read_choice(&c, &expr);

    skip_space(&c);
    if (!status && *c.next != '\0')
        status = fail_here(&c, "an operator");
    if (!status)
        *ret_expr = expr;
    return status;
}

const struct expr *expr_constant(struct arena *arena, struct value value, struct source at)
{
    struct expr *expr = arena_new(arena, struct expr);

    *expr = (struct expr){ .op = EXPR_CONSTANT, .at = at, .value = value };
    return expr;
}
