/* SPDX-License-Identifier: BSD-3-Clause */
/* JSON values as text tables. */
#ifndef UROCE_TABLE_H
#define UROCE_TABLE_H

#include <jansson.h>
#include <stdio.h>

/*
 * Prints value to out: an array of objects as a table with a column for every key of any of them
 * (in order of appearance), numbers to the right; an object of scalars as two columns, name and
 * value; an object that holds objects with those flattened to names like "rx.bytes". hide_zero
 * leaves out the rows of a name/value table whose value is 0. Returns the number of rows printed,
 * or -ENOMEM.
 */
int table_print(FILE *out, const json_t *value, int hide_zero);

#endif
