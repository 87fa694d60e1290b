/* plan/nccl.h - what NCCL holds on the device beside the allocator */
#ifndef PLM_PLAN_NCCL_H
#define PLM_PLAN_NCCL_H

#include "plimsoll/plimsoll.h"

struct nccl_bytes {
    plm_bytes usual, low, high;
};

/* nccl_bytes() - buffers of all communicators of one rank; 0 without any, and on the emulated GPU */
struct nccl_bytes nccl_bytes(const struct plm_strategy *strategy);

#endif
