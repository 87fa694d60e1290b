/* train/units.c - finds the modules that a wrapper treats as one, by their dotted names */
#include <string.h>

#include "train/units.h"

static uint32_t *number_of_path(struct units *units, name_id path)
{
    struct run *run = units->run;

    if (path >= units->by_path_count) {
        size_t count = run->ghost.names->text_count * 2 + 64;
        uint32_t *grown = arena_array(run->arena, uint32_t, count);

        if (units->by_path)
            memcpy(grown, units->by_path, units->by_path_count * sizeof *grown);
        units->by_path = grown;
        units->by_path_count = count;
    }
    return &units->by_path[path];
}

static void find(struct units *units, const struct graph_body *body)
{
    for (size_t i = 0; i < body->step_count; i++) {
        const struct graph_step *step = &body->steps[i];

        if (step->body)
            find(units, step->body);
        if (!step->wrap || step->kind != STEP_CALL || step == units->run->model_call)
            continue;
        uint32_t *number = number_of_path(units, step->path);

        if (*number == 0) {
            arena_push(units->run->arena, units->paths, units->count, units->capacity, step->path);
            *number = (uint32_t)units->count;
        }
    }
}

void units_find(struct units *units, struct run *run)
{
    *units = (struct units){ .run = run };
    find(units, run->graph->main);
}

size_t units_of_call(struct units *units, const struct wrapped_call *call)
{
    return call->root ? units->count : *number_of_path(units, call->step->path) - 1;
}

size_t units_of_module(struct units *units, name_id name)
{
    struct names *names = units->run->ghost.names;

    while (name) {
        uint32_t number = *number_of_path(units, name);

        if (number)
            return number - 1;
        const char *text = names_text(names, name);
        const char *dot = strrchr(text, '.');

        name = dot ? names_add(names, text, (size_t)(dot - text)) : 0;
    }
    return units->count;
}
