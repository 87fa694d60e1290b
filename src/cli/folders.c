/* cli/folders.c - where the program's files are looked for; the variables that name them are read here */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/error.h"
#include "cli/folders.h"

typedef void add_folder(struct plm_context *context, const char *folder);

static bool is_folder(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static const char *join(struct arena *arena, const char *folder, const char *name)
{
    struct buf path = { .arena = arena };

    buf_printf(&path, "%s/%s", folder, name);
    return buf_string(&path);
}

/* beside_program() - @name from the program's own folder; NULL when that cannot be found */
static const char *beside_program(struct arena *arena, const char *name)
{
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    char *slash;

    if (length <= 0)
        return NULL;
    path[length] = '\0';
    slash = strrchr(path, '/');
    if (!slash)
        return NULL;
    *slash = '\0';
    return join(arena, path, name);
}

static void add_listed(struct plm_context *context,
                       struct arena *arena,
                       const char *list,
                       add_folder *add)
{
    while (list && *list) {
        size_t length = strcspn(list, ":");

        if (length > 0)
            add(context, arena_copy(arena, list, length));
        list += length + (list[length] == ':');
    }
}

static void add_kind(struct plm_context *context,
                     struct arena *arena,
                     const char *kind,
                     const char *variable,
                     const char *source,
                     add_folder *add)
{
    const char *share = beside_program(arena, "../share/plimsoll");
    const char *own = share ? join(arena, share, kind) : NULL;
    const char *compiled = join(arena, PLM_DATADIR, kind);

    add_listed(context, arena, getenv(variable), add);
    if (own && is_folder(own))
        add(context, own);
    else if (is_folder(source))
        add(context, source);
    if (is_folder(compiled))
        add(context, compiled);
}

void folders_add(struct plm_context *context, struct arena *arena)
{
    add_kind(context, arena, "models", "PLIMSOLL_MODELS", PLM_SOURCE_MODELS,
             plm_context_add_models);
    add_kind(context, arena, "devices", "PLIMSOLL_DEVICES", PLM_SOURCE_DEVICES,
             plm_context_add_devices);
    if (folders_profiles(arena))
        plm_context_add_devices(context, folders_profiles(arena));
    add_kind(context, arena, "cudnn", "PLIMSOLL_CUDNN_TABLES", PLM_SOURCE_CUDNN,
             plm_context_add_cudnn_tables);
}

enum plm_status folders_make(const char *path, struct arena *arena, struct plm_error *reterr)
{
    for (const char *end = strchr(path + 1, '/');; end = strchr(end + 1, '/')) {
        const char *folder = end ? arena_copy(arena, path, (size_t)(end - path)) : path;

        if (mkdir(folder, 0777) != 0 && errno != EEXIST)
            return plm_fail(reterr, PLM_E_IO,
                            "cannot make the folder %.120s: %s; -o writes elsewhere", folder,
                            strerror(errno));
        if (!end)
            return PLM_OK;
    }
}

const char *folders_stand_ins(struct arena *arena)
{
    const char *own = beside_program(arena, "../libexec/plimsoll");

    if (own && is_folder(own))
        return own;
    return is_folder(PLM_BUILT_STAND_INS) ? PLM_BUILT_STAND_INS : PLM_LIBEXECDIR;
}

const char *folders_profiles(struct arena *arena)
{
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");

    if (config && *config == '/') /* as the XDG specification has it, others are ignored */
        return join(arena, config, "plimsoll/devices");
    return home && *home == '/' ? join(arena, home, ".config/plimsoll/devices") : NULL;
}
