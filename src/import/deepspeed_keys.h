/*
 * import/deepspeed_keys.h - keys of a DeepSpeed configuration, each with the function that reads it
 *
 * What is "auto" is as if it were absent. Errors point at the value.
 */
#ifndef PLM_IMPORT_DEEPSPEED_KEYS_H
#define PLM_IMPORT_DEEPSPEED_KEYS_H

#include <stdbool.h>
#include <stddef.h>

#include "plimsoll/plimsoll.h"
#include "yaml/document.h"

struct keys_context {
    struct plm_strategy *strategy;
    struct plm_error *reterr;
};

typedef enum plm_status keys_reader(struct keys_context *c,
                                    const char *key,
                                    const struct yaml_node *value);

/* struct keys_entry - a key of a mapping; without a reader it has nothing to do with the device's memory */
struct keys_entry {
    const char *name;
    keys_reader *read;
};

static inline struct plm_strategy *strategy_of(struct keys_context *c)
{
    return c->strategy;
}

static inline struct plm_deepspeed *deepspeed_of(struct keys_context *c)
{
    return &c->strategy->parallel.deepspeed;
}

/* keys_member() - of a section that may be missing */
const struct yaml_node *keys_member(const struct yaml_node *section, const char *key);

/* keys_is_auto() - left to the program that reads the file, as Hugging Face's Trainer does */
bool keys_is_auto(const struct yaml_node *value);

PLM_MUST_CHECK enum plm_status keys_refuse(struct keys_context *c,
                                           const char *key,
                                           const struct yaml_node *value,
                                           const char *what);

/* keys_read_number() - a number, which JSON may write as 5e8 */
PLM_MUST_CHECK enum plm_status keys_read_number(struct keys_context *c,
                                                const char *key,
                                                const struct yaml_node *value,
                                                double *ret);

PLM_MUST_CHECK enum plm_status keys_read_whole(struct keys_context *c,
                                               const char *key,
                                               const struct yaml_node *value,
                                               int64_t least,
                                               int64_t *ret);

/* keys_agree() - a number from 1 to @most; one that an option has given too must be the same */
PLM_MUST_CHECK enum plm_status keys_agree(struct keys_context *c,
                                          const char *key,
                                          const struct yaml_node *value,
                                          int64_t most,
                                          const char *option,
                                          int64_t *field);

/* keys_read_size() - elements: of a field in which 0 stands for the default */
PLM_MUST_CHECK enum plm_status keys_read_size(struct keys_context *c,
                                              const char *key,
                                              const struct yaml_node *value,
                                              int64_t *field);

/* keys_read_switch() - true or false; @option (NULL: there is none) must not have said otherwise */
PLM_MUST_CHECK enum plm_status keys_read_switch(struct keys_context *c,
                                                const char *key,
                                                const struct yaml_node *value,
                                                const char *option,
                                                enum plm_switch *field);

/* keys_refuse_true() - what would change the device's memory in a way that is not modelled */
PLM_MUST_CHECK enum plm_status keys_refuse_true(struct keys_context *c,
                                                const char *key,
                                                const struct yaml_node *value);

PLM_MUST_CHECK enum plm_status keys_refuse_false(struct keys_context *c,
                                                 const char *key,
                                                 const struct yaml_node *value);

PLM_MUST_CHECK enum plm_status keys_refuse_above_1(struct keys_context *c,
                                                   const char *key,
                                                   const struct yaml_node *value);

PLM_MUST_CHECK enum plm_status keys_refuse_above_0(struct keys_context *c,
                                                   const char *key,
                                                   const struct yaml_node *value);

/* keys_refuse_enabled() - a section that does nothing unless it is switched on */
PLM_MUST_CHECK enum plm_status keys_refuse_enabled(struct keys_context *c,
                                                   const char *key,
                                                   const struct yaml_node *value);

PLM_MUST_CHECK enum plm_status keys_refuse_any(struct keys_context *c,
                                               const char *key,
                                               const struct yaml_node *value);

/* keys_read() - each key by its reader; "auto" is as if it were absent */
PLM_MUST_CHECK enum plm_status keys_read(struct keys_context *c,
                                         const char *what,
                                         const struct yaml_node *mapping,
                                         const struct keys_entry *keys,
                                         size_t count);

#define READ_KEYS(c, what, mapping, keys)                                                          \
    keys_read(c, what, mapping, keys, sizeof(keys) / sizeof *(keys))

#endif
