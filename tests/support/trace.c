/* support/trace.c - writes the events of a schedule as "+bytes" and "-bytes" */
#include <inttypes.h>
#include <string.h>

#include "support/trace.h"

void trace_text(const struct schedule *s, size_t first_event, struct buf *out)
{
    plm_bytes *bytes = arena_array(out->arena, plm_bytes, (size_t)s->allocation_count + 1);

    for (size_t i = 0; i < s->event_count; i++) {
        const struct event *event = &s->events[i];
        enum event_kind kind = event->kind;

        /* the first of a chain is the one that a device with room would give */
        if ((kind == EVENT_ALLOC || kind == EVENT_TRY_ALLOC) && bytes[event->allocation] == 0)
            bytes[event->allocation] = event->bytes;
        if (i < first_event)
            continue;
        if (out->length > 0)
            buf_char(out, ' ');
        switch (kind) {
        case EVENT_ALLOC:
            buf_printf(out, "+%" PRIu64, event->bytes);
            break;
        case EVENT_TRY_ALLOC:
            buf_printf(out, "+?%" PRIu64, event->bytes);
            break;
        case EVENT_FREE:
            buf_printf(out, "-%" PRIu64, bytes[event->allocation]);
            break;
        case EVENT_USE:
            buf_printf(out, "use:%" PRIu64, bytes[event->allocation]);
            break;
        case EVENT_MARK:
            buf_printf(out, "<%s>", s->marks[event->allocation].name);
            break;
        case EVENT_EMPTY:
            buf_text(out, "empty");
            break;
        }
    }
}

/* comes_after() - does release @b belong before release @a? both are "-bytes" */
static bool comes_after(const char *a, size_t a_length, const char *b, size_t b_length)
{
    return b_length > a_length || (b_length == a_length && memcmp(b, a, a_length) > 0);
}

void trace_sort(char *text)
{
    bool swapped = true;

    while (swapped) {
        swapped = false;
        for (char *a = text; a && *a;) {
            char *gap = strchr(a, ' '), *b = gap ? gap + 1 : NULL;
            size_t a_length = gap ? (size_t)(gap - a) : 0, b_length = b ? strcspn(b, " ") : 0;

            if (b && *a == '-' && *b == '-' && comes_after(a, a_length, b, b_length)) {
                char first[32];

                memcpy(first, a, a_length);
                memmove(a, b, b_length);
                a[b_length] = ' ';
                memcpy(a + b_length + 1, first, a_length);
                b = a + b_length + 1;
                swapped = true;
            }
            a = b;
        }
    }
}
