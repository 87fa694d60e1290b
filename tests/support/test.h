/* support/test.h - cmocka, behind the headers that it must come after */
#ifndef PLM_SUPPORT_TEST_H
#define PLM_SUPPORT_TEST_H

/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#endif
