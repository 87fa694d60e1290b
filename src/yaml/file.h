/* yaml/file.h - a whole file as text, with a bound and with errors that say why */
#ifndef PLM_YAML_FILE_H
#define PLM_YAML_FILE_H

#include "base/arena.h"
#include "base/error.h"

/*
 * file_read() - the bytes of @path and a closing zero
 *
 * More than @bytes_max is an error (the file is not read further), and so is a directory. Pipes work.
 */
PLM_MUST_CHECK enum plm_status file_read(const char *path,
                                         size_t bytes_max,
                                         struct arena *arena,
                                         const char **ret_text,
                                         size_t *ret_length,
                                         struct plm_error *reterr);

#endif
