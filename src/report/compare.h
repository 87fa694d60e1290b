/*
 * report/compare.h - strategies side by side
 */
#ifndef PLM_REPORT_COMPARE_H
#define PLM_REPORT_COMPARE_H

#include "report/growth.h"

/* struct compare_row - one strategy and what became of it */
struct compare_row {
    struct report report; /* its result is NULL when the strategy was refused */
    const char *const
        *values;       /* [axis_count], as given; "": as the command line has it elsewhere */
    const char *label; /* what differs, as --diff takes it: "precision=fp32,batch=8" */
    size_t number;     /* from 1, in the grid's order, however the rows are sorted */
    const struct plm_compared *compared;
    bool has_largest_batch;
    int64_t largest_batch; /* 0: none is safe */
    struct growth growth;  /* with a baseline */
};

struct compare_report {
    const char *model;
    const char *const *axes; /* [axis_count]: names of the options that vary */
    size_t axis_count;
    const struct compare_row *rows; /* [row_count], as they shall be shown */
    size_t row_count;
    bool largest_batch;   /* was asked for */
    const char *baseline; /* file; NULL: none */
    double allow;         /* share by which a peak may have grown */
    bool colour;
};

/* struct difference_report - two of them, term by term */
struct difference_report {
    const char *model;
    const struct compare_row *a, *b;
    const struct plm_difference *difference;
    bool colour;
};

/* compare_write_svg() - a bar for each row: what is alive at the peak by category, what the allocator adds, the device's memory */
void compare_write_svg(const struct compare_report *report, struct buf *out);

#endif
