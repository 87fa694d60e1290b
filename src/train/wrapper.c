/* train/wrapper.c - which wrapper a strategy asks for: a row each */
#include "train/wrapper.h"

/* Each row: the field of struct plm_parallel that asks for it, and the wrapper. Rows are added by wrappers.def. */
struct row {
    const char *option;
    size_t offset; /* of an int64_t in struct plm_parallel */
    const struct wrapper *wrapper;
};

#define WRAPPER(option, field, name) extern const struct wrapper wrapper_##name;
#include "train/wrappers.def"
#undef WRAPPER

static const struct row rows[] = {
#define WRAPPER(option, field, name)                                                               \
    { option, offsetof(struct plm_parallel, field), &wrapper_##name },
#include "train/wrappers.def"
#undef WRAPPER
    { NULL, 0, NULL },
};

static bool asks(const struct plm_strategy *strategy, const struct row *row)
{
    return *(const int64_t *)(const void *)((const char *)&strategy->parallel + row->offset) > 0;
}

/* composes() - does @outer, which was found first, wrap what @inner has wrapped? */
static bool composes(const struct wrapper *outer, const struct wrapper *inner)
{
    return (outer == &wrapper_fsdp || outer == &wrapper_megatron) &&
           inner == &wrapper_tensor_parallel;
}

/* fail_split() - @other wraps a model once it is split in the framework, perhaps, but not here */
static enum plm_status fail_split(const struct row *other, struct plm_error *reterr)
{
    return plm_fail(reterr, PLM_E_USAGE,
                    "%s and --tp are not combined: of a model that is split, --fsdp, --hsdp and "
                    "--megatron are modelled",
                    other->option);
}

enum plm_status wrapper_choose(const struct plm_strategy *strategy,
                               const struct wrapper **ret_wrapper,
                               struct plm_error *reterr)
{
    const struct row *found = NULL;

    for (const struct row *row = rows; row->option; row++) {
        if (!asks(strategy, row))
            continue;
        if (found && composes(found->wrapper, row->wrapper))
            continue;
        if (found && row->wrapper == &wrapper_tensor_parallel)
            return fail_split(found, reterr);
        if (found && found->wrapper == &wrapper_tensor_parallel)
            return fail_split(row, reterr);
        if (found && found->wrapper != row->wrapper)
            return plm_fail(reterr, PLM_E_USAGE,
                            "%s and %s exclude each other: a model is wrapped once", found->option,
                            row->option);
        found = row;
    }
    *ret_wrapper = found ? found->wrapper : NULL;
    return PLM_OK;
}
