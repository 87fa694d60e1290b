/*
 * device/cudnn.h - what cuDNN takes as a workspace: asked of a libcudnn, looked up in a shipped table, or not known
 *
 * Since version 9.8 cuDNN plans for a device that is only described, so a libcudnn answers without a GPU and without a driver.
 * It is asked in a process of its own; its answers are kept in memory and in a file, by version and device.
 */
#ifndef PLM_DEVICE_CUDNN_H
#define PLM_DEVICE_CUDNN_H

#include "base/arena.h"
#include "base/error.h"
#include "device/cudnn_answers.h"
#include "device/cudnn_plan.h"

struct cudnn;         /* libraries and tables; shared by threads */
struct cudnn_planner; /* what answers for one version of the framework and one device */

enum cudnn_source {
    CUDNN_UNKNOWN, /* nobody could say */
    CUDNN_LIBRARY, /* a libcudnn said so, in this run or an earlier one */
    CUDNN_TABLE,   /* a shipped table says so */
};

struct cudnn *cudnn_create(void);
void cudnn_destroy(struct cudnn *cudnn);

/* cudnn_add_library() - a libcudnn.so.9 that may be asked; with @chosen it is asked even if another has the right version */
void cudnn_add_library(struct cudnn *cudnn, const char *path, bool chosen);

/* cudnn_add_tables() - a folder with tables, *.yaml */
void cudnn_add_tables(struct cudnn *cudnn, const char *folder);

/* cudnn_set_cache() - the folder where answers are kept between runs; it is made when needed. NULL: none */
void cudnn_set_cache(struct cudnn *cudnn, const char *folder);

/* cudnn_set_stand_ins() - the folder with what stands in for cuBLASLt; without one cuDNN's engines that want it are left out */
void cudnn_set_stand_ins(struct cudnn *cudnn, const char *folder);

/* cudnn_set_patience() - how many seconds a library may take for an answer before it is given up; default 20 */
void cudnn_set_patience(struct cudnn *cudnn, double seconds);

/* cudnn_prepare() - fork the processes that may be needed, before threads are started that share @cudnn; nothing is loaded yet */
void cudnn_prepare(struct cudnn *cudnn);

/*
 * cudnn_open() - the planner for a framework that brings cuDNN @version (92600) on @gpu; thread-safe
 *
 * Libraries whose version is not known are loaded for it, in their processes. Never NULL; it belongs to @cudnn.
 */
struct cudnn_planner *cudnn_open(struct cudnn *cudnn, int version, const struct cudnn_gpu *gpu);

/* cudnn_ask() - the workspaces of @call; thread-safe */
enum cudnn_source cudnn_ask(struct cudnn_planner *planner,
                            const struct cudnn_call *call,
                            struct cudnn_workspaces *ret_workspaces);

/* cudnn_library_version() - of the library that the planner asks; 0: none */
int cudnn_library_version(const struct cudnn_planner *planner);

/* cudnn_table_version() - of the cuDNN that the planner's table was made with; 0: none */
int cudnn_table_version(const struct cudnn_planner *planner);

/* cudnn_refusal() - why a library that was chosen, or that answered before, is not asked any more; NULL: no reason */
const char *cudnn_refusal(struct cudnn_planner *planner);

/* cudnn_complaint() - what was wrong with the file of earlier answers; NULL: nothing */
const char *cudnn_complaint(const struct cudnn_planner *planner);

/* cudnn_record() - from now on keep in mind what libraries answer, for cudnn_write_tables() */
void cudnn_record(struct cudnn *cudnn);

/*
 * cudnn_write_tables() - into @folder a table for each version and compute capability that libraries answered for
 *
 * What a table there has already stays in it. @ret_count is how many were written.
 */
PLM_MUST_CHECK enum plm_status cudnn_write_tables(struct cudnn *cudnn,
                                                  const char *folder,
                                                  const char *source,
                                                  size_t *ret_count,
                                                  struct plm_error *reterr);

#endif
