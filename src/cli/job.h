/*
 * cli/job.h - another program, run as if this one were not there
 *
 * It has this one's standard streams, terminal and process group. Signals that are sent to this program are passed on; those that
 * the terminal sends reach both by themselves.
 */
#ifndef PLM_CLI_JOB_H
#define PLM_CLI_JOB_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "plimsoll/types.h"

struct job {
    pid_t child;     /* 0: none was started */
    int signals;     /* descriptor to read them from */
    sigset_t before; /* the mask that the child gets */
    int status;      /* of waitpid(), once it has ended */
};

enum job_event {
    JOB_TIME,    /* the time is up */
    JOB_ENDED,   /* the child has ended; job->status says how */
    JOB_STOP,    /* there is no child, and the user wants an end */
    JOB_RESIZE,  /* the terminal has another size */
    JOB_SUSPEND, /* the terminal asks to stop for now: call job_suspend() */
};

/* job_can_run() - is @word a program, by its path or in PATH */
bool job_can_run(const char *word);

/* job_begin() - from here on signals are read; processes whose parents end become children of this one */
PLM_MUST_CHECK enum plm_status job_begin(struct job *job, struct plm_error *reterr);

/* job_start() - run @words[0], looked for in PATH; *ret_cause is errno when it cannot be run, otherwise 0 */
PLM_MUST_CHECK enum plm_status job_start(struct job *job,
                                         const char *const *words,
                                         int *ret_cause,
                                         struct plm_error *reterr);

/* job_wait() - until something happens, at most @seconds */
enum job_event job_wait(struct job *job, double seconds);

/* job_suspend() - stop as the terminal asked, until it lets go on */
void job_suspend(void);

/* job_finish() - signals stay kept back until the program ends: what was seen is still to be written */
void job_finish(struct job *job);

#endif
