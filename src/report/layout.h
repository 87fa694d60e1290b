/*
 * report/layout.h - text for a terminal of 80 columns: wrapping, columns, bars and colour
 *
 * Widths are counted in characters, not bytes. Colour never changes what stands where.
 */
#ifndef PLM_REPORT_LAYOUT_H
#define PLM_REPORT_LAYOUT_H

#include <stdbool.h>

#include "base/buf.h"
#include "plimsoll/types.h"

enum { LAYOUT_WIDTH = 80 };

enum style { STYLE_PLAIN, STYLE_BOLD, STYLE_DIM, STYLE_GOOD, STYLE_BAD, STYLE_WARN };

/* struct layout - where text goes, and whether it may be coloured */
struct layout {
    struct buf *out;
    bool colour;
};

/* layout_style() - how what follows looks, until STYLE_PLAIN */
void layout_style(struct layout *layout, enum style style);

/* layout_left(), layout_right() - @text in a field of @width; too long a name keeps its end: "…h.11.attn" */
void layout_left(struct layout *layout, const char *text, size_t width);
void layout_right(struct layout *layout, const char *text, size_t width);

/* layout_bytes() - a size for people ("23.64 GiB") at the right of a field; @zero stands for 0 when not NULL */
void layout_bytes(struct layout *layout, plm_bytes bytes, const char *zero, size_t width);

/* layout_bar() - @share (0 to 1) of @width as a bar; with @empty the rest is drawn too */
void layout_bar(struct layout *layout, double share, size_t width, bool empty);

/*
 * layout_wrap() - @text in lines of at most 80, and a line's end
 *
 * The first word begins at @column, later lines at @indent. Words are not broken.
 */
void layout_wrap(struct layout *layout, const char *text, size_t column, size_t indent);

/* layout_heading() - an empty line and a title */
void layout_heading(struct layout *layout, const char *title);

#endif
