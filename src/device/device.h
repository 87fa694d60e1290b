/*
 * device/device.h - device profiles: what a GPU has, and what a process takes before its first tensor
 *
 * A profile is a YAML file (plimsoll-device(5)). Built-in ones are NAME.yaml in a folder of profiles; one that
 * `plimsoll calibrate` wrote has the same keys.
 */
#ifndef PLM_DEVICE_DEVICE_H
#define PLM_DEVICE_DEVICE_H

#include "plimsoll/plimsoll.h"

#include "base/arena.h"
#include "yaml/decode.h"

/* device_fields - the keys of a profile; the manual lists them from here */
extern const struct decode_row device_fields[];
extern const size_t device_field_count;

/* device_load_file() - read and check one profile; its texts are in @arena */
PLM_MUST_CHECK enum plm_status device_load_file(const char *path,
                                                struct arena *arena,
                                                struct plm_device *ret_device,
                                                struct plm_error *reterr);

/*
 * device_find() - the profile called @name, or the file @name when that has a '/' or ends in ".yaml"
 *
 * @folders are searched in order. An unknown name is PLM_E_USAGE, with the nearest known one in the message.
 */
PLM_MUST_CHECK enum plm_status device_find(const char *const *folders,
                                           size_t folder_count,
                                           const char *name,
                                           struct arena *arena,
                                           struct plm_device *ret_device,
                                           struct plm_error *reterr);

/* device_names() - the names of every profile in @folders, sorted, each once */
void device_names(const char *const *folders,
                  size_t folder_count,
                  struct arena *arena,
                  const char *const **ret_names,
                  size_t *ret_count);

/* device_list() - every profile in @folders, sorted by name; what is wrong with the others */
void device_list(const char *const *folders,
                 size_t folder_count,
                 struct arena *arena,
                 struct plm_device_list *ret_list);

#endif
