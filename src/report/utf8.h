/* report/utf8.h - text in UTF-8, one character at a time */
#ifndef PLM_REPORT_UTF8_H
#define PLM_REPORT_UTF8_H

#include <stddef.h>

/*
 * utf8_length() - the bytes of the character that @text begins with; 0 when it is not valid UTF-8
 *
 * Overlong forms, surrogates and what lies beyond U+10FFFF are not valid.
 */
size_t utf8_length(const char *text);

/* utf8_columns() - how many characters @text has; a stray byte counts as one */
size_t utf8_columns(const char *text);

#endif
