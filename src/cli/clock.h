/* cli/clock.h - time that only goes forward, and the date */
#ifndef PLM_CLI_CLOCK_H
#define PLM_CLI_CLOCK_H

#include "base/arena.h"

/* clock_seconds() - since some moment in the past; 0 where there is no clock */
double clock_seconds(void);

/* clock_date() - now, in UTC, as 2026-12-01T12:30:00Z; empty where it is not known */
const char *clock_date(struct arena *arena);

#endif
