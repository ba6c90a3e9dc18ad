/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of test_verbs: source port policies of single queue pairs. Their effect on packets:
 * run_entropy.py. */
#ifndef UROCE_TEST_VERBS_ENTROPY_H
#define UROCE_TEST_VERBS_ENTROPY_H

void policies_of_queue_pairs(void **state);
void policies_that_are_refused(void **state);
void ports_by_libmlx5(void **state);
void policy_of_the_environment(void **state);

/*
 * For run_entropy.py, over a device whose frames are captured: two connected queue pairs and UD
 * ones, which send, change their policies and send again. The packets' contents identify them.
 */
int policies_on_the_wire(void);

#endif
