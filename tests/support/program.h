/*
 * support/program.h - short programs of operators, run on ghosts
 *
 * "x: leaf float32 4,6,8; m: tensor bool 8; y: masked_fill x m value=1; a,b: split y size=4 dim=-1"
 *
 * Steps are divided by ';'. A step is "names: operator inputs key=value…" with the names and attributes of ops.def; an input
 * may be `none`. `leaf` makes a tensor that wants a gradient, `tensor` one that does not: a type, then sizes, or
 * `scalar`; they come first and live to the end. A step `set autocast=bfloat16 training=0 grad=0` comes before the operators. All
 * other values are dropped after the last step, except the first result of that step; then the backward runs from it,
 * with a gradient that is contiguous (`set permuted=1`: the transpose of a contiguous one) and made before.
 *
 * An input's sizes may be followed by `channels_last`. One operator of a program may have parameters of its own: `set
 * own=bfloat16 frozen=1 own_channels_last=1` says what they are like. `set gradient=expanded` or `channels_last` shapes the
 * gradient; `set framework=pytorch-2.11`, `set device=h100` the surroundings (else 2.15 and an a100-80).
 * tests/support/record.py runs the same programs under PyTorch.
 */
#ifndef PLM_SUPPORT_PROGRAM_H
#define PLM_SUPPORT_PROGRAM_H

#include "support/ghost.h"
#include "support/test.h"

/* Texts live as long as the run. Events are as trace_text() and trace_sort() write them. */
struct program_result {
    const char *forward;  /* "error" when the run failed */
    const char *backward; /* "none" when the result has no history */
    const char *output;   /* "float32 [4, 6, 8] [48, 8, 1]": type, sizes, strides */
    size_t leftover;      /* allocations that outlive all values */
};

struct program_result program_run(struct test_ghost *t, const char *text);

/* struct program_row - a program and what PyTorch was recorded to do; ROW(program, forward, backward, output) in a .def file */
struct program_row {
    const char *program, *forward, *backward, *output;
};

/* program_row_test() - a test of cmocka whose initial state is a struct program_row */
void program_row_test(void **state);

#define PROGRAM_ROW(program, ...)                                                                  \
    {                                                                                              \
        .name = program, .test_func = program_row_test, .initial_state = &(struct program_row)     \
        {                                                                                          \
            program, __VA_ARGS__                                                                   \
        }                                                                                          \
    }

#endif
