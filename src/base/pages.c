/*
 * base/pages.c - memory in huge pages where the system has them
 *
 * A first touch of 4 KiB costs a fault of a microsecond, and an estimate of Llama 8B touches 3 MiB. A unit that begins at a
 * multiple of its size and is advised so is one fault in all (transparent huge pages, in their mode "madvise" or "always").
 */
#define _DEFAULT_SOURCE /* madvise(), MAP_ANONYMOUS */

#include <stdint.h>
#include <sys/mman.h>

#include "base/pages.h"

void *pages_take(size_t bytes)
{
    if (bytes > SIZE_MAX - PAGES_UNIT)
        return NULL;
    char *area =
        mmap(NULL, bytes + PAGES_UNIT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (area == MAP_FAILED)
        return NULL;
    size_t before = -(uintptr_t)area & (PAGES_UNIT - 1);

    if (before > 0)
        munmap(area, before);
    munmap(area + before + bytes, PAGES_UNIT - before);
#ifdef MADV_HUGEPAGE
    (void)madvise(area + before, bytes, MADV_HUGEPAGE); /* without it, pages are small */
#endif
    return area + before;
}

void pages_give(void *memory, size_t bytes)
{
    munmap(memory, bytes);
}
