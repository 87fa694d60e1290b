/*
 * device/cudnn_cache.c - the file of answers: a first line that says what it holds, then a line for each call
 *
 *     forward f16 nhwc 32x64x56x56 128x64x3x3 pad 1x1 stride 2x2 dilation 1x1 = 25763856 18944 0 #2b7c0f5e
 *
 * After the "#" is the FNV-1a hash of what is before it. The file of libraries' versions has that, too.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "device/cudnn_cache.h"
#include "yaml/file.h"

enum { CACHE_BYTES_MAX = 64 * 1024 * 1024, VERSIONS_BYTES_MAX = 1024 * 1024, MARK_LENGTH = 10 };

/* What the plans' order means is ours: a change in cudnn_plan.c that changes answers counts this up. */
static const char first_line[] = "plimsoll: workspaces of cuDNN, format 6\n";

static void forget(struct cudnn_cache *cache)
{
    cache->path = NULL;
}

/* write_mark() - " #" and the hash of what is before it */
static void write_mark(const char *text, size_t length, char mark[MARK_LENGTH + 1])
{
    uint32_t hash = 0x811c9dc5;

    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)text[i]) * 0x01000193;
    snprintf(mark, MARK_LENGTH + 1, " #%08" PRIx32, hash);
}

/* has_mark() - is the line what was written? Its *length is then without the mark */
static bool has_mark(const char *line, size_t *length)
{
    char mark[MARK_LENGTH + 1];

    if (*length <= MARK_LENGTH)
        return false;
    *length -= MARK_LENGTH;
    write_mark(line, *length, mark);
    return memcmp(line + *length, mark, MARK_LENGTH) == 0;
}

/* read_line() - false when it is not what was written */
static bool read_line(struct cudnn_answers *answers, const char *line, size_t length)
{
    return has_mark(line, &length) && cudnn_answers_read(answers, line, length);
}

/* read_lines() - of the whole file but its first line: the number of the first that is none; 0: all are */
static unsigned read_lines(struct cudnn_answers *answers, const char *text, const char *end)
{
    for (unsigned number = 2; text < end; number++) {
        size_t length = strcspn(text, "\n");

        if (text[length] != '\n' || !read_line(answers, text, length))
            return number;
        text += length + 1;
    }
    return 0;
}

/* is_ours() - may it be a file that was written here? A pipe in its place would be waited for */
static bool is_ours(const char *path)
{
    struct stat info;

    return stat(path, &info) != 0 || S_ISREG(info.st_mode);
}

void cudnn_cache_load(struct cudnn_cache *cache,
                      const char *folder,
                      int version,
                      const struct cudnn_gpu *gpu,
                      struct arena *arena,
                      struct cudnn_answers *answers)
{
    struct buf path = { .arena = arena }, complaint = { .arena = arena };
    struct cudnn_answers read = { .arena = answers->arena };
    const char *text;
    size_t length, first = sizeof first_line - 1;
    unsigned wrong = 0;

    *cache = (struct cudnn_cache){ 0 };
    if (!folder)
        return;
    buf_printf(&path, "%s/cudnn-%d-sm%d-%d-%d.txt", folder, version, gpu->cc, gpu->sm_count,
               gpu->threads_per_sm);
    cache->folder = folder;
    cache->path = buf_string(&path);
    if (!is_ours(cache->path)) {
        forget(cache);
        return;
    }
    if (file_read(cache->path, CACHE_BYTES_MAX, arena, &text, &length, NULL) != PLM_OK)
        return;
    if (strncmp(text, first_line, first) == 0) {
        wrong = read_lines(&read, text + first, text + length);
        if (wrong == 0) {
            *answers = read;
            return;
        }
        buf_printf(&complaint,
                   "%s:%u: this is not what was written; the file is thrown away, and cuDNN is "
                   "asked again",
                   cache->path, wrong);
        cache->complaint = buf_string(&complaint);
    }
    unlink(cache->path);
}

/* make_folder() - @path and the folders that it is in */
static void make_folder(const char *path)
{
    char part[4096];

    for (size_t i = 1; i < sizeof part; i++)
        if (path[i] == '/' || path[i] == '\0') {
            memcpy(part, path, i);
            part[i] = '\0';
            if ((mkdir(part, 0777) != 0 && errno != EEXIST) || path[i] == '\0')
                return;
        }
}

static bool write_all(int file, const char *text, size_t length)
{
    return write(file, text, length) == (ssize_t)length;
}

/* make_file() - with its first line, at once: it is linked into place when that has been written */
static void make_file(const char *path)
{
    char name[4096];
    int length = snprintf(name, sizeof name, "%s.%ld", path, (long)getpid());

    if (length < 0 || (size_t)length >= sizeof name)
        return;
    int file = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);

    if (file < 0)
        return;
    bool written = write_all(file, first_line, sizeof first_line - 1);

    /* where it exists already, another program was quicker: the same file */
    if (close(file) == 0 && written && link(name, path) != 0 && errno != EEXIST)
        (void)rename(name, path); /* a file system without links */
    unlink(name);
}

/* open_file() - for appending; false when there is no place */
static bool open_file(struct cudnn_cache *cache)
{
    if (cache->opened || !cache->path)
        return cache->opened;
    if (access(cache->path, F_OK) != 0) {
        make_folder(cache->folder);
        make_file(cache->path);
    }
    cache->file = open(cache->path, O_WRONLY | O_APPEND | O_CLOEXEC);
    cache->opened = cache->file >= 0;
    if (!cache->opened)
        forget(cache);
    return cache->opened;
}

void cudnn_cache_keep(struct cudnn_cache *cache,
                      const struct cudnn_call *call,
                      const struct cudnn_workspaces *workspaces)
{
    char text[2 * CUDNN_LINE_MAX + MARK_LENGTH + 2];

    if (!open_file(cache))
        return;
    size_t length = cudnn_call_write(call, text);

    text[length++] = ' ';
    text[length++] = '=';
    length += cudnn_workspaces_write(workspaces, text + length);
    write_mark(text, length, text + length);
    length += MARK_LENGTH;
    text[length++] = '\n';
    if (!write_all(cache->file, text,
                   length)) { /* half a line: the next run throws the file away */
        cudnn_cache_close(cache);
        forget(cache);
    }
}

/* ------------------------------------------------------------------ versions */

/* version_line() - what is kept of a library: its file by name, size and time; behind that are its version and the mark */
static bool version_line(const char *path, struct buf *line)
{
    struct stat info;

    if (stat(path, &info) != 0 || strchr(path, '\n'))
        return false;
    buf_printf(line, "%lld %lld.%09ld %s = ", (long long)info.st_size,
               (long long)info.st_mtim.tv_sec, info.st_mtim.tv_nsec, path);
    return true;
}

static const char *versions_path(const char *folder, struct arena *arena)
{
    struct buf path = { .arena = arena };

    buf_printf(&path, "%s/cudnn-libraries.txt", folder);
    return buf_string(&path);
}

int cudnn_cache_version(const char *folder, const char *path, struct arena *arena)
{
    struct buf line = { .arena = arena };
    const char *text;
    size_t length;
    int version;

    if (!folder || !version_line(path, &line) || !is_ours(versions_path(folder, arena)) ||
        file_read(versions_path(folder, arena), VERSIONS_BYTES_MAX, arena, &text, &length, NULL) !=
            PLM_OK)
        return 0;
    for (; *text; text += strcspn(text, "\n"), text += *text == '\n') {
        length = strcspn(text, "\n");
        if (strncmp(text, buf_string(&line), line.length) == 0 && has_mark(text, &length) &&
            sscanf(text + line.length, "%6d", &version) == 1 && version > 0)
            return version;
    }
    return 0;
}

void cudnn_cache_keep_version(const char *folder,
                              const char *path,
                              int version,
                              struct arena *arena)
{
    struct buf line = { .arena = arena };
    char mark[MARK_LENGTH + 1];

    if (!folder || !version_line(path, &line) || !is_ours(versions_path(folder, arena)))
        return;
    buf_printf(&line, "%d", version);
    write_mark(buf_string(&line), line.length, mark);
    buf_printf(&line, "%s\n", mark);
    make_folder(folder);
    int file = open(versions_path(folder, arena), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);

    if (file < 0)
        return;
    (void)write_all(file, buf_string(&line), line.length);
    close(file);
}

void cudnn_cache_close(struct cudnn_cache *cache)
{
    if (cache->opened)
        close(cache->file);
    cache->opened = false;
}
