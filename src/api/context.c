/*
 * api/context.c - where models and devices are found, and loading a model by name
 *
 * A name without a slash or a suffix is looked for in the folders, as NAME.yaml. Anything else is a file: a model, or a
 * config.json of an architecture that some model of the folders stands for.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/internal.h"
#include "base/buf.h"
#include "device/device.h"
#include "import/config_json.h"
#include "yaml/file.h"

static const char suffix[] = ".yaml";

struct plm_context *plm_context_create(void)
{
    struct arena arena = { 0 };
    struct plm_context *context = arena_new(&arena, struct plm_context);

    context->arena = arena;
    context->cudnn = cudnn_create();
    return context;
}

void plm_context_destroy(struct plm_context *context)
{
    if (!context)
        return;
    cudnn_destroy(context->cudnn);
    struct arena arena = context->arena; /* the struct itself is in there */

    arena_finish(&arena);
}

void plm_context_add_models(struct plm_context *context, const char *folder)
{
    arena_push(&context->arena, context->models, context->model_count, context->model_capacity,
               arena_copy(&context->arena, folder, strlen(folder)));
}

void plm_context_add_devices(struct plm_context *context, const char *folder)
{
    arena_push(&context->arena, context->devices, context->device_count, context->device_capacity,
               arena_copy(&context->arena, folder, strlen(folder)));
}

void plm_context_add_cudnn(struct plm_context *context, const char *library, bool chosen)
{
    cudnn_add_library(context->cudnn, library, chosen);
}

void plm_context_add_cudnn_tables(struct plm_context *context, const char *folder)
{
    cudnn_add_tables(context->cudnn, folder);
}

void plm_context_set_cudnn_stand_ins(struct plm_context *context, const char *folder)
{
    cudnn_set_stand_ins(context->cudnn, folder);
}

void plm_context_set_cudnn_cache(struct plm_context *context, const char *folder)
{
    cudnn_set_cache(context->cudnn, folder);
}

/* ------------------------------------------------------------------ names */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

enum plm_status plm_model_names(struct plm_context *context,
                                const char *const **ret_names,
                                size_t *ret_count,
                                struct plm_error *reterr)
{
    const char **names = NULL;
    size_t count = 0, capacity = 0, unique = 0;

    for (size_t f = 0; f < context->model_count; f++) {
        DIR *folder = opendir(context->models[f]);

        for (const struct dirent *entry; folder && (entry = readdir(folder));) {
            size_t length = strlen(entry->d_name), tail = sizeof suffix - 1;

            if (length > tail && strcmp(entry->d_name + length - tail, suffix) == 0)
                arena_push(&context->arena, names, count, capacity,
                           arena_copy(&context->arena, entry->d_name, length - tail));
        }
        if (folder)
            closedir(folder);
    }
    if (count == 0)
        return plm_fail(reterr, PLM_E_IO,
                        "no models were found; PLIMSOLL_MODELS names their folder");
    qsort(names, count, sizeof *names, by_text);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || strcmp(names[i], names[unique - 1]) != 0)
            names[unique++] = names[i];
    *ret_names = names;
    *ret_count = unique;
    return PLM_OK;
}

/* zoo_path() - the file of a zoo model; NULL when no folder has it */
static const char *zoo_path(struct plm_context *context, const char *name, struct arena *arena)
{
    for (size_t f = 0; f < context->model_count; f++) {
        struct buf buf = { .arena = arena };

        buf_printf(&buf, "%s/%s%s", context->models[f], name, suffix);
        if (access(buf_string(&buf), F_OK) == 0)
            return buf_string(&buf);
    }
    return NULL;
}

static bool is_file_name(const char *name)
{
    const char *dot = strrchr(name, '.');

    return strchr(name, '/') || (dot && (strcmp(dot, suffix) == 0 || strcmp(dot, ".yml") == 0 ||
                                         strcmp(dot, ".json") == 0));
}

static enum plm_status unknown_model(struct plm_context *context,
                                     const char *name,
                                     struct plm_error *reterr)
{
    const char *const *names;
    size_t count;
    enum plm_status status = plm_model_names(context, &names, &count, reterr);

    if (status != PLM_OK)
        return status;
    const char *near = error_nearest(name, names, count);

    if (near)
        return plm_fail(reterr, PLM_E_USAGE, "unknown model '%.80s'; did you mean '%s'?", name,
                        near);
    return plm_fail(
        reterr, PLM_E_USAGE,
        "unknown model '%.60s'; `plimsoll models` lists the zoo, and a file, or the folder of a "
        "config.json, is given by its path (./%.40s.yaml)",
        name, name);
}

/* ------------------------------------------------------------------ loading */

/* find_model() - for `extends:`: a file beside the one that asks, or a zoo model */
static enum plm_status find_model(void *context,
                                  const char *name,
                                  const char *from,
                                  struct arena *arena,
                                  struct model_text *ret_text,
                                  struct plm_error *reterr)
{
    const char *slash = from ? strrchr(from, '/') : NULL, *path = NULL;
    struct buf beside = { .arena = arena };

    if (slash)
        buf_add(&beside, from, (size_t)(slash - from) + 1);
    buf_printf(&beside, "%s%s", name, is_file_name(name) ? "" : suffix);
    if (access(buf_string(&beside), F_OK) == 0)
        path = buf_string(&beside);
    else if (!is_file_name(name))
        path = zoo_path(context, name, arena);
    if (!path)
        return unknown_model(context, name, reterr);
    ret_text->file = path;
    return file_read(path, YAML_BYTES_MAX, arena, &ret_text->text, &ret_text->length, reterr);
}

static enum plm_status load_text(struct plm_context *context,
                                 const struct model_text *text,
                                 struct arena *arena,
                                 const struct model **ret_model,
                                 struct plm_error *reterr)
{
    struct model_finder finder = { context, find_model };

    return model_load(text, &finder, arena, ret_model, reterr);
}

static enum plm_status load_path(struct plm_context *context,
                                 const char *path,
                                 struct arena *arena,
                                 const struct model **ret_model,
                                 struct plm_error *reterr)
{
    struct model_text text = { .file = path };
    enum plm_status status =
        file_read(path, YAML_BYTES_MAX, arena, &text.text, &text.length, reterr);

    return status == PLM_OK ? load_text(context, &text, arena, ret_model, reterr) : status;
}

/* load_config() - a config.json: the zoo's models are asked which of them stands for its architecture */
static enum plm_status load_config(struct plm_context *context,
                                   const struct yaml_node *root,
                                   struct plm_model *model,
                                   struct plm_error *reterr)
{
    const char *const *names;
    size_t count;
    enum plm_status status = plm_model_names(context, &names, &count, reterr);

    if (status != PLM_OK)
        return status;
    const struct model **models = arena_array(&model->arena, const struct model *, count);

    for (size_t i = 0; i < count; i++) {
        const char *path = zoo_path(context, names[i], &model->arena);

        status = load_path(context, path, &model->arena, &models[i], reterr);
        if (status != PLM_OK)
            return status;
    }
    struct config_import import;

    status = config_json_import(root, models, count, &model->arena, &import, reterr);
    if (status != PLM_OK)
        return status;
    model->subject = (struct subject){ .model = import.model,
                                       .settings = import.settings,
                                       .setting_count = import.setting_count };
    model->warnings = import.warnings;
    model->warning_count = import.warning_count;
    return PLM_OK;
}

/* config_in() - the config.json in a folder, as from_pretrained() finds it; NULL: there is none */
static const char *config_in(const char *folder, struct arena *arena)
{
    struct buf path = { .arena = arena };

    buf_printf(&path, "%s%s%s", folder, folder[strlen(folder) - 1] == '/' ? "" : "/",
               "config.json");
    return access(buf_string(&path), F_OK) == 0 ? buf_string(&path) : NULL;
}

/* is_hub_name() - "meta-llama/Llama-3.1-8B": no file, and not like the name of one */
static bool is_hub_name(const char *name)
{
    const char *slash = strchr(name, '/');

    return slash && slash != name && name[0] != '.' && name[0] != '~' && slash[1] != '\0' &&
           !strchr(slash + 1, '/') && !is_file_name(slash + 1) && access(name, F_OK) != 0;
}

static enum plm_status load(struct plm_context *context,
                            const char *name,
                            struct plm_model *model,
                            struct plm_error *reterr)
{
    struct model_text text = { .file = arena_copy(&model->arena, name, strlen(name)) };
    const struct yaml_node *root;

    if (!is_file_name(name)) {
        text.file = zoo_path(context, name, &model->arena);
        if (!text.file)
            return unknown_model(context, name, reterr);
    } else if (is_hub_name(name)) {
        return plm_fail(reterr, PLM_E_USAGE,
                        "'%.80s' is no file here, and nothing is downloaded: give the model's "
                        "config.json",
                        name);
    } else {
        const char *config = config_in(name, &model->arena);

        text.file = config ? config : text.file;
    }
    enum plm_status status =
        file_read(text.file, YAML_BYTES_MAX, &model->arena, &text.text, &text.length, reterr);

    if (status == PLM_OK)
        status = yaml_parse(text.file, text.text, text.length, &model->arena, &root, reterr);
    if (status != PLM_OK)
        return status;
    if (config_json_is(root))
        return load_config(context, root, model, reterr);
    return load_text(context, &text, &model->arena, &model->subject.model, reterr);
}

enum plm_status plm_model_load(struct plm_context *context,
                               const char *name,
                               struct plm_model **ret_model,
                               struct plm_error *reterr)
{
    struct arena arena = { 0 };
    struct plm_model *model = arena_new(&arena, struct plm_model);

    model->arena = arena;
    model->context = context;
    enum plm_status status = load(context, name, model, reterr);

    model->subject.cudnn = context->cudnn;
    if (status == PLM_OK)
        *ret_model = model;
    else
        plm_model_destroy(model);
    return status;
}

void plm_model_destroy(struct plm_model *model)
{
    if (!model)
        return;
    struct arena arena = model->arena; /* the struct itself is in there */

    arena_finish(&arena);
}

/* ------------------------------------------------------------------ devices */

enum plm_status plm_device_find(struct plm_context *context,
                                const char *name,
                                const struct plm_device **ret_device,
                                struct plm_error *reterr)
{
    struct plm_device *device = arena_new(&context->arena, struct plm_device);
    enum plm_status status =
        device_find(context->devices, context->device_count, name, &context->arena, device, reterr);

    if (status == PLM_OK)
        *ret_device = device;
    return status;
}

void plm_devices(struct plm_context *context, struct plm_device_list *ret_list)
{
    device_list(context->devices, context->device_count, &context->arena, ret_list);
}
