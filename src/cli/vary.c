/* cli/vary.c - a grid of strategies from options and lists of values */
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "cli/command.h"
#include "cli/vary.h"

/* split() - at commas; "\," is a comma within a part */
static const char *const *split(const char *text, struct arena *arena, size_t *ret_count)
{
    const char **parts = NULL;
    size_t count = 0, capacity = 0;
    struct buf part = { .arena = arena };

    for (;; text++) {
        if (*text == '\\' && text[1] == ',') {
            buf_char(&part, *++text);
        } else if (*text == ',' || *text == '\0') {
            arena_push(arena, parts, count, capacity, buf_string(&part));
            part = (struct buf){ .arena = arena };
            if (*text == '\0')
                break;
        } else {
            buf_char(&part, *text);
        }
    }
    *ret_count = count;
    return parts;
}

/* is_strategys() - is it an option of the strategy, and not of the command? */
static bool is_strategys(const struct option_desc *desc, unsigned command)
{
    return option_taken(desc, command) &&
           (desc->group == GROUP_MODEL || desc->group == GROUP_TRAINING ||
            desc->group == GROUP_PARALLEL || desc->group == GROUP_DEVICE);
}

static enum plm_status find_option(const char *name,
                                   unsigned command,
                                   const struct option_desc **ret,
                                   struct plm_error *reterr)
{
    const char *names[OPTION_COUNT];
    size_t count = 0;

    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (!is_strategys(&option_descs[i], command))
            continue;
        if (strcmp(option_descs[i].name, name) == 0) {
            *ret = &option_descs[i];
            return PLM_OK;
        }
        names[count++] = option_descs[i].name;
    }
    const char *near = error_nearest(name, names, count);

    return plm_fail(reterr, PLM_E_USAGE,
                    "'%.60s' is not an option of a strategy%s%s%s ('plimsoll %s --help' lists "
                    "them; a model's own are varied by set=NAME=VALUE)",
                    name, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "",
                    command_at((enum command_id)command)->name);
}

/* own_settings() - a copy of what --set gave: the reader changes it in place */
static void own_settings(struct options *options)
{
    size_t count = options->strategy.setting_count;
    struct plm_setting *copy = arena_array(options->arena, struct plm_setting, count);

    if (count > 0)
        memcpy(copy, options->settings, count * sizeof *copy);
    options->settings = copy;
    options->setting_capacity = count;
    options->strategy.settings = copy;
}

static enum plm_status set_flag(struct options *options,
                                const struct option_desc *desc,
                                const char *value,
                                struct plm_error *reterr)
{
    bool on = strcmp(value, "true") == 0;

    if (!on && strcmp(value, "false") != 0)
        return plm_fail(reterr, PLM_E_USAGE,
                        "--%s: '%.40s' is not accepted; accepted: true or false", desc->name,
                        value);
    *(bool *)(void *)((char *)options + desc->offset) = on;
    return PLM_OK;
}

static enum plm_status set_option(struct options *options,
                                  const struct option_desc *desc,
                                  const char *value,
                                  struct plm_error *reterr)
{
    if (*value == '\0')
        return PLM_OK;
    if (!desc->argument)
        return set_flag(options, desc, value, reterr);
    if (desc == &option_descs[OPTION_SET])
        own_settings(options);
    return options_read(options, desc, value, reterr);
}

static enum plm_status read_axis(const struct options *options,
                                 unsigned command,
                                 const char *text,
                                 struct vary_axis *axis,
                                 struct plm_error *reterr)
{
    const char *equals = strchr(text, '=');
    const char *name = arena_copy(options->arena, text, (size_t)(equals - text));
    enum plm_status status = find_option(name, command, &axis->option, reterr);

    if (status != PLM_OK)
        return status;
    axis->values = split(equals + 1, options->arena, &axis->value_count);
    for (size_t i = 0; status == PLM_OK && i < axis->value_count; i++) {
        struct options copy = *options;

        status = set_option(&copy, axis->option, axis->values[i], reterr);
    }
    return status;
}

enum plm_status vary_read(const struct options *options,
                          unsigned command,
                          struct vary_grid *ret_grid,
                          struct plm_error *reterr)
{
    struct vary_grid grid = { .point_count = 1 };

    if (options->vary_count > VARY_AXES_MOST)
        return plm_fail(reterr, PLM_E_USAGE, "--vary: at most %d options", VARY_AXES_MOST);
    for (size_t i = 0; i < options->vary_count; i++) {
        struct vary_axis *axis = &grid.axes[grid.axis_count++];
        enum plm_status status = read_axis(options, command, options->vary[i], axis, reterr);

        if (status != PLM_OK)
            return status;
        for (size_t j = 0; j < i; j++)
            if (grid.axes[j].option == axis->option && axis->option != &option_descs[OPTION_SET])
                return plm_fail(reterr, PLM_E_USAGE, "--vary: '%s' varies twice",
                                axis->option->name);
        if (axis->value_count > VARY_POINTS_MOST / grid.point_count)
            return plm_fail(reterr, PLM_E_USAGE,
                            "--vary: %zu times %zu strategies and more; at most %d are compared",
                            grid.point_count, axis->value_count, VARY_POINTS_MOST);
        grid.point_count *= axis->value_count;
    }
    *ret_grid = grid;
    return PLM_OK;
}

enum plm_status vary_point(const struct options *options,
                           const struct vary_grid *grid,
                           size_t point,
                           const char **values,
                           struct options *ret_options,
                           struct plm_error *reterr)
{
    struct options at = *options;

    for (size_t i = grid->axis_count; i-- > 0;) {
        values[i] = grid->axes[i].values[point % grid->axes[i].value_count];
        point /= grid->axes[i].value_count;
    }
    for (size_t i = 0; i < grid->axis_count; i++) {
        enum plm_status status = set_option(&at, grid->axes[i].option, values[i], reterr);

        if (status != PLM_OK)
            return status;
    }
    *ret_options = at;
    return PLM_OK;
}

size_t vary_first(const struct vary_grid *grid, size_t point, const char *name)
{
    size_t stride = 1;

    for (size_t i = grid->axis_count; i-- > 0; stride *= grid->axes[i].value_count)
        if (strcmp(grid->axes[i].option->name, name) == 0)
            point -= point / stride % grid->axes[i].value_count * stride;
    return point;
}

const char *vary_label(const struct vary_grid *grid, const char *const *values, struct arena *arena)
{
    struct buf label = { .arena = arena };

    for (size_t i = 0; i < grid->axis_count; i++) {
        if (values[i][0] == '\0')
            continue;
        buf_printf(&label, "%s%s=", label.length ? "," : "", grid->axes[i].option->name);
        for (const char *c = values[i]; *c; c++) {
            if (*c == ',')
                buf_char(&label, '\\');
            buf_char(&label, *c);
        }
    }
    return buf_string(&label);
}

enum plm_status vary_list(const struct options *options,
                          unsigned command,
                          const char *list,
                          struct options *ret_options,
                          struct plm_error *reterr)
{
    struct options at = *options;
    size_t count;
    const char *const *parts = split(list, options->arena, &count);

    for (size_t i = 0; i < count; i++) {
        const char *equals = strchr(parts[i], '=');
        const struct option_desc *desc;

        if (!equals)
            return plm_fail(reterr, PLM_E_USAGE,
                            "'%.60s' is neither a strategy's number nor a list such as "
                            "precision=bf16,checkpoint=full",
                            list);
        enum plm_status status =
            find_option(arena_copy(options->arena, parts[i], (size_t)(equals - parts[i])), command,
                        &desc, reterr);

        if (status == PLM_OK)
            status = set_option(&at, desc, equals + 1, reterr);
        if (status != PLM_OK)
            return status;
    }
    *ret_options = at;
    return PLM_OK;
}
