/*
 * report/recipe.h - the strategy spelled out, every default included
 *
 * One walk over the strategy that all renderers share, so that no report forgets an option.
 */
#ifndef PLM_REPORT_RECIPE_H
#define PLM_REPORT_RECIPE_H

#include "report/report.h"

enum recipe_kind { RECIPE_TEXT, RECIPE_COUNT, RECIPE_REAL, RECIPE_BOOL, RECIPE_ABSENT };

/* struct recipe_item - one option and its value */
struct recipe_item {
    const char *key; /* the option's long name with '_' for '-' */
    enum recipe_kind kind;
    const char *text; /* RECIPE_TEXT */
    int64_t count;    /* RECIPE_COUNT, RECIPE_BOOL */
    double real;      /* RECIPE_REAL */
    bool usual;       /* the default: text reports leave it out */
};

/* recipe_items() - all of them, in the order of the manual; settings (--set) are not among them */
const struct recipe_item *recipe_items(const struct report *report,
                                       struct arena *arena,
                                       size_t *ret_count);

/* recipe_option() - the key as the option is written, with '-' for '_' */
const char *recipe_option(const struct recipe_item *item, struct arena *arena);

/* recipe_flags() - the same as options to paste, without those that are the default */
const char *recipe_flags(const struct report *report, struct arena *arena);

#endif
