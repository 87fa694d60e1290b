/*
 * device/cudnn_answers.c - a table of calls, open addressing; and reading one from text
 */
#include <stdlib.h>
#include <string.h>

#include "device/cudnn_answers.h"

enum { CAPACITY_FIRST = 64 };

/* hash_of() - FNV-1a over the words of a call */
static uint64_t hash_of(const struct cudnn_call *call)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325), word;

    _Static_assert(sizeof *call % sizeof word == 0, "a call is whole words, without padding");
    for (size_t i = 0; i < sizeof *call; i += sizeof word) {
        memcpy(&word, (const char *)call + i, sizeof word);
        hash = (hash ^ word) * UINT64_C(0x100000001b3);
        hash ^= hash >> 29; /* small numbers differ in their low bits only: spread them */
    }
    return hash;
}

static struct cudnn_answer *slot_of(const struct cudnn_answers *answers,
                                    const struct cudnn_call *call)
{
    size_t mask = answers->capacity - 1, at = (size_t)hash_of(call) & mask;

    while (answers->slots[at].call.spatial != 0 &&
           memcmp(&answers->slots[at].call, call, sizeof *call) != 0)
        at = (at + 1) & mask;
    return &answers->slots[at];
}

const struct cudnn_answer *cudnn_answers_find(const struct cudnn_answers *answers,
                                              const struct cudnn_call *call)
{
    if (answers->capacity == 0)
        return NULL;
    const struct cudnn_answer *slot = slot_of(answers, call);

    return slot->call.spatial ? slot : NULL;
}

static void grow(struct cudnn_answers *answers)
{
    struct cudnn_answers larger = *answers;

    larger.capacity = answers->capacity ? 2 * answers->capacity : CAPACITY_FIRST;
    larger.slots = arena_array(answers->arena, struct cudnn_answer, larger.capacity);
    for (size_t i = 0; i < answers->capacity; i++)
        if (answers->slots[i].call.spatial)
            *slot_of(&larger, &answers->slots[i].call) = answers->slots[i];
    *answers = larger;
}

void cudnn_answers_add(struct cudnn_answers *answers,
                       const struct cudnn_call *call,
                       const struct cudnn_workspaces *workspaces)
{
    if (2 * (answers->count + 1) > answers->capacity)
        grow(answers);
    struct cudnn_answer *slot = slot_of(answers, call);

    if (slot->call.spatial)
        return;
    plm_bytes *bytes = arena_array(answers->arena, plm_bytes, workspaces->count);

    memcpy(bytes, workspaces->bytes, workspaces->count * sizeof *bytes);
    *slot = (struct cudnn_answer){ *call, bytes, workspaces->count, workspaces->blas,
                                   workspaces->blas_most };
    answers->count++;
}

bool cudnn_answers_read(struct cudnn_answers *answers, const char *line, size_t length)
{
    char text[CUDNN_LINE_MAX];
    struct cudnn_call call;
    struct cudnn_workspaces workspaces;

    if (length >= sizeof text)
        return false;
    memcpy(text, line, length);
    text[length] = '\0';
    char *equals = strstr(text, " =");

    if (!equals)
        return false;
    *equals = '\0';
    if (!cudnn_call_read(text, &call) || !cudnn_workspaces_read(equals + 2, &workspaces))
        return false;
    cudnn_answers_add(answers, &call, &workspaces);
    return true;
}

/* by_call() - in the order of the numbers: op, layout, type, then sizes; the batch last */
static int by_call(const void *a, const void *b)
{
    const struct cudnn_answer *const *x = a, *const *y = b;
    const struct cudnn_call *p = &(*x)->call, *q = &(*y)->call;
    const int32_t small[2][3] = { { p->op, p->channels_last, p->type },
                                  { q->op, q->channels_last, q->type } };

    for (int i = 0; i < 3; i++)
        if (small[0][i] != small[1][i])
            return small[0][i] < small[1][i] ? -1 : 1;
    for (int i = 1; i < CUDNN_DIMS_MOST; i++)
        if (p->input[i] != q->input[i])
            return p->input[i] < q->input[i] ? -1 : 1;
    for (int i = 0; i < CUDNN_DIMS_MOST; i++)
        if (p->weight[i] != q->weight[i])
            return p->weight[i] < q->weight[i] ? -1 : 1;
    for (int i = 0; i < CUDNN_SPATIAL_MOST; i++) {
        if (p->padding[i] != q->padding[i])
            return p->padding[i] < q->padding[i] ? -1 : 1;
        if (p->stride[i] != q->stride[i])
            return p->stride[i] < q->stride[i] ? -1 : 1;
        if (p->dilation[i] != q->dilation[i])
            return p->dilation[i] < q->dilation[i] ? -1 : 1;
    }
    return (p->input[0] > q->input[0]) - (p->input[0] < q->input[0]);
}

const struct cudnn_answer *const *cudnn_answers_sort(const struct cudnn_answers *answers,
                                                     struct arena *arena)
{
    const struct cudnn_answer **sorted =
        arena_array(arena, const struct cudnn_answer *, answers->count);
    size_t count = 0;

    for (size_t i = 0; i < answers->capacity; i++)
        if (answers->slots[i].call.spatial)
            sorted[count++] = &answers->slots[i];
    qsort(sorted, count, sizeof *sorted, by_call);
    return sorted;
}
