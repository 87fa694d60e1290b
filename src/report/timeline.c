/* report/timeline.c - which format a file's name asks for, and what several of them say */
#include <string.h>

#include "base/units.h"
#include "report/text.h"
#include "report/timeline.h"

const char timeline_endings[] = ".svg, .html, .json, .pickle";

static const struct {
    const char *ending;
    timeline_writer *write;
} writers[] = {
    { ".svg", timeline_write_svg },
    { ".html", timeline_write_html },
    { ".json", timeline_write_trace },
    { ".pickle", timeline_write_snapshot },
};

timeline_writer *timeline_writer_for(const char *path)
{
    size_t length = strlen(path);

    for (size_t i = 0; i < sizeof writers / sizeof *writers; i++) {
        size_t ending = strlen(writers[i].ending);

        if (length > ending && strcmp(path + length - ending, writers[i].ending) == 0)
            return writers[i].write;
    }
    return NULL;
}

const char *timeline_failure(const struct plm_result *result, struct arena *arena)
{
    struct buf text = { .arena = arena };
    char bytes[UNITS_TEXT];

    buf_text(&text, "out of memory in ");
    text_place(&text, result->failure.phase, result->failure.step, result->failure.op, NULL);
    buf_printf(&text, ", which asked for %s", units_format_bytes(result->failure.request, bytes));
    return buf_string(&text);
}
