/* report/timeline_page.h - the page of timeline_html.c, before and after its data */
#ifndef PLM_REPORT_TIMELINE_PAGE_H
#define PLM_REPORT_TIMELINE_PAGE_H

extern const char timeline_page_head[]; /* ends where the value of the script's D begins */
extern const char timeline_page_tail[];

#endif
