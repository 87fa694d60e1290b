/* report/timeline.c - which format a file's name asks for */
#include <string.h>

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
