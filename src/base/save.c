#define _GNU_SOURCE /* mkostemp */
/*
 * base/save.c - write a file whole or not at all
 *
 * A temporary file in the target's folder, fsync, rename: a reader sees the old file or the new one, never half of it, also
 * after a crash.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/save.h"

enum plm_status save_stream(
    int fd, const char *name, const char *data, size_t length, struct plm_error *reterr)
{
    while (length > 0) {
        ssize_t written = write(fd, data, length);

        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return plm_fail(reterr, PLM_E_IO, "cannot write to %.160s: %s", name,
                            strerror(written ? errno : EIO));
        data += written;
        length -= (size_t)written;
    }
    return PLM_OK;
}

static enum plm_status cannot(const char *path, int why, struct plm_error *reterr)
{
    return plm_fail(reterr, PLM_E_USAGE, "cannot create '%.160s': %s", path, strerror(why));
}

/* save_direct() - into what exists already and is no regular file */
static enum plm_status save_direct(const char *path,
                                   const char *data,
                                   size_t length,
                                   struct plm_error *reterr)
{
    enum plm_status status;
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);

    if (fd < 0)
        return cannot(path, errno, reterr);
    status = save_stream(fd, path, data, length, reterr);
    if (close(fd) != 0 && status == PLM_OK)
        status = plm_fail(reterr, PLM_E_IO, "cannot write to %.160s: %s", path, strerror(errno));
    return status;
}

/* permissions() - what open() would have given a new file, or what the old one has */
static mode_t permissions(const struct stat *old)
{
    mode_t mask;

    if (old)
        return old->st_mode & 07777;
    mask = umask(0);
    umask(mask);
    return 0666 & ~mask;
}

/* fill() - the temporary file's bytes and mode, safely on the disk */
static enum plm_status fill(int fd,
                            const char *path,
                            mode_t mode,
                            const char *data,
                            size_t length,
                            struct plm_error *reterr)
{
    enum plm_status status = save_stream(fd, path, data, length, reterr);

    if (status == PLM_OK && (fchmod(fd, mode) != 0 || fsync(fd) != 0))
        status = plm_fail(reterr, PLM_E_IO, "cannot write to %.160s: %s", path, strerror(errno));
    return status;
}

/* struct place - where a file goes, and through which other one */
struct place {
    bool direct; /* into what exists, without a temporary file */
    mode_t mode;
    char target[PATH_MAX], temporary[PATH_MAX];
};

static enum plm_status find_place(const char *path, struct place *place, struct plm_error *reterr)
{
    struct stat old;
    bool exists = stat(path, &old) == 0;

    if (exists && S_ISDIR(old.st_mode))
        return cannot(path, EISDIR, reterr);
    if (!exists && errno != ENOENT)
        return cannot(path, errno, reterr);
    if (exists && access(path, W_OK) != 0) /* a rename would go around the file's own permissions */
        return cannot(path, errno, reterr);
    place->direct = exists && !S_ISREG(old.st_mode);
    if (place->direct) /* it may have no path of its own, as a pipe behind /dev/stdout */
        return PLM_OK;
    place->mode = permissions(exists ? &old : NULL);
    if (exists ? !realpath(path, place->target)
               : snprintf(place->target, PATH_MAX, "%s", path) >= PATH_MAX)
        return cannot(path, exists ? errno : ENAMETOOLONG, reterr);
    if (snprintf(place->temporary, PATH_MAX, "%s.XXXXXX", place->target) >= PATH_MAX)
        return cannot(path, ENAMETOOLONG, reterr);
    return PLM_OK;
}

enum plm_status save_file(const char *path,
                          const char *data,
                          size_t length,
                          struct plm_error *reterr)
{
    struct place place;
    enum plm_status status = find_place(path, &place, reterr);
    int fd;

    if (status != PLM_OK)
        return status;
    if (place.direct)
        return save_direct(path, data, length, reterr);
    fd = mkostemp(place.temporary, O_CLOEXEC);
    if (fd < 0)
        return cannot(path, errno, reterr);
    status = fill(fd, path, place.mode, data, length, reterr);
    if (close(fd) != 0 && status == PLM_OK)
        status = plm_fail(reterr, PLM_E_IO, "cannot write to %.160s: %s", path, strerror(errno));
    if (status == PLM_OK && rename(place.temporary, place.target) != 0)
        status = cannot(path, errno, reterr);
    if (status != PLM_OK)
        unlink(place.temporary);
    return status;
}

enum plm_status save_try(const char *path, size_t length, struct plm_error *reterr)
{
    static const char nothing[4096];
    struct place place;
    enum plm_status status = find_place(path, &place, reterr);
    int fd;

    if (status != PLM_OK || place.direct)
        return status;
    fd = mkostemp(place.temporary, O_CLOEXEC);
    if (fd < 0)
        return cannot(path, errno, reterr);
    unlink(place.temporary); /* it has bytes on the disk still, and is gone however this ends */
    for (size_t left = length; left > 0 && status == PLM_OK;) {
        size_t part = left < sizeof nothing ? left : sizeof nothing;

        status = save_stream(fd, path, nothing, part, reterr);
        left -= part;
    }
    if (status == PLM_OK && fsync(fd) != 0)
        status = plm_fail(reterr, PLM_E_IO, "cannot write to %.160s: %s", path, strerror(errno));
    close(fd);
    return status;
}
