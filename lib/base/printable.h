/* SPDX-License-Identifier: BSD-3-Clause */
/* Text of others, such as a program's name, for a terminal. */
#ifndef UROCE_PRINTABLE_H
#define UROCE_PRINTABLE_H

#include <stddef.h>

/* Bytes that the result may have for each byte of the text. */
#define PRINTABLE_GROWTH 4

/*
 * Copies text into out, room bytes with the final NUL, as far as it fits. What a terminal would
 * obey instead of showing becomes \xNN, byte by byte: control characters (C0, DEL, C1), characters
 * that turn the direction of the text or end the line, and bytes that are not UTF-8. The result is
 * UTF-8; a character is copied whole or not at all. Any thread.
 */
void printable(char *out, size_t room, const char *text);

/* Some editors begin a UTF-8 file with it, and do not show it. */
#define BYTE_ORDER_MARK "\xEF\xBB\xBF"

#endif
