/* support/ghost.h - a ghost run for tests of operators, and short ways to call them */
#ifndef PLM_SUPPORT_GHOST_H
#define PLM_SUPPORT_GHOST_H

#include "ghost/autograd.h"
#include "ops/ops.h"

/*
 * struct test_ghost - a run on an a100-80 (8.0, 108 processors of 2048 threads) under PyTorch 2.15
 *
 * In training, with gradients recorded, without autocast; what differs on a GPU is as on the ghost GPU.
 */
struct test_ghost {
    struct arena arena;
    struct names names;
    struct schedule schedule;
    struct ghost ghost;
};

void test_ghost_start(struct test_ghost *t);
/* test_ghost_start_version() - the same under another version ("pytorch-2.11") */
void test_ghost_start_version(struct test_ghost *t, const char *version);
void test_ghost_finish(struct test_ghost *t);

/* test_ghost_trace() - the events from @first on as text, see support/trace.h; it lives as long as the run */
const char *test_ghost_trace(struct test_ghost *t, size_t first);

/* test_leaf() - a new tensor that wants a gradient; test_tensor() one that does not. Sizes are spelled out */
#define test_leaf(g, dtype, ...) test_make_leaf(test_tensor(g, dtype, __VA_ARGS__))
#define test_tensor(g, dtype, ...) tensor_new_sizes(g, dtype, __VA_ARGS__)
struct tensor *test_make_leaf(struct tensor *x);

/* Attributes for test_op(): test_int(KEY_DIM, 1), test_ints(KEY_SHAPE, 2, 3), test_real(KEY_P, 0.5) */
#define test_int(key_, i_)                                                                         \
    (struct attr)                                                                                  \
    {                                                                                              \
        .key = (key_), .type = ATTR_INT, .value.i = (i_)                                           \
    }
#define test_real(key_, real_)                                                                     \
    (struct attr)                                                                                  \
    {                                                                                              \
        .key = (key_), .type = ATTR_REAL, .value.real = (real_)                                    \
    }
#define test_ints(key_, ...)                                                                       \
    (struct attr)                                                                                  \
    {                                                                                              \
        .key = (key_), .type = ATTR_INTS,                                                          \
        .count = sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t),                             \
        .value.items = (const int64_t[])                                                           \
        {                                                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }

/*
 * test_op() - call an operator with one output
 *
 * test_op(g, OP_ADD, test_in(a, b)); test_op(g, OP_SOFTMAX, test_in(x), test_int(KEY_DIM, -1)). Attributes with a
 * default that are not given get it, as the loader does. @in may be NULL for an operator without inputs.
 */
#define test_in(...)                                                                               \
    (struct tensor *[]){ __VA_ARGS__ },                                                            \
        sizeof((struct tensor *[]){ __VA_ARGS__ }) / sizeof(struct tensor *)
#define test_op(g, op, ...) test_call(g, op, __VA_ARGS__, (struct attr){ .key = KEY_COUNT })
#define test_none NULL, 0
/* The list of attributes ends with one whose key is KEY_COUNT. */
struct tensor *test_call(
    struct ghost *g, enum op_kind op, struct tensor *const *in, size_t in_count, ...);
/* test_call_owned() - an operator that asks @owner for its parameters */
void test_call_owned(struct ghost *g,
                     const struct op_owner *owner,
                     enum op_kind op,
                     struct tensor *const *in,
                     size_t in_count,
                     const struct attr *attrs,
                     size_t attr_count,
                     struct tensor **ret,
                     size_t out_count);
/* test_call_outputs() - the same for an operator with @out_count outputs, attributes in an array */
void test_call_outputs(struct ghost *g,
                       enum op_kind op,
                       struct tensor *const *in,
                       size_t in_count,
                       const struct attr *attrs,
                       size_t attr_count,
                       struct tensor **ret,
                       size_t out_count);

#endif
