/*
 * test-ops-dense.c - matrix products with their workspaces, against recordings of PyTorch 2.15
 *
 * ops-dense.def is written by tests/support/record.py.
 */
#include "support/program.h"

static const struct CMUnitTest tests[] = {
#define ROW(...) PROGRAM_ROW(__VA_ARGS__),
#include "ops-dense.def"
#undef ROW
};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
