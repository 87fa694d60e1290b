/*
 * train/units.h - the modules that a wrapper treats as one: those marked `wrap: true`, and the model around them
 *
 * A unit is known by its index; the model's own is the last, units->count. Inner modules come before those that they are in.
 */
#ifndef PLM_TRAIN_UNITS_H
#define PLM_TRAIN_UNITS_H

#include "train/wrapper.h"

struct units {
    struct run *run;
    name_id *paths; /* [count] of the marked modules */
    size_t count, capacity;
    uint32_t *by_path; /* [by_path_count]: number of a module's name, from 1 */
    size_t by_path_count;
};

/* units_find() - in the order in which the graph calls them; a module that is called twice is one unit */
void units_find(struct units *units, struct run *run);

/* units_of_call() - the unit of a module that is called; units_of_module() the innermost that holds the module @name */
size_t units_of_call(struct units *units, const struct wrapped_call *call);
size_t units_of_module(struct units *units, name_id name);

#endif
