/*
 * device/cudnn_process.c - both ends of the line to the process that asks cuDNN
 *
 *     program: version
 *     process: version 92600                       or: error TEXT
 *     program: gpu 80 108 2048 forward f16 nhwc …  (device/cudnn_call.h)
 *     process: = 25763856 0                        or: ! TEXT, or: again
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

#include "device/cudnn_driver.h"
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

/* struct asked - the library when it is loaded, and the device that it was told last */
struct asked {
    const char *path, *stand_ins;
    struct backend backend;
    struct cudnn_blas blas;
    struct cudnn_gpu blas_gpu; /* the first one asked for */
    bool loaded, has_driver, stand_in_only;
    struct cudnn_gpu gpu;
    backend_desc device;
    char message[CUDNN_MESSAGE_MAX];
};

/* load() - once; NULL, or why it cannot be done */
static const char *load(struct asked *a)
{
    const char *why = a->loaded ? NULL : cudnn_plan_load(a->path, &a->backend, a->message);

    a->loaded = !why;
    return why;
}

static bool is_same(const struct cudnn_gpu *a, const struct cudnn_gpu *b)
{
    return a->cc == b->cc && a->sm_count == b->sm_count && a->threads_per_sm == b->threads_per_sm;
}

/* describe() - the device of a question; false when cuDNN does not know it */
static bool describe(struct asked *a, const struct cudnn_gpu *gpu)
{
    if (a->device && is_same(gpu, &a->gpu))
        return true;
    if (a->device)
        a->backend.destroy(a->device);
    a->device = cudnn_plan_device(&a->backend, gpu, a->message);
    a->gpu = *gpu;
    return a->device;
}

/*
 * choose_blas() - before the first plan: the real cuBLASLt for the GPU that is here, for any other the stand-in
 *
 * What is loaded stays loaded. So false when it is the real one, and the question is of another GPU.
 */
static bool choose_blas(struct asked *a, const struct cudnn_gpu *gpu)
{
    if (a->blas_gpu.cc == 0) {
        a->blas_gpu = *gpu;
        a->blas.real = !a->stand_in_only && cudnn_blas_is_here(gpu);
        if (!a->blas.real)
            cudnn_blas_load(&a->blas, a->stand_ins);
    }
    return !a->blas.real || is_same(gpu, &a->blas_gpu);
}

static int say(char reply[MESSAGE_LINE_MAX], const char *word, const char *why)
{
    return snprintf(reply, MESSAGE_LINE_MAX, "%s %.200s", word, why);
}

/* answer() - the reply to a line; returns its length */
static int answer(struct asked *a, const char *line, char reply[MESSAGE_LINE_MAX])
{
    struct cudnn_gpu gpu;
    struct cudnn_call call;
    struct cudnn_workspaces workspaces;
    const char *why = load(a);
    int at = 0;

    if (why)
        return say(reply, "error", why);
    if (strcmp(line, "version") == 0)
        return snprintf(reply, MESSAGE_LINE_MAX, "version %zu", a->backend.version());
    if (sscanf(line, "gpu %d %d %d %n", &gpu.cc, &gpu.sm_count, &gpu.threads_per_sm, &at) != 3 ||
        at == 0 || !cudnn_call_read(line + at, &call))
        return say(reply, "!", "not a question");
    if (!choose_blas(a, &gpu))
        return snprintf(reply, MESSAGE_LINE_MAX, "again");
    if (cudnn_call_is_attention(&call) && !a->has_driver) {
        cudnn_driver_load(a->path);
        a->has_driver = true;
    }
    if (!describe(a, &gpu) ||
        !cudnn_plan_call(&a->backend, &a->blas, a->device, gpu.cc, &call, &workspaces, a->message))
        return say(reply, "!", a->message);
    reply[0] = '=';
    return 1 + (int)cudnn_workspaces_write(&workspaces, reply + 1);
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

/*
 * serve() - the process: it ends with its socket, or by the alarm when an answer takes too long and nobody stops it
 *
 * Signals are as a new program has them: the program's own handlers are not for this process.
 */
_Noreturn static void serve(int socket, struct asked *asked, unsigned patience)
{
    static const int signals[] = { SIGALRM, SIGINT,  SIGTERM, SIGHUP, SIGPIPE,
                                   SIGSEGV, SIGABRT, SIGBUS,  SIGFPE, SIGILL };
    /* answers are kept: they must not depend on these */
    static const char *const variables[] = { "NVIDIA_TF32_OVERRIDE", "CUDNN_CONV_WSCAP_DBG" };
    char line[MESSAGE_LINE_MAX], reply[MESSAGE_LINE_MAX];
    int length;

    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        signal(signals[i], SIG_DFL);
    be_quiet();
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        unsetenv(variables[i]);
    do {
        alarm(0);
        if (receive_line(socket, -1, line) != RECEIVED)
            break;
        alarm(patience);
        length = answer(asked, line, reply);
    } while (send_line(socket, reply, (size_t)length));
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

/* start() - @stand_in_only: the real cuBLASLt is not to be asked */
static bool start(struct cudnn_process *process, bool stand_in_only)
{
    struct asked asked = { .path = process->path,
                           .stand_ins = process->stand_ins,
                           .stand_in_only = stand_in_only };
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        snprintf(process->message, sizeof process->message, "no socket: %s", strerror(errno));
        return false;
    }
    process->pid = fork();
    if (process->pid == 0) {
        close(pair[0]);
        serve(pair[1], &asked, (unsigned)process->patience + 1);
    }
    close(pair[1]);
    process->socket = pair[0];
    if (process->pid > 0)
        return true;
    snprintf(process->message, sizeof process->message, "no process: %s", strerror(errno));
    close(pair[0]);
    process->pid = 0;
    return false;
}

bool cudnn_process_start(struct cudnn_process *process,
                         const char *path,
                         const char *stand_ins,
                         double patience)
{
    *process = (struct cudnn_process){ .path = path, .stand_ins = stand_ins, .patience = patience };
    return start(process, false);
}

/* exchange() - a line for a line; false when the process is no more */
static bool exchange(struct cudnn_process *process, char text[MESSAGE_LINE_MAX], size_t length)
{
    if (process->pid <= 0)
        return false;
    enum received how = send_line(process->socket, text, length)
                            ? receive_line(process->socket, process->patience, text)
                            : RECEIVED_END;

    if (how != RECEIVED)
        give_up(process, how);
    return how == RECEIVED;
}

int cudnn_process_version(struct cudnn_process *process)
{
    char text[MESSAGE_LINE_MAX] = "version";
    int version;

    if (!exchange(process, text, strlen(text)))
        return 0;
    if (sscanf(text, "version %6d", &version) == 1 && version > 0)
        return version;
    snprintf(process->message, sizeof process->message, "%.250s",
             strncmp(text, "error ", 6) == 0 ? text + 6 : "it has no version");
    cudnn_process_stop(process);
    return 0;
}

enum cudnn_reply cudnn_process_ask(struct cudnn_process *process,
                                   const struct cudnn_gpu *gpu,
                                   const struct cudnn_call *call,
                                   struct cudnn_workspaces *ret_workspaces)
{
    char text[MESSAGE_LINE_MAX], question[MESSAGE_LINE_MAX], line[CUDNN_LINE_MAX];

    cudnn_call_write(call, line);
    int length = snprintf(question, sizeof question, "gpu %d %d %d %s", gpu->cc, gpu->sm_count,
                          gpu->threads_per_sm, line);

    memcpy(text, question, (size_t)length);
    if (!exchange(process, text, (size_t)length))
        return CUDNN_REPLY_GONE;
    if (strcmp(text, "again") == 0) {
        cudnn_process_stop(process);
        memcpy(text, question, (size_t)length);
        if (!start(process, true) || !exchange(process, text, (size_t)length))
            return CUDNN_REPLY_GONE;
    }
    if (text[0] == '=' && cudnn_workspaces_read(text + 1, ret_workspaces))
        return CUDNN_REPLY_PLANS;
    snprintf(process->message, sizeof process->message, "%.250s",
             strncmp(text, "! ", 2) == 0 ? text + 2 : "an answer that is none");
    return CUDNN_REPLY_REFUSED;
}
