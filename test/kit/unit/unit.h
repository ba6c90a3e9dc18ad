/* SPDX-License-Identifier: BSD-3-Clause */
/* cmocka with the headers that it wants included before it. */
#ifndef UROCE_TEST_UNIT_H
#define UROCE_TEST_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
