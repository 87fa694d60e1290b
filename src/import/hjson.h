/*
 * import/hjson.h - Hjson, and so JSON, as the bounded tree that YAML is read into
 *
 * DeepSpeed reads its configuration with hjson.load(): JSON, in which there may also be comments, names and words without
 * quotes, single quotes, no braces around the whole, and no commas at the ends of lines.
 */
#ifndef PLM_IMPORT_HJSON_H
#define PLM_IMPORT_HJSON_H

#include "yaml/document.h"

/* hjson_parse() - read @text, which a zero follows; the tree is in @arena, and its positions name @file, which is not copied */
PLM_MUST_CHECK enum plm_status hjson_parse(const char *file,
                                           const char *text,
                                           size_t length,
                                           struct arena *arena,
                                           const struct yaml_node **ret_root,
                                           struct plm_error *reterr);

#endif
