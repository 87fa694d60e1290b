/* base/pages.h - large pieces of zeroed memory, straight from the system */
#ifndef PLM_BASE_PAGES_H
#define PLM_BASE_PAGES_H

#include <stddef.h>

enum { PAGES_UNIT = 2 * 1024 * 1024 };

/* pages_take() - @bytes, a multiple of PAGES_UNIT; NULL when there are none */
void *pages_take(size_t bytes);

/* pages_give() - back what pages_take() gave for the same @bytes */
void pages_give(void *memory, size_t bytes);

#endif
