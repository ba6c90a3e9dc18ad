/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of what a program prints. */
#ifndef UROCE_OUTPUT_H
#define UROCE_OUTPUT_H

/* Writes the rest of the standard output. err: printing has failed, by the output or as there is
 * no memory. Returns the exit status: 0, or 1 with the reason on stderr, after the words `who`. */
int output_end(const char *who, int err);

#endif
