/* cli/screen.c - a drawing at the bottom of the terminal; each change of it is one write, so that others' text stays whole */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/screen.h"

enum { ROWS_ABOVE_LEAST = 4, COLUMNS_MOST = 240 };

static void put(const char *text, size_t length)
{
    while (length > 0) {
        ssize_t written = write(STDERR_FILENO, text, length);

        if (written <= 0)
            return; /* a drawing that cannot be shown is not missed */
        text += written;
        length -= (size_t)written;
    }
}

static bool measure(struct screen *screen)
{
    const char *terminal = getenv("TERM");
    struct winsize size;

    if (!isatty(STDERR_FILENO) || !terminal || strcmp(terminal, "dumb") == 0 ||
        ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0)
        return false;
    screen->rows = size.ws_row;
    screen->columns = size.ws_col < COLUMNS_MOST ? size.ws_col : COLUMNS_MOST;
    return true;
}

bool screen_open(struct screen *screen, size_t height, size_t columns_least)
{
    char text[64];

    screen->height = 0;
    if (!measure(screen) || screen->rows < height + ROWS_ABOVE_LEAST ||
        screen->columns < columns_least)
        return false;
    screen->height = height;
    for (size_t i = 0; i < height; i++)
        put("\n", 1); /* scrolls what is there upwards, if it must */
    put(text, (size_t)snprintf(text, sizeof text, "\0337\033[1;%zur\0338\033[%zuA",
                               screen->rows - height, height));
    return true;
}

void screen_draw(const struct screen *screen, const char *frame, struct arena *scratch)
{
    struct buf text = { .arena = scratch };
    size_t row = screen->rows - screen->height + 1;

    if (screen->height == 0)
        return;
    buf_text(&text, "\0337");
    while (*frame) {
        size_t length = strcspn(frame, "\n");

        buf_printf(&text, "\033[%zu;1H", row++);
        buf_add(&text, frame, length);
        buf_text(&text, "\033[K");
        frame += length + (frame[length] == '\n');
    }
    buf_text(&text, "\0338");
    put(buf_string(&text), text.length);
}

void screen_close(struct screen *screen)
{
    char text[64];

    if (screen->height == 0)
        return;
    put(text, (size_t)snprintf(text, sizeof text, "\0337\033[r\033[%zu;1H\033[J\0338",
                               screen->rows - screen->height + 1));
    screen->height = 0;
}
