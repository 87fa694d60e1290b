/*
 * test-ops-attention.c - the kernels of scaled_dot_product_attention, against recordings of PyTorch 2.15
 *
 * ops-attention.def is written by tests/support/record.py.
 */
#include "support/program.h"

static const struct CMUnitTest tests[] = {
#define ROW(...) PROGRAM_ROW(__VA_ARGS__),
#include "ops-attention.def"
#undef ROW
};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
