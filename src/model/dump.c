/*
 * model/dump.c - documents, models and graphs as text: one line for each thing
 *
 * Stable and made for grep: a line of a graph holds the step's kind, its node number, path, inputs, outputs
 * and attributes.
 */
#include <string.h>

#include "base/buf.h"
#include "model/model.h"

static void indent(struct buf *buf, unsigned depth)
{
    for (unsigned i = 0; i < depth; i++)
        buf_text(buf, "  ");
}

static void dump_yaml(const struct yaml_node *node, unsigned depth, struct buf *buf)
{
    if (node->kind == YAML_SCALAR) {
        buf_printf(buf, node->quoted ? " \"%s\"\n" : " %s\n", node->text);
        return;
    }
    buf_printf(buf, " %s of %zu\n", node->kind == YAML_SEQUENCE ? "list" : "mapping",
               node->item_count);
    for (size_t i = 0; i < node->item_count; i++) {
        const struct source at = node->keys ? node->keys[i]->at : node->items[i]->at;

        indent(buf, depth);
        buf_printf(buf, "%u:%u %s", at.line, at.column, node->keys ? node->keys[i]->text : "-");
        dump_yaml(node->items[i], depth + 1, buf);
    }
}

void document_dump(const struct yaml_node *root, struct buf *buf)
{
    buf_printf(buf, "%u:%u", root->at.line, root->at.column);
    dump_yaml(root, 1, buf);
}

static void dump_value(const struct names *names, struct value value, struct buf *buf)
{
    switch (value.kind) {
    case VALUE_NONE:
        buf_text(buf, "?");
        break;
    case VALUE_INT:
        buf_printf(buf, "%lld", (long long)value.as.i);
        break;
    case VALUE_REAL:
        buf_printf(buf, "%.9g", value.as.real);
        break;
    case VALUE_BOOL:
        buf_text(buf, value.as.i ? "true" : "false");
        break;
    case VALUE_WORD:
        buf_text(buf, names_text(names, value.as.word));
        break;
    }
}

/* struct dump - what an expression's names mean where it stands */
struct dump {
    const struct model *model;
    const struct model_block *block; /* NULL outside of blocks */
    struct buf *buf;
};

static void dump_expr(const struct dump *d, const struct expr *e);

static void dump_infix(const struct dump *d, const struct expr *e, const char *symbol)
{
    buf_char(d->buf, '(');
    dump_expr(d, e->a);
    buf_printf(d->buf, " %s ", symbol);
    dump_expr(d, e->b);
    buf_char(d->buf, ')');
}

static void dump_function(const struct dump *d, const struct expr *e, const char *name)
{
    buf_printf(d->buf, "%s(", name);
    dump_expr(d, e->a);
    buf_text(d->buf, ", ");
    dump_expr(d, e->b);
    buf_char(d->buf, ')');
}

static void dump_local(const struct dump *d, const struct expr *e)
{
    bool param = d->block && e->variable < d->block->param_count;

    buf_text(d->buf,
             param ? names_text(&d->model->names, d->block->params[e->variable].name) : "index");
}

static void dump_expr(const struct dump *d, const struct expr *e)
{
    static const char *const infix[] = {
        [EXPR_ADD] = "+",   [EXPR_SUB] = "-",        [EXPR_MUL] = "*", [EXPR_DIV] = "/",
        [EXPR_MOD] = "%",   [EXPR_FLOOR_DIV] = "//", [EXPR_EQ] = "==", [EXPR_NE] = "!=",
        [EXPR_LT] = "<",    [EXPR_LE] = "<=",        [EXPR_GT] = ">",  [EXPR_GE] = ">=",
        [EXPR_AND] = "and", [EXPR_OR] = "or",
    };

    switch (e->op) {
    case EXPR_CONSTANT:
        dump_value(&d->model->names, e->value, d->buf);
        break;
    case EXPR_GLOBAL:
        buf_text(d->buf, names_text(&d->model->names, d->model->global_names[e->variable]));
        break;
    case EXPR_LOCAL:
        dump_local(d, e);
        break;
    case EXPR_NEGATE:
    case EXPR_NOT:
        buf_text(d->buf, e->op == EXPR_NOT ? "not " : "-");
        dump_expr(d, e->a);
        break;
    case EXPR_MIN:
    case EXPR_MAX:
        dump_function(d, e, e->op == EXPR_MIN ? "min" : "max");
        break;
    case EXPR_CEIL:
        dump_function(d, e, "ceil");
        break;
    case EXPR_ADD:
    case EXPR_SUB:
    case EXPR_MUL:
    case EXPR_DIV:
    case EXPR_FLOOR_DIV:
    case EXPR_MOD:
    case EXPR_EQ:
    case EXPR_NE:
    case EXPR_LT:
    case EXPR_LE:
    case EXPR_GT:
    case EXPR_GE:
    case EXPR_AND:
    case EXPR_OR:
        dump_infix(d, e, infix[e->op]);
        break;
    case EXPR_IF:
        buf_char(d->buf, '(');
        dump_expr(d, e->b);
        buf_text(d->buf, " if ");
        dump_expr(d, e->a);
        buf_text(d->buf, " else ");
        dump_expr(d, e->c);
        buf_char(d->buf, ')');
        break;
    }
}

static void dump_slots(const struct names *names,
                       const name_id *slot_names,
                       const char *title,
                       const uint32_t *slots,
                       size_t count,
                       struct buf *buf)
{
    if (count == 0)
        return;
    buf_printf(buf, " %s=", title);
    for (size_t i = 0; i < count; i++)
        buf_printf(buf, "%s%s", i ? "," : "",
                   slots[i] == GRAPH_NO_SLOT ? "none" : names_text(names, slot_names[slots[i]]));
}

/* dump_word() - the word that stands at this place among an attribute's choices: "none|tanh" */
static void dump_word(enum op_kind op, const struct attr *attr, struct buf *buf)
{
    size_t count;
    const struct attr_def *def = opdef_attrs(op, &count);

    while (def->key != attr->key)
        def++;
    const char *word = def->choices;

    for (int64_t i = 0; i < attr->value.i; i++)
        word = strchr(word, '|') + 1;
    buf_add(buf, word, strcspn(word, "|"));
}

static void dump_attr(const struct names *names,
                      enum op_kind op,
                      const struct attr *attr,
                      struct buf *buf)
{
    buf_printf(buf, " %s:", key_names[attr->key]);
    switch ((enum attr_type)attr->type) {
    case ATTR_WORD:
        dump_word(op, attr, buf);
        break;
    case ATTR_INT:
        buf_printf(buf, "%lld", (long long)attr->value.i);
        break;
    case ATTR_REAL:
        buf_printf(buf, "%.9g", attr->value.real);
        break;
    case ATTR_BOOL:
        buf_text(buf, attr->value.i ? "true" : "false");
        break;
    case ATTR_INTS:
        for (uint32_t i = 0; i < attr->count; i++)
            buf_printf(buf, "%s%lld", i ? "," : "[", (long long)attr->value.items[i]);
        buf_text(buf, attr->count ? "]" : "[]");
        break;
    case ATTR_DTYPE:
        buf_text(buf, dtype_defs[attr->value.i].name);
        break;
    case ATTR_NAME:
        buf_text(buf, names_text(names, (name_id)attr->value.i));
        break;
    }
}

/* dump_what() - "op linear", "call layer", "scope no_grad" */
static void dump_what(const struct names *names,
                      enum step_kind kind,
                      enum op_kind op,
                      enum step_scope scope,
                      name_id block,
                      struct buf *buf)
{
    switch (kind) {
    case STEP_OP:
        buf_printf(buf, "op %s", op_defs[op].name);
        break;
    case STEP_CALL:
    case STEP_INLINE:
        buf_printf(buf, "%s %s", kind == STEP_CALL ? "call" : "inline", names_text(names, block));
        break;
    case STEP_SCOPE:
        buf_printf(buf, "scope %s", scope_names[scope]);
        break;
    case STEP_DROP:
        buf_text(buf, "del");
        break;
    }
}

static void dump_labelled(const struct dump *d, const char *label, const struct expr *e)
{
    if (!e)
        return;
    buf_printf(d->buf, " %s=", label);
    dump_expr(d, e);
}

static void dump_model_attr(const struct dump *d, const struct model_attr *attr)
{
    bool list = attr->def->type == ATTR_INTS;

    if (attr->item_count == 0) {
        dump_attr(&d->model->names, attr->def->op, &attr->value, d->buf);
        return;
    }
    buf_printf(d->buf, " %s:%s", key_names[attr->def->key], list ? "[" : "");
    for (uint32_t i = 0; i < attr->item_count; i++) {
        buf_text(d->buf, i ? "," : "");
        dump_expr(d, attr->items[i]);
    }
    buf_text(d->buf, list ? "]" : "");
}

static void dump_node(const struct dump *d, const struct model_node *node, unsigned depth);

static void dump_nodes(const struct dump *d, const struct model_block *block, unsigned depth)
{
    for (size_t i = 0; i < block->node_count; i++)
        dump_node(d, &block->nodes[i], depth);
}

static void dump_node(const struct dump *d, const struct model_node *node, unsigned depth)
{
    const struct names *names = &d->model->names;
    const name_id *slots = d->block->slot_names;

    indent(d->buf, depth);
    buf_printf(d->buf, "%u:%u ", node->at.line, node->at.column);
    dump_what(names, node->kind, node->op, node->scope, node->block ? node->block->name : 0,
              d->buf);
    if (node->name)
        buf_printf(d->buf, " name=%s", names_text(names, node->name));
    dump_slots(names, slots, "in", node->in, node->in_count, d->buf);
    dump_slots(names, slots, "as", node->out, node->out_count, d->buf);
    dump_slots(names, slots, "del", node->drop, node->drop_count, d->buf);
    for (uint32_t i = 0; i < node->attr_count; i++)
        dump_model_attr(d, &node->attrs[i]);
    bool called = node->kind == STEP_CALL || node->kind == STEP_INLINE;

    for (size_t i = 0; called && i < node->block->param_count; i++)
        dump_labelled(d, names_text(names, node->block->params[i].name), node->with[i]);
    dump_labelled(d, "repeat", node->repeat);
    dump_labelled(d, "start", node->start);
    dump_labelled(d, "checkpoint", node->checkpoint);
    dump_labelled(d, "wrap", node->wrap);
    dump_labelled(d, "when", node->when);
    if (node->tie)
        buf_printf(d->buf, " tie=%s", names_text(names, node->tie));
    buf_text(d->buf, node->share ? " share\n" : "\n");
    if (node->kind == STEP_SCOPE)
        dump_nodes(d, node->block, depth + 1);
}

static void dump_block(const struct model *model, const struct model_block *block, struct buf *buf)
{
    struct dump d = { model, block, buf };

    buf_printf(buf, "block %s", names_text(&model->names, block->name));
    for (uint32_t i = 0; i < block->in_count; i++)
        buf_printf(buf, "%s%s%s", i ? "," : " in=", names_text(&model->names, block->slot_names[i]),
                   i < block->required_count ? "" : "?");
    dump_slots(&model->names, block->slot_names, "out", block->out, block->out_count, buf);
    for (size_t i = 0; i < block->param_count; i++) {
        buf_printf(buf, " %s", names_text(&model->names, block->params[i].name));
        dump_labelled(&d, "default", block->params[i].fallback);
    }
    buf_char(buf, '\n');
    dump_nodes(&d, block, 1);
}

static void dump_option(const struct model *model,
                        const struct model_option *option,
                        struct buf *buf)
{
    buf_printf(buf, "option %s = ", names_text(&model->names, option->name));
    dump_value(&model->names, option->value, buf);
    for (size_t i = 0; i < option->word_count; i++) {
        buf_text(buf, i ? "|" : " of ");
        dump_value(&model->names, option->words[i], buf);
    }
    buf_char(buf, '\n');
}

void model_dump(const struct model *model, struct buf *buf)
{
    struct dump d = { .model = model, .buf = buf };

    buf_printf(buf, "model %s\n", model->name);
    for (size_t i = 0; i < model->dim_count; i++) {
        buf_printf(buf, "dim %s = ", names_text(&model->names, model->dims[i].name));
        dump_expr(&d, model->dims[i].value);
        buf_char(buf, '\n');
    }
    for (size_t i = 0; i < model->option_count; i++)
        dump_option(model, &model->options[i], buf);
    for (size_t i = 0; i < model->input_count; i++) {
        const struct model_input *input = &model->inputs[i];

        buf_printf(buf, "input %s %s [", names_text(&model->names, input->name),
                   dtype_defs[input->dtype].name);
        for (uint32_t dim = 0; dim < input->dim_count; dim++) {
            buf_text(buf, dim ? ", " : "");
            dump_expr(&d, input->sizes[dim]);
        }
        buf_text(buf, "]\n");
    }
    for (size_t i = 0; i < model->order_count; i++)
        buf_printf(buf, "parameter %s\n", names_text(&model->names, model->order[i]));
    for (size_t i = 0; i < model->block_count; i++)
        dump_block(model, &model->blocks[i], buf);
}

static void dump_step(const struct graph *graph,
                      const struct graph_step *step,
                      const name_id *slots,
                      unsigned depth,
                      struct buf *buf);

static void dump_steps(const struct graph *graph,
                       const struct graph_body *body,
                       unsigned depth,
                       struct buf *buf)
{
    for (size_t i = 0; i < body->step_count; i++)
        dump_step(graph, &body->steps[i], body->slot_names, depth, buf);
}

static void dump_step(const struct graph *graph,
                      const struct graph_step *step,
                      const name_id *slots,
                      unsigned depth,
                      struct buf *buf)
{
    indent(buf, depth);
    dump_what(graph->names, step->kind, step->op, step->scope, step->body ? step->body->name : 0,
              buf);
    if (step->kind == STEP_OP)
        buf_printf(buf, " #%u", step->node);
    if (step->path)
        buf_printf(buf, " %s", names_text(graph->names, step->path));
    dump_slots(graph->names, slots, "in", step->in, step->in_count, buf);
    dump_slots(graph->names, slots, "as", step->out, step->out_count, buf);
    dump_slots(graph->names, slots, "del", step->drop, step->drop_count, buf);
    for (uint32_t i = 0; i < step->attr_count; i++)
        dump_attr(graph->names, step->op, &step->attrs[i], buf);
    if (step->when == STEP_WHEN_GRAD || step->when == STEP_WHEN_NO_GRAD)
        buf_text(buf, step->when == STEP_WHEN_GRAD ? " when=grad" : " when=no_grad");
    if (step->tie)
        buf_printf(buf, " tie=%s", names_text(graph->names, step->tie));
    if (step->repeat)
        buf_printf(buf, " repeat=%u:%u/%u", step->repeat, step->repeat_index, step->repeat_count);
    if (step->place)
        buf_printf(buf, " place=%u", step->place);
    buf_printf(buf, "%s%s\n", step->wrap ? " wrap" : "", step->shared ? " share" : "");
    if (!step->body)
        return;
    dump_steps(graph, step->body, depth + 1, buf);
    if (step->kind == STEP_SCOPE)
        return;
    indent(buf, depth + 1);
    buf_text(buf, "return");
    dump_slots(graph->names, step->body->slot_names, "out", step->body->out, step->body->out_count,
               buf);
    buf_char(buf, '\n');
}

void graph_dump(const struct graph *graph, struct buf *buf)
{
    buf_printf(buf, "graph %s batch=%lld seq=%lld nodes=%u places=%u\n", graph->model_name,
               (long long)graph->batch, (long long)graph->seq, graph->node_count,
               graph->place_count);
    for (size_t i = 0; i < graph->input_count; i++) {
        const struct graph_input *input = &graph->inputs[i];

        buf_printf(buf, "input %s %s [", names_text(graph->names, input->name),
                   dtype_defs[input->dtype].name);
        for (uint32_t dim = 0; dim < input->dim_count; dim++)
            buf_printf(buf, "%s%lld", dim ? "," : "", (long long)input->sizes[dim]);
        buf_text(buf, "]\n");
    }
    dump_steps(graph, graph->main, 0, buf);
    buf_text(buf, "return");
    dump_slots(graph->names, graph->main->slot_names, "out", graph->main->out,
               graph->main->out_count, buf);
    buf_char(buf, '\n');
}
