/*
 * ghost/autocast.h - torch.autocast: casts before operators, and the cache of cast weights
 *
 * Mirrors aten/src/ATen/autocast_mode.cpp.
 */
#ifndef PLM_GHOST_AUTOCAST_H
#define PLM_GHOST_AUTOCAST_H

#include "ghost/tensor.h"

/* autocast_enter() - begin a context (`with torch.autocast(...)`); autocast_leave() ends it, the outermost clears the cache */
void autocast_enter(struct ghost *g, enum dtype dtype);
void autocast_leave(struct ghost *g);

/*
 * autocast_cast() - apply @policy to the tensors of one call, in place: each entry becomes an owned reference
 *
 * Casts run from the last to the first. Returns true when autocast was active: it is then off until
 * autocast_restore(), as inside an operator that autocast has redispatched.
 */
bool autocast_cast(struct ghost *g, enum cast_policy policy, struct tensor **tensors, size_t count);
void autocast_restore(struct ghost *g, bool was_active, struct tensor **tensors, size_t count);

/* autocast_to() - x.to(dtype), recorded as ToCopyBackward; a new reference to @x when it has that type */
struct tensor *autocast_to(struct tensor *x, enum dtype dtype);

/* autocast_eligible() - does autocast look at this tensor at all: floating-point, and not float64 */
bool autocast_eligible(const struct tensor *x);

#endif
