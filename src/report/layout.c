/* report/layout.c - text for a terminal of 80 columns */
#include <string.h>

#include "base/units.h"
#include "report/layout.h"
#include "report/utf8.h"

void layout_style(struct layout *layout, enum style style)
{
    static const char *const codes[] = {
        [STYLE_PLAIN] = "\033[0m",   [STYLE_BOLD] = "\033[1m",   [STYLE_DIM] = "\033[2m",
        [STYLE_GOOD] = "\033[1;32m", [STYLE_BAD] = "\033[1;31m", [STYLE_WARN] = "\033[33m",
    };

    if (layout->colour)
        buf_text(layout->out, codes[style]);
}

static void spaces(struct layout *layout, size_t count)
{
    while (count-- > 0)
        buf_char(layout->out, ' ');
}

void layout_left(struct layout *layout, const char *text, size_t width)
{
    size_t columns = utf8_columns(text);

    if (columns > width && width > 0) {
        for (size_t skip = columns - width + 1; skip > 0; skip--) {
            size_t length = utf8_length(text);

            text += length ? length : 1;
        }
        buf_text(layout->out, "…");
        buf_text(layout->out, text);
        return;
    }
    buf_text(layout->out, text);
    if (columns < width)
        spaces(layout, width - columns);
}

void layout_right(struct layout *layout, const char *text, size_t width)
{
    size_t columns = utf8_columns(text);

    if (columns < width)
        spaces(layout, width - columns);
    buf_text(layout->out, text);
}

void layout_bytes(struct layout *layout, plm_bytes bytes, const char *zero, size_t width)
{
    char text[UNITS_TEXT];

    layout_right(layout, bytes == 0 && zero ? zero : units_format_bytes(bytes, text), width);
}

void layout_bar(struct layout *layout, double share, size_t width, bool empty)
{
    static const char *const eighths[] = { "", "▏", "▎", "▍", "▌", "▋", "▊", "▉" };
    double filled = (share < 0 ? 0 : share > 1 ? 1 : share) * (double)width;
    size_t whole = (size_t)filled;

    for (size_t i = 0; i < whole; i++)
        buf_text(layout->out, "█");
    if (empty) {
        for (size_t i = whole; i < width; i++)
            buf_text(layout->out, "░");
    } else {
        buf_text(layout->out, eighths[(size_t)((filled - (double)whole) * 8)]);
    }
}

void layout_wrap(struct layout *layout, const char *text, size_t column, size_t indent)
{
    bool first = true;

    text += strspn(text, " \n");
    while (*text) {
        size_t length = strcspn(text, " \n");
        size_t columns = utf8_columns(arena_copy(layout->out->arena, text, length));

        if (!first && column + 1 + columns > LAYOUT_WIDTH) {
            buf_char(layout->out, '\n');
            spaces(layout, indent);
            column = indent;
        } else if (!first) {
            buf_char(layout->out, ' ');
            column++;
        }
        first = false;
        buf_add(layout->out, text, length);
        column += columns;
        text += length;
        text += strspn(text, " \n");
    }
    buf_char(layout->out, '\n');
}

void layout_heading(struct layout *layout, const char *title)
{
    buf_char(layout->out, '\n');
    layout_style(layout, STYLE_BOLD);
    buf_text(layout->out, title);
    layout_style(layout, STYLE_PLAIN);
}
