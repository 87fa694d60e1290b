/* plan/requests.h - what the allocator of a simulation asks of its device */
#ifndef PLM_PLAN_REQUESTS_H
#define PLM_PLAN_REQUESTS_H

#include "plan/simulate.h"
#include "plimsoll/verify.h"

/* requests_of() - play the schedule once more and note them, in the simulation's arena; false: not PyTorch's own allocator */
PLM_MUST_CHECK bool requests_of(struct simulation *sim,
                                const struct plm_request **ret_requests,
                                size_t *ret_count);

#endif
