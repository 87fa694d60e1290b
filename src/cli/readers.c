/*
 * cli/readers.c - how the value of an option is read
 *
 * Every failure names the option, the value and what would be accepted.
 */
#include <assert.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/units.h"
#include "cli/readers.h"

#define MEMBER(options, desc, type) ((type *)(void *)((char *)(options) + (desc)->offset))

static enum plm_status refuse(const struct option_desc *desc,
                              const char *value,
                              const char *accepted,
                              struct plm_error *reterr)
{
    return plm_fail(reterr, PLM_E_USAGE, "--%s: '%.40s' is not accepted; accepted: %s", desc->name,
                    value, accepted);
}

/* refuse_word() - the same for a list of words, with a guess at what was meant */
static enum plm_status refuse_word(const struct options *options,
                                   const struct option_desc *desc,
                                   const char *value,
                                   struct plm_error *reterr)
{
    const char *near = error_nearest(value, desc->words->items, desc->words->count);
    struct buf list = { .arena = options->arena };

    for (size_t i = 0; i < desc->words->count; i++) {
        const char *word = desc->words->items[i];
        bool open = word[strlen(word) - 1] == '=';

        buf_printf(&list, "%s%s%s", i ? ", " : "", word, open ? "…" : "");
    }
    return plm_fail(reterr, PLM_E_USAGE, "--%s: unknown value '%.40s'%s%s%s accepted: %s",
                    desc->name, value, near ? "; did you mean '" : ";", near ? near : "",
                    near ? "'?" : "", buf_string(&list));
}

/* find_word() - the index of @value in the row's words, or their count */
static size_t find_word(const struct option_desc *desc, const char *value)
{
    size_t i = 0;

    while (i < desc->words->count && strcmp(desc->words->items[i], value) != 0)
        i++;
    return i;
}

enum plm_status read_FLAG(struct options *options,
                          const struct option_desc *desc,
                          const char *value,
                          struct plm_error *reterr)
{
    *MEMBER(options, desc, bool) = true;
    return PLM_OK;
}

enum plm_status read_TEXT(struct options *options,
                          const struct option_desc *desc,
                          const char *value,
                          struct plm_error *reterr)
{
    if (*value == '\0')
        return plm_fail(reterr, PLM_E_USAGE, "--%s: needs %s, not nothing", desc->name,
                        desc->argument);
    *MEMBER(options, desc, const char *) = value;
    return PLM_OK;
}

enum plm_status read_COUNT(struct options *options,
                           const struct option_desc *desc,
                           const char *value,
                           struct plm_error *reterr)
{
    int64_t count;

    if (!units_parse_int(value, &count) || count < 1)
        return refuse(desc, value, "a positive whole number, below 2^63", reterr);
    *MEMBER(options, desc, int64_t) = count;
    return PLM_OK;
}

enum plm_status read_ZERO_STAGE(struct options *options,
                                const struct option_desc *desc,
                                const char *value,
                                struct plm_error *reterr)
{
    size_t i = find_word(desc, value);

    if (i == desc->words->count)
        return refuse_word(options, desc, value, reterr);
    *MEMBER(options, desc, int64_t) = (int64_t)i + 1;
    return PLM_OK;
}

enum plm_status read_INDEX(struct options *options,
                           const struct option_desc *desc,
                           const char *value,
                           struct plm_error *reterr)
{
    int64_t number;

    if (!units_parse_int(value, &number) || number < 0 || number > INT32_MAX)
        return refuse(desc, value, "a number from 0", reterr);
    *MEMBER(options, desc, int64_t) = number;
    return PLM_OK;
}

enum plm_status read_PERCENT(struct options *options,
                             const struct option_desc *desc,
                             const char *value,
                             struct plm_error *reterr)
{
    size_t length = strlen(value);
    bool sign = length > 0 && value[length - 1] == '%';
    double percent;

    if (!units_parse_real(arena_copy(options->arena, value, length - sign), &percent) ||
        !(percent > 0 && percent <= 100))
        return refuse(desc, value, "above 0 and at most 100, such as 95%", reterr);
    *MEMBER(options, desc, double) = percent / 100;
    return PLM_OK;
}

enum plm_status read_POSITIVE_REAL(struct options *options,
                                   const struct option_desc *desc,
                                   const char *value,
                                   struct plm_error *reterr)
{
    double real;

    if (!units_parse_real(value, &real) || !(real > 0))
        return refuse(desc, value, "a number above 0, such as 1.0", reterr);
    *MEMBER(options, desc, double) = real;
    return PLM_OK;
}

static const char sizes[] = "a size such as 24GiB, 512MiB or a number of bytes";

enum plm_status read_SIZE(struct options *options,
                          const struct option_desc *desc,
                          const char *value,
                          struct plm_error *reterr)
{
    plm_bytes bytes;

    if (!units_parse_bytes(value, &bytes))
        return refuse(desc, value, sizes, reterr);
    *MEMBER(options, desc, plm_bytes) = bytes;
    return PLM_OK;
}

enum plm_status read_POSITIVE_SIZE(struct options *options,
                                   const struct option_desc *desc,
                                   const char *value,
                                   struct plm_error *reterr)
{
    plm_bytes bytes;

    if (!units_parse_bytes(value, &bytes) || bytes == 0)
        return refuse(desc, value, "a size above 0, such as 24GiB", reterr);
    *MEMBER(options, desc, plm_bytes) = bytes;
    return PLM_OK;
}

enum plm_status read_WORD(struct options *options,
                          const struct option_desc *desc,
                          const char *value,
                          struct plm_error *reterr)
{
    size_t i = find_word(desc, value);

    if (i == desc->words->count)
        return refuse_word(options, desc, value, reterr);
    static_assert(sizeof(enum plm_precision) == sizeof(unsigned), "enums are stored as unsigned");
    *MEMBER(options, desc, unsigned) = (unsigned)i;
    return PLM_OK;
}

enum plm_status read_STAGE(struct options *options,
                           const struct option_desc *desc,
                           const char *value,
                           struct plm_error *reterr)
{
    if (find_word(desc, value) == desc->words->count)
        return refuse_word(options, desc, value, reterr);
    *MEMBER(options, desc, const char *) = value;
    return PLM_OK;
}

enum plm_status read_SETTING(struct options *options,
                             const struct option_desc *desc,
                             const char *value,
                             struct plm_error *reterr)
{
    const char *equals = strchr(value, '=');
    struct plm_strategy *strategy = &options->strategy;
    struct plm_setting setting;

    if (!equals || equals == value || equals[1] == '\0')
        return refuse(desc, value, "NAME=VALUE, such as layers=24", reterr);
    setting.name = arena_copy(options->arena, value, (size_t)(equals - value));
    setting.value = equals + 1;
    for (size_t i = 0; i < strategy->setting_count; i++)
        if (strcmp(options->settings[i].name, setting.name) == 0) {
            options->settings[i] = setting; /* the last one counts, as with any option */
            return PLM_OK;
        }
    arena_push(options->arena, options->settings, strategy->setting_count,
               options->setting_capacity, setting);
    strategy->settings = options->settings;
    return PLM_OK;
}

enum plm_status read_CHECKPOINT(struct options *options,
                                const struct option_desc *desc,
                                const char *value,
                                struct plm_error *reterr)
{
    struct plm_strategy *strategy = &options->strategy;
    const char *equals = strchr(value, '=');
    size_t length = equals ? (size_t)(equals - value) + 1 : strlen(value);
    const char *word = arena_copy(options->arena, value, length);
    size_t i = find_word(desc, word);
    int64_t count = 0;

    if (i == desc->words->count)
        return refuse_word(options, desc, word, reterr);
    if (i == PLM_CHECKPOINT_EVERY || i == PLM_CHECKPOINT_GROUP) {
        if (!units_parse_int(value + length, &count) || count < 1)
            return plm_fail(reterr, PLM_E_USAGE,
                            "--%s: '%.40s' needs a whole number from 1, such as %s2", desc->name,
                            value, word);
    }
    if (i == PLM_CHECKPOINT_BLOCKS && value[length] == '\0')
        return plm_fail(reterr, PLM_E_USAGE,
                        "--%s: 'blocks=' needs a list of places, such as blocks=0-3,7", desc->name);
    strategy->checkpoint = (enum plm_checkpoint)i;
    strategy->checkpoint_count = count;
    strategy->checkpoint_blocks = i == PLM_CHECKPOINT_BLOCKS ? value + length : NULL;
    return PLM_OK;
}

enum plm_status read_CONTEXT(struct options *options,
                             const struct option_desc *desc,
                             const char *value,
                             struct plm_error *reterr)
{
    if (!units_parse_bytes(value, &options->strategy.context))
        return refuse(desc, value, sizes, reterr);
    options->strategy.has_context = true;
    return PLM_OK;
}

enum plm_status read_WORKSPACE(struct options *options,
                               const struct option_desc *desc,
                               const char *value,
                               struct plm_error *reterr)
{
    struct plm_strategy *strategy = &options->strategy;
    size_t i = find_word(desc, value);

    if (i < desc->words->count) {
        strategy->cudnn_workspace = (enum plm_workspace)i;
        return PLM_OK;
    }
    if (!units_parse_bytes(value, &strategy->cudnn_workspace_bytes))
        return refuse(desc, value, "auto, none, or a size such as 64MiB", reterr);
    strategy->cudnn_workspace = PLM_WORKSPACE_BYTES;
    return PLM_OK;
}

enum plm_status read_ASSUME(struct options *options,
                            const struct option_desc *desc,
                            const char *value,
                            struct plm_error *reterr)
{
    if (find_word(desc, value) == desc->words->count)
        return refuse_word(options, desc, value, reterr);
    options->strategy.assume_ghostgpu = true;
    return PLM_OK;
}

enum plm_status read_HSDP(struct options *options,
                          const struct option_desc *desc,
                          const char *value,
                          struct plm_error *reterr)
{
    struct plm_parallel *parallel = MEMBER(options, desc, struct plm_parallel);
    const char *x = strchr(value, 'x');
    int64_t replicas, shards;

    if (!x || !units_parse_int(arena_copy(options->arena, value, (size_t)(x - value)), &replicas) ||
        !units_parse_int(x + 1, &shards) || replicas < 1 || shards < 1)
        return refuse(desc, value, "replicas times shards, such as 2x4", reterr);
    parallel->hsdp_replicate = replicas;
    parallel->hsdp_shard = shards;
    return PLM_OK;
}

enum plm_status read_RESHARD(struct options *options,
                             const struct option_desc *desc,
                             const char *value,
                             struct plm_error *reterr)
{
    struct plm_parallel *parallel = MEMBER(options, desc, struct plm_parallel);
    size_t i = find_word(desc, value);
    int64_t count = 0;

    if (i == desc->words->count && (!units_parse_int(value, &count) || count < 1))
        return refuse(desc, value, "default, true, false, but-last, or a number of GPUs from 1",
                      reterr);
    parallel->reshard = count ? PLM_RESHARD_TO : (enum plm_reshard)i;
    parallel->reshard_to = count;
    return PLM_OK;
}

enum plm_status read_SCHEDULE(struct options *options,
                              const struct option_desc *desc,
                              const char *value,
                              struct plm_error *reterr)
{
    struct plm_parallel *parallel = MEMBER(options, desc, struct plm_parallel);
    const char *prefix = desc->words->items[PLM_SCHEDULE_INTERLEAVED];
    size_t i = find_word(desc, value);
    int64_t count = 0;

    if (strncmp(value, prefix, strlen(prefix)) == 0 &&
        units_parse_int(value + strlen(prefix), &count) && count > 1)
        i = PLM_SCHEDULE_INTERLEAVED;
    else if (i == desc->words->count || i == PLM_SCHEDULE_INTERLEAVED)
        return refuse(desc, value,
                      "1f1b, gpipe, zero-bubble, or interleaved:V with V stages on a rank, from 2",
                      reterr);
    parallel->schedule = (enum plm_schedule)i;
    parallel->virtual_stages = count;
    return PLM_OK;
}

enum plm_status read_RANK(struct options *options,
                          const struct option_desc *desc,
                          const char *value,
                          struct plm_error *reterr)
{
    struct plm_parallel *parallel = MEMBER(options, desc, struct plm_parallel);
    int64_t rank;

    if (!units_parse_int(value, &rank) || rank < 0)
        return refuse(desc, value, "a rank, counted from 0", reterr);
    parallel->rank = rank;
    parallel->has_rank = true;
    return PLM_OK;
}

enum plm_status read_MARGIN(struct options *options,
                            const struct option_desc *desc,
                            const char *value,
                            struct plm_error *reterr)
{
    size_t length = strlen(value);

    options->margin_share = 0;
    options->margin_bytes = 0;
    if (length > 1 && value[length - 1] == '%') {
        double percent;

        if (!units_parse_real(arena_copy(options->arena, value, length - 1), &percent) ||
            percent < 0 || percent >= 100)
            return refuse(desc, value, "a share from 0% to below 100%, or a size", reterr);
        options->margin_share = percent / 100;
    } else if (!units_parse_bytes(value, &options->margin_bytes)) {
        return refuse(desc, value, "a share such as 5%, or a size such as 1GiB", reterr);
    }
    options->has_margin = true;
    return PLM_OK;
}

enum plm_status read_VARY(struct options *options,
                          const struct option_desc *desc,
                          const char *value,
                          struct plm_error *reterr)
{
    const char *equals = strchr(value, '=');

    if (!equals || equals == value)
        return refuse(desc, value, "OPTION=VALUE,VALUE, such as precision=fp32,bf16", reterr);
    arena_push(options->arena, options->vary, options->vary_count, options->vary_capacity, value);
    return PLM_OK;
}

enum plm_status read_PAIR(struct options *options,
                          const struct option_desc *desc,
                          const char *value,
                          struct plm_error *reterr)
{
    const char **pair = MEMBER(options, desc, const char *);

    if (*value == '\0')
        return plm_fail(reterr, PLM_E_USAGE, "--%s: needs %s, not nothing", desc->name,
                        desc->argument);
    if (pair[0] && !pair[1]) {
        pair[1] = value;
    } else { /* the last two count, as with any option */
        pair[0] = value;
        pair[1] = NULL;
    }
    return PLM_OK;
}

enum plm_status read_SHARE(struct options *options,
                           const struct option_desc *desc,
                           const char *value,
                           struct plm_error *reterr)
{
    size_t length = strlen(value);
    bool percent = length > 1 && value[length - 1] == '%';
    double share;

    if (!units_parse_real(arena_copy(options->arena, value, length - percent), &share) ||
        share < 0 || (!percent && share >= 1))
        return refuse(desc, value, "a share such as 2% or 0.02", reterr);
    *MEMBER(options, desc, double) = percent ? share / 100 : share;
    return PLM_OK;
}
