/* model/graph_eval.c - expressions of a node in a call: numbers, conditions, attributes */
#include "model/graph_build.h"

enum plm_status graph_eval(struct builder *b,
                           const struct frame *f,
                           const struct expr *expr,
                           struct value *ret)
{
    struct expr_env env = { b->names, b->globals, f ? f->locals : NULL };

    if (expr->op == EXPR_CONSTANT) {
        *ret = expr->value;
        return PLM_OK;
    }
    return expr_eval(expr, &env, ret, b->reterr);
}

enum plm_status graph_eval_int(struct builder *b,
                               const struct frame *f,
                               const struct expr *expr,
                               const char *what,
                               int64_t least,
                               int64_t most,
                               int64_t *ret)
{
    struct value value;
    char text[96];
    enum plm_status status = graph_eval(b, f, expr, &value);

    if (status)
        return status;
    if (value.kind != VALUE_INT)
        return plm_fail_at(b->reterr, PLM_E_MODEL, expr->at, "'%s' must be an integer, not %s",
                           what, value_describe(b->names, value, text));
    if (value.as.i < least || value.as.i > most)
        return plm_fail_at(b->reterr, PLM_E_RANGE, expr->at, "'%s' must be %s %lld, but is %lld",
                           what, value.as.i < least ? "at least" : "at most",
                           (long long)(value.as.i < least ? least : most), (long long)value.as.i);
    *ret = value.as.i;
    return PLM_OK;
}

enum plm_status graph_eval_bool(
    struct builder *b, const struct frame *f, const struct expr *expr, const char *what, bool *ret)
{
    struct value value = { 0 };
    char text[96];
    enum plm_status status = expr ? graph_eval(b, f, expr, &value) : PLM_OK;

    if (!status && expr && value.kind != VALUE_BOOL)
        status = plm_fail_at(b->reterr, PLM_E_MODEL, expr->at, "'%s' must be true or false, not %s",
                             what, value_describe(b->names, value, text));
    if (!status)
        *ret = expr && value.as.i;
    return status;
}

/* graph_eval_when() - in which of @place's modes the node runs */
enum plm_status graph_eval_when(struct builder *b,
                                const struct frame *f,
                                const struct model_node *node,
                                const struct place *place,
                                unsigned *ret_modes)
{
    unsigned modes = 0;

    if (!node->when) {
        *ret_modes = place->modes;
        return PLM_OK;
    }
    for (unsigned mode = STEP_WHEN_NO_GRAD; mode <= STEP_WHEN_GRAD; mode <<= 1) {
        bool runs;

        if (!(place->modes & mode))
            continue;
        b->globals[MODEL_GRAD_ENABLED] =
            (struct value){ .kind = VALUE_BOOL, .as.i = mode == STEP_WHEN_GRAD };
        enum plm_status status = graph_eval_bool(b, f, node->when, "when", &runs);

        if (status)
            return status;
        modes |= runs ? mode : 0;
    }
    *ret_modes = modes;
    return PLM_OK;
}

static enum plm_status convert_attrs(struct builder *b,
                                     const struct frame *f,
                                     const struct model_node *node,
                                     struct attr *attrs)
{
    for (uint32_t i = 0; i < node->attr_count; i++) {
        const struct model_attr *attr = &node->attrs[i];
        struct value few[8], *values = few;
        enum plm_status status = PLM_OK;

        attrs[i] = attr->value;
        if (attr->item_count == 0)
            continue;
        if (attr->item_count > 8)
            values = arena_array(b->scratch, struct value, attr->item_count);
        for (uint32_t item = 0; item < attr->item_count && !status; item++)
            status = graph_eval(b, f, attr->items[item], &values[item]);
        if (!status)
            status = attr_convert(attr->def, b->names, values, attr->item_count, attr->at, b->arena,
                                  &attrs[i], b->reterr);
        if (status)
            return status;
    }
    return PLM_OK;
}

enum plm_status graph_eval_attrs(struct builder *b,
                                 const struct frame *f,
                                 const struct model_node *node,
                                 const struct attr **ret)
{
    if (node->attr_uses == 0) {
        *ret = node->fixed;
        return PLM_OK;
    }
    if (b->cached[node->number]) {
        *ret = b->cached[node->number];
        return PLM_OK;
    }
    struct attr *attrs = arena_array(b->arena, struct attr, node->attr_count);
    enum plm_status status = convert_attrs(b, f, node, attrs);

    if (!status && !(node->attr_uses & EXPR_USES_LOCAL))
        b->cached[node->number] = attrs;
    *ret = attrs;
    return status;
}
