/* cli/heap.h - how the program keeps memory between one estimate and the next */
#ifndef PLM_CLI_HEAP_H
#define PLM_CLI_HEAP_H

/*
 * heap_keep() - from now on, memory that was freed stays with the process
 *
 * A plan or a comparison makes hundreds of estimates, and each would have the system map and clear the same megabytes again:
 * a fifth of its time. Call it once, before there are threads.
 */
void heap_keep(void);

#endif
