/*
 * device/cudnn_table.c - shipped tables of workspaces: found by name, read, checked and written
 *
 * The calls are one block of text, so that YAML's reader takes it as one value: thousands of lines cost milliseconds. A line
 * is a call of cudnn_call.h for several types and batches, each with the workspace of the first plan and, when that is another, of the plan
 * that takes least, and the mark of cuBLASLt:
 *
 *     forward f16+bf16 nchw *x64x56x56 64x64x3x3 pad 1x1 stride 1x1 dilation 1x1 = 16: 12881936 0; 32: 25763856 0 blas 4194304
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "device/cudnn_table.h"
#include "yaml/decode.h"
#include "yaml/file.h"

enum { LINE_MAX_BYTES = 4096 };

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

/* ------------------------------------------------------------------ reading */

/* struct words - the parts of a line that differ from call to call; the rest is text in between */
struct words {
    const char *op, *types, *layout, *sizes, *answers; /* sizes: after the "*" */
    int op_length, types_length, layout_length, sizes_length;
};

/* split() - false when the line has another form */
static bool split(const char *line, struct words *ret)
{
    const char *star = strstr(line, " *"), *equals = strstr(line, " = ");

    if (!star || !equals || equals < star)
        return false;
    ret->op = line;
    ret->op_length = (int)strcspn(line, " ");
    ret->types = line + ret->op_length + 1;
    ret->types_length = (int)strcspn(ret->types, " ");
    ret->layout = ret->types + ret->types_length + 1;
    ret->layout_length = (int)strcspn(ret->layout, " ");
    ret->sizes = star + 2;
    ret->sizes_length = (int)(equals - ret->sizes);
    ret->answers = equals + 3;
    return ret->layout + ret->layout_length == star;
}

/* add_call() - of one type and batch */
static bool add_call(struct cudnn_answers *answers,
                     const struct words *w,
                     const char *type,
                     int type_length,
                     long batch,
                     const struct cudnn_workspaces *workspaces)
{
    char text[CUDNN_LINE_MAX];
    struct cudnn_call call;
    int length =
        snprintf(text, sizeof text, "%.*s %.*s %.*s %ld%.*s", w->op_length, w->op, type_length,
                 type, w->layout_length, w->layout, batch, w->sizes_length, w->sizes);

    if (length >= (int)sizeof text || !cudnn_call_read(text, &call))
        return false;
    cudnn_answers_add(answers, &call, workspaces);
    return true;
}

/* add_types() - the same answer for each type of "f16+bf16" */
static bool add_types(struct cudnn_answers *answers,
                      const struct words *w,
                      long batch,
                      const struct cudnn_workspaces *workspaces)
{
    for (int at = 0; at < w->types_length;) {
        int length = (int)strcspn(w->types + at, "+ ");

        if (!add_call(answers, w, w->types + at, length, batch, workspaces))
            return false;
        at += length + 1;
    }
    return true;
}

/* read_line() - "… = 16: 12881936 0; 32: 25763856 0" */
static bool read_line(struct cudnn_answers *answers, char *line)
{
    struct words w;

    if (!split(line, &w))
        return false;
    for (const char *at = w.answers; *at;) {
        char text[CUDNN_LINE_MAX];
        struct cudnn_workspaces workspaces;
        long batch;
        int used = 0;
        size_t length = strcspn(at, ";");

        if (sscanf(at, "%9ld:%n", &batch, &used) != 1 || used == 0 || length >= sizeof text ||
            (size_t)used > length)
            return false;
        memcpy(text, at + used, length - (size_t)used);
        text[length - (size_t)used] = '\0';
        if (!cudnn_workspaces_read(text, &workspaces) ||
            !add_types(answers, &w, batch, &workspaces))
            return false;
        at += length;
        if (strncmp(at, "; ", 2) == 0)
            at += 2;
        else if (*at)
            return false;
    }
    return *w.answers != '\0';
}

/* read_calls() - every line; false with the number of the first that is none */
static bool read_calls(struct cudnn_answers *answers, const char *text, unsigned *ret_line)
{
    char line[LINE_MAX_BYTES];

    for (unsigned number = 1; *text; number++) {
        size_t length = strcspn(text, "\n");

        *ret_line = number;
        if (length >= sizeof line)
            return false;
        memcpy(line, text, length);
        line[length] = '\0';
        if (length > 0 && !read_line(answers, line))
            return false;
        text += length + (text[length] == '\n');
    }
    return true;
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
    if (!read_calls(&table.answers, f.calls->text, &line)) {
        struct source at = f.calls->at;

        at.line += line; /* the block begins on the line after its key */
        at.column = 0;
        return plm_fail_at(reterr, PLM_E_SYNTAX, at,
                           "a call and its workspaces were expected, as in 'forward f16 nhwc "
                           "*x3x4x4 8x3x1x1 pad 0x0 stride 1x1 dilation 1x1 = 8: 64 0; 16: 0'");
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

/* ------------------------------------------------------------------ writing */

/* write_answer() - "16: 12881936 0" */
static void write_answer(const struct cudnn_answer *answer, struct buf *out)
{
    plm_bytes least = answer->bytes[0];

    for (size_t i = 1; i < answer->count; i++)
        least = num_min(least, answer->bytes[i]);
    buf_printf(out, "%lld: %llu", (long long)answer->call.input[0],
               (unsigned long long)answer->bytes[0]);
    if (least < answer->bytes[0])
        buf_printf(out, " %llu", (unsigned long long)least);
    if (answer->blas == CUDNN_BLAS_ASSUMED)
        buf_printf(out, " blas %llu", (unsigned long long)answer->blas_most);
}

/* is_next() - but for the batch, the same call? */
static bool is_next(const struct cudnn_call *a, const struct cudnn_call *b)
{
    struct cudnn_call same = *b;

    same.input[0] = a->input[0];
    return memcmp(a, &same, sizeof same) == 0;
}

/* struct group - the answers for all batches of a call of one type; done when another's line said the same */
struct group {
    struct cudnn_call call;
    const char *answers;
    bool done;
};

static size_t find_groups(const struct cudnn_answer *const *sorted,
                          size_t count,
                          struct group *groups,
                          struct arena *arena)
{
    size_t group_count = 0;

    for (size_t i = 0; i < count; i++) {
        const struct cudnn_call *call = &sorted[i]->call;
        struct buf text = { .arena = arena };

        if (sorted[i]->count == 0)
            continue;
        write_answer(sorted[i], &text);
        while (i + 1 < count && sorted[i + 1]->count > 0 && is_next(call, &sorted[i + 1]->call)) {
            buf_text(&text, "; ");
            write_answer(sorted[++i], &text);
        }
        groups[group_count++] = (struct group){ .call = *call, .answers = buf_string(&text) };
    }
    return group_count;
}

/* is_alike() - does @other differ in its type alone? */
static bool is_alike(const struct group *group, const struct group *other)
{
    struct cudnn_call same = other->call;

    same.type = group->call.type;
    same.input[0] = group->call.input[0];
    return memcmp(&group->call, &same, sizeof same) == 0 &&
           strcmp(group->answers, other->answers) == 0;
}

static void write_group(const struct group *group, const char *types, struct buf *out)
{
    char text[CUDNN_LINE_MAX];
    int op = 0, type = 0, layout = 0, batch = 0;

    text[cudnn_call_write(&group->call, text)] = '\0';
    op = (int)strcspn(text, " ");
    type = op + 1 + (int)strcspn(text + op + 1, " ");
    layout = type + 1 + (int)strcspn(text + type + 1, " ");
    batch = layout + 1 + (int)strcspn(text + layout + 1, "x");
    buf_printf(out, "  %.*s %s%.*s *%s = %s\n", op, text, types, layout - type, text + type,
               text + batch, group->answers);
}

void cudnn_table_write(const struct cudnn_table *table, int cc, const char *source, struct buf *out)
{
    static const char *const names[CUDNN_TYPES] = { "f32", "f64", "f16", "bf16" };
    const struct cudnn_answer *const *sorted = cudnn_answers_sort(&table->answers, out->arena);
    struct group *groups = arena_array(out->arena, struct group, table->answers.count);
    size_t count = find_groups(sorted, table->answers.count, groups, out->arena);

    buf_printf(out,
               "plimsoll: 1\ncudnn: %d.%d\ncompute_capability: %d.%d\nsource: \"%s\"\ncalls: |\n",
               table->version / 10000, table->version / 100 % 100, cc / 10, cc % 10, source);
    for (size_t i = 0; i < count; i++) {
        struct buf types = { .arena = out->arena };

        if (groups[i].done)
            continue;
        for (size_t j = i; j < count; j++)
            if (!groups[j].done && is_alike(&groups[i], &groups[j])) {
                groups[j].done = true;
                buf_printf(&types, "%s%s", types.length ? "+" : "", names[groups[j].call.type]);
            }
        write_group(&groups[i], buf_string(&types), out);
    }
}
