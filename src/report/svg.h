/* report/svg.h - what the pictures share */
#ifndef PLM_REPORT_SVG_H
#define PLM_REPORT_SVG_H

#include "base/buf.h"

/* svg_text() - @text inside XML, its special characters escaped */
void svg_text(struct buf *out, const char *text);

#endif
