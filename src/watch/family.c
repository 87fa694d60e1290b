/* watch/family.c - a job's processes, from /proc/PID/stat (proc(5)) */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "watch/family.h"

enum {
    STAT_BYTES = 1024,
    GENERATIONS_MOST =
        256,          /* processes that start each other in a row; /proc changes while it is read */
    FIELD_PARENT = 4, /* counted from 1, as proc(5) does */
    FIELD_START = 22,
};

struct stat_line {
    char state;
    int64_t parent;
    uint64_t start;
};

static size_t read_file(const char *path, char *text, size_t room)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length;

    if (fd < 0)
        return 0;
    length = read(fd, text, room - 1);
    close(fd);
    text[length > 0 ? length : 0] = '\0';
    return length > 0 ? (size_t)length : 0;
}

static uint64_t number(const char *text)
{
    uint64_t value = 0;

    while (*text >= '0' && *text <= '9')
        value = value * 10 + (uint64_t)(*text++ - '0');
    return value;
}

/* read_stat() - the second field is a name in parentheses and may hold anything, also ")" */
static bool read_stat(int64_t pid, struct stat_line *ret)
{
    char path[64], text[STAT_BYTES];
    const char *at;

    if (pid <= 0)
        return false;
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    if (read_file(path, text, sizeof text) == 0)
        return false;
    at = strrchr(text, ')');
    if (!at || at[1] != ' ' || at[2] == '\0')
        return false;
    at += 2;
    ret->state = *at;
    for (int field = 3; field < FIELD_START; field++) {
        at = strchr(at, ' ');
        if (!at)
            return false;
        at++;
        if (field + 1 == FIELD_PARENT)
            ret->parent = (int64_t)number(at);
    }
    ret->start = number(at);
    return true;
}

static bool same(struct process a, struct process b)
{
    return a.pid == b.pid && a.start == b.start;
}

static bool known(const struct family *family, struct process process)
{
    if (same(family->root, process))
        return true;
    for (size_t i = 0; i < family->member_count; i++)
        if (same(family->members[i], process))
            return true;
    return false;
}

bool family_begin(struct family *family, int64_t pid, struct arena *arena)
{
    struct stat_line line;

    if (!read_stat(pid, &line))
        return false;
    *family = (struct family){ .arena = arena, .root = { .pid = pid, .start = line.start } };
    return true;
}

bool family_alive(const struct family *family)
{
    struct stat_line line;

    return read_stat(family->root.pid, &line) && line.start == family->root.start &&
           line.state != 'Z' && line.state != 'X';
}

bool process_exists(int64_t pid)
{
    struct stat_line line;

    return read_stat(pid, &line);
}

bool family_has(struct family *family, int64_t pid)
{
    struct process first = { .pid = pid };
    struct stat_line line;

    for (int i = 0; i < GENERATIONS_MOST && read_stat(pid, &line); i++) {
        struct process process = { .pid = pid, .start = line.start };

        if (i == 0)
            first = process;
        if (known(family, process)) {
            if (!known(family, first))
                arena_push(family->arena, family->members, family->member_count,
                           family->member_capacity, first);
            return true;
        }
        pid = line.parent;
    }
    return false;
}
