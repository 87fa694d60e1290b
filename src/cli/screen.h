/*
 * cli/screen.h - the bottom lines of the terminal, kept for a drawing
 *
 * What others write to the terminal meanwhile, such as the command that is watched, scrolls above them: its scrolling region
 * (DECSTBM, as in VT100) ends where the drawing begins.
 */
#ifndef PLM_CLI_SCREEN_H
#define PLM_CLI_SCREEN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct screen {
    size_t rows, columns; /* of the terminal */
    size_t height;        /* of the drawing; 0: it is not kept now */
};

/* screen_open() - keep @height lines of standard error's terminal; false when it is none, or too small */
bool screen_open(struct screen *screen, size_t height, size_t columns_least);

/* screen_draw() - @frame is as many lines as were kept, each with its end */
void screen_draw(const struct screen *screen, const char *frame, struct arena *scratch);

/* screen_close() - clear the drawing and give its lines back; nothing happens when it is not open */
void screen_close(struct screen *screen);

#endif
