/* model/load_name.c - what every part of a model file is made of: names and expressions */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "model/internal.h"

static const char *const reserved[] = {
    "true", "false", "and", "or", "not", "if", "else", "min", "max", "ceil", "none", "_",
};

static bool is_reserved(const char *text)
{
    for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++)
        if (strcmp(reserved[i], text) == 0)
            return true;
    return false;
}

enum plm_status load_name(struct loader *load,
                          const struct yaml_node *node,
                          const char *what,
                          enum name_kind kind,
                          name_id *ret_name)
{
    char text[64];
    size_t length = node->kind == YAML_SCALAR ? strlen(node->text) : 0;

    if (length == 0)
        return plm_fail_at(load->reterr, PLM_E_SYNTAX, node->at, "%s must be a name, not %s", what,
                           yaml_describe(node, text));
    if (length > MODEL_NAME_MAX)
        return plm_fail_at(load->reterr, PLM_E_RANGE, node->at,
                           "%s must be a name of at most %d characters", what, MODEL_NAME_MAX);
    for (size_t i = 0; i < length; i++) {
        char c = node->text[i];
        bool plain = isalnum((unsigned char)c) || c == '_';

        if (!plain &&
            (kind == NAME_VALUE || (c != '.' && c != '-' && (c != '*' || kind == NAME_PATH))))
            return plm_fail_at(load->reterr, PLM_E_SYNTAX, node->at,
                               "%s must be a name of letters, digits and '_'%s, not '%.40s'", what,
                               kind == NAME_VALUE ? "" : ", '.' and '-'", node->text);
    }
    if (kind == NAME_VALUE && (isdigit((unsigned char)node->text[0]) || is_reserved(node->text)))
        return plm_fail_at(load->reterr, PLM_E_SYNTAX, node->at, "%s cannot be called '%.40s'",
                           what, node->text);
    if (kind != NAME_VALUE &&
        (node->text[0] == '.' || node->text[length - 1] == '.' || strstr(node->text, "..")))
        return plm_fail_at(load->reterr, PLM_E_SYNTAX, node->at,
                           "'%.60s' has an empty part: dots stand between two names", node->text);
    *ret_name = names_add(&load->model->names, node->text, length);
    return PLM_OK;
}

enum plm_status load_expr(struct loader *load,
                          const struct load_scope *scope,
                          const struct yaml_node *node,
                          const char *what,
                          const struct expr **ret_expr)
{
    const struct model *model = load->model;
    char text[64];
    struct source at = node->at;
    struct expr_scope names = {
        .names = &load->model->names,
        .globals = model->global_names,
        .global_count = model->global_count,
        .locals = scope->locals,
        .local_count = scope->local_count,
        .words = scope->words ? scope->words : load->words,
        .word_count = scope->words ? scope->word_count : load->word_count,
    };

    if (node->kind != YAML_SCALAR || yaml_is_null(node))
        return plm_fail_at(load->reterr, PLM_E_SYNTAX, node->at,
                           "'%s' must be a value or an expression, not %s", what,
                           yaml_describe(node, text));
    if (node->quoted && node->one_line)
        at.column++;
    enum plm_status status =
        expr_compile(&names, node->text, at, node->one_line, load->arena, ret_expr, load->reterr);

    if (status || !((*ret_expr)->uses & EXPR_USES_GLOBAL))
        return status;
    load->marks[MODEL_GRAD_ENABLED] = false;
    expr_mark_globals(*ret_expr, load->marks);
    load->model->reads_seq = load->model->reads_seq || load->marks[MODEL_SEQ];
    if (scope->grad)
        return PLM_OK;
    if (load->marks[MODEL_GRAD_ENABLED])
        return plm_fail_at(
            load->reterr, PLM_E_MODEL, node->at,
            "'grad_enabled' changes while the model runs: it can be used in 'when' only");
    return PLM_OK;
}

enum plm_status load_prefix(struct plm_error *reterr, enum plm_status status, const char *label)
{
    char message[sizeof reterr->message];

    if (!reterr || label[0] == '\0')
        return status;
    memcpy(message, reterr->message, sizeof message);
    int length = snprintf(reterr->message, sizeof reterr->message, "%s: ", label);
    size_t start = (size_t)length < sizeof message ? (size_t)length : sizeof message - 1;

    memccpy(reterr->message + start, message, '\0', sizeof message - start);
    reterr->message[sizeof message - 1] = '\0';
    return status;
}
