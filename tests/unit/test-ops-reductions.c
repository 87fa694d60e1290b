/*
 * test-ops-reductions.c - reductions, running sums and tensors made from nothing, against recordings of PyTorch 2.15
 *
 * ops-reductions.def is written by tests/support/record.py.
 */
#include "support/program.h"

static const struct CMUnitTest tests[] = {
#define ROW(...) PROGRAM_ROW(__VA_ARGS__),
#include "ops-reductions.def"
#undef ROW
};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
