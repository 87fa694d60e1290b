/*
 * cli/vary.h - a grid of strategies from options and lists of values
 *
 * A point of the grid is the command line with some options set otherwise; they are read by the same readers. The last option
 * given varies fastest.
 */
#ifndef PLM_CLI_VARY_H
#define PLM_CLI_VARY_H

#include "cli/options.h"

enum { VARY_POINTS_MOST = PLM_COMPARE_MOST, VARY_AXES_MOST = 32 };

struct vary_axis {
    const struct option_desc *option;
    const char *const *values; /* [value_count]; "": as the command line has it elsewhere */
    size_t value_count;
};

struct vary_grid {
    struct vary_axis axes[VARY_AXES_MOST];
    size_t axis_count;
    size_t point_count; /* the product; 1 without axes */
};

/* vary_read() - the grid that @options ask for; every value was read once, so that points cannot fail */
PLM_MUST_CHECK enum plm_status vary_read(const struct options *options,
                                         unsigned command,
                                         struct vary_grid *ret_grid,
                                         struct plm_error *reterr);

/* vary_point() - the options at a point; @values [axis_count] is what each axis has there */
PLM_MUST_CHECK enum plm_status vary_point(const struct options *options,
                                          const struct vary_grid *grid,
                                          size_t point,
                                          const char **values,
                                          struct options *ret_options,
                                          struct plm_error *reterr);

/* vary_first() - of the points that differ from @point in the option @name alone, the first */
size_t vary_first(const struct vary_grid *grid, size_t point, const char *name);

/* vary_label() - "precision=fp32,batch=8": what a point differs in, as vary_list() reads it */
const char *vary_label(const struct vary_grid *grid,
                       const char *const *values,
                       struct arena *arena);

/* vary_list() - the options with those of a list ("precision=fp32,batch=8") set otherwise */
PLM_MUST_CHECK enum plm_status vary_list(const struct options *options,
                                         unsigned command,
                                         const char *list,
                                         struct options *ret_options,
                                         struct plm_error *reterr);

#endif
