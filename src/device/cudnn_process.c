/*
 * device/cudnn_process.c - both ends of the line to the process that asks cuDNN
 *
 *     process: version 92600                       once, or: error TEXT
 *     program: gpu 80 108 2048 forward f16 nhwc …  (device/cudnn_call.h)
 *     process: = 25763856 0                        or: ! TEXT
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "device/cudnn_process.h"

enum { MESSAGE_LINE_MAX = CUDNN_LINE_MAX + CUDNN_MESSAGE_MAX };

/* ------------------------------------------------------------------ lines */

/* send_line() - @text and a newline; a closed socket is no signal, but false */
static bool send_line(int socket, const char *text, size_t length)
{
    char line[MESSAGE_LINE_MAX + 1];

    memcpy(line, text, length);
    line[length++] = '\n';
    for (size_t sent = 0; sent < length;) {
        ssize_t now = send(socket, line + sent, length - sent, MSG_NOSIGNAL);

        if (now < 0 && errno == EINTR)
            continue;
        if (now <= 0)
            return false;
        sent += (size_t)now;
    }
    return true;
}

static double seconds_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

enum received { RECEIVED, RECEIVED_END, RECEIVED_LATE };

/* receive_line() - up to a newline; @patience below 0 waits for ever. Either side writes one line, then waits */
static enum received receive_line(int socket, double patience, char text[MESSAGE_LINE_MAX])
{
    double end = seconds_now() + patience;
    size_t length = 0;

    for (;;) {
        struct pollfd poll_in = { .fd = socket, .events = POLLIN };
        double left = end - seconds_now();
        int ready = poll(&poll_in, 1, patience < 0 ? -1 : left > 0 ? (int)(left * 1e3) + 1 : 0);

        if (ready < 0 && errno == EINTR)
            continue;
        if (ready == 0)
            return RECEIVED_LATE;
        ssize_t got = ready < 0 ? -1 : recv(socket, text + length, MESSAGE_LINE_MAX - length, 0);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return RECEIVED_END;
        length += (size_t)got;
        if (text[length - 1] == '\n') {
            text[length - 1] = '\0';
            return RECEIVED;
        }
        if (length == MESSAGE_LINE_MAX)
            return RECEIVED_END;
    }
}

/* ------------------------------------------------------------------ the process */

/* struct asked - the library, and the device that it was told last */
struct asked {
    struct backend backend;
    struct cudnn_gpu gpu;
    backend_desc device;
};

static size_t refuse(char reply[MESSAGE_LINE_MAX], const char *why)
{
    return (size_t)snprintf(reply, MESSAGE_LINE_MAX, "! %.200s", why);
}

/* answer() - the reply to a question; returns its length */
static size_t answer(struct asked *a, const char *question, char reply[MESSAGE_LINE_MAX])
{
    struct cudnn_gpu gpu;
    struct cudnn_call call;
    struct cudnn_workspaces workspaces;
    char message[CUDNN_MESSAGE_MAX];
    int at = 0;

    if (sscanf(question, "gpu %d %d %d %n", &gpu.cc, &gpu.sm_count, &gpu.threads_per_sm, &at) !=
            3 ||
        at == 0 || !cudnn_call_read(question + at, &call))
        return refuse(reply, "not a question");
    if (!a->device || gpu.cc != a->gpu.cc || gpu.sm_count != a->gpu.sm_count ||
        gpu.threads_per_sm != a->gpu.threads_per_sm) {
        if (a->device)
            a->backend.destroy(a->device);
        a->device = cudnn_plan_device(&a->backend, &gpu, message);
        a->gpu = gpu;
    }
    if (!a->device || !cudnn_plan_call(&a->backend, a->device, &call, &workspaces, message))
        return refuse(reply, message);
    reply[0] = '=';
    return 1 + cudnn_workspaces_write(&workspaces, reply + 1);
}

/* be_quiet() - what the library prints goes nowhere, and a crash leaves no core file */
static void be_quiet(void)
{
    int nowhere = open("/dev/null", O_RDWR);

    if (nowhere >= 0)
        for (int i = STDIN_FILENO; i <= STDERR_FILENO; i++)
            dup2(nowhere, i);
    setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
}

/* serve() - the process: it ends with its socket, or by the alarm when an answer takes too long and nobody stops it */
_Noreturn static void serve(int socket, const char *path, unsigned patience)
{
    struct asked asked = { 0 };
    char text[MESSAGE_LINE_MAX], reply[MESSAGE_LINE_MAX], message[CUDNN_MESSAGE_MAX];

    signal(SIGALRM, SIG_DFL);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    be_quiet();
    alarm(patience);
    const char *why = cudnn_plan_load(path, &asked.backend, message);
    int length = why ? snprintf(reply, sizeof reply, "error %.200s", why)
                     : snprintf(reply, sizeof reply, "version %zu", asked.backend.version());

    while (send_line(socket, reply, (size_t)length)) {
        alarm(0);
        if (why || receive_line(socket, -1, text) != RECEIVED)
            break;
        alarm(patience);
        length = (int)answer(&asked, text, reply);
    }
    _exit(0);
}

/* ------------------------------------------------------------------ the program */

void cudnn_process_stop(struct cudnn_process *process)
{
    if (process->pid <= 0)
        return;
    close(process->socket);
    kill(process->pid, SIGKILL);
    while (waitpid(process->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    process->pid = 0;
}

/* give_up() - say what became of the process, and end it */
static void give_up(struct cudnn_process *process, enum received how)
{
    int status = 0;
    pid_t ended = waitpid(process->pid, &status, WNOHANG);

    for (int i = 0; how == RECEIVED_END && ended == 0 && i < 100;
         i++) { /* it closed the socket by ending */
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        ended = waitpid(process->pid, &status, WNOHANG);
    }
    if (how == RECEIVED_LATE)
        snprintf(process->message, sizeof process->message, "it did not answer within %g s",
                 process->patience);
    else if (ended > 0 && WIFSIGNALED(status))
        snprintf(process->message, sizeof process->message, "its process ended by signal %d (%s)",
                 WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        snprintf(process->message, sizeof process->message, "its process ended");
    if (ended > 0) {
        close(process->socket);
        process->pid = 0;
    }
    cudnn_process_stop(process);
}

/* greet() - what the process says first */
static bool greet(struct cudnn_process *process)
{
    char text[MESSAGE_LINE_MAX];
    enum received how = receive_line(process->socket, process->patience, text);
    long version;

    if (how != RECEIVED) {
        give_up(process, how);
        return false;
    }
    if (strncmp(text, "error ", 6) == 0) {
        snprintf(process->message, sizeof process->message, "%.250s", text + 6);
    } else if (sscanf(text, "version %ld", &version) != 1 || version < 0 || version > 999999) {
        snprintf(process->message, sizeof process->message, "it has no version");
    } else if (version < CUDNN_PLANS_SINCE) {
        process->version = (int)version;
        snprintf(process->message, sizeof process->message,
                 "cuDNN %ld.%ld.%ld does not plan without a GPU; 9.8 and later do", version / 10000,
                 version / 100 % 100, version % 100);
    } else {
        process->version = (int)version;
        return true;
    }
    cudnn_process_stop(process);
    return false;
}

bool cudnn_process_start(struct cudnn_process *process, const char *path, double patience)
{
    int pair[2];

    *process = (struct cudnn_process){ .patience = patience };
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        snprintf(process->message, sizeof process->message, "no socket: %s", strerror(errno));
        return false;
    }
    process->pid = fork();
    if (process->pid == 0) {
        close(pair[0]);
        serve(pair[1], path, (unsigned)patience + 1);
    }
    close(pair[1]);
    process->socket = pair[0];
    if (process->pid < 0) {
        snprintf(process->message, sizeof process->message, "no process: %s", strerror(errno));
        close(pair[0]);
        process->pid = 0;
        return false;
    }
    return greet(process);
}

enum cudnn_reply cudnn_process_ask(struct cudnn_process *process,
                                   const struct cudnn_gpu *gpu,
                                   const struct cudnn_call *call,
                                   struct cudnn_workspaces *ret_workspaces)
{
    char text[MESSAGE_LINE_MAX], line[CUDNN_LINE_MAX];

    if (process->pid <= 0)
        return CUDNN_REPLY_GONE;
    cudnn_call_write(call, line);
    int length = snprintf(text, sizeof text, "gpu %d %d %d %s", gpu->cc, gpu->sm_count,
                          gpu->threads_per_sm, line);
    enum received how = send_line(process->socket, text, (size_t)length)
                            ? receive_line(process->socket, process->patience, text)
                            : RECEIVED_END;

    if (how != RECEIVED) {
        give_up(process, how);
        return CUDNN_REPLY_GONE;
    }
    if (text[0] == '=' && cudnn_workspaces_read(text + 1, ret_workspaces))
        return CUDNN_REPLY_PLANS;
    snprintf(process->message, sizeof process->message, "%.250s",
             strncmp(text, "! ", 2) == 0 ? text + 2 : "an answer that is none");
    return CUDNN_REPLY_REFUSED;
}
