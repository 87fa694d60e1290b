/*
 * base/units.h - sizes and numbers as people write them
 *
 * "24GiB", "24G", "24 GiB", "24576MiB", "25769803776": K, M, G and T are powers of 1024 with or without
 * "iB" or "B"; a fraction is allowed ("1.5GiB"). units_parse_bytes(units_format_exact(n)) == n for every n.
 * Numbers are read here and nowhere else, so that no locale can change their meaning.
 */
#ifndef PLM_BASE_UNITS_H
#define PLM_BASE_UNITS_H

#include <stdbool.h>

#include "plimsoll/types.h"

enum { UNITS_TEXT = 32 }; /* room for any formatted size, with its closing zero */

PLM_MUST_CHECK bool units_parse_bytes(const char *text, plm_bytes *ret_bytes);

/* units_parse_int() - a decimal integer, also with digits grouped by '_' ("1_000") */
PLM_MUST_CHECK bool units_parse_int(const char *text, int64_t *ret_value);

/* units_parse_real() - a decimal number with optional fraction and exponent; never inf or nan */
PLM_MUST_CHECK bool units_parse_real(const char *text, double *ret_value);

/* units_format_bytes() - for people: "23.64 GiB", "512 B"; returns @text */
const char *units_format_bytes(plm_bytes bytes, char text[UNITS_TEXT]);

/* units_format_grouped() - "25,383,908,352" grouped, for people who check; returns @text */
const char *units_format_grouped(uint64_t value, char text[UNITS_TEXT]);

/* units_format_exact() - the shortest text that is read back as the same number: "24GiB", "1536B" */
const char *units_format_exact(plm_bytes bytes, char text[UNITS_TEXT]);

#endif
