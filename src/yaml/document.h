/*
 * yaml/document.h - YAML (and so JSON) text as a bounded tree with positions
 *
 * document.c is the only file that sees libyaml. What it returns is safe to walk: keys are unique scalars,
 * aliases share the node that they name and form no cycles, and depth, count and size are bounded, aliases
 * counted as if they were spelled out. Tags and further documents are errors.
 */
#ifndef PLM_YAML_DOCUMENT_H
#define PLM_YAML_DOCUMENT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/error.h"

enum {
    YAML_BYTES_MAX = 4 * 1024 * 1024, /* of text */
    YAML_DEPTH_MAX = 64,              /* sequences and mappings inside each other */
    YAML_NODES_MAX = 200000,          /* scalars, sequences and mappings, aliases spelled out */
};

enum yaml_kind { YAML_SCALAR, YAML_SEQUENCE, YAML_MAPPING };

struct yaml_node {
    enum yaml_kind kind;
    bool quoted;       /* a scalar in quotes or a block scalar: never null, true or a number */
    bool one_line;     /* a scalar whose text stands in the file as it is: columns can be counted */
    unsigned height;   /* 0: scalar */
    size_t node_count; /* itself and everything below, aliases spelled out */
    struct source at;
    const char *text;                     /* of a scalar; "" otherwise */
    size_t item_count;                    /* of a sequence or mapping */
    const struct yaml_node *const *keys;  /* [item_count] scalars, of a mapping */
    const struct yaml_node *const *items; /* [item_count] elements or values */
};

/*
 * yaml_parse() - read @text; positions name @file
 *
 * The tree is in @arena and copies what it needs of @text, but not @file.
 */
PLM_MUST_CHECK enum plm_status yaml_parse(const char *file,
                                          const char *text,
                                          size_t length,
                                          struct arena *arena,
                                          const struct yaml_node **ret_root,
                                          struct plm_error *reterr);

/* yaml_get() - the value under @key, or NULL when there is none or @mapping is not a mapping */
const struct yaml_node *yaml_get(const struct yaml_node *mapping, const char *key);

/* yaml_is_null() - a plain scalar that is empty, `null` or `~` */
bool yaml_is_null(const struct yaml_node *node);

/* yaml_describe() - "a list", "a mapping", "'text'": what stands there, for messages */
const char *yaml_describe(const struct yaml_node *node, char text[64]);

#endif
