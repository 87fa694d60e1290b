/*
 * yaml/decode.h - a mapping into a struct, by a table
 *
 * One row for each key; the same rows make the manual's lists of fields. Unknown keys are errors with a
 * suggestion, wrong types say what was expected, and a key without a value (null) counts as absent.
 */
#ifndef PLM_YAML_DECODE_H
#define PLM_YAML_DECODE_H

#include "yaml/document.h"

enum decode_type {
    DECODE_TEXT,   /* const char *: any scalar */
    DECODE_INT,    /* int64_t */
    DECODE_REAL,   /* double; integers too */
    DECODE_BOOL,   /* bool: true or false */
    DECODE_BYTES,  /* plm_bytes: "24GiB", 1024 */
    DECODE_SCALAR, /* const struct yaml_node *, as are the rest: for what has a grammar of its own */
    DECODE_SEQUENCE,
    DECODE_MAPPING,
    DECODE_ANY,
};

struct decode_row {
    const char *key;
    enum decode_type type;
    bool required;
    size_t offset; /* in the struct */
    const char *help;
};

/* struct decode_extra - further keys that the caller reads itself */
struct decode_extra {
    const char *const *keys; /* [key_count] */
    size_t key_count;
};

/*
 * decode_mapping() - fill the struct at @into from @node; fields of absent keys keep their value
 *
 * @what names the thing in messages ("model file"); NULL: the caller puts it in front. @extra may be NULL.
 */

PLM_MUST_CHECK enum plm_status decode_mapping(const struct yaml_node *node,
                                              const char *what,
                                              const struct decode_row *rows,
                                              size_t row_count,
                                              const struct decode_extra *extra,
                                              void *into,
                                              struct plm_error *reterr);

/* Single values, with the same messages; @key names the value. */
PLM_MUST_CHECK enum plm_status decode_int(const struct yaml_node *node,
                                          const char *key,
                                          int64_t *ret_value,
                                          struct plm_error *reterr);
PLM_MUST_CHECK enum plm_status decode_bool(const struct yaml_node *node,
                                           const char *key,
                                           bool *ret_value,
                                           struct plm_error *reterr);

/* decode_fail_unknown() - "WHAT 'word'; did you mean 'near'?", or all of @names when they are few */
enum plm_status decode_fail_unknown(struct source at,
                                    const char *what,
                                    const char *word,
                                    const char *const *names,
                                    size_t name_count,
                                    struct plm_error *reterr);

#endif
