/* report/utf8.c - which bytes belong together (RFC 3629, section 4) */
#include "report/utf8.h"

static int continues(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

size_t utf8_length(const char *text)
{
    unsigned char first = (unsigned char)text[0], second = first ? (unsigned char)text[1] : 0;

    if (first < 0x80)
        return 1;
    if (first < 0xc2 || first > 0xf4 || !continues(text[1]))
        return 0;
    if (first < 0xe0)
        return 2;
    if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
        (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f) || !continues(text[2]))
        return 0;
    if (first < 0xf0)
        return 3;
    return continues(text[3]) ? 4 : 0;
}

size_t utf8_columns(const char *text)
{
    size_t columns = 0;

    while (*text) {
        size_t length = utf8_length(text);

        text += length ? length : 1;
        columns++;
    }
    return columns;
}
