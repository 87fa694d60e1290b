/*
 * base/buf.h - a growing text
 *
 * Invariants: text is never NULL once anything was written; text[length] == '\0'; length <= maximum.
 * Writing past the maximum sets @full and drops the rest, so that callers check once, at the end.
 */
#ifndef PLM_BASE_BUF_H
#define PLM_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "plimsoll/types.h"

struct buf {
    struct arena *arena;
    size_t maximum; /* 0: 64 MiB */
    char *text;
    size_t length, capacity;
    bool full;
};

void buf_add(struct buf *buf, const char *text, size_t length);
void buf_text(struct buf *buf, const char *text);
void buf_char(struct buf *buf, char c);
void buf_printf(struct buf *buf, const char *format, ...) PLM_PRINTF(2, 3);

/* buf_string() - what was written so far; "" when that is nothing */
const char *buf_string(const struct buf *buf);

#endif
