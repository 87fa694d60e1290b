/* support/trace.h - a schedule as text, so that a test can hold it against what PyTorch was seen to do */
#ifndef PLM_SUPPORT_TRACE_H
#define PLM_SUPPORT_TRACE_H

#include "base/buf.h"
#include "schedule/schedule.h"

/*
 * trace_text() - the events from @first_event on: "+2048 +512 -512"
 *
 * An allocation is '+' and its bytes, as requested; its release is '-' and the same number. An attempt that has
 * alternatives (TRY_ALLOC) is "+?bytes". Marks are "<name>". Arrays come from @out's arena.
 */
void trace_text(const struct schedule *s, size_t first_event, struct buf *out);

/*
 * trace_sort() - put the releases between two allocations in order, largest first, in place
 *
 * For the allocator their order makes no difference, and PyTorch's is an accident of destructors.
 */
void trace_sort(char *text);

#endif
