/*
 * base/error.c - errors as values
 *
 * The error is written where the facts are known; callers hand it on untouched. The library never
 * prints: what becomes of an error is the program's business.
 */
#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

static void set_file(struct plm_error *error, const char *file)
{
    size_t length = file ? strlen(file) : 0;
    size_t room = sizeof error->file - 1;
    const char *from = length > room ? file + (length - room) : file;

    if (length > room)
        length = room;
    if (length > 0)
        memcpy(error->file, from, length);
    error->file[length] = '\0';
}

PLM_PRINTF(3, 0)
static void fill(struct plm_error *error, struct source at, const char *format, va_list args)
{
    *error = (struct plm_error){ .line = at.line, .column = at.column };
    set_file(error, at.file);
    vsnprintf(error->message, sizeof error->message, format, args);
}

enum plm_status plm_fail(struct plm_error *reterr, enum plm_status status, const char *format, ...)
{
    if (reterr) {
        va_list args;

        va_start(args, format);
        fill(reterr, (struct source){ 0 }, format, args);
        va_end(args);
    }
    return status;
}

enum plm_status plm_fail_at(
    struct plm_error *reterr, enum plm_status status, struct source at, const char *format, ...)
{
    if (reterr) {
        va_list args;

        va_start(args, format);
        fill(reterr, at, format, args);
        va_end(args);
    }
    return status;
}

enum { NEAR_MAX_LENGTH = 48 };

static bool same(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* begins() - is @start the beginning of @word, and long enough to say something? */
static bool begins(const char *start, const char *word)
{
    size_t length = 0;

    while (start[length] && same(start[length], word[length]))
        length++;
    return start[length] == '\0' && length >= 3;
}

/* Damerau-Levenshtein distance (restricted: no letter is moved twice); capitals do not count. */
static unsigned distance(const char *a, const char *b)
{
    size_t an = strlen(a), bn = strlen(b);
    unsigned row[3][NEAR_MAX_LENGTH + 1];

    if (an > NEAR_MAX_LENGTH || bn > NEAR_MAX_LENGTH)
        return UINT32_MAX;
    for (unsigned j = 0; j <= bn; j++)
        row[0][j] = j;
    for (unsigned i = 1; i <= an; i++) {
        unsigned *now = row[i % 3], *above = row[(i + 2) % 3], *two_above = row[(i + 1) % 3];

        now[0] = i;
        for (unsigned j = 1; j <= bn; j++) {
            unsigned best = above[j - 1] + !same(a[i - 1], b[j - 1]);

            if (above[j] + 1 < best)
                best = above[j] + 1;
            if (now[j - 1] + 1 < best)
                best = now[j - 1] + 1;
            if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]) &&
                two_above[j - 2] + 1 < best)
                best = two_above[j - 2] + 1;
            now[j] = best;
        }
    }
    return row[an % 3][bn];
}

/* half_steps() - how far @name is, in halves of a letter: one that goes on where @word ends is nearer than any misspelt one */
static unsigned half_steps(const char *word, const char *name, unsigned limit)
{
    unsigned d = distance(word, name);

    if (d > 0 && begins(word, name)) /* "a100" is rather a100-40 than a10 */
        return 1;
    if (d <= limit && d >= strlen(word)) /* every letter is another */
        return UINT32_MAX;
    return d > limit && begins(name, word) ? 2 * limit : d > limit ? UINT32_MAX : 2 * d;
}

const char *error_nearest(const char *word, const char *const *names, size_t name_count)
{
    size_t length = strlen(word);
    unsigned limit = length <= 3 ? 1 : length <= 8 ? 2 : 3;
    unsigned best = UINT32_MAX;
    const char *found = NULL;

    for (size_t i = 0; i < name_count; i++) {
        unsigned steps = half_steps(word, names[i], limit);

        if (steps < best) {
            best = steps;
            found = names[i];
        }
    }
    return found;
}
