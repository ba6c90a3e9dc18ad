/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers in the words of rules: for lib/inject alone. From outside. */
#ifndef UROCE_INJECT_VALUE_H
#define UROCE_INJECT_VALUE_H

#include "inject.h"

/* Decimal digits, or 0x and hexadecimal ones, up to `end`; at most max. */
bool inject_read_number(const char *text, const char *end, uint64_t max, uint64_t *out);
/* 0 to 1, with at most nine decimals. */
bool inject_read_chance(const char *text, uint64_t *billionths);
/* "20us", "5ms", "3s": more than 0, at most max. */
bool inject_read_time(const char *text, ns_t max, ns_t *out);

#endif
