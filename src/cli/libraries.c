/*
 * cli/libraries.c - where a libcudnn is looked for; PLIMSOLL_CUDNN and the places of other programs' libraries are read here
 */
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/error.h"
#include "cli/folders.h"
#include "cli/libraries.h"

static const char library_name[] = "libcudnn.so.9";

/* The folders of the CUDA toolkit and of distributions' packages. */
static const char *const usual[] = {
    "/usr/local/cuda/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
};

/* Where pip puts nvidia-cudnn-cu12 and -cu13, below an environment; the second where Python is Debian's. */
static const char *const in_environment[] = {
    "/lib/python3*/site-packages/nvidia/cudnn/lib",
    "/lib/python3*/dist-packages/nvidia/cudnn/lib",
};

struct search {
    struct plm_context *context;
    struct arena *arena;
};

static const char *join(struct arena *arena, const char *folder, const char *rest)
{
    struct buf path = { .arena = arena };

    buf_printf(&path, "%s%s", folder, rest);
    return buf_string(&path);
}

static void add_folder(const struct search *s, const char *folder)
{
    const char *path = join(s->arena, join(s->arena, folder, "/"), library_name);

    if (access(path, R_OK) == 0)
        plm_context_add_cudnn(s->context, path, false);
}

static void add_environment(const struct search *s, const char *environment)
{
    glob_t found;

    if (!environment || !*environment)
        return;
    add_folder(s, join(s->arena, environment, "/lib"));
    for (size_t i = 0; i < sizeof in_environment / sizeof in_environment[0]; i++) {
        if (glob(join(s->arena, environment, in_environment[i]), 0, NULL, &found) != 0)
            continue;
        for (size_t j = 0; j < found.gl_pathc; j++)
            add_folder(s, found.gl_pathv[j]);
        globfree(&found);
    }
}

/* add_python() - the environment of the python3 that PATH names, active or not, and what a user has installed for it */
static void add_python(const struct search *s)
{
    const char *list = getenv("PATH"), *home = getenv("HOME");

    for (size_t length; list && *list; list += length + (list[length] == ':')) {
        length = strcspn(list, ":");
        const char *folder = arena_copy(s->arena, list, length);

        if (*folder != '/' || access(join(s->arena, folder, "/python3"), X_OK) != 0)
            continue;
        add_environment(s, join(s->arena, folder, "/.."));
        break;
    }
    if (home && *home == '/')
        add_environment(s, join(s->arena, home, "/.local"));
}

static bool is_folder(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* library_of() - the library that a setting names itself or by its folder */
static const char *library_of(const struct search *s, const char *path)
{
    return is_folder(path) ? join(s->arena, join(s->arena, path, "/"), library_name) : path;
}

/* add_listed() - each entry of a list separated by ':' */
static void add_listed(const struct search *s,
                       const char *list,
                       void (*add)(const struct search *s, const char *entry))
{
    while (list && *list) {
        size_t length = strcspn(list, ":");

        if (length > 0)
            add(s, arena_copy(s->arena, list, length));
        list += length + (list[length] == ':');
    }
}

static void add_candidate(const struct search *s, const char *path)
{
    plm_context_add_cudnn(s->context, library_of(s, path), false);
}

static void add_found(const struct search *s)
{
    add_listed(s, getenv("LD_LIBRARY_PATH"), add_folder);
    add_environment(s, getenv("VIRTUAL_ENV"));
    add_environment(s, getenv("CONDA_PREFIX"));
    add_python(s);
    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++)
        add_folder(s, usual[i]);
}

/* set_cache() - $XDG_CACHE_HOME/plimsoll, else ~/.cache/plimsoll; none where there is neither */
static void set_cache(const struct search *s)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");

    if (cache && *cache == '/')
        plm_context_set_cudnn_cache(s->context, join(s->arena, cache, "/plimsoll"));
    else if (home && *home == '/')
        plm_context_set_cudnn_cache(s->context, join(s->arena, home, "/.cache/plimsoll"));
}

enum plm_status libraries_add(struct plm_context *context,
                              const char *setting,
                              struct arena *arena,
                              struct plm_error *reterr)
{
    struct search s = { context, arena };
    const char *variable = getenv("PLIMSOLL_CUDNN");
    bool automatic = !setting || strcmp(setting, "auto") == 0;

    if (automatic && variable && *variable)
        setting = variable;
    if (setting && strcmp(setting, "off") == 0)
        return PLM_OK;
    set_cache(&s);
    plm_context_set_cudnn_stand_ins(context, folders_stand_ins(arena));
    if (!automatic) {
        const char *path = library_of(&s, setting);

        if (access(path, F_OK) != 0)
            return plm_fail(reterr, PLM_E_USAGE,
                            "--cudnn: '%.120s' does not exist; auto, off, a libcudnn.so.9 or the "
                            "folder that it is in was expected",
                            path);
        plm_context_add_cudnn(context, path, true);
    } else if (setting && strcmp(setting, "auto") != 0) {
        add_listed(&s, setting, add_candidate);
    } else {
        add_found(&s);
    }
    return PLM_OK;
}
