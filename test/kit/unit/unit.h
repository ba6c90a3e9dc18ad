/* SPDX-License-Identifier: BSD-3-Clause */
/* cmocka, after the headers that it needs. */
#ifndef UROCE_TEST_UNIT_H
#define UROCE_TEST_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
