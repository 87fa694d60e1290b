/*
 * device/cudnn_cache.h - a libcudnn's answers, kept between runs
 *
 * One file for each version of cuDNN and each kind of device, of lines that are appended whole, so that several programs may share it.
 * Each has a checksum of its own. A file that is not what was written is thrown away, and that is told: answers are quickly had again.
 * Without a place to write there is no cache.
 */
#ifndef PLM_DEVICE_CUDNN_CACHE_H
#define PLM_DEVICE_CUDNN_CACHE_H

#include "device/cudnn_answers.h"
#include "device/cudnn_plan.h"

/* struct cudnn_cache - zero-initialise */
struct cudnn_cache {
    const char *folder, *path; /* NULL: none */
    const char *complaint;     /* what was wrong with the file; NULL: nothing */
    int file;                  /* open for appending, when opened */
    bool opened;
};

/* cudnn_cache_load() - add to @answers what @folder has of that version and device; texts are in @arena */
void cudnn_cache_load(struct cudnn_cache *cache,
                      const char *folder,
                      int version,
                      const struct cudnn_gpu *gpu,
                      struct arena *arena,
                      struct cudnn_answers *answers);

/* cudnn_cache_keep() - append an answer; the folder and the file are made when they are not there */
void cudnn_cache_keep(struct cudnn_cache *cache,
                      const struct cudnn_call *call,
                      const struct cudnn_workspaces *workspaces);

/*
 * cudnn_cache_version() - of the library at @path, as it was kept; 0: it is not known, or the file is another now
 *
 * So that a library whose answers are all there need not be loaded. cudnn_cache_keep_version() keeps it.
 */
int cudnn_cache_version(const char *folder, const char *path, struct arena *arena);
void cudnn_cache_keep_version(const char *folder,
                              const char *path,
                              int version,
                              struct arena *arena);

void cudnn_cache_close(struct cudnn_cache *cache);

#endif
