/*
 * report/timeline.h - a run over time, in the formats of four readers
 *
 * Time is counted in the allocator's events: a static estimate knows their order, not when they happen.
 */
#ifndef PLM_REPORT_TIMELINE_H
#define PLM_REPORT_TIMELINE_H

#include "base/buf.h"
#include "plimsoll/plimsoll.h"

/* struct timeline_report - what a writer is given */
struct timeline_report {
    const struct plm_timeline *timeline;
    const struct plm_result *result;
};

typedef void timeline_writer(const struct timeline_report *report, struct buf *out);

timeline_writer timeline_write_svg;   /* a picture: bytes stacked by category */
timeline_writer timeline_write_html;  /* one page: the same, and every tensor under the pointer */
timeline_writer timeline_write_trace; /* Chrome's trace format, for Perfetto */
timeline_writer
    timeline_write_snapshot; /* a pickle as torch.cuda.memory._dump_snapshot writes it */

/* timeline_writer_for() - by the end of a file's name; NULL when it is none of timeline_endings */
timeline_writer *timeline_writer_for(const char *path);

/* timeline_failure() - of a run that is out of memory: where, and what it asked for */
const char *timeline_failure(const struct plm_result *result, struct arena *arena);

extern const char timeline_endings[]; /* ".svg, .html, .json, .pickle" */

#endif
