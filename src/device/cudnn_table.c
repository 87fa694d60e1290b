/*
 * device/cudnn_table.c - shipped tables of workspaces: found by name, read, checked and written
 *
 * The calls are one block of text, so that YAML's reader takes it as one value: thousands of lines cost milliseconds.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/cudnn_table.h"
#include "yaml/decode.h"
#include "yaml/file.h"

/* struct fields - the file as written */
struct fields {
    int64_t format;
    const char *version, *capability, *source;
    const struct yaml_node *calls;
};

static const struct decode_row rows[] = {
    { .key = "plimsoll",
      .type = DECODE_INT,
      .required = true,
      .offset = offsetof(struct fields, format) },
    { .key = "cudnn",
      .type = DECODE_TEXT,
      .required = true,
      .offset = offsetof(struct fields, version) },
    { .key = "compute_capability",
      .type = DECODE_TEXT,
      .required = true,
      .offset = offsetof(struct fields, capability) },
    { .key = "source",
      .type = DECODE_TEXT,
      .required = true,
      .offset = offsetof(struct fields, source) },
    { .key = "calls",
      .type = DECODE_SCALAR,
      .required = true,
      .offset = offsetof(struct fields, calls) },
};

/* read_pair() - "9.26": two numbers and a point, up to the end or @end */
static bool read_pair(const char *text, const char *end, int most, int *ret_a, int *ret_b)
{
    int used = 0;

    if (sscanf(text, "%3d.%2d%n", ret_a, ret_b, &used) != 2 || used == 0)
        return false;
    return strcmp(text + used, end) == 0 && *ret_a >= 0 && *ret_b >= 0 && *ret_b <= most;
}

enum plm_status cudnn_table_load(const char *path,
                                 struct arena *arena,
                                 struct cudnn_table *ret_table,
                                 int *ret_cc,
                                 struct plm_error *reterr)
{
    const char *file = arena_copy(arena, path, strlen(path)), *text;
    struct cudnn_table table = { .answers.arena = arena };
    struct fields f = { 0 };
    const struct yaml_node *root;
    size_t length;
    unsigned line = 0;
    int major = 0, minor = 0, cc_major = 0, cc_minor = 0;
    enum plm_status status = file_read(file, YAML_BYTES_MAX, arena, &text, &length, reterr);

    if (status == PLM_OK)
        status = yaml_parse(file, text, length, arena, &root, reterr);
    if (status == PLM_OK)
        status = decode_mapping(root, "a table of cuDNN's workspaces", rows,
                                sizeof rows / sizeof rows[0], NULL, &f, reterr);
    if (status != PLM_OK)
        return status;
    if (f.format != 1)
        return plm_fail_at(reterr, PLM_E_SYNTAX, root->at,
                           "'plimsoll' must be 1, the version of the format");
    if (!read_pair(f.version, "", 99, &major, &minor))
        return plm_fail_at(reterr, PLM_E_SYNTAX, yaml_get(root, "cudnn")->at,
                           "'cudnn' must be like 9.26, not '%.20s'", f.version);
    if (!read_pair(f.capability, "", 9, &cc_major, &cc_minor))
        return plm_fail_at(reterr, PLM_E_SYNTAX, yaml_get(root, "compute_capability")->at,
                           "'compute_capability' must be like 8.6, not '%.20s'", f.capability);
    if (!cudnn_answers_read(&table.answers, f.calls->text, &line)) {
        struct source at = f.calls->at;

        at.line += line; /* the block begins on the line after its key */
        at.column = 0;
        return plm_fail_at(reterr, PLM_E_SYNTAX, at,
                           "a call and its workspaces were expected, as in 'forward f16 nhwc "
                           "8x3x4x4 8x3x1x1 pad 0x0 stride 1x1 dilation 1x1 = 64 0'");
    }
    table.version = major * 10000 + minor * 100;
    *ret_cc = cc_major * 10 + cc_minor;
    *ret_table = table;
    return PLM_OK;
}

/* distance() - between two versions; the newer of two that are as near is nearer */
static int distance(int a, int b)
{
    return a >= b ? 2 * (a - b) : 2 * (b - a) + 1;
}

enum plm_status cudnn_table_find(const char *const *folders,
                                 size_t folder_count,
                                 int version,
                                 int cc,
                                 struct arena *arena,
                                 struct cudnn_table *ret_table,
                                 struct plm_error *reterr)
{
    struct buf path = { .arena = arena };
    char suffix[32];
    int best = 0, found_cc;

    snprintf(suffix, sizeof suffix, "-sm%d.yaml", cc);
    for (size_t f = 0; f < folder_count; f++) {
        DIR *folder = opendir(folders[f]);

        for (const struct dirent *entry; folder && (entry = readdir(folder));) {
            int major, minor;

            if (!read_pair(entry->d_name, suffix, 99, &major, &minor))
                continue;
            int its = major * 10000 + minor * 100;

            if (best != 0 && distance(its, version) >= distance(best, version))
                continue;
            best = its;
            path.length = 0;
            buf_printf(&path, "%s/%s", folders[f], entry->d_name);
        }
        if (folder)
            closedir(folder);
    }
    if (best == 0)
        return PLM_OK;
    enum plm_status status =
        cudnn_table_load(buf_string(&path), arena, ret_table, &found_cc, reterr);

    if (status == PLM_OK && (found_cc != cc || ret_table->version != best)) {
        *ret_table = (struct cudnn_table){ 0 };
        return plm_fail(reterr, PLM_E_SYNTAX,
                        "%.100s: its name says another version or compute capability than it does",
                        buf_string(&path));
    }
    return status;
}

void cudnn_table_write(const struct cudnn_table *table, int cc, const char *source, struct buf *out)
{
    const struct cudnn_answer *const *sorted = cudnn_answers_sort(&table->answers, out->arena);
    char text[CUDNN_LINE_MAX];

    buf_printf(out,
               "plimsoll: 1\ncudnn: %d.%d\ncompute_capability: %d.%d\nsource: \"%s\"\ncalls: |\n",
               table->version / 10000, table->version / 100 % 100, cc / 10, cc % 10, source);
    for (size_t i = 0; i < table->answers.count; i++) {
        struct cudnn_workspaces workspaces = { .count = sorted[i]->count };

        if (workspaces.count == 0)
            continue;
        memcpy(workspaces.bytes, sorted[i]->bytes, workspaces.count * sizeof(plm_bytes));
        buf_text(out, "  ");
        buf_add(out, text, cudnn_call_write(&sorted[i]->call, text));
        buf_text(out, " =");
        buf_add(out, text, cudnn_workspaces_write(&workspaces, text));
        buf_char(out, '\n');
    }
}
