/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of test_verbs: limits of a queue pair's rate. */
#ifndef UROCE_TEST_VERBS_RATE_H
#define UROCE_TEST_VERBS_RATE_H

void rate_limit_holds(void **state);
void rate_limit_of_datagrams(void **state);
void datagrams_precede_the_end(void **state);
void rate_limits_that_are_refused(void **state);

#endif
