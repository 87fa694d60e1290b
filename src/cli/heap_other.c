/* cli/heap_other.c - C libraries without mallopt(3): memory comes and goes as they think best */
#include "cli/heap.h"

void heap_keep(void) {}
