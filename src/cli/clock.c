/* cli/clock.c - the monotonic clock */
#include <time.h>

#include "cli/clock.h"

double clock_seconds(void)
{
    struct timespec time;

    if (clock_gettime(CLOCK_MONOTONIC, &time) != 0)
        return 0;
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}
