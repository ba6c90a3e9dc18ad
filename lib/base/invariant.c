/* SPDX-License-Identifier: BSD-3-Clause */
/* The report of a broken invariant: see invariant.h. */
#include "invariant.h"

#include <stdio.h>
#include <stdlib.h>

_Noreturn void invariant_failed(const char *expression, const char *file, int line,
                                const char *function)
{
    fprintf(stderr, "%s:%d: %s: invariant broken: %s\n", file, line, function, expression);
    abort();
}
