/*
 * train/wrapped.h - the modules that a wrapper treats as one: those marked `wrap: true`, and the model around them
 *
 * A unit is known by its index; the model's own is the last, wrapped->count. Inner modules come before those that they are in.
 */
#ifndef PLM_TRAIN_WRAPPED_H
#define PLM_TRAIN_WRAPPED_H

#include "train/wrapper.h"

struct wrapped {
    struct run *run;
    name_id *paths; /* [count] of the marked modules */
    size_t count, capacity;
    size_t *outer_first; /* [count] units, those that are in another after it */
    size_t outer_count, outer_capacity;
    uint32_t *by_path; /* [by_path_count]: number of a module's name, from 1 */
    size_t by_path_count;
};

/* wrapped_find() - in the order in which @body calls them; a module that is called twice is one unit */
void wrapped_find(struct wrapped *wrapped, struct run *run, const struct graph_body *body);

/* wrapped_of_call() - the unit of a module that is called; wrapped_of_module() the innermost that holds the module @name */
size_t wrapped_of_call(struct wrapped *wrapped, const struct wrapped_call *call);
size_t wrapped_of_module(struct wrapped *wrapped, name_id name);

/*
 * wrapped_last_named() - what `for n, p in model.named_parameters(): …`, by which the script froze some, saw last; owned
 *
 * The loop's name stays bound to it, so that it outlives its sharding. NULL when nothing was frozen.
 */
struct tensor *wrapped_last_named(const struct run *run);

#endif
