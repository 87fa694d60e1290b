/* train/wrapped.c - finds the modules that a wrapper treats as one, by their dotted names */
#include <string.h>

#include "train/wrapped.h"

static uint32_t *number_of_path(struct wrapped *wrapped, name_id path)
{
    struct run *run = wrapped->run;

    if (path >= wrapped->by_path_count) {
        size_t count = run->ghost.names->text_count * 2 + 64;
        uint32_t *grown = arena_array(run->arena, uint32_t, count);

        if (wrapped->by_path)
            memcpy(grown, wrapped->by_path, wrapped->by_path_count * sizeof *grown);
        wrapped->by_path = grown;
        wrapped->by_path_count = count;
    }
    return &wrapped->by_path[path];
}

static void find(struct wrapped *wrapped, const struct graph_body *body)
{
    for (size_t i = 0; i < body->step_count; i++) {
        const struct graph_step *step = &body->steps[i];
        bool unit = step->wrap && step->kind == STEP_CALL && step != wrapped->run->model_call &&
                    *number_of_path(wrapped, step->path) == 0;
        size_t outer = wrapped->outer_count;

        if (unit)
            arena_push(wrapped->run->arena, wrapped->outer_first, wrapped->outer_count,
                       wrapped->outer_capacity, 0);
        if (step->body)
            find(wrapped, step->body);
        if (!unit)
            continue;
        wrapped->outer_first[outer] = wrapped->count;
        arena_push(wrapped->run->arena, wrapped->paths, wrapped->count, wrapped->capacity,
                   step->path);
        *number_of_path(wrapped, step->path) = (uint32_t)wrapped->count;
    }
}

void wrapped_find(struct wrapped *wrapped, struct run *run, const struct graph_body *body)
{
    *wrapped = (struct wrapped){ .run = run };
    find(wrapped, body);
}

size_t wrapped_of_call(struct wrapped *wrapped, const struct wrapped_call *call)
{
    return call->root ? wrapped->count : *number_of_path(wrapped, call->step->path) - 1;
}

size_t wrapped_of_module(struct wrapped *wrapped, name_id name)
{
    struct names *names = wrapped->run->ghost.names;

    while (name) {
        uint32_t number = *number_of_path(wrapped, name);

        if (number)
            return number - 1;
        const char *text = names_text(names, name);
        const char *dot = strrchr(text, '.');

        name = dot ? names_add(names, text, (size_t)(dot - text)) : 0;
    }
    return wrapped->count;
}

struct tensor *wrapped_last_named(const struct run *run)
{
    for (size_t i = run->param_count; i-- > 0 && run->strategy->frozen;)
        if (!run->params[i].buffer)
            return tensor_ref(run->params[i].tensor);
    return NULL;
}
