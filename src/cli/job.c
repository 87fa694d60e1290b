#define _GNU_SOURCE /* pipe2 */
/* cli/job.c - starts a program, passes signals on to it and waits for it */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/clock.h"
#include "cli/job.h"

enum { EXIT_CANNOT_RUN = 127 };

static const int watched[] = { SIGINT,  SIGTERM, SIGHUP,   SIGQUIT, SIGUSR1,
                               SIGUSR2, SIGCHLD, SIGWINCH, SIGTSTP };

static bool is_program(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 && S_ISREG(info.st_mode) && access(path, X_OK) == 0;
}

bool job_can_run(const char *word)
{
    const char *path = getenv("PATH");
    char file[PATH_MAX];

    if (strchr(word, '/') || !path)
        return is_program(word);
    for (size_t length; *path; path += length + (path[length] == ':')) {
        int wrote;

        length = strcspn(path, ":");
        wrote = snprintf(file, sizeof file, "%.*s/%s", (int)length, length ? path : ".", word);
        if (wrote < (int)sizeof file && is_program(file))
            return true;
    }
    return false;
}

enum plm_status job_begin(struct job *job, struct plm_error *reterr)
{
    sigset_t set;

    *job = (struct job){ 0 };
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof watched / sizeof *watched; i++)
        sigaddset(&set, watched[i]);
    sigprocmask(SIG_BLOCK, &set, &job->before);
    job->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (job->signals < 0) {
        int cause = errno;

        sigprocmask(SIG_SETMASK, &job->before, NULL);
        return plm_fail(reterr, PLM_E_IO, "cannot read signals: %s", strerror(cause));
    }
    prctl(PR_SET_CHILD_SUBREAPER,
          1); /* else a grandchild whose parent has ended would leave the family */
    return PLM_OK;
}

/* run() - the child's side; returns only through its end */
static void run(const struct job *job, const char *const *words, int report)
{
    int cause;

    signal(SIGXFSZ, SIG_DFL); /* main() ignores it */
    sigprocmask(SIG_SETMASK, &job->before, NULL);
    execvp(words[0], (char *const *)(uintptr_t)words);
    cause = errno;
    if (write(report, &cause, sizeof cause) != (ssize_t)sizeof cause)
        _exit(EXIT_CANNOT_RUN - 1);
    _exit(EXIT_CANNOT_RUN);
}

/* read_cause() - what the child could not do; 0 when the pipe was closed by the program that it became */
static int read_cause(int from)
{
    int cause = 0;
    ssize_t length;

    do
        length = read(from, &cause, sizeof cause);
    while (length < 0 && errno == EINTR);
    return length == (ssize_t)sizeof cause ? cause : 0;
}

enum plm_status job_start(struct job *job,
                          const char *const *words,
                          int *ret_cause,
                          struct plm_error *reterr)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0)
        return plm_fail(reterr, PLM_E_IO, "cannot start a process: %s", strerror(errno));
    job->child = fork();
    if (job->child < 0) {
        int cause = errno;

        job->child = 0;
        close(ends[0]);
        close(ends[1]);
        return plm_fail(reterr, PLM_E_IO, "cannot start a process: %s", strerror(cause));
    }
    if (job->child == 0)
        run(job, words, ends[1]);
    close(ends[1]);
    *ret_cause = read_cause(ends[0]);
    close(ends[0]);
    return PLM_OK;
}

/* reap() - every child that has ended; true when ours is among them */
static bool reap(struct job *job)
{
    bool ended = false;
    pid_t pid;
    int status;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        if (pid == job->child) {
            job->status = status;
            ended = true;
        }
    return ended;
}

/* take() - act on one signal; JOB_TIME when there is nothing to tell */
static enum job_event take(struct job *job, const struct signalfd_siginfo *info)
{
    int number = (int)info->ssi_signo;
    bool from_terminal = info->ssi_code == SI_KERNEL;

    if (number == SIGCHLD)
        return reap(job) ? JOB_ENDED : JOB_TIME;
    if (number == SIGWINCH)
        return JOB_RESIZE;
    if (number == SIGTSTP && from_terminal)
        return JOB_SUSPEND;
    if (job->child == 0)
        return number == SIGUSR1 || number == SIGUSR2 || number == SIGTSTP ? JOB_TIME : JOB_STOP;
    if (!from_terminal)
        kill(job->child, number);
    return JOB_TIME;
}

enum job_event job_wait(struct job *job, double seconds)
{
    double end = clock_seconds() + seconds;

    for (;;) {
        struct pollfd from = { .fd = job->signals, .events = POLLIN };
        struct signalfd_siginfo info;
        double left = end - clock_seconds();

        while (read(job->signals, &info, sizeof info) == (ssize_t)sizeof info) {
            enum job_event event = take(job, &info);

            if (event != JOB_TIME)
                return event;
        }
        if (left <= 0)
            return JOB_TIME;
        if (poll(&from, 1, left > 3600 ? 3600 * 1000 : (int)(left * 1000) + 1) < 0 &&
            errno != EINTR)
            return JOB_TIME;
    }
}

void job_suspend(void)
{
    raise(SIGSTOP);
}

void job_finish(struct job *job)
{
    close(job->signals);
}
