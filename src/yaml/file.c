/* yaml/file.c - a whole file as text; read in growing pieces, so that pipes work too */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "yaml/file.h"

static enum plm_status fail_io(const char *path, int code, struct plm_error *reterr)
{
    return plm_fail_at(reterr, PLM_E_IO, (struct source){ path, 0, 0 }, "cannot be read: %s",
                       strerror(code));
}

static enum plm_status read_open(FILE *file,
                                 const char *path,
                                 size_t bytes_max,
                                 struct arena *arena,
                                 const char **ret_text,
                                 size_t *ret_length,
                                 struct plm_error *reterr)
{
    char *text = NULL;
    size_t length = 0, capacity = 0;

    for (;;) {
        if (length + 1 >= capacity)
            text = arena_grow(arena, text, &capacity, 1, 1);
        size_t got = fread(text + length, 1, capacity - length - 1, file);

        length += got;
        if (length > bytes_max)
            return plm_fail_at(reterr, PLM_E_RANGE, (struct source){ path, 0, 0 },
                               "larger than %zu bytes", bytes_max);
        if (got == 0)
            break;
    }
    if (ferror(file))
        return fail_io(path, errno, reterr);
    text[length] = '\0';
    *ret_text = text;
    *ret_length = length;
    return PLM_OK;
}

enum plm_status file_read(const char *path,
                          size_t bytes_max,
                          struct arena *arena,
                          const char **ret_text,
                          size_t *ret_length,
                          struct plm_error *reterr)
{
    struct stat info;
    FILE *file = fopen(path, "rb");

    if (!file)
        return fail_io(path, errno, reterr);
    enum plm_status status;

    if (fstat(fileno(file), &info) == 0 && S_ISDIR(info.st_mode))
        status = fail_io(path, EISDIR, reterr);
    else
        status = read_open(file, path, bytes_max, arena, ret_text, ret_length, reterr);
    fclose(file);
    return status;
}
