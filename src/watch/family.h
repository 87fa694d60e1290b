/*
 * watch/family.h - which processes belong to a job: its first one and those that it started, at any remove
 *
 * Asked of single processes, those that use a GPU: their parents are followed upwards in /proc. One that was found once stays
 * in the family after its parent has ended.
 */
#ifndef PLM_WATCH_FAMILY_H
#define PLM_WATCH_FAMILY_H

#include <stdbool.h>

#include "base/arena.h"
#include "plimsoll/types.h"

/* struct process - who a process is: a number is used again, but not with the same start */
struct process {
    int64_t pid;
    uint64_t start; /* clock ticks after the system's start */
};

struct family {
    struct arena *arena;
    struct process root;
    struct process *members; /* found so far */
    size_t member_count, member_capacity;
};

/* family_begin() - false when there is no process @pid */
PLM_MUST_CHECK bool family_begin(struct family *family, int64_t pid, struct arena *arena);

/* family_alive() - is its first process still there; one that has ended and was not waited for is not */
bool family_alive(const struct family *family);

/* family_has() - does @pid belong to it; the first process itself does */
bool family_has(struct family *family, int64_t pid);

/* process_exists() - is there a process of that number here; one of another PID namespace is not */
bool process_exists(int64_t pid);

#endif
