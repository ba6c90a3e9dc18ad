/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers that users write: decimal, also with zeros in front, or hexadecimal behind 0x. */
#ifndef UROCE_NUMBER_H
#define UROCE_NUMBER_H

/* The base for strtoul and the like, for which a number that begins with 0 is octal if they are to
 * find the base. Any thread. */
static inline int number_base(const char *text)
{
    return text[0] == '0' && (text[1] == 'x' || text[1] == 'X') ? 16 : 10;
}

#endif
