/*
 * cli/options.h - the options' table, and the values that one command line gave
 *
 * options.def is the only place that knows an option: parsing, --help, the manual's OPTIONS and the shells'
 * completions are made from its rows.
 */
#ifndef PLM_CLI_OPTIONS_H
#define PLM_CLI_OPTIONS_H

#include <stdbool.h>

#include "base/arena.h"
#include "plimsoll/plimsoll.h"
#include "report/words.h"

enum sort_field {
    SORT_NUMBER,
    SORT_REQUESTED,
    SORT_ALLOCATED,
    SORT_RESERVED,
    SORT_DEVICE,
    SORT_PER_PARAMETER,
    SORT_LARGEST_BATCH
};
enum color_when { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER };

enum option_id {
#define OPTION(id, ...) OPTION_##id,
#include "cli/options.def"
#undef OPTION
    OPTION_COUNT
};

/* struct options - what was given; zero is the default everywhere */
struct options {
    struct arena *arena;
    bool given[OPTION_COUNT]; /* also where the value is the default */
    struct plm_strategy strategy;
    struct plm_setting *settings; /* what strategy.settings points to while it grows */
    size_t setting_capacity;
    const char *device, *cudnn, *cudnn_model, *deepspeed;
    int64_t global_batch, multiple_of, max_batch;
    double margin_share;
    plm_bytes margin_bytes, reserve;
    bool has_margin;
    const char **vary; /* [vary_count]: "precision=fp32,bf16" */
    size_t vary_count, vary_capacity;
    const char *diff[2], *baseline;
    double allow;
    int64_t jobs;
    unsigned sort; /* enum sort_field */
    bool largest_batch;
    int64_t ordinal; /* of the GPU that is measured */
    const char *python;
    double max_fill, watchdog;
    bool quick, managed, ladder;
    int64_t pid;
    double interval; /* seconds */
    const char *gpu_id, *plan;
    const char *output, *stage;
    unsigned color; /* enum color_when */
    bool json, csv, help, version;
};

enum option_group {
    GROUP_MODEL,
    GROUP_TRAINING,
    GROUP_PARALLEL,
    GROUP_DEVICE,
    GROUP_MEASURE,
    GROUP_WATCH,
    GROUP_SEARCH,
    GROUP_COMPARE,
    GROUP_OUTPUT,
    GROUP_COUNT
};

enum option_complete {
    COMPLETE_NOTHING,
    COMPLETE_WORDS,
    COMPLETE_FILES,
    COMPLETE_DEVICES,
    COMPLETE_FRAMEWORKS
};

struct option_desc;

/* A reader stores @value (NULL for a flag) or says what it accepts, beginning with the option's name. */
typedef enum plm_status option_reader(struct options *options,
                                      const struct option_desc *desc,
                                      const char *value,
                                      struct plm_error *reterr);

/* struct option_desc - a row of options.def */
struct option_desc {
    const char *name;
    char letter; /* '\0': none */
    const char *argument;
    option_reader *read;
    size_t offset; /* of the member in struct options */
    const struct words *words;
    enum option_complete complete;
    enum option_group group;
    unsigned commands; /* a bit for each enum command_id */
    const char *help;
};

extern const struct option_desc option_descs[OPTION_COUNT];
extern const char *const option_groups[GROUP_COUNT]; /* their headings */

extern const struct words words_assume, words_stage, words_sort, words_color, words_zero_stage;

/* option_taken() - does the command with this number take the option */
bool option_taken(const struct option_desc *desc, unsigned command);

/* options_read() - the value of one option, as its row reads it; NULL for one that takes none */
PLM_MUST_CHECK enum plm_status options_read(struct options *options,
                                            const struct option_desc *desc,
                                            const char *value,
                                            struct plm_error *reterr);

/*
 * options_parse() - read a command's options and arguments
 *
 * @argv[0] is the command's name. Options and arguments may mix; "--" ends the options. @argv is reordered so that the
 * arguments come last, from *ret_first on.
 */
PLM_MUST_CHECK enum plm_status options_parse(struct options *options,
                                             unsigned command,
                                             int argc,
                                             char **argv,
                                             int *ret_first,
                                             struct plm_error *reterr);

#endif
