/* support/test.h - cmocka with what it needs before it, in the order it needs it; include this alone */
#ifndef PLM_TESTS_SUPPORT_TEST_H
#define PLM_TESTS_SUPPORT_TEST_H

/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#endif
