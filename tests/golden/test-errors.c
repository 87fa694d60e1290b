/*
 * tests/golden/test-errors.c - bad model files and what is said about each
 *
 * The first line of a file is "# expected: LINE:COLUMN: MESSAGE" (or "# expected: ok"). Lines after it may be settings:
 * "# batch: N", "# seq: N", "# set: NAME=VALUE". A model that a file extends stands in beside/. The files in errors/ itself
 * have no settings: run.py gives them to the program, too.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "model/model.h"
#include "yaml/file.h"

enum { SETTINGS_MAX = 8 };

static const char *folder_of(const char *file, struct arena *arena)
{
    const char *slash = strrchr(file, '/');

    return slash ? arena_copy(arena, file, (size_t)(slash - file)) : ".";
}

static enum plm_status find_beside(void *context,
                                   const char *name,
                                   const char *from,
                                   struct arena *arena,
                                   struct model_text *ret,
                                   struct plm_error *reterr)
{
    char path[512];

    (void)from;
    snprintf(path, sizeof path, "%s/beside/%s.yaml", folder_of(context, arena), name);
    ret->file = arena_copy(arena, path, strlen(path));
    return file_read(path, YAML_BYTES_MAX, arena, &ret->text, &ret->length, reterr);
}

/* read_header() - the comment lines at the top; returns what is expected */
static const char *read_header(const char *text,
                               struct arena *arena,
                               struct model_setting *settings,
                               struct graph_settings *ret)
{
    const char *expected = NULL;
    bool read = true;

    while (text[0] == '#' && text[1] == ' ' && strchr(text, '\n')) {
        char *line = arena_copy(arena, text + 2, (size_t)(strchr(text, '\n') - text) - 2);
        char *value = strstr(line, ": ");

        text = strchr(text, '\n') + 1;
        if (!value)
            continue;
        *value = '\0';
        value += 2;
        if (strcmp(line, "expected") == 0) {
            expected = value;
        } else if (strcmp(line, "batch") == 0) {
            read = read && units_parse_int(value, &ret->batch);
        } else if (strcmp(line, "seq") == 0) {
            read = read && units_parse_int(value, &ret->seq);
        } else if (strcmp(line, "set") == 0 && strchr(value, '=') &&
                   ret->setting_count < SETTINGS_MAX) {
            char *equals = strchr(value, '=');

            *equals = '\0';
            settings[ret->setting_count++] = (struct model_setting){ value, equals + 1 };
        } else {
            read = false;
        }
    }
    ret->settings = settings;
    return read ? expected : NULL;
}

static void load(const char *file,
                 const struct model_text *text,
                 const struct graph_settings *settings,
                 struct arena *arena,
                 char *got,
                 size_t size)
{
    struct model_finder finder = { (void *)file, find_beside };
    struct plm_error error = { 0 };
    const struct model *model;
    const struct graph *graph;
    const char *name = strrchr(file, '/');
    enum plm_status status = model_load(text, &finder, arena, &model, &error);

    if (!status)
        status = graph_build(model, settings, arena, &graph, &error);
    name = name ? name + 1 : file;
    if (!status)
        snprintf(got, size, "ok");
    else if (error.line == 0)
        snprintf(got, size, "%s", error.message);
    else if (strstr(error.file, name))
        snprintf(got, size, "%u:%u: %s", error.line, error.column, error.message);
    else
        snprintf(got, size, "%s:%u:%u: %s",
                 strrchr(error.file, '/') ? strrchr(error.file, '/') + 1 : error.file, error.line,
                 error.column, error.message);
}

static bool check(const char *file)
{
    struct arena arena = { 0 };
    struct model_text text = { .file = file };
    struct plm_error error;
    struct graph_settings settings = { .training = true };
    struct model_setting set[SETTINGS_MAX];
    char got[600];
    bool same = false;

    if (file_read(file, YAML_BYTES_MAX + 1024, &arena, &text.text, &text.length, &error)) {
        printf("# %s: %s\n", file, error.message);
    } else {
        const char *expected = read_header(text.text, &arena, set, &settings);

        load(file, &text, &settings, &arena, got, sizeof got);
        same = expected && strcmp(expected, got) == 0;
        if (!same)
            printf("# %s\n# expected: %s\n# got:      %s\n", file,
                   expected ? expected : "(no such line)", got);
    }
    arena_finish(&arena);
    return same;
}

int main(int argc, char **argv)
{
    int failed = 0;

    printf("1..%d\n", argc - 1);
    for (int i = 1; i < argc; i++) {
        bool same = check(argv[i]);
        const char *name = strrchr(argv[i], '/');

        printf("%s %d - %s\n", same ? "ok" : "not ok", i, name ? name + 1 : argv[i]);
        failed += !same;
    }
    return failed == 0 && argc > 1 ? EXIT_SUCCESS : EXIT_FAILURE;
}
