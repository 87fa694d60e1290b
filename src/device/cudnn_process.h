/*
 * device/cudnn_process.h - a process of its own for a cuDNN that is asked for plans
 *
 * A foreign library of some 800 MB may crash, hang, print and take seconds to load; none of that may touch the program. The
 * process is forked, loads the library when it is first asked, and answers lines with lines until its socket closes. It never
 * outlives a question by more than the patience given for it.
 */
#ifndef PLM_DEVICE_CUDNN_PROCESS_H
#define PLM_DEVICE_CUDNN_PROCESS_H

#include <sys/types.h>

#include "device/cudnn_plan.h"

/* struct cudnn_process - zero-initialise; used by one thread at a time */
struct cudnn_process {
    const char *path, *stand_ins;
    pid_t pid;                       /* 0: none */
    int socket;                      /* while there is one */
    double patience;                 /* seconds that an answer may take */
    char message[CUDNN_MESSAGE_MAX]; /* why it could not start, or why it ended */
};

enum cudnn_reply {
    CUDNN_REPLY_PLANS, /* workspaces */
    CUDNN_REPLY_REFUSED, /* cuDNN has no plan for the call, or does not know the device: @message says why */
    CUDNN_REPLY_GONE, /* the process died or hung, and is no more: @message says how */
};

/*
 * cudnn_process_start() - fork the process for the library at @path, which is not loaded yet; false when there can be none
 *
 * The message says why. @stand_ins is the folder with the stand-ins for cuBLASLt; NULL: none. Both must outlive the process.
 * A program with threads had better fork before it starts them.
 */
bool cudnn_process_start(struct cudnn_process *process,
                         const char *path,
                         const char *stand_ins,
                         double patience);

/* cudnn_process_version() - cudnnGetVersion(), 92600; 0, and the process is no more, when the library cannot be loaded */
int cudnn_process_version(struct cudnn_process *process);

/*
 * cudnn_process_ask() - the workspaces of @call on @gpu
 *
 * Where the first question is of the GPU in this machine, the real cuBLASLt answers; a question of another GPU after that starts the
 * process anew, with the stand-in.
 */
enum cudnn_reply cudnn_process_ask(struct cudnn_process *process,
                                   const struct cudnn_gpu *gpu,
                                   const struct cudnn_call *call,
                                   struct cudnn_workspaces *ret_workspaces);

/* cudnn_process_stop() - end it; none is fine */
void cudnn_process_stop(struct cudnn_process *process);

#endif
