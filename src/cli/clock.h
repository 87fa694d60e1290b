/* cli/clock.h - time that only goes forward */
#ifndef PLM_CLI_CLOCK_H
#define PLM_CLI_CLOCK_H

/* clock_seconds() - since some moment in the past; 0 where there is no clock */
double clock_seconds(void);

#endif
