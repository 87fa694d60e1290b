/* base/buf.c - a growing text with a mandatory maximum */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"

enum { DEFAULT_MAXIMUM = 64 * 1024 * 1024 };

void buf_add(struct buf *buf, const char *text, size_t length)
{
    size_t maximum = buf->maximum ? buf->maximum : DEFAULT_MAXIMUM;

    if (length > maximum - buf->length) {
        length = maximum - buf->length;
        buf->full = true;
    }
    while (buf->length + length + 1 > buf->capacity)
        buf->text = arena_grow(buf->arena, buf->text, &buf->capacity, 1, 1);
    if (length > 0)
        memcpy(buf->text + buf->length, text, length);
    buf->length += length;
    buf->text[buf->length] = '\0';
}

void buf_text(struct buf *buf, const char *text)
{
    buf_add(buf, text, strlen(text));
}

void buf_char(struct buf *buf, char c)
{
    buf_add(buf, &c, 1);
}

void buf_printf(struct buf *buf, const char *format, ...)
{
    char small[256];
    va_list args, again;

    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(small, sizeof small, format, args);

    if (length >= 0 && (size_t)length < sizeof small) {
        buf_add(buf, small, (size_t)length);
    } else if (length > 0) {
        char *large = arena_array(buf->arena, char, (size_t)length + 1);

        vsnprintf(large, (size_t)length + 1, format, again);
        buf_add(buf, large, (size_t)length);
    }
    va_end(again);
    va_end(args);
}

const char *buf_string(const struct buf *buf)
{
    return buf->text ? buf->text : "";
}
