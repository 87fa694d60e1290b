/*
 * yaml/document.c - from libyaml's events to a bounded tree
 *
 * Events rather than libyaml's own tree, because every bound can then be checked before memory is spent.
 * For each node: node_count == 1 + sum of its children's node_counts, height == 1 + the largest of their
 * heights. An alias adds its target's node_count, so a "billion laughs" file ends at YAML_NODES_MAX.
 */
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "base/names.h"
#include "yaml/document.h"

/* struct open - a sequence or mapping whose end has not been read */
struct open {
    struct yaml_node *node;
    const struct yaml_node **items; /* keys and values in turn, for a mapping */
    size_t item_count, item_capacity;
    name_id anchor; /* 0: none */
};

struct anchor {
    const struct yaml_node *node;
    bool closed; /* its end was read: an alias before that is a cycle */
};

struct reader {
    yaml_parser_t parser;
    const char *file, *text;
    size_t length;
    struct arena *arena;
    struct arena scratch;
    struct names names;                 /* anchors and keys */
    struct anchor *anchors;             /* [by_name_count], by name id */
    size_t *key_stamps;                 /* [by_name_count]: the mapping that had this key last */
    const struct yaml_node **key_nodes; /* [by_name_count]: and where */
    size_t by_name_count, mapping_count;
    struct open stack[YAML_DEPTH_MAX];
    unsigned depth;
    size_t node_count;
    const struct yaml_node *root;
    struct plm_error *reterr;
};

static struct source source_of(const struct reader *r, yaml_mark_t mark)
{
    return (struct source){ r->file, (unsigned)mark.line + 1, (unsigned)mark.column + 1 };
}

/* source_of_offset() - libyaml's reader gives bytes, not lines, for text that is not UTF-8 */
static struct source source_of_offset(const struct reader *r, size_t offset)
{
    struct source at = { r->file, 1, 1 };

    for (size_t i = 0; i < offset && i < r->length; i++) {
        unsigned char c = (unsigned char)r->text[i];

        if (c == '\n') {
            at.line++;
            at.column = 1;
        } else if ((c & 0xc0) != 0x80) {
            at.column++;
        }
    }
    return at;
}

static enum plm_status fail_syntax(const struct reader *r)
{
    const yaml_parser_t *p = &r->parser;
    const char *problem = p->problem ? p->problem : "cannot be read";

    if (p->error == YAML_MEMORY_ERROR)
        return plm_fail_at(r->reterr, PLM_E_IO, (struct source){ r->file, 0, 0 }, "out of memory");
    if (p->error == YAML_READER_ERROR)
        return plm_fail_at(r->reterr, PLM_E_SYNTAX, source_of_offset(r, p->problem_offset),
                           "not YAML in UTF-8: %s", problem);
    if (p->context)
        return plm_fail_at(r->reterr, PLM_E_SYNTAX, source_of(r, p->problem_mark),
                           "not YAML: %s %s, which starts in line %zu", problem, p->context,
                           p->context_mark.line + 1);
    return plm_fail_at(r->reterr, PLM_E_SYNTAX, source_of(r, p->problem_mark), "not YAML: %s",
                       problem);
}

/* name_of() - the id of a key or anchor, with room for it in the arrays that are indexed by ids */
static name_id name_of(struct reader *r, const char *text)
{
    name_id name = names_add(&r->names, text, strlen(text));

    while (name >= r->by_name_count) {
        size_t capacity = r->by_name_count, same = capacity, again = capacity;

        r->key_stamps = arena_grow(&r->scratch, r->key_stamps, &capacity, sizeof *r->key_stamps,
                                   alignof(size_t));
        r->key_nodes =
            arena_grow(&r->scratch, r->key_nodes, &same, sizeof *r->key_nodes, alignof(void *));
        r->anchors =
            arena_grow(&r->scratch, r->anchors, &again, sizeof *r->anchors, alignof(struct anchor));
        r->by_name_count = capacity;
    }
    return name;
}

/* count() - charge @nodes against the bound on the whole tree */
static enum plm_status count(struct reader *r, size_t nodes, struct source at)
{
    r->node_count += nodes; /* both are below YAML_NODES_MAX + 1: no overflow */
    if (r->node_count > YAML_NODES_MAX)
        return plm_fail_at(r->reterr, PLM_E_RANGE, at, "more than %d values%s", YAML_NODES_MAX,
                           nodes > 1 ? " when aliases are spelled out" : "");
    return PLM_OK;
}

/* attach() - @node is complete: give it to the sequence or mapping that is open */
static enum plm_status attach(struct reader *r, const struct yaml_node *node, struct source at)
{
    if (r->depth == 0) {
        r->root = node;
        return PLM_OK;
    }
    struct open *open = &r->stack[r->depth - 1];

    if (open->node->kind == YAML_MAPPING && open->item_count % 2 == 0 && node->kind != YAML_SCALAR)
        return plm_fail_at(r->reterr, PLM_E_SYNTAX, at, "a key must be a plain word, not a %s",
                           node->kind == YAML_SEQUENCE ? "list" : "mapping");
    if (r->depth + node->height > YAML_DEPTH_MAX)
        return plm_fail_at(r->reterr, PLM_E_RANGE, at, "nested more than %d deep", YAML_DEPTH_MAX);
    arena_push(&r->scratch, open->items, open->item_count, open->item_capacity, node);
    open->node->node_count += node->node_count;
    if (open->node->height < node->height + 1)
        open->node->height = node->height + 1;
    return PLM_OK;
}

static enum plm_status check_tag(const struct reader *r, const yaml_char_t *tag, yaml_mark_t mark)
{
    if (tag && strcmp((const char *)tag, "!") != 0)
        return plm_fail_at(r->reterr, PLM_E_SYNTAX, source_of(r, mark),
                           "tags have no meaning here: '%.60s'", (const char *)tag);
    return PLM_OK;
}

/* note_anchor() - `&NAME`; a name that is used again means the newer node. Returns the name's id or 0 */
static name_id note_anchor(struct reader *r, const yaml_char_t *anchor, struct yaml_node *node)
{
    name_id name = anchor ? name_of(r, (const char *)anchor) : 0;

    if (name)
        r->anchors[name] = (struct anchor){ node, node->kind == YAML_SCALAR };
    return name;
}

static enum plm_status read_scalar(struct reader *r, const yaml_event_t *event)
{
    const char *value = (const char *)event->data.scalar.value;
    size_t length = event->data.scalar.length;
    yaml_scalar_style_t style = event->data.scalar.style;
    struct source at = source_of(r, event->start_mark);
    enum plm_status status = check_tag(r, event->data.scalar.tag, event->start_mark);

    if (!status)
        status = count(r, 1, at);
    if (status)
        return status;
    if (memchr(value, '\0', length))
        return plm_fail_at(r->reterr, PLM_E_SYNTAX, at, "text with a zero byte");
    struct yaml_node *node = arena_new(r->arena, struct yaml_node);
    size_t quotes = style == YAML_PLAIN_SCALAR_STYLE ? 0 : 2;

    *node = (struct yaml_node){
        .kind = YAML_SCALAR,
        .quoted = style != YAML_PLAIN_SCALAR_STYLE,
        .one_line = event->start_mark.line == event->end_mark.line &&
                    event->end_mark.column - event->start_mark.column == length + quotes,
        .node_count = 1,
        .at = at,
        .text = arena_copy(r->arena, value, length),
    };
    note_anchor(r, event->data.scalar.anchor, node);
    return attach(r, node, at);
}

static enum plm_status read_alias(struct reader *r, const yaml_event_t *event)
{
    const char *text = (const char *)event->data.alias.anchor;
    struct source at = source_of(r, event->start_mark);
    name_id name = name_of(r, text); /* may move r->anchors */
    const struct anchor *anchor = &r->anchors[name];

    if (!anchor->node)
        return plm_fail_at(r->reterr, PLM_E_SYNTAX, at, "alias '*%.60s' names no anchor before it",
                           text);
    if (!anchor->closed)
        return plm_fail_at(r->reterr, PLM_E_SYNTAX, at,
                           "alias '*%.60s' stands inside of what it names: a cycle", text);
    enum plm_status status = count(r, anchor->node->node_count, at);

    return status ? status : attach(r, anchor->node, at);
}

static enum plm_status read_open(struct reader *r,
                                 enum yaml_kind kind,
                                 const yaml_char_t *anchor,
                                 const yaml_char_t *tag,
                                 yaml_mark_t mark)
{
    struct source at = source_of(r, mark);
    enum plm_status status = check_tag(r, tag, mark);

    if (!status)
        status = count(r, 1, at);
    if (status)
        return status;
    if (r->depth == YAML_DEPTH_MAX)
        return plm_fail_at(r->reterr, PLM_E_RANGE, at, "nested more than %d deep", YAML_DEPTH_MAX);
    struct yaml_node *node = arena_new(r->arena, struct yaml_node);

    *node = (struct yaml_node){ .kind = kind, .height = 1, .node_count = 1, .at = at, .text = "" };
    r->stack[r->depth++] = (struct open){ .node = node, .anchor = note_anchor(r, anchor, node) };
    return PLM_OK;
}

/* check_keys() - no key twice; each mapping has a number, and each key remembers who had it last */
static enum plm_status check_keys(struct reader *r, const struct yaml_node *mapping)
{
    size_t stamp = ++r->mapping_count;

    for (size_t i = 0; i < mapping->item_count; i++) {
        const struct yaml_node *key = mapping->keys[i];
        name_id name = name_of(r, key->text);

        if (r->key_stamps[name] == stamp)
            return plm_fail_at(r->reterr, PLM_E_SYNTAX, key->at,
                               "duplicate key '%.60s'; the first is in line %u", key->text,
                               r->key_nodes[name]->at.line);
        r->key_stamps[name] = stamp;
        r->key_nodes[name] = key;
    }
    return PLM_OK;
}

static enum plm_status read_close(struct reader *r)
{
    struct open *open = &r->stack[--r->depth];
    struct yaml_node *node = open->node;
    size_t step = node->kind == YAML_MAPPING ? 2 : 1;
    const struct yaml_node **items =
        arena_array(r->arena, const struct yaml_node *, open->item_count);

    node->item_count = open->item_count / step;
    for (size_t i = 0; i < node->item_count; i++)
        items[i] = open->items[i * step + step - 1];
    node->items = items;
    if (node->kind == YAML_MAPPING) {
        const struct yaml_node **keys = items + node->item_count;

        for (size_t i = 0; i < node->item_count; i++)
            keys[i] = open->items[i * 2];
        node->keys = keys;
        enum plm_status status = check_keys(r, node);

        if (status)
            return status;
    }
    if (open->anchor && r->anchors[open->anchor].node == node)
        r->anchors[open->anchor].closed = true;
    return attach(r, node, node->at);
}

static enum plm_status read_event(struct reader *r, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (r->root)
            return plm_fail_at(r->reterr, PLM_E_SYNTAX, source_of(r, event->start_mark),
                               "a second document; a file holds one");
        return PLM_OK;
    case YAML_ALIAS_EVENT:
        return read_alias(r, event);
    case YAML_SCALAR_EVENT:
        return read_scalar(r, event);
    case YAML_SEQUENCE_START_EVENT:
        return read_open(r, YAML_SEQUENCE, event->data.sequence_start.anchor,
                         event->data.sequence_start.tag, event->start_mark);
    case YAML_MAPPING_START_EVENT:
        return read_open(r, YAML_MAPPING, event->data.mapping_start.anchor,
                         event->data.mapping_start.tag, event->start_mark);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        return read_close(r);
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_STREAM_END_EVENT:
    case YAML_DOCUMENT_END_EVENT:
        return PLM_OK;
    }
    return PLM_OK;
}

static enum plm_status read_all(struct reader *r)
{
    for (;;) {
        yaml_event_t event;

        if (!yaml_parser_parse(&r->parser, &event))
            return fail_syntax(r);
        bool last = event.type == YAML_STREAM_END_EVENT;
        enum plm_status status = read_event(r, &event);

        yaml_event_delete(&event);
        if (status || last)
            return status;
    }
}

enum plm_status yaml_parse(const char *file,
                           const char *text,
                           size_t length,
                           struct arena *arena,
                           const struct yaml_node **ret_root,
                           struct plm_error *reterr)
{
    struct source at = { file, 0, 0 };

    if (length > YAML_BYTES_MAX)
        return plm_fail_at(reterr, PLM_E_RANGE, at, "larger than %d MiB",
                           YAML_BYTES_MAX / 1024 / 1024);
    if (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        text += 3; /* a byte order mark, which libyaml takes for a column */
        length -= 3;
    }
    struct reader r = { .file = file, .text = text, .length = length, .arena = arena };

    r.reterr = reterr;
    r.names.arena = &r.scratch;
    if (!yaml_parser_initialize(&r.parser))
        return plm_fail_at(reterr, PLM_E_IO, at, "out of memory");
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, length);
    enum plm_status status = read_all(&r);

    yaml_parser_delete(&r.parser);
    arena_finish(&r.scratch);
    if (status)
        return status;
    if (!r.root || yaml_is_null(r.root))
        return plm_fail_at(reterr, PLM_E_SYNTAX, (struct source){ file, 1, 1 }, "empty");
    *ret_root = r.root;
    return PLM_OK;
}

const struct yaml_node *yaml_get(const struct yaml_node *mapping, const char *key)
{
    if (mapping->kind != YAML_MAPPING)
        return NULL;
    for (size_t i = 0; i < mapping->item_count; i++)
        if (strcmp(mapping->keys[i]->text, key) == 0)
            return mapping->items[i];
    return NULL;
}

bool yaml_is_null(const struct yaml_node *node)
{
    return node->kind == YAML_SCALAR && !node->quoted &&
           (node->text[0] == '\0' || strcmp(node->text, "null") == 0 ||
            strcmp(node->text, "~") == 0);
}

const char *yaml_describe(const struct yaml_node *node, char text[64])
{
    switch (node->kind) {
    case YAML_SCALAR:
        if (yaml_is_null(node))
            return "nothing";
        snprintf(text, 64, "'%.40s%s'", node->text, strlen(node->text) > 40 ? "…" : "");
        return text;
    case YAML_SEQUENCE:
        return "a list";
    case YAML_MAPPING:
        return "a mapping";
    }
    return "";
}
