/*
 * device/cudnn_table.h - tables of workspaces that are shipped, for where there is no libcudnn
 *
 * A table is a YAML file for one version of cuDNN and one compute capability, named after both: 9.26-sm80.yaml.
 * `plimsoll calibrate --cudnn` writes them.
 */
#ifndef PLM_DEVICE_CUDNN_TABLE_H
#define PLM_DEVICE_CUDNN_TABLE_H

#include "base/buf.h"
#include "base/error.h"
#include "device/cudnn_answers.h"

/* struct cudnn_table - version 0: no table */
struct cudnn_table {
    int version; /* 92600; the patch level is not told apart */
    struct cudnn_answers answers;
};

/* cudnn_table_load() - read and check one file; an error names the line */
PLM_MUST_CHECK enum plm_status cudnn_table_load(const char *path,
                                                struct arena *arena,
                                                struct cudnn_table *ret_table,
                                                int *ret_cc,
                                                struct plm_error *reterr);

/*
 * cudnn_table_find() - in @folders the table for @cc of the version nearest to @version; none is no error
 */
PLM_MUST_CHECK enum plm_status cudnn_table_find(const char *const *folders,
                                                size_t folder_count,
                                                int version,
                                                int cc,
                                                struct arena *arena,
                                                struct cudnn_table *ret_table,
                                                struct plm_error *reterr);

/* cudnn_table_write() - the file's text */
void cudnn_table_write(const struct cudnn_table *table,
                       int cc,
                       const char *source,
                       struct buf *out);

#endif
