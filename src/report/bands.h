/*
 * report/bands.h - a timeline summed up by category and cut into columns
 *
 * A column stands for a range of events and shows the moment in it at which the most is allocated, so that no peak
 * is lost however many events there are.
 */
#ifndef PLM_REPORT_BANDS_H
#define PLM_REPORT_BANDS_H

#include "base/arena.h"
#include "plimsoll/plimsoll.h"

enum { BANDS_MOST = 16 }; /* categories beyond that are the last band, "other" */

struct bands_column {
    uint32_t event; /* the moment that is shown */
    plm_bytes bytes[BANDS_MOST];
    plm_bytes reserved; /* the most within the column */
};

struct bands {
    const char *names[BANDS_MOST]; /* what stays to the end comes first: the bottom of the stack */
    size_t count;
    const struct bands_column *columns;
    size_t column_count;
    struct bands_column peak;     /* of the whole run, the earliest */
    plm_bytes highest, reserved;  /* bytes of the peak; the most reserved */
    const uint32_t *band_of_life; /* [life_count] */
    const uint32_t *deaths;       /* [death_count]: lives that end, by when */
    size_t death_count;
};

/* bands_make() - at most @column_limit columns; fewer when there are fewer events */
const struct bands *bands_make(const struct plm_timeline *timeline,
                               size_t column_limit,
                               struct arena *arena);

/* bands_colour() - of a category, as "#rrggbb": the same in every picture */
const char *bands_colour(const char *name);

#endif
