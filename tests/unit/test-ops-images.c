/*
 * test-ops-images.c - pooling and resizing, against recordings of PyTorch 2.15
 *
 * ops-images.def is written by tests/support/record.py.
 */
#include "support/program.h"

static const struct CMUnitTest tests[] = {
#define ROW(...) PROGRAM_ROW(__VA_ARGS__),
#include "ops-images.def"
#undef ROW
};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
