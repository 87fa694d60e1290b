/*
 * test-ops-views.c - views, copies, cuts and joins, against recordings of PyTorch 2.15
 *
 * ops-views.def is written by tests/support/record.py.
 */
#include "support/program.h"

static const struct CMUnitTest tests[] = {
#define ROW(...) PROGRAM_ROW(__VA_ARGS__),
#include "ops-views.def"
#undef ROW
};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
