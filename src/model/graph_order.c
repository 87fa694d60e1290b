/* model/graph_order.c - `parameters:` of a model as the modules that its graph has */
#include <stdio.h>
#include <string.h>

#include "model/graph_build.h"

/* struct order - the registration order with its stars replaced */
struct order {
    name_id *names; /* [count] */
    size_t count, capacity;
};

/* expand_stars() - entries [first, last) share the text before their '*': 0, 1, … while the graph has such modules */
static void expand_stars(struct builder *b, size_t first, size_t last, struct order *order)
{
    const struct model *model = b->model;
    const char *text = names_text(b->names, model->order[first]);
    size_t before = (size_t)(strchr(text, '*') - text) - 1; /* without the dot */
    name_id prefix = names_add(b->names, text, before);

    for (int64_t i = 0;; i++) {
        char path[PATH_MAX_LENGTH + 32];
        int length =
            snprintf(path, sizeof path, "%s.%lld", names_text(b->names, prefix), (long long)i);

        if (!names_find(b->names, path, (size_t)length)) {
            if (i == 0) /* some lists start at 1 */
                continue;
            return;
        }
        for (size_t entry = first; entry < last; entry++) {
            const char *after = names_text(b->names, model->order[entry]) + before + 2;
            int whole = snprintf(path + length, sizeof path - (size_t)length, "%s", after);
            name_id name = names_add(b->names, path, (size_t)(length + whole));

            arena_push(b->arena, order->names, order->count, order->capacity, name);
        }
    }
}

/* graph_build_order() - `parameters:`, with each group of entries that share the text before '*' spelled out */
void graph_build_order(struct builder *b, struct graph *graph)
{
    const struct model *model = b->model;
    struct order order = { 0 };

    for (size_t first = 0, last; first < model->order_count; first = last) {
        const char *text = names_text(b->names, model->order[first]), *star = strchr(text, '*');

        last = first + 1;
        if (!star) {
            arena_push(b->arena, order.names, order.count, order.capacity, model->order[first]);
            continue;
        }
        while (last < model->order_count && strncmp(text, names_text(b->names, model->order[last]),
                                                    (size_t)(star - text) + 1) == 0)
            last++;
        expand_stars(b, first, last, &order);
    }
    graph->order = order.names;
    graph->order_count = order.count;
}
