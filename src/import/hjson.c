/*
 * import/hjson.c - Hjson by recursive descent, as hjson 3.1.0 reads it (hjson/decoder.py)
 *
 * A scalar is `quoted` unless it is true, false, null or a number: a word without quotes is a text too, up to the end of its
 * line. Texts of several lines (''') are not read: no key of a configuration takes one.
 */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "import/hjson.h"

enum { END = -1, KEYS_MOST = 1000 /* in one mapping */ };

struct reader {
    const char *file, *text;
    size_t length, at; /* bytes; @line and @column are those of text[at] */
    unsigned line, column;
    unsigned depth;
    size_t node_count;
    struct arena *arena;
    struct plm_error *reterr;
};

static enum plm_status read_value(struct reader *r, const struct yaml_node **ret);

/* ------------------------------------------------------------------ characters */

static int peek(const struct reader *r, size_t ahead)
{
    return ahead < r->length - r->at ? (unsigned char)r->text[r->at + ahead] : END;
}

static void skip(struct reader *r, size_t count)
{
    for (; count > 0; count--) {
        unsigned char c = (unsigned char)r->text[r->at++];

        if (c == '\n') {
            r->line++;
            r->column = 1;
        } else if ((c & 0xc0) != 0x80) {
            r->column++;
        }
    }
}

static bool ends_line(int c)
{
    return c == '\n' || c == '\r' || c == END;
}

static bool is_blank(int c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* begins_comment() - "#", "//" or a comment as this one, @ahead of here */
static bool begins_comment(const struct reader *r, size_t ahead)
{
    int c = peek(r, ahead), next = peek(r, ahead + 1);

    return c == '#' || (c == '/' && (next == '/' || next == '*'));
}

static void skip_comment(struct reader *r)
{
    bool to_end_of_line = peek(r, 0) == '#' || peek(r, 1) == '/';

    if (to_end_of_line) {
        while (!ends_line(peek(r, 0)))
            skip(r, 1);
        return;
    }
    skip(r, 2);
    while (peek(r, 0) != END && !(peek(r, 0) == '*' && peek(r, 1) == '/'))
        skip(r, 1);
    skip(r, peek(r, 0) == END ? 0 : 2);
}

/* next() - the first character that is neither blank nor in a comment */
static int next(struct reader *r)
{
    for (;;)
        if (is_blank(peek(r, 0)))
            skip(r, 1);
        else if (begins_comment(r, 0))
            skip_comment(r);
        else
            return peek(r, 0);
}

static struct source here(const struct reader *r)
{
    return (struct source){ r->file, r->line, r->column };
}

static enum plm_status fail(const struct reader *r, const char *what)
{
    return plm_fail_at(r->reterr, PLM_E_SYNTAX, here(r), "not JSON: %s", what);
}

/* ------------------------------------------------------------------ scalars */

static enum plm_status add_node(struct reader *r, enum yaml_kind kind, struct yaml_node **ret)
{
    struct yaml_node *node = arena_new(r->arena, struct yaml_node);

    if (++r->node_count > YAML_NODES_MAX)
        return plm_fail_at(r->reterr, PLM_E_RANGE, here(r), "more than %d values", YAML_NODES_MAX);
    *node = (struct yaml_node){ .kind = kind, .node_count = 1, .at = here(r), .text = "" };
    *ret = node;
    return PLM_OK;
}

/* put_utf8() - the character of a \u; half of one above U+FFFF becomes U+FFFD */
static void put_utf8(struct buf *text, unsigned c)
{
    if (c >= 0xd800 && c < 0xe000)
        c = 0xfffd;
    if (c < 0x80) {
        buf_char(text, (char)c);
    } else if (c < 0x800) {
        buf_char(text, (char)(0xc0 | c >> 6));
        buf_char(text, (char)(0x80 | (c & 0x3f)));
    } else {
        buf_char(text, (char)(0xe0 | c >> 12));
        buf_char(text, (char)(0x80 | (c >> 6 & 0x3f)));
        buf_char(text, (char)(0x80 | (c & 0x3f)));
    }
}

static enum plm_status read_escape(struct reader *r, struct buf *text)
{
    static const char letters[] = "\"'\\/bfnrt", stand_for[] = "\"'\\/\b\f\n\r\t";
    int c = peek(r, 1);
    const char *letter = c > 0 ? strchr(letters, c) : NULL;
    unsigned code = 0;

    if (letter) {
        buf_char(text, stand_for[letter - letters]);
        skip(r, 2);
        return PLM_OK;
    }
    for (size_t i = 2; i < 6; i++) {
        static const char digits[] = "0123456789abcdefABCDEF";
        const char *digit = c == 'u' && peek(r, i) > 0 ? strchr(digits, peek(r, i)) : NULL;

        if (!digit)
            return fail(r, "'\\' is followed by none of \" ' \\ / b f n r t uXXXX");
        code = code * 16 + (unsigned)(digit - digits < 16 ? digit - digits : digit - digits - 6);
    }
    if (code == 0)
        return fail(r, "a text has no place for '\\u0000'");
    put_utf8(text, code);
    skip(r, 6);
    return PLM_OK;
}

/* read_quoted() - from one " or ' to the next */
static enum plm_status read_quoted(struct reader *r, const char **ret)
{
    struct buf text = { .arena = r->arena };
    int quote = peek(r, 0);

    if (quote == '\'' && peek(r, 1) == '\'' && peek(r, 2) == '\'')
        return fail(r, "a text of several lines (''') is not read");
    skip(r, 1);
    while (peek(r, 0) != quote) {
        enum plm_status status = PLM_OK;

        if (peek(r, 0) >= 0 && peek(r, 0) < ' ')
            return fail(r, "a text goes over the end of its line");
        if (peek(r, 0) == END)
            return fail(r, "a text does not end");
        if (peek(r, 0) == '\\') {
            status = read_escape(r, &text);
        } else {
            buf_char(&text, (char)peek(r, 0));
            skip(r, 1);
        }
        if (status)
            return status;
    }
    skip(r, 1);
    *ret = buf_string(&text);
    return PLM_OK;
}

static size_t digits(const char *text)
{
    return strspn(text, "0123456789");
}

/* is_number() - as JSON writes them */
static bool is_number(const char *text)
{
    text += *text == '-';
    if (digits(text) == 0 || (*text == '0' && digits(text) > 1))
        return false;
    text += digits(text);
    if (*text == '.') {
        if (digits(++text) == 0)
            return false;
        text += digits(text);
    }
    if (*text == 'e' || *text == 'E') {
        text += 1 + (text[1] == '+' || text[1] == '-');
        if (digits(text) == 0)
            return false;
        text += digits(text);
    }
    return *text == '\0';
}

/* stands_alone() - what has a meaning without quotes */
static bool stands_alone(const char *word)
{
    return strcmp(word, "true") == 0 || strcmp(word, "false") == 0 || strcmp(word, "null") == 0 ||
           is_number(word);
}

static const char *trimmed(const struct reader *r, size_t length)
{
    while (length > 0 && is_blank(peek(r, length - 1)))
        length--;
    return arena_copy(r->arena, r->text + r->at, length);
}

/* read_word() - true, a number …, up to what ends a value, or any text up to the end of the line */
static void read_word(struct reader *r, struct yaml_node *node)
{
    size_t length = 0;

    for (;; length++) {
        int c = peek(r, length);

        if (!ends_line(c) && c != ',' && c != '}' && c != ']' && !begins_comment(r, length))
            continue;
        node->text = trimmed(r, length);
        node->quoted = !stands_alone(node->text);
        if (!node->quoted || ends_line(c))
            break;
    }
    skip(r, length);
}

/* read_key() - in quotes, or without any blank in it */
static enum plm_status read_key(struct reader *r, const struct yaml_node **ret)
{
    struct yaml_node *node;
    enum plm_status status = add_node(r, YAML_SCALAR, &node);
    size_t length = 0;

    if (status)
        return status;
    node->quoted = true;
    if (peek(r, 0) == '"' || peek(r, 0) == '\'') {
        status = read_quoted(r, &node->text);
    } else {
        while (peek(r, length) != END && !is_blank(peek(r, length)) &&
               !strchr("{}[],:", peek(r, length)))
            length++;
        if (length == 0)
            return fail(r, "a key was expected");
        node->text = trimmed(r, length);
        skip(r, length);
    }
    if (!status && next(r) != ':')
        status = fail(r, "':' was expected after a key");
    if (status)
        return status;
    skip(r, 1);
    *ret = node;
    return PLM_OK;
}

/* ------------------------------------------------------------------ what holds others */

/* struct items - of one that is still read */
struct items {
    const struct yaml_node **keys, **values;
    size_t count, key_capacity, value_capacity;
};

static enum plm_status check_key(const struct reader *r,
                                 const struct items *items,
                                 const struct yaml_node *key)
{
    for (size_t i = 0; i < items->count; i++)
        if (strcmp(items->keys[i]->text, key->text) == 0)
            return plm_fail_at(r->reterr, PLM_E_SYNTAX, key->at,
                               "duplicate key '%.60s'; the first is in line %u", key->text,
                               items->keys[i]->at.line);
    if (items->count >= KEYS_MOST)
        return plm_fail_at(r->reterr, PLM_E_RANGE, key->at, "more than %d keys in one mapping",
                           KEYS_MOST);
    return PLM_OK;
}

static enum plm_status read_item(struct reader *r, struct items *items, struct yaml_node *node)
{
    const struct yaml_node *key = NULL, *value;
    enum plm_status status = PLM_OK;
    size_t count = items->count; /* of keys too */

    if (node->kind == YAML_MAPPING) {
        status = read_key(r, &key);
        if (!status)
            status = check_key(r, items, key);
        if (!status)
            arena_push(r->arena, items->keys, count, items->key_capacity, key);
    }
    if (!status)
        status = read_value(r, &value);
    if (status)
        return status;
    arena_push(r->arena, items->values, items->count, items->value_capacity, value);
    node->node_count += value->node_count + (key != NULL);
    if (node->height <= value->height)
        node->height = value->height + 1;
    return PLM_OK;
}

/* read_items() - up to @close, with or without commas between them */
static enum plm_status read_items(struct reader *r, int close, struct yaml_node *node)
{
    struct items items = { 0 };

    node->height = 1;
    while (next(r) != close) {
        enum plm_status status =
            peek(r, 0) != END
                ? read_item(r, &items, node)
                : fail(r, close == '}' ? "the text ends before '}'" : "the text ends before ']'");

        if (status)
            return status;
        if (next(r) == ',')
            skip(r, 1);
    }
    node->keys = items.keys;
    node->items = items.values;
    node->item_count = items.count;
    return PLM_OK;
}

static enum plm_status read_nested(struct reader *r, int close, struct yaml_node *node)
{
    enum plm_status status;

    if (++r->depth > YAML_DEPTH_MAX)
        return plm_fail_at(r->reterr, PLM_E_RANGE, here(r), "nested more than %d deep",
                           YAML_DEPTH_MAX);
    skip(r, 1);
    status = read_items(r, close, node);
    if (status)
        return status;
    skip(r, 1);
    r->depth--;
    return PLM_OK;
}

static enum plm_status read_value(struct reader *r, const struct yaml_node **ret)
{
    int c = next(r);
    struct yaml_node *node;
    enum plm_status status = add_node(r,
                                      c == '{'   ? YAML_MAPPING
                                      : c == '[' ? YAML_SEQUENCE
                                                 : YAML_SCALAR,
                                      &node);

    if (status)
        return status;
    *ret = node;
    if (c == '{' || c == '[')
        return read_nested(r, c == '{' ? '}' : ']', node);
    if (c == '"' || c == '\'') {
        node->quoted = true;
        return read_quoted(r, &node->text);
    }
    if (c == END || strchr("}],:", c))
        return fail(r, "a value was expected");
    read_word(r, node);
    return PLM_OK;
}

/* read_root() - a value, or the members of a mapping without its braces */
static enum plm_status read_root(struct reader *r, const struct yaml_node **ret)
{
    int c = next(r);
    struct yaml_node *node;
    enum plm_status status;

    if (c == '{' || c == '[')
        return read_value(r, ret);
    status = add_node(r, YAML_MAPPING, &node);
    *ret = node;
    return status ? status : read_items(r, END, node);
}

enum plm_status hjson_parse(const char *file,
                            const char *text,
                            size_t length,
                            struct arena *arena,
                            const struct yaml_node **ret_root,
                            struct plm_error *reterr)
{
    static const char mark[] = "\xef\xbb\xbf"; /* of UTF-8, which some editors begin a file with */
    struct reader r = { .file = file,
                        .text = text,
                        .length = length,
                        .at = strncmp(text, mark, 3) == 0 ? 3 : 0,
                        .line = 1,
                        .column = 1,
                        .arena = arena,
                        .reterr = reterr };
    const struct yaml_node *root;
    enum plm_status status;

    if (memchr(text, '\0', length))
        return plm_fail_at(reterr, PLM_E_SYNTAX, (struct source){ file, 1, 1 },
                           "not JSON: a byte is 0");
    status = read_root(&r, &root);
    if (!status && next(&r) != END)
        status = fail(&r, "something follows the end");
    if (!status)
        *ret_root = root;
    return status;
}
