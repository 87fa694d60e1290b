/* cli/clock.c - the monotonic clock, and the date */
#include <string.h>
#include <time.h>

#include "cli/clock.h"

double clock_seconds(void)
{
    struct timespec time;

    if (clock_gettime(CLOCK_MONOTONIC, &time) != 0)
        return 0;
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

const char *clock_date(struct arena *arena)
{
    time_t seconds = time(NULL);
    struct tm utc;
    char date[32] = "";

    if (gmtime_r(&seconds, &utc))
        strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
    return arena_copy(arena, date, strlen(date));
}
