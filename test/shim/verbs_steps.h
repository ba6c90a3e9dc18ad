/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of test_verbs: several changes of a queue pair in one call, uroce_modify_qp_steps. */
#ifndef UROCE_TEST_VERBS_STEPS_H
#define UROCE_TEST_VERBS_STEPS_H

void three_states_at_once(void **state);
void steps_that_fail(void **state);
void new_queue_pair_in_a_state(void **state);

#endif
