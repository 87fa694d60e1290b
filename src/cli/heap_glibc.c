/* cli/heap_glibc.c - mallopt(3) of the GNU C library */
#include <limits.h>
#include <malloc.h>

#include "cli/heap.h"

enum { LARGEST_FROM_HEAP = 32 << 20 }; /* more is not allowed on 64-bit machines */

void heap_keep(void)
{
    /* whether a hint is taken changes nothing but speed */
    (void)mallopt(M_MMAP_THRESHOLD, LARGEST_FROM_HEAP);
    (void)mallopt(M_TRIM_THRESHOLD, INT_MAX);
}
