/* SPDX-License-Identifier: BSD-3-Clause */
/* JSON values as tables in text. */
#ifndef UROCE_TABLE_H
#define UROCE_TABLE_H

#include <jansson.h>
#include <stdio.h>

/*
 * Prints rows, an array of objects of scalars, to out as a table, with numbers aligned right.
 * columns names the keys that become columns, separated by single spaces; NULL: every key of any
 * row, in the order of appearance. What a terminal would obey is escaped (printable.h). 0 or
 * -ENOMEM.
 */
int table_print(FILE *out, const json_t *rows, const char *columns);

#endif
