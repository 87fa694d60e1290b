/* device/child.c - a process for what may hang, die or be interrupted */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "device/child.h"

enum { ENDED_BADLY = 1 };

/* ------------------------------------------------------------------ the child's side */

static void say_all(const struct child_voice *voice, const char *text, size_t length)
{
    while (length > 0) {
        ssize_t wrote = write(voice->out, text, length);

        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            _exit(ENDED_BADLY);
        text += wrote;
        length -= (size_t)wrote;
    }
}

void child_say(const struct child_voice *voice, const char *format, ...)
{
    char line[CHILD_LINE_MAX];
    va_list args;
    int length;

    va_start(args, format);
    length = vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    if (length < 0)
        return;
    if (length > (int)sizeof line - 2)
        length = (int)sizeof line - 2;
    line[length] = '\n';
    say_all(voice, line, (size_t)length + 1);
}

void child_hold(const struct child_voice *voice)
{
    char byte;

    while (read(voice->hold, &byte, 1) < 0 && errno == EINTR)
        continue;
}

/*
 * be_child() - the forked process
 *
 * Signals are as a new program has them, so that Ctrl-C in the terminal ends it at once. It dies with its parent. What a library
 * prints to standard output would mix with the answer: that goes nowhere.
 */
static void be_child(pid_t parent, struct child_voice voice, child_job *job, const void *what)
{
    static const int reset[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE };
    int nowhere = open("/dev/null", O_WRONLY);
    sigset_t none;

    for (size_t i = 0; i < sizeof reset / sizeof *reset; i++)
        signal(reset[i], SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        _exit(ENDED_BADLY);
    if (nowhere >= 0)
        dup2(nowhere, STDOUT_FILENO);
    job(&voice, what);
    _exit(0);
}

/* ------------------------------------------------------------------ the parent's side */

static enum plm_status fail_errno(const char *what, struct plm_error *reterr)
{
    return plm_fail(reterr, PLM_E_DEVICE, "%s: %s", what, strerror(errno));
}

enum plm_status child_start(struct child *ret_child,
                            child_job *job,
                            const void *what,
                            struct plm_error *reterr)
{
    pid_t parent = getpid(), pid;
    int answer[2], hold[2]; /* [0] is the parent's of both */

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, answer) != 0)
        return fail_errno("a socket to the probe's process", reterr);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, hold) != 0) {
        enum plm_status status = fail_errno("a socket to the probe's process", reterr);

        close(answer[0]);
        close(answer[1]);
        return status;
    }
    pid = fork();
    if (pid == 0) {
        close(answer[0]);
        close(hold[0]);
        be_child(parent, (struct child_voice){ .out = answer[1], .hold = hold[1] }, job, what);
    }
    close(answer[1]);
    close(hold[1]);
    *ret_child = (struct child){ .pid = pid, .in = answer[0], .hold = hold[0] };
    if (pid < 0) {
        enum plm_status status = fail_errno("a process for the probes", reterr);

        child_let_go(ret_child);
        close(ret_child->in);
        *ret_child = (struct child){ 0 };
        return status;
    }
    return PLM_OK;
}

const char *child_words_after(const char *line, const char *word)
{
    size_t length = strlen(word);

    return strncmp(line, word, length) == 0 && line[length] == ' ' ? line + length + 1 : NULL;
}

void child_let_go(struct child *child)
{
    if (child->hold <= 0)
        return;
    /* a byte, since closing is not noticed while a later child has inherited this end */
    (void)!send(child->hold, "", 1, MSG_NOSIGNAL);
    close(child->hold);
    child->hold = 0;
}

static double now(void)
{
    struct timespec time;

    return clock_gettime(CLOCK_MONOTONIC, &time) == 0
               ? (double)time.tv_sec + (double)time.tv_nsec * 1e-9
               : 0;
}

/* gone() - reap it; waits for at most @seconds, since a process inside a driver's call may not die at once */
static bool gone(struct child *child, double seconds, int *ret_how)
{
    double end = now() + seconds;

    for (;;) {
        pid_t pid = waitpid(child->pid, ret_how, WNOHANG);

        if (pid == child->pid || (pid < 0 && errno == ECHILD))
            return true;
        if (now() >= end)
            return false;
        nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
    }
}

/* ended() - it closed its side: did it end well? */
static enum plm_status ended(struct child *child, struct plm_error *reterr)
{
    int how = 0;

    child_let_go(child);
    if (!gone(child, 5, &how)) {
        child_stop(child);
        return plm_fail(reterr, PLM_E_DEVICE, "the probe's process did not end");
    }
    child->pid = 0;
    if (WIFSIGNALED(how))
        return plm_fail(reterr, PLM_E_DEVICE, "the probe's process died: %s",
                        strsignal(WTERMSIG(how)));
    if (WEXITSTATUS(how) != 0)
        return plm_fail(reterr, PLM_E_DEVICE, "the probe's process ended with status %d",
                        WEXITSTATUS(how));
    return PLM_OK;
}

/* wait_text() - until there is something to read, or @end */
static int wait_text(const struct child *child, double end)
{
    for (;;) {
        struct pollfd poll_in = { .fd = child->in, .events = POLLIN };
        double left = end - now();
        int ready = poll(&poll_in, 1, left > 0 ? (int)(left * 1e3) + 1 : 0);

        if (ready >= 0 || errno != EINTR)
            return ready;
    }
}

enum plm_status child_line(struct child *child,
                           double seconds,
                           const char **ret_line,
                           struct plm_error *reterr)
{
    double end = now() + seconds;

    memmove(child->text, child->text + child->used, child->length - child->used);
    child->length -= child->used;
    child->used = 0;
    for (;;) {
        char *line_end = memchr(child->text, '\n', child->length);
        ssize_t got;

        if (line_end) {
            *line_end = '\0';
            child->used = (size_t)(line_end - child->text) + 1;
            *ret_line = child->text;
            return PLM_OK;
        }
        if (child->length == sizeof child->text)
            return plm_fail(reterr, PLM_E_DEVICE, "the probe's process says what is no line");
        if (wait_text(child, end) <= 0) {
            child_stop(child);
            return plm_fail(reterr, PLM_E_DEVICE, "nothing was heard for %g s; it was ended",
                            seconds);
        }
        got = read(child->in, child->text + child->length, sizeof child->text - child->length);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            *ret_line = NULL;
            return ended(child, reterr);
        }
        child->length += (size_t)got;
    }
}

void child_stop(struct child *child)
{
    int how;

    child_let_go(child);
    if (child->pid > 0) {
        kill(child->pid, SIGKILL);
        (void)gone(child, 5, &how);
    }
    if (child->in > 0)
        close(child->in);
    *child = (struct child){ 0 };
}
