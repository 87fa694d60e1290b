/* train/modules.h - the model's tree of modules, read off the dotted names of its parameters and buffers */
#ifndef PLM_TRAIN_MODULES_H
#define PLM_TRAIN_MODULES_H

#include "train/internal.h"

/* struct owned - a parameter or buffer that is registered in a module */
struct owned {
    struct owned *next;
    size_t param; /* its number */
};

/* struct module - lists keep the order of registration */
struct module {
    name_id name; /* 0: the model itself */
    struct module *children, **children_end, *next;
    struct owned *parameters, **parameters_end, *buffers, **buffers_end;
    struct owned *tied, **tied_end; /* parameters of other modules that it has, too */
};

/* modules_build() - run->modules, and the module of each of run->leaves */
void modules_build(struct run *run);

typedef void modules_visitor(struct run *run, size_t param);

/* modules_apply() - Module._apply(): children first, then a module's own parameters and buffers, each where it is registered first */
void modules_apply(struct run *run, modules_visitor *visit);

/*
 * modules_apply_all() - the same, and each tied parameter again where it is tied
 *
 * @left, which may be NULL, is told when a module's own are done.
 */
void modules_apply_all(struct run *run,
                       modules_visitor *visit,
                       void (*left)(struct run *run, name_id module));

/* enum module_part - what is visited of a module */
enum module_part { MODULE_PARAMETERS = 1, MODULE_BUFFERS = 2 };

/*
 * modules_walk() - the module @name and those below it, level by level, but none for which @stops is true
 *
 * @parts are of enum module_part; those that are tied are left out.
 */
void modules_walk(struct run *run,
                  name_id name,
                  unsigned parts,
                  bool (*stops)(struct run *run, name_id name),
                  modules_visitor *visit);

#endif
