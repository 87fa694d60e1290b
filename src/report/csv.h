/* report/csv.h - renderer_csv in pieces, in two files for its length */
#ifndef PLM_REPORT_CSV_H
#define PLM_REPORT_CSV_H

#include "report/report.h"

/* csv_field() - @text, quoted where it must be; NULL is an empty field */
void csv_field(struct buf *out, const char *text);

void csv_compare(const struct compare_report *report, struct buf *out);
void csv_difference(const struct difference_report *report, struct buf *out);

#endif
