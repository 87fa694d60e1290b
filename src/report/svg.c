/* report/svg.c - text in pictures */
#include "report/svg.h"

void svg_text(struct buf *out, const char *text)
{
    for (; text && *text; text++)
        switch (*text) {
        case '<':
            buf_text(out, "&lt;");
            break;
        case '&':
            buf_text(out, "&amp;");
            break;
        case '"':
            buf_text(out, "&quot;");
            break;
        default:
            buf_char(out, (unsigned char)*text < 0x20 ? ' ' : *text);
        }
}
