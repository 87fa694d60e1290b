/* device/folder.c - finds device profiles by name in folders */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "device/device.h"
#include "device/suggest.h"

static const char suffix[] = ".yaml";
enum { SUFFIX_LENGTH = sizeof suffix - 1, NAME_MAX_LENGTH = 64 };

static bool ends_in_suffix(const char *name)
{
    size_t length = strlen(name);

    return length > SUFFIX_LENGTH && strcmp(name + length - SUFFIX_LENGTH, suffix) == 0;
}

static const char *join(struct arena *arena, const char *folder, const char *name)
{
    struct buf path = { .arena = arena };

    buf_printf(&path, "%s/%s%s", folder, name, suffix);
    return buf_string(&path);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void device_names(const char *const *folders,
                  size_t folder_count,
                  struct arena *arena,
                  const char *const **ret_names,
                  size_t *ret_count)
{
    const char **names = NULL;
    size_t count = 0, capacity = 0, kept = 0;

    for (size_t i = 0; i < folder_count; i++) {
        DIR *folder = opendir(folders[i]);

        if (!folder)
            continue; /* folders may be absent: one is of the build, one of the installation */
        for (const struct dirent *entry; (entry = readdir(folder));)
            if (ends_in_suffix(entry->d_name))
                arena_push(arena, names, count, capacity,
                           arena_copy(arena, entry->d_name, strlen(entry->d_name) - SUFFIX_LENGTH));
        closedir(folder);
    }
    if (count > 1)
        qsort(names, count, sizeof *names, compare_names);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || strcmp(names[kept - 1], names[i]) != 0)
            names[kept++] = names[i];
    *ret_names = names;
    *ret_count = kept;
}

/* find_path() - the file of the profile @name, or NULL; a link that leads nowhere is one too, so that reading it says so */
static const char *find_path(const char *const *folders,
                             size_t folder_count,
                             const char *name,
                             struct arena *arena)
{
    for (size_t i = 0; i < folder_count; i++) {
        const char *path = join(arena, folders[i], name);

        if (faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
            return path;
    }
    return NULL;
}

enum plm_status device_find(const char *const *folders,
                            size_t folder_count,
                            const char *name,
                            struct arena *arena,
                            struct plm_device *ret_device,
                            struct plm_error *reterr)
{
    if (strchr(name, '/') || ends_in_suffix(name))
        return device_load_file(name, arena, ret_device, reterr);

    const char *path =
        strlen(name) <= NAME_MAX_LENGTH ? find_path(folders, folder_count, name, arena) : NULL;

    if (path)
        return device_load_file(path, arena, ret_device, reterr);

    const char *const *names;
    size_t count;

    device_names(folders, folder_count, arena, &names, &count);
    const char *near = suggest_devices(name, names, count, arena);

    if (near)
        return plm_fail(reterr, PLM_E_USAGE, "unknown device '%.60s'; did you mean %s?", name,
                        near);
    if (count == 0)
        return plm_fail(reterr, PLM_E_USAGE,
                        "unknown device '%.60s': no device profiles were found; give a file", name);
    return plm_fail(reterr, PLM_E_USAGE,
                    "unknown device '%.60s'; `plimsoll devices` lists the known ones", name);
}

void device_list(const char *const *folders,
                 size_t folder_count,
                 struct arena *arena,
                 struct plm_device_list *ret_list)
{
    struct plm_device_list list = { 0 };
    const char *const *names;
    size_t count, wrong_capacity = 0;

    device_names(folders, folder_count, arena, &names, &count);
    struct plm_device *devices = arena_array(arena, struct plm_device, count);
    struct plm_error *wrong = NULL;

    for (size_t i = 0; i < count; i++) {
        struct plm_error error;

        if (device_find(folders, folder_count, names[i], arena, &devices[list.count], &error) ==
            PLM_OK)
            list.count++;
        else
            arena_push(arena, wrong, list.wrong_count, wrong_capacity, error);
    }
    list.items = devices;
    list.wrong = wrong;
    *ret_list = list;
}
