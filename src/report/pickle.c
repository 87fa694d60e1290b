/*
 * report/pickle.c - Python's pickle format, protocol 2
 *
 * Opcodes as in CPython's Lib/pickletools.py; only those that PyTorch's memory_viz reads too. Values of a list or dict
 * are appended in batches, as CPython does it: a reader may keep a batch on its stack.
 */
#include <assert.h>
#include <string.h>

#include "report/pickle.h"
#include "report/utf8.h"

enum opcode {
    OP_PROTO = 0x80,
    OP_STOP = '.',
    OP_MARK = '(',
    OP_EMPTY_DICT = '}',
    OP_EMPTY_LIST = ']',
    OP_SETITEMS = 'u',
    OP_APPENDS = 'e',
    OP_TUPLE2 = 0x86,
    OP_BINUNICODE = 'X',
    OP_BINPUT = 'q',
    OP_LONG_BINPUT = 'r',
    OP_BINGET = 'h',
    OP_LONG_BINGET = 'j',
    OP_BININT1 = 'K',
    OP_BININT2 = 'M',
    OP_BININT = 'J',
    OP_LONG1 = 0x8a,
    OP_BINFLOAT = 'G',
    OP_NEWTRUE = 0x88,
    OP_NEWFALSE = 0x89,
};

enum { BATCH = 1000 };

static void op(struct pickle *pickle, enum opcode opcode)
{
    buf_char(pickle->out, (char)opcode);
}

/* little() - the lowest @count bytes of @value, lowest first */
static void little(struct pickle *pickle, uint64_t value, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        buf_char(pickle->out, (char)(value >> (8 * i) & 0xff));
}

/* before() - a value follows: begin a new batch when the last is full */
static void before(struct pickle *pickle)
{
    if (pickle->depth == 0)
        return;

    bool dict = pickle->open[pickle->depth - 1].dict;
    unsigned *pending = &pickle->open[pickle->depth - 1].pending;

    if (*pending == BATCH) { /* even, so that keys and values stay together */
        op(pickle, dict ? OP_SETITEMS : OP_APPENDS);
        op(pickle, OP_MARK);
        *pending = 0;
    }
    (*pending)++;
}

void pickle_begin(struct pickle *pickle)
{
    op(pickle, OP_PROTO);
    little(pickle, 2, 1);
}

void pickle_end(struct pickle *pickle)
{
    op(pickle, OP_STOP);
}

static void open_one(struct pickle *pickle, bool dict)
{
    before(pickle);
    assert(pickle->depth < PICKLE_DEPTH);
    pickle->open[pickle->depth].dict = dict;
    pickle->open[pickle->depth++].pending = 0;
    op(pickle, dict ? OP_EMPTY_DICT : OP_EMPTY_LIST);
    op(pickle, OP_MARK);
}

void pickle_open_dict(struct pickle *pickle)
{
    open_one(pickle, true);
}

void pickle_open_list(struct pickle *pickle)
{
    open_one(pickle, false);
}

void pickle_close(struct pickle *pickle)
{
    op(pickle, pickle->open[--pickle->depth].dict ? OP_SETITEMS : OP_APPENDS);
}

/* valid() - @text, with what is not UTF-8 replaced by '?': Python refuses the whole file otherwise */
static const char *valid(struct pickle *pickle, const char *text)
{
    char *copy = NULL;

    for (size_t i = 0; text[i];) {
        size_t length = utf8_length(text + i);

        if (length == 0 && !copy)
            copy = arena_copy(pickle->out->arena, text, strlen(text));
        if (length == 0)
            copy[i] = '?';
        i += length ? length : 1;
    }
    return copy ? copy : text;
}

void pickle_string(struct pickle *pickle, const char *text)
{
    size_t length, known;
    name_id id;

    before(pickle);
    text = valid(pickle, text ? text : "");
    length = strlen(text);
    known = pickle->strings.text_count;
    id = names_add(&pickle->strings, text, length);
    if (pickle->strings.text_count == known && id != 0) {
        op(pickle, id < 256 ? OP_BINGET : OP_LONG_BINGET);
        little(pickle, id, id < 256 ? 1 : 4);
        return;
    }
    op(pickle, OP_BINUNICODE);
    little(pickle, length, 4);
    buf_add(pickle->out, text, length);
    if (id == 0) /* the empty name is not kept */
        return;
    op(pickle, id < 256 ? OP_BINPUT : OP_LONG_BINPUT);
    little(pickle, id, id < 256 ? 1 : 4);
}

static void integer(struct pickle *pickle, int64_t value)
{
    if (value >= 0 && value < 0x100) {
        op(pickle, OP_BININT1);
        little(pickle, (uint64_t)value, 1);
    } else if (value >= 0 && value < 0x10000) {
        op(pickle, OP_BININT2);
        little(pickle, (uint64_t)value, 2);
    } else if (value >= INT32_MIN && value <= INT32_MAX) {
        op(pickle, OP_BININT);
        little(pickle, (uint64_t)value, 4);
    } else {
        op(pickle, OP_LONG1);
        little(pickle, 8, 1);
        little(pickle, (uint64_t)value, 8);
    }
}

void pickle_int(struct pickle *pickle, int64_t value)
{
    before(pickle);
    integer(pickle, value);
}

void pickle_uint(struct pickle *pickle, uint64_t value)
{
    before(pickle);
    if (value <= INT64_MAX) {
        integer(pickle, (int64_t)value);
        return;
    }
    op(pickle, OP_LONG1); /* a ninth byte keeps it positive */
    little(pickle, 9, 1);
    little(pickle, value, 8);
    little(pickle, 0, 1);
}

void pickle_real(struct pickle *pickle, double value)
{
    uint64_t bits;

    before(pickle);
    memcpy(&bits, &value, sizeof bits);
    op(pickle, OP_BINFLOAT);
    for (int shift = 56; shift >= 0; shift -= 8)
        buf_char(pickle->out, (char)(bits >> shift & 0xff));
}

void pickle_bool(struct pickle *pickle, bool value)
{
    before(pickle);
    op(pickle, value ? OP_NEWTRUE : OP_NEWFALSE);
}

void pickle_pair(struct pickle *pickle, int64_t first, int64_t second)
{
    before(pickle);
    integer(pickle, first);
    integer(pickle, second);
    op(pickle, OP_TUPLE2);
}

void pickle_field_string(struct pickle *pickle, const char *key, const char *text)
{
    pickle_string(pickle, key);
    pickle_string(pickle, text);
}

void pickle_field_uint(struct pickle *pickle, const char *key, uint64_t value)
{
    pickle_string(pickle, key);
    pickle_uint(pickle, value);
}

void pickle_field_int(struct pickle *pickle, const char *key, int64_t value)
{
    pickle_string(pickle, key);
    pickle_int(pickle, value);
}

void pickle_field_bool(struct pickle *pickle, const char *key, bool value)
{
    pickle_string(pickle, key);
    pickle_bool(pickle, value);
}
