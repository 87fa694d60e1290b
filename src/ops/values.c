/*
 * ops/values.c - rows whose operators work on lists and records, or on the training script
 *
 * Whoever executes a model handles these itself, since a list is no tensor. Called as operators on tensors they say so.
 */
#include "ops/ops.h"

#define VALUE_OPERATOR(name)                                                                       \
    void op_##name(struct ghost *g, const struct op_args *args, struct tensor **ret)               \
    {                                                                                              \
        ret[0] = ghost_fail(g, PLM_E_MODEL, "works on lists and records, not on tensors");         \
    }

VALUE_OPERATOR(list)
VALUE_OPERATOR(append)
VALUE_OPERATOR(extend)
VALUE_OPERATOR(pop)
VALUE_OPERATOR(item)
VALUE_OPERATOR(record)
VALUE_OPERATOR(field)
VALUE_OPERATOR(context_parallel)
VALUE_OPERATOR(keep)
