/*
 * device/child.h - a process for what may hang, die or be interrupted, and the lines that it says
 *
 * Whatever touches a GPU runs in a forked child. Its context, with all memory in it, is gone when it ends, however it ends: by itself,
 * by Ctrl-C, by a watchdog, or because its parent died. It tells what it found in lines over a pipe; the parent acts on a
 * whole answer or on none.
 *
 *     child:   child_say(voice, "at %s", "largest block"); …      then returns
 *     parent:  child_start(); while (child_line() gives a line) …; child_stop();
 *
 * Fork is safe as long as the parent has one thread and no context, which holds for the program.
 */
#ifndef PLM_DEVICE_CHILD_H
#define PLM_DEVICE_CHILD_H

#include <sys/types.h>

#include "base/error.h"

enum { CHILD_LINE_MAX = 1024 }; /* bytes of a line, with its end */

/* struct child_voice - the child's side */
struct child_voice {
    int out, hold;
};

/* A job returns when it is done; what it has to say of failure it says. The process then ends without exit handlers. */
typedef void child_job(const struct child_voice *voice, const void *what);

/* child_say() - a line; longer ones are cut. The process ends when nobody listens any more */
void child_say(const struct child_voice *voice, const char *format, ...) PLM_PRINTF(2, 3);

/* child_hold() - wait until the parent lets go */
void child_hold(const struct child_voice *voice);

/* struct child - the parent's side; zero is none */
struct child {
    pid_t pid;
    int in, hold;
    char text[2 * CHILD_LINE_MAX];
    size_t length, used; /* of @text: read, and already given out */
};

/* child_start() - fork and run @job */
PLM_MUST_CHECK enum plm_status child_start(struct child *ret_child,
                                           child_job *job,
                                           const void *what,
                                           struct plm_error *reterr);

/*
 * child_line() - its next line, valid until the next call; NULL when it has ended well
 *
 * PLM_E_DEVICE when it says nothing for @seconds (it is then killed), or ended by a signal.
 */
PLM_MUST_CHECK enum plm_status child_line(struct child *child,
                                          double seconds,
                                          const char **ret_line,
                                          struct plm_error *reterr);

/* child_words_after() - what follows "WORD " at the beginning of @line, or NULL */
const char *child_words_after(const char *line, const char *word);

/* child_let_go() - end its child_hold() */
void child_let_go(struct child *child);

/* child_stop() - end it, whatever it does, and wait until it is gone; nothing to do when it is */
void child_stop(struct child *child);

#endif
