/*
 * cli/options.c - the options' table, and getopt_long fed from it
 *
 * Only the options that the command takes are given to getopt_long, so that an abbreviation is ambiguous only
 * among those; a wrong one is then looked up in the whole table to say what it belongs to.
 */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "cli/command.h"
#include "cli/readers.h"

#define LIST(name, ...)                                                                            \
    static const char *const name##_items[] = { __VA_ARGS__ };                                     \
    const struct words name = { name##_items, sizeof name##_items / sizeof *name##_items }

LIST(words_assume, "ghostgpu");
LIST(words_zero_stage, "1", "2", "3");
LIST(words_stage, "document", "model", "graph", "schedule", "memory");
LIST(words_sort,
     [SORT_NUMBER] = "number",
     [SORT_REQUESTED] = "requested",
     [SORT_ALLOCATED] = "allocated",
     [SORT_RESERVED] = "reserved",
     [SORT_DEVICE] = "device",
     [SORT_PER_PARAMETER] = "per-parameter",
     [SORT_LARGEST_BATCH] = "largest-batch");
LIST(words_color, [COLOR_AUTO] = "auto", [COLOR_ALWAYS] = "always", [COLOR_NEVER] = "never");

const char *const option_groups[GROUP_COUNT] = {
    [GROUP_MODEL] = "What is trained",    [GROUP_TRAINING] = "How it is trained",
    [GROUP_PARALLEL] = "Parallelism",     [GROUP_DEVICE] = "Where it runs",
    [GROUP_MEASURE] = "What is measured", [GROUP_SEARCH] = "What is safe",
    [GROUP_COMPARE] = "What is compared", [GROUP_OUTPUT] = "What is printed",
    [GROUP_WATCH] = "What is watched",
};

#define BIT(id) (1u << COMMAND_##id)
#define ESTIMATE BIT(ESTIMATE)
#define PLAN BIT(PLAN)
#define COMPARE BIT(COMPARE)
#define SEARCHES (PLAN | COMPARE)
#define DUMP BIT(DUMP)
#define CALIBRATE BIT(CALIBRATE)
#define WATCH BIT(WATCH)
#define VERIFY BIT(VERIFY)
#define FIXED_BATCH                                                                                \
    (BIT(ESTIMATE) | VERIFY | WATCH | COMPARE | BIT(TIMELINE) | BIT(DUMP) | BIT(CHECK))
#define RUNS (BIT(ESTIMATE) | VERIFY | WATCH | SEARCHES | BIT(TIMELINE) | BIT(DUMP))
#define CHECKED (RUNS | BIT(CHECK))
#define REPORTS (BIT(ESTIMATE) | WATCH | SEARCHES | BIT(MODELS) | BIT(DEVICES) | BIT(OPS))
#define EVERY ((1u << COMMAND_COUNT) - 1)

const struct option_desc option_descs[OPTION_COUNT] = {
#define OPTION(id, n, l, a, reader, member, w, completion, g, c, h)                                \
    [OPTION_##id] = { .name = n,                                                                   \
                      .letter = l,                                                                 \
                      .argument = a,                                                               \
                      .read = read_##reader,                                                       \
                      .offset = offsetof(struct options, member),                                  \
                      .words = w,                                                                  \
                      .complete = COMPLETE_##completion,                                           \
                      .group = GROUP_##g,                                                          \
                      .commands = c,                                                               \
                      .help = h },
#include "cli/options.def"
#undef OPTION
};

/* what other tools call them; only to say what it is called here */
static const struct {
    const char *theirs, *ours;
} foreign[] = {
    { "batch-size", "batch" },
    { "batchsize", "batch" },
    { "bs", "batch" },
    { "micro-batch-size", "batch" },
    { "per-device-train-batch-size", "batch" },
    { "seq-len", "seq" },
    { "seq-length", "seq" },
    { "sequence-length", "seq" },
    { "dtype", "precision" },
    { "mixed-precision", "precision" },
    { "gpu", "device" },
    { "gpu-memory", "capacity" },
    { "vram", "capacity" },
    { "grad-accum", "accumulate" },
    { "gradient-accumulation-steps", "accumulate" },
    { "gradient-checkpointing", "checkpoint" },
    { "activation-checkpointing", "checkpoint" },
    { "max-grad-norm", "clip-grad-norm" },
    { "optim", "optimizer" },
    { "headroom", "margin" },
    { "out", "output" },
};

bool option_taken(const struct option_desc *desc, unsigned command)
{
    return desc->commands >> command & 1;
}

/* takers() - "estimate, plan" */
static const char *takers(const struct option_desc *desc, struct arena *arena)
{
    struct buf text = { .arena = arena };

    for (unsigned i = 0; i < COMMAND_COUNT; i++)
        if (option_taken(desc, i))
            buf_printf(&text, "%s%s", text.length ? ", " : "", command_at(i)->name);
    return buf_string(&text);
}

/* unknown() - say what is wrong with an option that getopt_long does not know here */
static enum plm_status unknown(const struct options *options,
                               unsigned command,
                               const char *word,
                               struct plm_error *reterr)
{
    const char *names[OPTION_COUNT + sizeof foreign / sizeof *foreign];
    size_t name_count = 0, length = strcspn(word, "=");
    const char *name = arena_copy(options->arena, word, length);
    const char *near;

    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option_desc *desc = &option_descs[i];

        if (strcmp(desc->name, name) == 0 && desc->commands)
            return plm_fail(reterr, PLM_E_USAGE, "--%s: not an option of %s; of: %s", name,
                            command_at(command)->name, takers(desc, options->arena));
        if (option_taken(desc, command))
            names[name_count++] = desc->name;
    }
    near = NULL;
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (strcmp(foreign[i].theirs, name) == 0)
            near = foreign[i].ours;
    if (!near)
        near = error_nearest(name, names, name_count);
    return plm_fail(reterr, PLM_E_USAGE,
                    "unknown option '--%.60s'%s%s%s ('plimsoll %s --help' lists them)", name,
                    near ? "; did you mean '--" : "", near ? near : "", near ? "'?" : "",
                    command_at(command)->name);
}

/* ambiguous() - PLM_OK unless several options begin with @word */
static enum plm_status ambiguous(const struct options *options,
                                 unsigned command,
                                 const char *word,
                                 struct plm_error *reterr)
{
    enum { LISTED_MOST = 8 }; /* a message has room for these */
    struct buf list = { .arena = options->arena };
    size_t length = strcspn(word, "="), count = 0;

    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (option_taken(&option_descs[i], command) &&
            strncmp(option_descs[i].name, word, length) == 0 && ++count <= LISTED_MOST)
            buf_printf(&list, "%s--%s", count > 1 ? ", " : "", option_descs[i].name);
    if (count < 2)
        return PLM_OK;
    return plm_fail(reterr, PLM_E_USAGE, "option '--%.*s' is ambiguous: %s%s",
                    (int)(length < 20 ? length : 20), word, buf_string(&list),
                    count > LISTED_MOST ? ", …" : "");
}

/* which() - the row of an option whose argument is missing */
static const struct option_desc *which(int code)
{
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (code == (int)(256 + i) || (option_descs[i].letter && code == option_descs[i].letter))
            return &option_descs[i];
    return NULL;
}

/* wrong() - getopt_long gave '?' or ':' */
static enum plm_status wrong(const struct options *options,
                             unsigned command,
                             int code,
                             char **argv,
                             struct plm_error *reterr)
{
    const struct option_desc *desc = optopt ? which(optopt) : NULL;
    const char *word = argv[optind - 1];

    if (code == ':' && desc)
        return plm_fail(reterr, PLM_E_USAGE, "--%s: needs %s", desc->name, desc->argument);
    if (desc)
        return plm_fail(reterr, PLM_E_USAGE, "--%s: takes no value", desc->name);
    if (optopt && optopt < 256)
        return plm_fail(reterr, PLM_E_USAGE,
                        "unknown option '-%c' ('plimsoll %s --help' lists them)", optopt,
                        command_at(command)->name);
    if (strncmp(word, "--", 2) != 0)
        return plm_fail(reterr, PLM_E_USAGE, "'%.60s' is no option", word);

    enum plm_status status = ambiguous(options, command, word + 2, reterr);

    return status ? status : unknown(options, command, word + 2, reterr);
}

enum plm_status options_read(struct options *options,
                             const struct option_desc *desc,
                             const char *value,
                             struct plm_error *reterr)
{
    options->given[desc - option_descs] = true;
    return desc->read(options, desc, value, reterr);
}

enum plm_status options_parse(struct options *options,
                              unsigned command,
                              int argc,
                              char **argv,
                              int *ret_first,
                              struct plm_error *reterr)
{
    struct option longs[OPTION_COUNT + 1] = { 0 };
    struct buf letters = { .arena = options->arena };
    size_t count = 0;
    int code;

    buf_char(&letters, ':'); /* a missing argument is told apart */
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option_desc *desc = &option_descs[i];

        if (!option_taken(desc, command))
            continue;
        longs[count++] =
            (struct option){ .name = desc->name,
                             .has_arg = desc->argument ? required_argument : no_argument,
                             .val = (int)(256 + i) };
        if (desc->letter)
            buf_printf(&letters, "%c%s", desc->letter, desc->argument ? ":" : "");
    }
    opterr = 0;
    optind = 0; /* glibc: start afresh */
    while ((code = getopt_long(argc, argv, buf_string(&letters), longs, NULL)) != -1) {
        if (code == '?' || code == ':')
            return wrong(options, command, code, argv, reterr);

        const struct option_desc *desc = which(code);
        enum plm_status status = options_read(options, desc, optarg, reterr);

        /* "A B" in the table: the reader is called for each of two words */
        if (status == PLM_OK && desc->argument && strchr(desc->argument, ' '))
            status = optind < argc ? options_read(options, desc, argv[optind++], reterr)
                                   : plm_fail(reterr, PLM_E_USAGE, "--%s: needs %s", desc->name,
                                              desc->argument);
        if (status != PLM_OK)
            return status;
    }
    if (options->json && options->csv)
        return plm_fail(reterr, PLM_E_USAGE, "--json and --csv do not go together");
    *ret_first = optind;
    return PLM_OK;
}
