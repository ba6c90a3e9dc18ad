/* SPDX-License-Identifier: BSD-3-Clause */
/* For test_base_invariant.c: an invariant as release builds compile it. */
#undef UROCE_INVARIANTS
#include "invariant.h"

int evaluated_in_release(void);

static int evaluations;

static int count_and_fail(void)
{
    evaluations++;
    return 0;
}

/* How many times the expression of an invariant that is broken was evaluated. */
int evaluated_in_release(void)
{
    invariant(count_and_fail());
    return evaluations;
}
