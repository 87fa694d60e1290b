/* report/text.h - the pieces of the text reports, in two files for their length */
#ifndef PLM_REPORT_TEXT_H
#define PLM_REPORT_TEXT_H

#include "report/layout.h"
#include "report/recipe.h"
#include "report/report.h"

void text_item(struct buf *text, const struct recipe_item *item);
void text_subject(struct layout *layout, const struct report *report, bool batch);
void text_place(struct buf *out, const char *phase, int step, const char *op, const char *block);
void text_figures(struct layout *layout, const struct plm_result *result);
void text_doubts(struct layout *layout, const struct plm_result *result);
void text_peak(struct layout *layout, const struct plm_result *result);

/* renderer_text's other functions */
void text_plan(const struct report *report, struct buf *out);
void text_list(const struct list *list, struct buf *out);
void text_compare(const struct compare_report *report, struct buf *out);
void text_difference(const struct difference_report *report, struct buf *out);

/* text_ranks() - the ranks by class, when they differ */
void text_ranks(struct layout *layout, const struct plm_result *r);

#endif
