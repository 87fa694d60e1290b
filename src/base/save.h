/* base/save.h - write a file whole or not at all */
#ifndef PLM_BASE_SAVE_H
#define PLM_BASE_SAVE_H

#include <stddef.h>

#include "plimsoll/types.h"

/*
 * save_file() - make @path hold @length bytes of @data
 *
 * The bytes go to a temporary file in the same folder, which then takes the name; on failure it is removed and what
 * was there before stays. A symbolic link is followed. What exists and is no regular file (a device, a pipe) is written to directly.
 *
 * PLM_E_USAGE: @path cannot be created there; PLM_E_IO: it could, and writing failed.
 */
PLM_MUST_CHECK enum plm_status save_file(const char *path,
                                         const char *data,
                                         size_t length,
                                         struct plm_error *reterr);

/*
 * save_try() - would save_file() with @length bytes go well: the folder is there and may be written to, and the disk has room
 *
 * Leaves nothing behind. What exists and is no regular file is only asked for its permission.
 */
PLM_MUST_CHECK enum plm_status save_try(const char *path, size_t length, struct plm_error *reterr);

/* save_stream() - write to an open descriptor; PLM_E_IO on failure */
PLM_MUST_CHECK enum plm_status save_stream(
    int fd, const char *name, const char *data, size_t length, struct plm_error *reterr);

#endif
