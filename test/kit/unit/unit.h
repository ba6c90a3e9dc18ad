/* SPDX-License-Identifier: BSD-3-Clause */
/* cmocka, after the headers that it needs. */
#ifndef UROCE_TEST_UNIT_H
#define UROCE_TEST_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Of cmocka 2, a name for tests. */
#undef stop

/* cmocka 2 has two for it, and warns of the old one. */
#ifdef assert_uint_in_range
#undef assert_in_range
#define assert_in_range(value, low, high) \
    assert_uint_in_range((uintmax_t)(value), (uintmax_t)(low), (uintmax_t)(high))
#endif

#endif
