/* base/error.h - filling in a struct plm_error, one line per failure */
#ifndef PLM_BASE_ERROR_H
#define PLM_BASE_ERROR_H

#include "plimsoll/types.h"

/* struct source - a place in a file that was read; line and column are 1-based, 0 is nowhere */
struct source {
    const char *file; /* NULL when there is none */
    unsigned line, column;
};

/* plm_fail() - fill @reterr (which may be NULL) and return @status, so that a failure is one line */
enum plm_status plm_fail(struct plm_error *reterr, enum plm_status status, const char *format, ...)
    PLM_PRINTF(3, 4);

/* plm_fail_at() - the same, with the place in a file */
enum plm_status plm_fail_at(struct plm_error *reterr,
                            enum plm_status status,
                            struct source at,
                            const char *format,
                            ...) PLM_PRINTF(4, 5);

/*
 * error_nearest() - the entry of @names that @word was probably meant to be
 *
 * Returns NULL when none is near. Distance counts inserted, dropped, changed and swapped letters; capitals are as good as
 * small ones, and one that begins with the other is near.
 */
const char *error_nearest(const char *word, const char *const *names, size_t name_count);

#endif
