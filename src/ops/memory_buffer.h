/* ops/memory_buffer.h - memory that stays between its uses, as Megatron's all-gathers write to it */
#ifndef PLM_OPS_MEMORY_BUFFER_H
#define PLM_OPS_MEMORY_BUFFER_H

#include "ghost/tensor.h"

/* memory_buffer() - a view, owned, of the run's buffer of @dtype, which is made larger when it must */
struct tensor *memory_buffer(struct ghost *g,
                             enum dtype dtype,
                             unsigned dims,
                             const int64_t *sizes);

#endif
